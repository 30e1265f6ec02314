"""Summaries that are written while the conversation continues: no request waits, and none is used wrongly."""

import asyncio
import hashlib
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest
from msgspec.structs import replace

from agent.errors import TransientError
from agent.events import ContextCompacted, Emit, Notice, RequestStarted, Retrying
from agent.loop.compaction import CompactionRequest, begin_summary_if_due, compact_context, situation_of
from agent.loop.summary_call import HISTORY_CHANGED, end_background_summary
from agent.model_port import IncomingReply, Model, ModelRequest
from compact.request_bills import UNUSED_SUMMARY, RequestBill
from compact.settings import CompactSettings, ContextWindow
from compact.situation import CannotChange
from compact.uncompact import plan_undo
from tests.narrowing import block_text
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Body, calls, says
from tests.strict_api.reply import Reply as Answer
from tools.base import ToolResult, text_result
from transcripts.entries import Prompt
from transcripts.facts import Clear, Compacted, Failed, Fold, Metadata, Reply, RequestSent, Result, User
from transcripts.folding import fold
from transcripts.messages import TextBlock, ToolUseBlock, Usage

from .world import World, world

LONG = "a sentence that says something. " * 1_200
SETTINGS = CompactSettings(policy="classic", trigger=14_000, min_compact_size=1_000, tail_max_tokens=100)
SUMMARY = Answer([says("<summary>much was done</summary>")], usage={"output_tokens": 777})


def is_summary_request(body: Body) -> bool:
    return "<summary>" in str(body["messages"][-1]["content"][-1].get("text", ""))


def loud(folder: Path, answer: Callable[[Body], Answer], calls_made: int, **options: Any) -> Any:
    """A world whose model makes loud calls in its first turn, and whose summaries come from `answer`."""

    made = [calls_made]

    def step(body: Body) -> Answer:
        if is_summary_request(body):
            return answer(body)
        made[0] -= 1
        return Answer([calls("echo") if made[0] >= 0 else says("done")])

    return world([step] * 100, folder, **options)


def prepare(w: World, settings: CompactSettings = SETTINGS) -> None:
    async def run(arguments: Any, call: Any) -> ToolResult:
        return text_result(LONG)

    w.replace_run("echo", run)
    w.context.compaction.settings = settings
    w.context.compaction.use_window(w.context.compaction.window)


async def complete(w: World) -> None:
    """Let the event loop work until the summary in the background is complete, if there is one."""
    task = w.context.background_summary
    while task is not None and task.is_running:
        await asyncio.sleep(0)


async def finish(w: World) -> None:
    await end_background_summary(w.context, "the session ended")
    await w.context.model.close()


def compactions(w: World) -> list[tuple[str, str]]:
    return [(fact.layer, fact.trigger) for fact in w.record.facts if isinstance(fact, Compacted)]


def unused(w: World) -> list[str]:
    return [
        fact.reason for fact in w.record.facts if isinstance(fact, Failed) and fact.what == UNUSED_SUMMARY
    ]


def summary_requests(w: World) -> list[RequestSent]:
    return [fact for fact in w.record.facts if isinstance(fact, RequestSent) and fact.trigger == "summary"]


def last_folded(made: Compacted) -> int:
    return max(edit.last for edit in made.edits if isinstance(edit, Fold))


def charges(w: World) -> list[int]:
    """The output of every request that was charged beside the conversation."""
    notes = [fact.about for fact in w.record.facts if isinstance(fact, Metadata) and fact.topic == "request"]
    return [about["usage"]["output"] for about in notes]


def behind(gate: Event) -> Callable[[Body], Answer]:
    """A model whose summaries are complete once the gate is open."""

    def answer(body: Body) -> Answer:
        gate.wait()
        return SUMMARY

    return answer


