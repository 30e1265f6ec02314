"""Freeing context in a running session: in which order things reach the disk, and what a full disk does."""

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from agent.events import ContextCompacted, Notice, ReplyFinished
from agent.loop import compaction
from agent.loop.compaction import (
    NOT_COMPACTED,
    SUMMARY_FOLLOWS,
    TOO_LARGE,
    CompactionRequest,
    _counted_tokens,
    _tell_hidden_skills,
    compact_context,
    live_state,
    off_loop,
    request_compaction,
    situation_of,
    tokens_when_cold,
)
from agent.loop.cost_preview import show_cold_cost
from agent.loop.turn import CUT_OFF
from agent.ports import Allow, Deny, HookAnswer
from agent.session.session import Session
from agent.session.skill_texts import instructions_text
from compact import local_summary
from compact.prices import Prices
from compact.settings import CompactSettings, ContextWindow
from compact.situation import CannotChange
from compact.uncompact import plan_undo
from tests.narrowing import block_text, present
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls, says
from tests.tables import each_row
from tools import ask_user, exit_plan
from tools.base import ToolResult, text_result
from transcripts.facts import Clear, Compacted, Failed, RequestSent, User
from transcripts.folding import fold
from transcripts.messages import ChannelBlock, TextBlock
from transcripts.secrets.masking import SecretMasks

from .test_background_summary import is_summary_request
from .test_cost_preview import NOW, CountingModel, resume
from .world import World, world

LONG = "a sentence that says something. " * 1_200
SUMMARY = CompactSettings(
    policy="classic",
    trigger=14_000,
    min_compact_size=1_000,
    tail_max_tokens=100,
    background_summaries=False,
)
BUDGET = CompactSettings(budget_max_chars=20_000)


@contextmanager
def loud(settings: CompactSettings, folder: Path, *steps: Any, **options: Any) -> Iterator[World]:
    """A world whose echo returns far more than it is asked to."""

    async def run(arguments: Any, call: Any) -> ToolResult:
        return text_result(LONG)

    with world(steps, folder, **options) as w:
        w.replace_run("echo", run)
        w.context.compaction.settings = settings
        w.context.compaction.use_window(w.context.compaction.window)
        yield w
        w.check()


def test_results_are_durable_before_a_summary_is_asked_for(tmp_path: Path) -> None:
    durable: list[bool] = []

    def answer(body: Any) -> Answer:
        durable.append(w.record.durable == len(w.record.facts))
        return Answer([says("<summary>much was done</summary>")])

    call = Answer([calls("echo")])
    with loud(SUMMARY, tmp_path, call, call, answer, "done") as w:
        assert w.run().reason == "done"
        assert w.told(ContextCompacted) and durable == [True]
        [sent] = [
            fact for fact in w.record.facts if isinstance(fact, RequestSent) and fact.trigger == "summary"
        ]
        asked = w.server.requests[2]
        assert sent.instructions in asked["messages"][-1]["content"][-1]["text"] and sent.attempt == 1
        assert sent.settings["max_tokens"] == asked["max_tokens"] and sent.sha256


def test_the_service_writes_the_summary_where_that_is_set(tmp_path: Path) -> None:
    call, summary = Answer([calls("echo")]), Answer([says("<summary>much was done</summary>")])
    with loud(replace(SUMMARY, service_summaries=True), tmp_path, call, call, summary, "done") as w:
        assert w.run().reason == "done"
        asked, after = w.server.requests[2:]
        assert (
            asked["compaction"]["type"] == "summarize" and "<summary>" in asked["compaction"]["instructions"]
        )
        assert "<summary>" not in str(asked["messages"]) and "much was done" in str(after["messages"][0])
        assert w.told(ContextCompacted) and w.told(Notice) == []


