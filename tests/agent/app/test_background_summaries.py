"""A summary in the background of a whole session: what ends it, and what the user is shown of it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace

from compact.local_summary import EntryAccounts
from compact.request_bills import UNUSED_SUMMARY
from compact.user_blocks import _UserBlocks
from tests.agent.commands.controller_run import READ_ALL, ControllerRun, files, run_controller
from tests.sampling import sampled_rows
from tests.strict_api.demo_bridge import demo_reply
from transcripts.facts import Compacted, Failed
from transcripts.listing import ProjectRecords
from transcripts.load import read_transcript
from transcripts.session_lock import path_of


class Gates:
    """The demo, which writes summaries and answers some prompts only once it may."""

    def __init__(self) -> None:
        self.summary = Event()
        self.prompt = Event()
        self.summaries = 0

    def __call__(self, body: dict[str, Any]) -> Any:
        newest = str(body["messages"][-1])
        if "Do not call any tool" in newest:
            self.summaries += 1
            assert self.summary.wait(30)
        elif "take your time" in newest:
            assert self.prompt.wait(30)
        return demo_reply(body)


async def begin(run: ControllerRun) -> None:
    """Have a summary begun by a turn that does not wait for it."""
    await run.do(READ_ALL)
    _, context = run.controller.in_use
    settings = replace(context.compaction.settings, policy="classic", trigger=5_000, snip_max_messages=1_000)
    context.compaction.settings = settings
    context.compaction.use_window(context.compaction.window)
    await run.do("hello")
    assert context.background_summary is not None and context.background_summary.is_running


async def change_model(run: ControllerRun, gates: Gates) -> None:
    await run.do("/model opus")


async def clear(run: ControllerRun, gates: Gates) -> None:
    await run.do("/clear")


async def end(run: ControllerRun, gates: Gates) -> None:
    """Let the session end."""


async def interrupt(run: ControllerRun, gates: Gates) -> None:
    turn = asyncio.ensure_future(run.controller.prompt("take your time"))
    count = len(run.server.requests)
    while len(run.server.requests) == count:
        await asyncio.sleep(0)
    turn.cancel()
    assert (await turn).reason == "interrupted"
    gates.prompt.set()


async def compact(run: ControllerRun, gates: Gates) -> None:
    gates.summary.set()
    await run.do("/compact")


@pytest.mark.parametrize(
    ("act", "why"),
    sampled_rows(
        [
            (change_model, "the model changed"),
            (clear, "the session ended"),
            (end, "the session ended"),
            (interrupt, "interrupted"),
            (compact, "another compaction (manual) came first"),
        ],
        every=2,
    ),
)
def test_a_summary_in_the_background_ends_with_what_it_was_written_for(
    tmp_path: Path, act: Callable[[ControllerRun, Gates], Awaitable[None]], why: str
) -> None:
    files(tmp_path, 6)
    gates = Gates()
    others = set[asyncio.Task[Any]]()

    async def work(run: ControllerRun) -> None:
        await begin(run)
        await act(run, gates)
        if act is not end:
            _, context = run.controller.in_use
            assert context.background_summary is None or not context.background_summary.stands(
                run.controller.in_use[0].folded
            )
        others.update(asyncio.all_tasks())

    try:
        run_controller(tmp_path, work, policy="off", respond=gates)
    finally:
        gates.summary.set()
        gates.prompt.set()
    facts = [
        f for sid in ProjectRecords(tmp_path).sids() for f in read_transcript(path_of(tmp_path, sid)).facts
    ]
    failed = [fact.reason for fact in facts if isinstance(fact, Failed) and fact.what == UNUSED_SUMMARY]
    layers = [fact.layer for fact in facts if isinstance(fact, Compacted)]
    assert failed == [why] and layers.count("summary") == (1 if act is compact else 0)
    assert all(task.done() for task in others), "no task outlives the session"


def test_what_a_local_summary_needs_is_read_after_a_turn(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("hello, never touch the generated files")
        folded = run.controller.in_use[0].folded
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert folded.memo(_UserBlocks).upto == len(folded.entries) == 2
        assert folded.memo(EntryAccounts).upto == 1, "the newest entry may gain results"

    run_controller(tmp_path, work)


def test_a_summary_begins_at_the_end_of_a_turn_and_is_used_by_the_next(tmp_path: Path) -> None:
    files(tmp_path, 6)
    gates = Gates()

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        _, context = run.controller.in_use
        trigger = 5_000
        settings = replace(context.compaction.settings, policy="classic", snip_max_messages=1_000)
        context.compaction.settings = replace(settings, trigger=190_000)
        context.compaction.use_window(context.compaction.window)

        def when_answered(event: Any, emit: Any = run.controller.emit) -> None:
            """Lower the trigger within the turn, after its request was planned."""
            emit(event)
            context.compaction.settings = replace(settings, trigger=trigger)
            context.compaction.use_window(context.compaction.window)

        run.controller.emit = when_answered
        context.compaction.settings = replace(settings, trigger=190_000)
        await run.do("hello")
        assert gates.summaries <= 1 and context.background_summary is not None
        assert "A summary is being written in the background." in await run.do("/context")
        gates.summary.set()
        while context.background_summary.is_running:
            await asyncio.sleep(0)
        await run.do("hello again")
        layers = [made.layer for made in run.controller.in_use[0].folded.compactions]
        assert layers.count("summary") == 1
        said = await run.do("/cost why")
        assert " summary " in said and "not used" not in said

    try:
        run_controller(tmp_path, work, policy="off", respond=gates)
    finally:
        gates.summary.set()