def test_no_request_waits_for_a_summary_which_is_used_once_it_is_complete(tmp_path: Path) -> None:
    gate = Event()
    with loud(tmp_path, behind(gate), 5) as w:
        prepare(w)

        async def whole() -> None:
            assert (await w.turn("go")).reason == "done"
            assert not gate.is_set() and compactions(w) == [], "six requests were answered meanwhile"
            assert [event.trigger for event in w.told(RequestStarted)] == ["turn"] * 6
            gate.set()
            await complete(w)
            ended = await w.turn("and now?")
            assert ended.reason == "done", ended
            await finish(w)

        asyncio.run(whole())
        w.check()
        assert compactions(w) == [("summary", "auto")] and len(summary_requests(w)) == 1
        [told] = w.told(ContextCompacted)
        assert told.notice.startswith("[auto compact]")
        (part, *_) = w.session.folded.view[0].parts
        assert "much was done" in block_text(part.block) and LONG not in block_text(part.block)
        assert charges(w) == [777] and w.context.background_summary is None
        [made] = w.session.folded.compactions
        [asked] = summary_requests(w)
        assert last_folded(made) < asked.seq, "only what the summary covers is replaced"
        assert w.session.spent.output == sum(
            fact.usage.output for fact in w.record.facts if isinstance(fact, Reply)
        ) + 777  # fmt: skip


@pytest.mark.parametrize("change", ["rewind", "drop"])
def test_a_summary_of_messages_that_have_changed_is_not_used_and_its_cost_is_explained(
    tmp_path: Path, change: str
) -> None:
    gate = Event()
    with loud(tmp_path, behind(gate), 5) as w:
        prepare(w)

        async def whole() -> None:
            await w.turn("go")
            if change == "rewind":
                w.session.rewound(next(fact.seq for fact in w.record.facts if isinstance(fact, User)), {})
            else:
                first = next(fact.seq for fact in w.record.facts if isinstance(fact, Result))
                w.session.compacted("drop", "manual", (Clear(first, 0, "content", "[dropped]"),), {})
            gate.set()
            await complete(w)
            prepare(w, replace(SETTINGS, trigger=190_000))
            await w.turn("something else")
            await finish(w)

        asyncio.run(whole())
        w.check()
        assert ("summary", "auto") not in compactions(w)
        assert unused(w) == [HISTORY_CHANGED] and charges(w) == [777]
        bills = [bill for bill in RequestBill.all_of(w.session.folded, 300.0) if bill.is_summary]
        assert [bill.unused for bill in bills] == ([] if change == "rewind" else [HISTORY_CHANGED])


def test_a_local_summary_takes_the_place_of_one_that_is_not_finished_in_time(tmp_path: Path) -> None:
    gate = Event()
    with loud(tmp_path, behind(gate), 9) as w:
        w.context.compaction.window = ContextWindow(60_000, 8_000)
        prepare(w)

        async def whole() -> None:
            assert (await w.turn("go")).reason == "done"
            assert ("ledger", "auto") in compactions(w) and "it was not finished in time" in unused(w)
            await finish(w)
            gate.set()

        asyncio.run(whole())
        w.check()
        assert ("summary", "auto") not in compactions(w)
        assert set(charges(w)) <= {777}, "what a cancelled request used is not known before it answers"


def test_a_summary_for_the_user_that_is_interrupted_is_recorded_as_unused(tmp_path: Path) -> None:
    gate = Event()
    with loud(tmp_path, behind(gate), 1) as w:
        prepare(w, replace(SETTINGS, trigger=190_000))

        async def whole() -> None:
            await w.turn("go")
            asked = compact_context(w.session, w.context, w.events.append, CompactionRequest("manual"))
            compacting = asyncio.ensure_future(asked)
            while not summary_requests(w):
                await asyncio.sleep(0)
            compacting.cancel()
            await asyncio.gather(compacting, return_exceptions=True)
            gate.set()
            await finish(w)

        asyncio.run(whole())
        assert unused(w) == ["it was interrupted"] and charges(w) == []