def test_the_model_writes_the_summary_where_the_service_does_not(tmp_path: Path) -> None:
    call, summary = Answer([calls("echo")]), Answer([says("<summary>much was done</summary>")])
    with loud(replace(SUMMARY, service_summaries=True), tmp_path, call, call, summary, "done") as w:
        w.server.faults.add(Fault("rejects", text="compaction"))
        assert w.run().reason == "done"
        refused, asked, after = w.server.requests[2:]
        assert "compaction" in refused and "compaction" not in asked
        assert "much was done" in str(after["messages"][0])
        assert "asking the model instead" in w.told(Notice)[0].text
        w.server.refused.clear()


def test_the_model_is_informed_with_the_next_request_that_nothing_came_of_the_compaction_it_asked_for(
    tmp_path: Path,
) -> None:
    with loud(replace(SUMMARY, trigger=90_000), tmp_path, Answer([calls("echo")]), "on", "done") as w:

        async def run(arguments: Any, call: Any) -> ToolResult:
            w.context.compaction.requested_focus = "the plan"
            w.context.compaction.settings = replace(SUMMARY, min_compact_size=30_000)
            return text_result("It is compacted before the next request, unless that frees too little.")

        w.replace_run("echo", run)
        assert w.run().reason == "done"
        [note] = w.told(Notice)
        last = w.server.requests[1]["messages"][-1]["content"]
        assert note.text.startswith("not summarized: ") and [block["type"] for block in last] == [
            "tool_result",
            "text",
        ]
        assert (
            note.text in last[1]["text"]
            and "had no effect" in last[1]["text"]
            and "is cleared automatically" in last[1]["text"]
        )


def test_a_requested_compaction_is_announced_only_if_there_is_something_to_do(tmp_path: Path) -> None:
    call = Answer([calls("echo")])
    summary = Answer([says("<summary>much was done</summary>")])
    with loud(replace(SUMMARY, trigger=90_000), tmp_path, *([call] * 6), summary, "done") as w:
        told = list[str]()

        async def run(arguments: Any, call: Any) -> ToolResult:
            request = len(w.server.requests)
            if request in (1, 6):
                told.append(await request_compaction(w.session, w.context, "the plan"))
            assert w.context.compaction.requested_focus == ("the plan" if request == 6 else None)
            return text_result(f"result {request} " * 1_500)

        w.replace_run("echo", run)
        assert w.run().reason == "done"
        assert told == [
            NOT_COMPACTED.format(
                "not summarized: the context has only 538 tokens (minimum 1,000, setting "
                "[compact] min_compact_size)"
            ),
            SUMMARY_FOLLOWS,
        ]


def test_the_plan_for_a_long_session_is_made_in_a_thread_that_a_cancelled_turn_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop_thread = threading.get_ident()
    begun = threading.Event()
    may_end = threading.Event()

    def work() -> int:
        begun.set()
        assert may_end.wait(30)
        return threading.get_ident()

    async def both(session: Session) -> None:
        planning = asyncio.ensure_future(off_loop(session, work))
        await asyncio.to_thread(begun.wait, 30)  # the loop runs meanwhile
        planning.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not planning.done(), "the session may be changed while its plan is made"
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await planning
        assert await off_loop(session, work) != loop_thread
        monkeypatch.setattr(compaction, "LONG_SESSION", 1_000)
        assert await off_loop(session, work) == loop_thread

    monkeypatch.setattr(compaction, "LONG_SESSION", 0)
    with world(["done"], tmp_path) as w:
        w.run()
        asyncio.run(both(w.session))


def test_the_accounts_that_a_plan_for_a_long_session_lacks_are_made_before_it_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "LONG_SESSION", 0)
    tried: list[int] = []

    async def both(session: Session) -> None:
        for number in range(local_summary.MAX_MISSING_ACCOUNTS + 1):
            session.user((TextBlock(f"question {number}"),))
        accounts = session.folded.memo(local_summary.EntryAccounts).by_seq

        def work(needs: bool) -> int:
            tried.append(len(accounts))
            entries = session.folded.entries
            return len(local_summary.build_local_summary(session.folded, entries).edits) if needs else 0

        await off_loop(session, lambda: work(False))
        assert tried == [0]
        await off_loop(session, lambda: work(True))
        assert tried == [0, 0, len(session.folded.entries)]

    with world(["done"], tmp_path) as w:
        w.run()
        asyncio.run(both(w.session))


