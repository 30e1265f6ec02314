"""Complaints about other agents that only the whole program can answer, each a test by its number."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.events import ContextCompacted, Notice
from agent.loop.model_call import prompt_tokens
from compact.settings import CompactSettings, ContextWindow
from tests.agent.commands.controller_run import READ_ALL, ControllerRun, files, run_controller
from tests.sampling import sampled
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply, calls, says
from tests.strict_api.scripted_model import ScriptedModel
from transcripts.facts import Compacted, Failed, User
from transcripts.messages import TextBlock


def is_summary(body: dict[str, Any]) -> bool:
    return "End your answer with <summary>" in str(body["messages"][-1])


SUMMARY_FAULTS = [
    Fault("status", status=429, headers={"retry-after": "3600"}, times=None, when=is_summary),
    Fault("status", status=400, text="no", times=None, when=is_summary),
    Fault("empty_content", times=None, when=is_summary),
    Fault("max_tokens_text", times=None, when=is_summary),
    Fault("refusal", times=None, when=is_summary),
]


@pytest.mark.parametrize(
    "fault", sampled(SUMMARY_FAULTS, 6), ids=lambda fault: f"{fault.kind}{fault.status or ''}"
)
def test_complaint_04_a_failed_summary_costs_no_word_and_compact_still_ends(
    tmp_path: Path, fault: Fault
) -> None:
    files(tmp_path, 20)

    async def work(run: ControllerRun) -> None:
        await run.do("never touch the blue door", READ_ALL)
        before = run.bodies()
        run.server.faults.add(fault)
        await run.do("/compact")
        session, _ = run.controller.in_use
        assert any(isinstance(fact, Failed) for fact in session.folded.facts)
        assert "never touch the blue door" in str(run.bodies())
        run.server.faults.clear()
        for made in [fact for fact in session.folded.facts if isinstance(fact, Compacted)]:
            await run.do(f"/uncompact {made.id}")
        assert run.bodies() == before
        await run.do("read src/part_1.py")

    run_controller(tmp_path, work)


def test_complaint_04_an_interrupted_compaction_leaves_every_byte(tmp_path: Path) -> None:
    files(tmp_path, 20)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        before, asked = run.bodies(), len(run.server.requests)
        stall = Fault("stall", at=400, when=is_summary)
        run.server.faults.add(stall)
        task = asyncio.ensure_future(run.controller.command("/compact"))
        while len(run.server.requests) == asked:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stall.release.set()
        assert run.bodies() == before
        await run.do("read src/part_1.py")

    run_controller(tmp_path, work)


def test_complaint_10_every_user_message_is_there_byte_for_byte_after_many_compactions(
    tmp_path: Path,
) -> None:
    files(tmp_path, 6)
    words = [f"remember point {n}: the {n}th door, “quoted” — and\ttabs  stay" for n in range(5)]

    async def work(run: ControllerRun) -> None:
        for each in words:
            await run.do(each, READ_ALL, "/compact")
        shown = "".join(
            part.block.text
            for message in run.controller.in_use[0].folded.view
            for part in message.parts
            if isinstance(part.block, TextBlock)
        )
        for each in words:
            assert each in shown

    run_controller(tmp_path, work)


def test_complaint_18_every_removal_can_be_listed_and_restored(tmp_path: Path) -> None:
    files(tmp_path, 30)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/context all")
        session, context = run.controller.in_use
        made = [fact for fact in session.folded.facts if isinstance(fact, Compacted)]
        assert made
        for each in made:
            assert each.id in run.text()
            assert {"before", "after", "freed"} <= set(each.report)
            for edit in each.edits:
                seq = getattr(edit, "seq", None)
                if seq is not None and context.tool_context.lookup is not None:
                    assert context.tool_context.lookup().original(f"r{seq}")

    run_controller(tmp_path, work, window=40_000)


def test_complaint_19_a_stored_output_is_read_in_pages_and_never_stored_again(tmp_path: Path) -> None:
    stored: list[str] = []

    def second(body: dict[str, Any]) -> Reply:
        stored.extend(path.name for path in (tmp_path / ".task_outputs" / "tool-results").glob("*.txt"))
        path = f".task_outputs/tool-results/{stored[0]}"
        return Reply([calls("read", file_path=path, offset=9000, limit=1000)])

    def third(body: dict[str, Any]) -> Reply:
        assert "9500\t9500" in str(body["messages"][-1]).replace("\\t", "\t")
        return Reply([says("seen")])

    async def work(run: ControllerRun) -> None:
        run.server.responder = ScriptedModel([Reply([calls("bash", command="seq 20000")]), second, third])
        await run.do("count")
        now = [path.name for path in (tmp_path / ".task_outputs" / "tool-results").glob("*.txt")]
        assert now == stored and len(now) == 1

    run_controller(tmp_path, work)


def test_complaint_24_a_summary_is_asked_on_the_prefix_that_is_cached(tmp_path: Path) -> None:
    files(tmp_path, 20)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/compact")
        (asked,) = [body for body in run.server.requests if is_summary(body)]
        before = run.server.requests[run.server.requests.index(asked) - 1]
        assert (asked["system"], asked["tools"]) == (before["system"], before["tools"])
        unmarked = str(before["messages"]).replace(", 'cache_control': {'type': 'ephemeral'}", "")[:-1]
        assert (
            str(asked["messages"])
            .replace(", 'cache_control': {'type': 'ephemeral'}", "")
            .startswith(unmarked)
        )
        assert run.emitted(ContextCompacted)
        assert "saves money after" in await run.do("/context")

    run_controller(tmp_path, work)


def test_complaint_35_what_the_model_is_given_again_comes_from_the_record_and_not_from_memory(
    tmp_path: Path,
) -> None:
    files(tmp_path, 20)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/compact")
        ran = len(run.server.requests)
        await run.do("/context", "/recall task_3_7", "/cost")
        assert len(run.server.requests) == ran, "no command asks the model"
        session, _ = run.controller.in_use
        assert sum(isinstance(fact, User) for fact in session.folded.facts) == 1
        assert not [event for event in run.events if isinstance(event, Notice) and event.level == "error"]

    run_controller(tmp_path, work)


def test_in_a_full_context_without_automatic_compaction_only_compact_continues(tmp_path: Path) -> None:
    files(tmp_path, 20)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        session, context = run.controller.in_use
        context.compaction.settings = CompactSettings(enabled=False, min_compact_size=100)
        context.compaction.window = ContextWindow(int(prompt_tokens(session, context) / 0.985), 1_000)
        asked = len(run.server.requests)
        ended = await run.controller.prompt("read src/part_1.py")
        assert ended.reason == "failed" and "/compact" in ended.error
        assert run.controller.status().state == "BLOCKING" and len(run.server.requests) == asked
        await run.do("/compact", "read src/part_1.py")

    run_controller(tmp_path, work)