def test_a_summary_that_fails_is_a_warning_and_the_next_one_begins_anew(tmp_path: Path) -> None:
    answers = [Answer([calls("echo")], usage={"output_tokens": 1_000}), SUMMARY]
    asked = list[int]()
    gate = Event()

    def answer(body: Body) -> Answer:
        gate.wait()  # the first turn is always over when the first summary fails
        asked.append(len(w.server.requests))
        return answers[min(len(asked), len(answers)) - 1]  # a retry after a lost connection is answered, too

    with loud(tmp_path, answer, 5) as w:
        prepare(w)

        async def whole() -> None:
            await w.turn("go")
            gate.set()
            for words in ("told of the failure", "begins anew", "uses it"):
                await complete(w)
                await w.turn(words)
            await finish(w)

        asyncio.run(whole())
        w.check()
        assert w.told(Notice)[0] == Notice("[auto compact] summary: the answer called a tool", "warning")
        assert compactions(w)[0] == ("summary", "auto") and charges(w)[:2] == [1_000, 777]


def test_the_model_may_ask_for_one_and_learns_only_of_a_failure(tmp_path: Path) -> None:
    for block, told in ((says("<summary>much</summary>"), 0), (calls("echo"), 1)):
        with loud(tmp_path, lambda body, block=block: Answer([block]), 4) as w:  # type: ignore[misc]
            prepare(w, replace(SETTINGS, trigger=190_000))

            async def whole(w: World = w) -> None:
                await w.turn("go")
                w.context.compaction.requested_focus = "the zebra"
                await w.turn("more")
                await complete(w)
                await w.turn("on")
                await finish(w)

            asyncio.run(whole())
            w.check()
            [asked] = summary_requests(w)
            notes = [fact for fact in w.record.facts if isinstance(fact, User) and fact.source == "harness"]
            assert "the zebra" in asked.instructions and len(notes) == told
            assert compactions(w) == ([] if told else [("summary", "tool")])


def test_retries_in_the_background_are_not_shown_and_the_request_stays_the_same(tmp_path: Path) -> None:
    with loud(tmp_path, lambda body: SUMMARY, 5) as w:
        prepare(w)
        w.server.faults.add(Fault("status", status=529, when=is_summary_request))

        async def whole() -> None:
            await w.turn("go")
            await complete(w)
            await w.turn("on")
            await finish(w)

        asyncio.run(whole())
        w.check()
        bodies = [body["messages"] for body in w.server.requests if is_summary_request(body)]
        assert bodies[0] == bodies[1] and w.told(Retrying) == []
        assert [sent.attempt for sent in summary_requests(w)][:2] == [1, 2]
        assert compactions(w)[0] == ("summary", "auto")


def test_a_summary_is_begun_at_the_end_of_a_turn_and_ends_with_the_session(tmp_path: Path) -> None:
    gate = Event()
    with loud(tmp_path, behind(gate), 3) as w:
        prepare(w, replace(SETTINGS, trigger=190_000))

        async def whole() -> None:
            await w.turn("go")
            prepare(w, replace(SETTINGS, trigger=10_000))
            await begin_summary_if_due(w.session, w.context, w.events.append)
            await begin_summary_if_due(w.session, w.context, w.events.append)
            assert w.context.background_summary is not None and len(summary_requests(w)) == 1
            before = asyncio.all_tasks()
            await finish(w)
            assert len(before - asyncio.all_tasks()) == 1, "no task outlives the session"
            gate.set()

        asyncio.run(whole())
        w.check()
        assert unused(w) == ["the session ended"] and compactions(w) == []


def test_after_a_pause_the_next_request_fills_the_cache_before_a_summary_is_asked_for(tmp_path: Path) -> None:
    with loud(tmp_path, lambda body: SUMMARY, 5) as w:
        prepare(w, replace(SETTINGS, trigger=190_000))

        async def whole() -> None:
            await w.turn("go")
            before = len(w.record.facts)
            w.clock.time += 400
            prepare(w)
            await w.turn("and now?")
            await begin_summary_if_due(w.session, w.context, w.events.append)
            sent = [fact.trigger for fact in w.record.facts[before:] if isinstance(fact, RequestSent)]
            assert sent == ["turn", "summary"]
            made = [fact.layer for fact in w.record.facts[before:] if isinstance(fact, Compacted)]
            assert made == ["micro"], "what is free while nothing is cached is cleared all the same"
            await finish(w)

        asyncio.run(whole())
        w.check()