@pytest.mark.parametrize("block", [says("<summary>much was done</summary>"), calls("echo")])
def test_a_summary_is_charged_to_the_session_and_its_budget_even_one_of_no_use(
    tmp_path: Path, block: dict[str, Any]
) -> None:
    call, summary = Answer([calls("echo")]), Answer([block], usage={"output_tokens": 1_000_000})
    with loud(SUMMARY, tmp_path, call, call, summary) as w:
        w.context.max_cost = 9.0
        ended = w.run()
        assert ended.reason == "failed" and "budget of this run is spent" in ended.error
        replies = w.session.folded.usage
        assert w.session.spending["claude-sonnet-5-5"].usage.output - replies.output == 1_000_000
        assert w.session.cost > 10.0 > 9.0 > Prices().cost(replies), "a million tokens of output cost $10"


USELESS = Answer([calls("echo")], usage={"output_tokens": 1_000_000})
FAILED = "the answer called a tool"


def test_a_local_summary_replaces_a_useless_answer_to_compact_and_its_cost_is_reported(
    tmp_path: Path,
) -> None:
    call = Answer([calls("echo")])
    with loud(replace(SUMMARY, trigger=90_000), tmp_path, call, call, "done", USELESS) as w:

        async def whole() -> None:
            await w.turn("go")
            before = w.session.folded.view.tokens
            outcome = await compact_context(
                w.session, w.context, w.events.append, CompactionRequest("manual")
            )
            await w.context.model.close()
            assert "summarized locally after the model's summary failed; undo" in outcome.line
            assert w.session.folded.view.tokens < 0.6 * before

        asyncio.run(whole())
        told = Notice(f"the model's summary failed: {FAILED}; the attempt cost $10.00", "warning")
        assert w.told(Notice) == [told]
        assert [fact.reason for fact in w.record.facts if isinstance(fact, Failed)] == [FAILED]


def test_a_summary_that_the_server_does_not_write_leaves_the_conversation_each_time(tmp_path: Path) -> None:
    call = Answer([calls("echo")])
    with loud(replace(SUMMARY, trigger=90_000), tmp_path, call, call, "done") as w:
        w.server.faults.add(
            Fault("status", status=402, text="no credit", times=None, when=is_summary_request)
        )

        async def whole() -> None:
            await w.turn("go")
            request = CompactionRequest("manual")
            made = [await compact_context(w.session, w.context, w.events.append, request) for _ in "12"]
            await w.context.model.close()
            assert [outcome.ids for outcome in made] == [(), ()]

        asyncio.run(whole())
        [told, again] = w.told(Notice)
        assert told == again and told.level == "error"
        assert told.text.startswith("the conversation is unchanged: ") and "no credit" in told.text


def test_a_local_summary_replaces_a_useless_automatic_one_and_the_turn_continues(tmp_path: Path) -> None:
    call = Answer([calls("echo")])
    with loud(SUMMARY, tmp_path, call, call, USELESS, "done") as w:
        assert w.run().reason == "done"
        assert w.told(Notice) == [Notice(f"[auto compact] summary: {FAILED}", "warning")]
        [made] = w.told(ContextCompacted)
        assert "summarized locally after the model's summary failed" in made.notice


def test_a_summary_is_asked_for_four_times_if_the_service_is_overloaded(tmp_path: Path) -> None:
    call = Answer([calls("echo")])
    with loud(SUMMARY, tmp_path, call, call, "done") as w:
        w.server.faults.add(Fault("status", status=529, times=None, when=is_summary_request))
        assert w.run().reason == "done"
        sent = [
            fact for fact in w.record.facts if isinstance(fact, RequestSent) and fact.trigger == "summary"
        ]
        assert [fact.attempt for fact in sent] == [1, 2, 3, 4]