def test_where_requests_wait_for_summaries_nothing_runs_beside_them(tmp_path: Path) -> None:
    with loud(tmp_path, lambda body: SUMMARY, 5) as w:
        prepare(w, replace(SETTINGS, background_summaries=False))

        async def whole() -> None:
            await w.turn("go")
            assert w.context.background_summary is None
            await finish(w)

        asyncio.run(whole())
        w.check()
        assert "summary" in [event.trigger for event in w.told(RequestStarted)]
        assert ("summary", "auto") in compactions(w) and unused(w) == []


class Scripted:
    """A model in memory: it calls a tool a few times in each turn, and writes a summary when it is let."""

    server = "memory"
    encoding = "memory"

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._calls = 0
        self._serial = 0
        self.let = asyncio.Event()
        self.hangs = False

    def encode(self, request: ModelRequest) -> bytes:
        return b"body"

    async def count_tokens(self, model: str, blocks: Any) -> None:
        return None

    async def close(self) -> None:
        pass

    async def stream(self, request: ModelRequest, reply: IncomingReply, emit: Emit) -> None:
        await asyncio.sleep(0)
        reply.model = request.settings.model
        if request.instruction:
            await self.let.wait()
            if self._rng.random() < 0.1:
                raise TransientError("overloaded")
            reply.blocks.append(TextBlock(f"<summary>{'summed up ' * 20}</summary>"))
            reply.stop = "end_turn"
        else:
            if self.hangs:
                await asyncio.Event().wait()
            self._serial += 1
            self._calls = self._rng.randrange(4) if self._calls == 0 else self._calls - 1
            if self._calls:
                reply.blocks.append(ToolUseBlock(f"t{self._serial}", "echo", {"words": str(self._serial)}))
            else:
                reply.blocks.append(TextBlock(f"answer {self._serial}"))
            reply.stop = "tool_use" if self._calls else "end_turn"
        reply.usage = Usage(output=10)  # without a prompt size, ours is not corrected by it
        reply.complete = True


def digests(facts: list[Any]) -> list[str]:
    """A digest of everything up to each part of the view: equal beginnings have equal digests."""
    state = hashlib.sha256()
    found = []
    for message in fold(facts).view.sendable():
        state.update(message.role.encode())
        for part in message.parts:
            state.update(repr((part.block, part.seq, part.index)).encode())
            found.append(state.hexdigest())
    return found


def check_swaps(facts: list[Any]) -> int:
    """Check from the record alone that each summary replaced what it was asked about; return how many did."""
    swaps = 0
    asked = opened = None
    for at, fact in enumerate(facts):
        if isinstance(fact, RequestSent) and fact.trigger == "summary" and fact.attempt == 1:
            asked = at
            opened = fold(facts[:at]).opened
        if isinstance(fact, Compacted) and fact.layer == "summary" and fact.trigger != "manual":
            assert asked is not None
            covered = digests(facts[:asked])
            now = fold(facts[:at])
            assert digests(facts[:at])[: len(covered)] == covered, "the prefix has changed"
            assert last_folded(fact) < facts[asked].seq and now.opened == opened
            swaps += 1
            asked = None
    return swaps