@each_row(
    "before, new, counted, tokens, asked",
    [
        (40_000, 60_000, 120_000, 180_000, 1),
        (40_000, 60_000, None, 0, 1),
        (40_000, 53_000, 120_000, 0, 0),  # the prompt is too small to be counted
        (100_000, 14_000, 90_000, 240_000, 1),
        (100_000, 13_000, 90_000, 0, 0),  # little of it is new
    ],
)
def test_the_new_part_of_a_large_prompt_is_counted_by_the_server(
    before: int, new: int, counted: int | None, tokens: int, asked: int, tmp_path: Path
) -> None:
    """The model has 1.5 tokens for each of our count, and a window of 200,000; frames take up to 200."""
    with world([], tmp_path) as w:
        added = User(5, NOW, (TextBlock("on"),), (new,))
        session = resume(w, added, prompt=round(1.5 * before), raw=before)
        model = w.context.model = CountingModel(counted)
        assert abs(asyncio.run(_counted_tokens(session, w.context)) - tokens) <= 200
        assert model.asked == asked


def test_the_instructions_of_a_skill_that_the_view_lost_are_sent_again(tmp_path: Path) -> None:
    text = instructions_text("pdf", tmp_path, "Read the form first.")
    with world([], tmp_path) as w:
        said = w.session.user((ChannelBlock(text),), "harness")
        _tell_hidden_skills(w.session, w.context)
        assert w.context.tool_context.inbox.waiting == {}
        w.session.compacted("micro", "auto", (Clear(said.seq, 0, "text", "[cleared]"),), {})
        _tell_hidden_skills(w.session, w.context)
        assert w.context.tool_context.inbox.waiting == {"skill pdf": ChannelBlock(text)}