class RandomSession:
    """A session to which random things happen while summaries are written."""

    def __init__(self, w: World, seed: int) -> None:
        self.w = w
        self.rng = random.Random(seed)
        self.model = Scripted(self.rng)
        self.number = 0
        w.context.model = cast(Model, self.model)
        w.replace_run("echo", self._echo)
        settings = replace(SETTINGS, trigger=self.rng.choice([6_000, 9_000, 14_000]))
        settings = replace(settings, policy=self.rng.choice(["classic", "thrifty"]), ledger_only_max_window=0)
        w.context.compaction.window = ContextWindow(60_000, 8_000)
        w.context.compaction.settings = settings
        w.context.compaction.use_window(w.context.compaction.window)

    async def _echo(self, arguments: Any, call: Any) -> ToolResult:
        if self.rng.random() < 0.3:
            self._let()
        return text_result(f"{arguments.words} said " * self.rng.randrange(200, 2_000))

    def _let(self) -> None:
        self.model.let.set()
        self.model.let = asyncio.Event()

    async def turn(self) -> None:
        await self.w.turn(f"prompt {self.number} " * self.rng.randrange(1, 300))

    async def rewind(self) -> None:
        if prompts := [entry.seq for entry in self.w.session.folded.entries if isinstance(entry, Prompt)]:
            self.w.session.rewound(prompts[-self.rng.randrange(1, min(4, len(prompts)) + 1)], {})

    async def compact(self) -> None:
        self.model.let.set()
        request = CompactionRequest("manual")
        await compact_context(self.w.session, self.w.context, self.w.events.append, request)
        self.model.let = asyncio.Event()

    async def undo(self) -> None:
        undone = plan_undo(situation_of(self.w.session, self.w.context), "")
        if not isinstance(undone, CannotChange):
            self.w.session.undone(undone.id, undone.edits)

    async def drop_block(self) -> None:
        if results := [fact for fact in self.w.session.folded.facts if isinstance(fact, Result)]:
            seq = self.rng.choice(results[-4:]).seq
            edit = Clear(seq, 0, "content", f"[dropped {self.number}]")
            self.w.session.compacted("drop", "manual", (edit,), {})

    async def change_model(self) -> None:
        if self.rng.random() < 0.5:  # otherwise only the transcript shows it
            await end_background_summary(self.w.context, "the model changed")
        model = self.rng.choice(["claude-opus-4-8", "claude-sonnet-5-5"])
        settings = replace(self.w.context.settings, model=model)
        self.w.context.settings = settings
        self.w.session.open(settings.system, settings.tools, model=model, window=60_000, folder="f")

    async def interrupt(self) -> None:
        self.model.hangs = True
        turn = asyncio.ensure_future(self.turn())
        for _ in range(self.rng.randrange(1, 30)):
            await asyncio.sleep(0)
        turn.cancel()
        with suppress(asyncio.CancelledError):
            await turn
        self.model.hangs = False
        if self.w.context.background_summary is not None and self.rng.random() < 0.5:
            self.w.context.background_summary.drop("interrupted")

    async def begin(self) -> None:
        await begin_summary_if_due(self.w.session, self.w.context, self.w.events.append)

    async def complete(self) -> None:
        self.model.let.set()
        await complete(self.w)
        self.model.let = asyncio.Event()

    async def request(self) -> None:
        self.w.context.compaction.requested_focus = "the rest"
        await self.turn()

    async def live(self, steps: int) -> None:
        often = [self.turn, self.turn, self.turn, self.begin, self.complete, self.complete, self.drop_block]
        rare = [self.rewind, self.compact, self.undo, self.change_model, self.interrupt, self.request]
        for self.number in range(steps):
            await self.rng.choice(often + rare)()
        await finish(self.w)


def play(seed: int, folder: Path) -> tuple[int, int]:
    """Let a session run through random events; return how many summaries were used, and how many were not."""
    with world([], folder) as w:

        async def whole() -> None:
            real = w.context.model
            await RandomSession(w, seed).live(30)
            await real.close()

        asyncio.run(whole())
        assert fold(w.record.facts).view.tokens == w.session.folded.view.tokens
        return check_swaps(w.record.facts), len(unused(w))


def swaps_of(seeds: range, folder: Path) -> tuple[int, int]:
    played = [play(seed, folder / str(seed)) for seed in seeds]
    return sum(used for used, _ in played), sum(dropped for _, dropped in played)


def test_no_summary_replaces_messages_that_changed_since_it_was_asked_for(tmp_path: Path) -> None:
    used, dropped = swaps_of(range(5), tmp_path)
    assert used > 2 and dropped > 2


@pytest.mark.sweep
@pytest.mark.timeout(1_800)
def test_of_a_thousand_summaries_none_replaces_messages_that_changed(tmp_path: Path) -> None:
    used = 0
    seed = 1_000
    while used < 1_000:
        more, _ = play(seed, tmp_path / str(seed))
        used += more
        seed += 1