def test_the_state_beside_the_conversation_names_the_mode_and_where_commands_run(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    with world([], tmp_path) as w:
        assert [*live_state(w.session, w.context)] == ["permission mode: manual"]
        w.context.permissions.set_mode("acceptEdits")
        w.context.tool_context.cwd = tmp_path / "src"
        w.context.tool_context.servers = SimpleNamespace(live_lines=lambda: ["the server docs is off"])
        assert [*live_state(w.session, w.context)] == [
            "permission mode: acceptEdits",
            "commands run in: src",
            "the server docs is off",
        ]


def test_a_disk_that_takes_no_outputs_does_not_end_the_turn(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("in the way of the folder")
    with loud(BUDGET, tmp_path, Answer([calls("echo", words=str(n)) for n in range(3)]), "done") as w:
        assert w.run().reason == "done"
        assert [fact.what for fact in w.record.facts if isinstance(fact, Failed)] == ["budget"]
        assert [fact for fact in w.record.facts if isinstance(fact, Compacted)] == []
        assert "cannot save outputs" in w.told(Notice)[0].text and w.texts() == [LONG] * 3


class Told:
    """Hooks with prepared answers; `asked` has their inputs."""

    def __init__(self, answer: HookAnswer) -> None:
        self.answer, self.asked = answer, list[tuple[str, Any]]()

    async def run(self, moment: str, about: Any) -> HookAnswer:
        if moment.endswith("Compact"):
            self.asked.append((moment, dict(about)))
        if moment == "SessionStart":
            return HookAnswer(words=f"after {about['source']}")
        return self.answer if moment == "PreCompact" else HookAnswer()


def test_a_hook_adds_a_focus_to_an_automatic_summary_and_is_informed_of_the_outcome(tmp_path: Path) -> None:
    focused: list[bool] = []

    def answer(body: Any) -> Answer:
        focused.append("mind the zebra" in str(body["messages"][-1]))
        return Answer([says("<summary>much was done</summary>")])

    call = Answer([calls("echo")])
    with loud(SUMMARY, tmp_path, call, call, answer, "done") as w:
        w.context.hooks = hooks = Told(HookAnswer(words="mind the zebra"))
        assert w.run().reason == "done" and focused == [True]
        (before, asked), (after, came) = hooks.asked
        assert (before, after) == ("PreCompact", "PostCompact")
        assert asked["trigger"] == "auto" and asked["budget"] == 200_000
        assert "much was done" in came["summary"]
        words = "A hook of the user says:\nafter compact"
        assert w.context.tool_context.inbox.take() == [ChannelBlock(words)]
        assert came["reclaimed"] == came["before"] - came["after"] > 0 and came["before"] == asked["tokens"]


def test_a_veto_holds_however_often_it_is_said_and_keeps_no_other_layer_from_its_work(tmp_path: Path) -> None:
    call = Answer([calls("echo")])
    with loud(SUMMARY, tmp_path, *[call] * 8, "done") as w:
        w.context.hooks = Told(HookAnswer("not now"))
        assert w.run().reason == "done"
        made = {fact.layer for fact in w.record.facts if isinstance(fact, Compacted)}
        failed = [(fact.what, fact.reason) for fact in w.record.facts if isinstance(fact, Failed)]
        assert made == {"micro"}, "neither the summary nor the floor in its place"
        assert len(failed) > 3 and set(failed) == {("PreCompact", "a hook denied it: not now")}
        assert [note.text for note in w.told(Notice)] == ["[auto compact] a hook denied it: not now"]


def test_a_veto_does_not_count_where_the_server_takes_the_prompt_no_more(tmp_path: Path) -> None:
    call, believed = Answer([calls("echo")]), ContextWindow(200_000, 8_000)
    with loud(CompactSettings(), tmp_path, *[call] * 4, "done", window=30_000) as w:
        w.context.compaction.use_window(believed)
        w.context.hooks = hooks = Told(HookAnswer("never"))
        assert w.run().reason == "done"
        triggers = {fact.trigger for fact in w.record.facts if isinstance(fact, Compacted)}
        assert "reactive" in triggers and ("PreCompact", "reactive") in [
            (event, about["trigger"]) for event, about in hooks.asked
        ]
        assert any("too long" in refused for refused in w.server.refused)
        refusals = [fact for fact in w.record.facts if isinstance(fact, Failed) and fact.what == "request"]
        assert refusals and all(fact.about["limit"] == 30_000 for fact in refusals)
        sent = {fact.seq: fact.raw for fact in w.record.facts if isinstance(fact, RequestSent)}
        assert [fact.about["raw"] for fact in refusals] == [sent[fact.seq - 1] for fact in refusals]
        assert all(fact.about["actual"] > 30_000 for fact in refusals)
        reactions = [fact for fact in w.record.facts if isinstance(fact, Compacted)]
        rungs = [fact.report["rung"] for fact in reactions if fact.trigger == "reactive"]
        assert rungs[0] == 1, "the mildest reaction comes first"
        w.server.refused.clear()


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (22_000, TOO_LARGE),
        (16_000, CUT_OFF),
    ],
)
def test_what_was_shortened_and_why_is_reported_also_where_it_is_the_users_own_text(
    words: int, cause: str, tmp_path: Path
) -> None:
    with loud(CompactSettings(), tmp_path, "done", "done", window=20_000) as w:
        if "cut" in cause:
            w.server.faults.add(Fault("window_exceeded"))
        w.run("some words of mine " * (words // 4))
        [made] = w.told(ContextCompacted)
        assert "your longest messages were cut in the middle" in made.notice
        assert f" ({cause})" in made.notice and "results" not in made.notice
        w.server.refused.clear()


def test_the_guard_against_thrash_names_the_biggest_blocks(tmp_path: Path) -> None:
    call = Answer([calls("echo")])

    def after_three_summaries(body: Any) -> Answer:
        for _ in range(3):
            w.session.compacted("summary", "auto", (), {})
        return call

    with loud(SUMMARY, tmp_path, after_three_summaries, *[call] * 4, "done") as w:
        assert w.run().reason == "done"
        layers = [fact.layer for fact in w.record.facts if isinstance(fact, Compacted)]
        assert layers[:4] == ["summary"] * 3 + ["ledger"]
        told = [note.text for note in w.told(Notice)]
        why = "[auto compact] summaries follow each other too closely. Largest blocks: echo, "
        assert told and all(text.startswith(why) for text in told)
        assert len(set(told)) == len(told)


def test_each_session_of_a_directory_stores_its_outputs_under_names_of_its_own(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with loud(BUDGET, tmp_path, Answer([calls("echo")]), "done") as w:
            w.session.sid = name
            w.run()
            assert f'<persisted-output path="outputs/{name}-r6.txt"' in w.texts()[0]
    assert sorted(path.name for path in (tmp_path / "outputs").glob("*.txt")) == [
        "first-r6.txt",
        "second-r6.txt",
    ]


def test_an_output_that_a_compaction_stores_holds_no_secret(tmp_path: Path) -> None:
    with loud(BUDGET, tmp_path, Answer([calls("echo")]), "done") as w:
        w.context.tool_context.masks = SecretMasks(("says something",))
        w.run()
    (stored,) = (tmp_path / "outputs").glob("*.txt")
    assert stored.read_text("utf-8").startswith("a sentence that ****. a sentence that ****.")


def compactions_of(settings: CompactSettings, folder: Path, *, always_plan: bool) -> list[tuple[int, str]]:
    """(seq, layer) of what a turn of nine loud calls in a small window compacts."""

    def answer(body: Any) -> Answer:
        asked = str(body["messages"][-1]["content"][-1].get("text", ""))
        if "<summary>" in asked:
            return Answer([says("<summary>much was done</summary>")])
        made = len(w.told(ReplyFinished))
        return Answer([calls("echo", words=str(made)) if made < 9 else says("done")])

    with loud(settings, folder, *[answer] * 30) as w:
        w.context.compaction.use_window(ContextWindow(60_000, 8_000))
        if always_plan:
            w.context.compaction.quiet_below = (0, 0)
        assert w.run().reason == "done"
        return [(fact.seq, fact.layer) for fact in w.record.facts if isinstance(fact, Compacted)]


@pytest.mark.parametrize("settings", [SUMMARY, BUDGET, CompactSettings()])
def test_a_prompt_too_small_for_any_layer_is_passed_by_and_no_other(
    settings: CompactSettings, tmp_path: Path
) -> None:
    made = compactions_of(settings, tmp_path / "a", always_plan=False)
    assert made and made == compactions_of(settings, tmp_path / "b", always_plan=True)


@pytest.mark.parametrize("attended", [True, False])
def test_a_return_after_the_cache_has_expired_is_billed_once_before_it_is_sent(
    tmp_path: Path, attended: bool
) -> None:
    with world(["first", "second", "third"], tmp_path) as w:
        w.context.advises = attended
        w.context.compaction.settings = CompactSettings(cold_return_usd=0)

        async def whole() -> None:
            await w.turn("a sentence that says something. " * 6_000)
            w.clock.time += 200
            await w.turn("and now?")
            assert not w.told(Notice), "the cache is warm"
            w.clock.time += 400
            await w.turn("and now?")
            await w.context.model.close()

        asyncio.run(whole())
        (told,) = (notice.text for notice in w.told(Notice))
        billed = re.search(r"^the cache has expired: .* caches ([\d,]+) tokens again \(~\$([\d.]+)\)", told)
        tokens, dollars = present(billed).groups()
        assert ("interrupt and run /compact" in told) == attended
        usage = w.session.folded.last_reply.usage
        assert abs(int(tokens.replace(",", "")) - usage.prompt) < 0.05 * usage.prompt
        prices = w.context.compaction.prices
        paid = prices.dollars(usage.prompt * prices.write)  # the server's cache lives by another clock
        assert abs(float(dollars) - paid) < max(0.006, 0.05 * paid)


def test_an_expensive_return_sends_a_summary_says_so_in_one_line_and_can_be_undone(tmp_path: Path) -> None:
    with world(["first", "second", "third", "fourth"], tmp_path) as w:

        async def whole() -> None:
            await w.turn("a sentence that says something. " * 12_000)
            await w.turn("and now?")
            w.clock.time += 7_200
            w.context.compaction.prices = Prices(60.0)
            await show_cold_cost(w.session, w.context, w.events.append, "cold", cold=tokens_when_cold)
            await w.turn("and now?")
            await w.context.model.close()

        asyncio.run(whole())
        assert not w.told(Notice)  # no second line about the cost
        (told,) = w.told(ContextCompacted)
        assert "the cache expired, and sending it all would cost ~$" in told.notice
        assert told.notice.endswith("; undo with /uncompact") and len(told.notice) < 120
        before, after = (request["messages"] for request in w.server.requests[1:3])
        assert len(str(after)) < 0.2 * len(str(before))
        (made,) = w.session.folded.compactions
        undone = plan_undo(situation_of(w.session, w.context), made.id)
        assert not isinstance(undone, CannotChange)
        w.session.undone(undone.id, undone.edits)
        assert str(w.session.folded.view[0].parts[0].block).count("a sentence") == 12_000


def test_a_model_whose_cache_holds_the_history_still_is_not_billed(tmp_path: Path) -> None:
    with world(["first", "second", "third"], tmp_path) as w:

        async def turn_with(model: str) -> str:
            before, opened = len(w.told(Notice)), w.session.folded.opened
            w.context.settings = replace(w.context.settings, model=model)
            w.session.open(opened.system, opened.tools, model=model)
            await w.turn("and now?")
            return " ".join(notice.text for notice in w.told(Notice)[before:])

        async def whole() -> None:
            await w.turn("a sentence that says something. " * 12_000)
            first = w.context.settings.model
            assert "the model or the tools have changed: this request caches " in await turn_with(
                "claude-opus-4-5"
            )
            assert await turn_with(first) == ""
            await w.context.model.close()

        asyncio.run(whole())


def test_what_the_user_says_to_calls_stands_among_their_messages_after_a_summary(tmp_path: Path) -> None:
    asked = {"question": "Which database?", "options": [{"label": "SQLite"}, {"label": "MySQL"}]}
    answers = {"Which database?": "Neither: use Postgres 15 only, never SQLite"}
    steps = [
        Answer([calls("act", words="make deploy")]),
        Answer([calls("ask_user", questions=[asked])]),
        Answer([calls("exit_plan", plan="1. Break the loader")]),
        *[Answer([calls("echo")])] * 2,
        Answer([says("<summary>much was done</summary>")]),
        "done",
    ]
    said = Deny("No: never deploy by hand"), Allow(updated_input={"questions": [asked], "answers": answers})
    with loud(SUMMARY, tmp_path, *steps) as w:
        w.approver.answers += [*said, Deny("Keep the API of the loader")]
        w.tools |= {"ask_user": ask_user.TOOL, "exit_plan": exit_plan.TOOL}
        w.context.tool_context.plan_mode = SimpleNamespace(planning=True)
        assert w.run("Ship it.").reason == "done"
        (part,) = w.session.folded.view[0].parts
        record = block_text(part.block)
        prompt, *answered = record.partition("## All user messages")[2].splitlines()[1:5]
        assert prompt.endswith("Ship it.")
        assert re.fullmatch(r"\(r\d+, denying r\d+\.\d act \S.*\) No: never deploy by hand", answered[0])
        assert re.fullmatch(r'\(r\d+, answering "Which database\?"\) Neither: use P.*QLite', answered[1])
        assert re.fullmatch(r"\(r\d+, denying .* exit_plan .*\) Keep the API of the loader", answered[2])
        assert "- plan (" not in record and "act : " not in record
        assert fold(w.record.facts).view.tokens == w.session.folded.view.tokens
