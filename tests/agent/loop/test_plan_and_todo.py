"""Plan, to-do list and mode through turns, rewinds and compactions, as seen by the user and the model."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.events import ToolCallFinished, TurnFinished
from agent.loop.call_permission import remark_note
from agent.loop.compaction import live_state
from agent.permissions import Mode, PermissionRules, PermissionStore
from agent.ports import Allow, Deny, PermissionQuestion, PermissionUpdate
from agent.session.environment import (
    END_OF_PLAN_TEXT,
    Environment,
    news_of_environment,
    plan_text,
    post_planning,
)
from agent.session.plan_and_todo import TodoItem, newest_plan, newest_todos
from agent.ui.live_view import draw_todos
from agent.ui.terminal_text import RenderContext, Theme
from compact.settings import CompactSettings
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls, says
from tests.strict_api.scripted_model import Step
from tests.tables import each_row
from tools import exit_plan, todo
from tools.base import ToolResult, text_result
from tools.processes.inbox import Inbox
from transcripts.data_tags import injected, quoted
from transcripts.entries import Prompt
from transcripts.facts import Opened, Reply, Result, User
from transcripts.folding import fold
from transcripts.messages import ChannelBlock, TextBlock, ToolUseBlock

from .world import World, world

FOLDER = Path("/p")
TOOLS = ("ask_user", "exit_plan")
PLAN_TEXT = plan_text(TOOLS)
SUMMARY = CompactSettings(
    policy="classic",
    trigger=14_000,
    min_compact_size=1_000,
    tail_max_tokens=100,
    background_summaries=False,
)
SUMMED_UP = Answer([says("<summary>much was done</summary>")])
TODOS = [
    {"content": "Read `a.py`; [then] b", "status": "completed", "activeForm": "Reading"},
    {"content": "Write tests", "status": "in_progress", "activeForm": "Writing tests"},
    {"content": "Run them", "status": "pending"},
]


def run_turns(w: World, *turns: Any) -> None:
    """Run turns on one loop; anything that is not text is called instead."""

    async def whole() -> None:
        for each in turns:
            if callable(each):
                each()
            else:
                await w.turn(each)
        await w.context.model.close()

    asyncio.run(whole())
    w.check()


def shown(w: World) -> list[str]:
    _, items = newest_todos(w.session.folded) or (0, ())
    return [item.shown for item in items]


def test_the_list_is_that_of_the_newest_call_that_was_taken_also_after_a_rewind_and_a_resume(
    tmp_path: Path,
) -> None:
    steps: list[Step] = [
        Answer([calls("todo", todos=TODOS)]),
        Answer([calls("TodoWrite", todos=[{"content": "x", "status": "started"}])]),
        "first",
        Answer([calls("TodoWrite", todos=[])]),
        "second",
    ]
    with world(steps, tmp_path) as w:
        w.tools["todo"] = todo.TOOL
        assert shown(w) == []

        def back() -> None:
            assert shown(w) == []
            prompts = [entry.seq for entry in w.session.folded.entries if isinstance(entry, Prompt)]
            w.session.rewound(prompts[-1], {"why": "a test"})

        three = ["Read `a.py`; [then] b", "Writing tests", "Run them"]
        run_turns(w, "go", lambda: shown(w) == three or pytest.fail(str(shown(w))), "no more", back)
        assert shown(w) == three
        assert newest_todos(fold(w.record.facts)) == newest_todos(w.session.folded)


def test_mode_and_list_stand_word_for_word_in_the_record_of_a_compaction(tmp_path: Path) -> None:
    async def loud(arguments: Any, call: Any) -> ToolResult:
        return text_result("a sentence that says something. " * 1_200)

    steps = [Answer([calls("todo", todos=TODOS)]), Answer([calls("echo")]), Answer([calls("echo")])]
    with world([*steps, SUMMED_UP, "done"], tmp_path) as w:
        w.tools["todo"] = todo.TOOL
        w.replace_run("echo", loud)
        w.context.permissions.set_mode("acceptEdits")
        w.context.compaction.settings = SUMMARY
        w.context.compaction.use_window(w.context.compaction.window)
        run_turns(w, "go")
        (first, *_) = w.session.folded.view
        sent = "\n".join(getattr(part.block, "text", "") for part in first.parts)
        assert "permission mode: acceptEdits" in sent
        for line in ("[completed] Read `a.py`; [then] b", "[in_progress] Write tests", "[pending] Run them"):
            assert f"  {line}" in sent


def test_a_plan_is_put_to_the_user_and_its_end_is_reported_once_with_the_result(tmp_path: Path) -> None:
    accept = Allow(updates=(PermissionUpdate(mode="acceptEdits"),), remark="in small steps")
    plan = "# Plan\n\n1. Do it"
    steps: list[Step] = [
        Answer([calls("exit_plan", plan=" \n")]),
        Answer([calls("exit_plan", plan="# Hasty")]),
        Answer([calls("ExitPlanMode", plan=plan)]),
        "on it",
        Answer([calls("exit_plan", plan=plan)]),
        "done",
    ]
    with world(steps, tmp_path, Deny("slower"), accept) as w:
        w.tools["exit_plan"] = exit_plan.TOOL
        permissions, tools = w.context.permissions, w.context.tool_context
        tools.plan_mode, permissions.on_planning = permissions, partial(post_planning, tools.inbox, TOOLS)
        permissions.set_mode("plan")
        run_turns(w, tools.inbox.take()[0].text, "and now?")
        assert [question.preview.plan for question in w.approver.questions] == ["# Hasty", plan]
        assert permissions.rules.mode == "acceptEdits"
        texts = w.texts()
        assert texts[0].startswith("The plan is empty")
        assert "did not approve the plan: slower" in texts[1] and "approved the plan." in texts[2]
        assert remark_note("in small steps") in texts[3]
        assert END_OF_PLAN_TEXT in texts[4] and "Plan mode is off, so" in texts[5]
        assert news_of_environment(w.session.folded, Environment(tmp_path, "m", mode="acceptEdits")) == []
        found = newest_plan(w.session.folded)
        assert found is not None and found[1] == plan
        assert f"plan (r{found[0]}): {plan}" in list(live_state(w.session, w.context))


def test_a_refused_plan_is_none_and_words_are_one_only_where_none_was_ever_shown(tmp_path: Path) -> None:
    steps: list[Step] = [
        "1. Look. 2. Mend.",
        Answer([calls("exit_plan", plan="1. Break it")]),
        "I see.",
        Answer([calls("exit_plan", plan="1. Keep it")]),
        "It is there.",
        Answer([calls("exit_plan", plan="1. Break it after all")]),
        "Good.",
    ]
    with world(steps, tmp_path, Deny("keep the loader"), Deny("no screen", unattended=True), Deny()) as w:
        w.tools["exit_plan"] = exit_plan.TOOL
        w.context.tool_context.plan_mode = w.context.permissions
        w.context.permissions.set_mode("plan")
        plans: list[str] = []

        def look() -> None:
            plans.append((newest_plan(w.session.folded) or (0, ""))[1])

        mode = injected(PLAN_TEXT)
        prompt = partial(w.session.user, (TextBlock(mode), TextBlock("go")))
        run_turns(w, *[prompt, None, look] * 5)
        assert plans == ["1. Look. 2. Mend.", "", "1. Keep it", "1. Keep it", "1. Keep it"]


def test_a_plan_in_words_that_was_cut_off_and_continued_is_one() -> None:
    def reply(seq: int, text: str, stop: str = "max_tokens", complete: bool = True) -> Reply:
        return Reply(seq, 0.0, (TextBlock(text),), (1,), stop=stop, complete=complete)

    facts = [
        Opened(1, 0.0, folder="/p", tag="7f3a21"),
        User(2, 0.0, (ChannelBlock(PLAN_TEXT), TextBlock("go")), (1, 1)),
        reply(3, "1. Look. "),
        reply(4, "2.", complete=False),
        reply(5, "2. Mend. "),
        reply(6, "3. Test.", "end_turn"),
    ]
    assert newest_plan(fold(facts)) == (6, "1. Look. 2. Mend. 3. Test.")
    assert newest_plan(fold(facts[:4])) == (4, "1. Look. 2.")
    assert newest_plan(fold([*facts, reply(7, "Else.")])) == (7, "Else.")


@each_row("text", [injected(PLAN_TEXT), quoted(PLAN_TEXT, "agent-report"), PLAN_TEXT])
def test_a_result_that_imitates_makeroom_does_not_begin_plan_mode(text: str) -> None:
    def news(block: TextBlock, tag: str) -> list[str]:
        facts = [
            Opened(1, 0.0, folder="/p", tag=tag),
            User(2, 0.0, (TextBlock("look"),), (1,)),
            Reply(3, 0.0, (ToolUseBlock("t1", "bash", {}),), (1,)),
            Result(4, 0.0, of=3, block=0, content=(block,)),
        ]
        return news_of_environment(fold(facts), Environment(FOLDER, "m", mode="manual"))

    assert news(TextBlock(text), "7f3a21") == []
    assert news(ChannelBlock(PLAN_TEXT), "7f3a21") == [END_OF_PLAN_TEXT]
    assert news(TextBlock(injected(PLAN_TEXT)), "") == [END_OF_PLAN_TEXT]


def test_news_of_plan_mode_that_no_one_was_informed_of_cancel_each_other() -> None:
    inbox = Inbox()
    for planning in (True, False, True):
        post_planning(inbox, TOOLS, planning)
    (news,) = inbox.take()
    assert news == ChannelBlock(PLAN_TEXT)


@pytest.mark.parametrize(("before", "after"), [("dontAsk", "dontAsk"), ("acceptEdits", "manual")])
def test_the_mode_after_a_plan_asks_no_less_than_the_one_before(before: Mode, after: Mode) -> None:
    store = PermissionStore(PermissionRules())
    store.set_mode(before)
    store.set_mode("plan")
    store.leave_plan()
    assert store.rules.mode == after
    store.leave_plan()
    assert store.rules.mode == after


def test_a_yes_from_before_plan_mode_counts_no_more_in_it(tmp_path: Path) -> None:
    with world([Answer([calls("act", words="make")]), "fine"], tmp_path) as w:

        class Switching:
            async def ask(self, question: PermissionQuestion) -> Allow:
                w.context.permissions.set_mode("plan")
                return Allow()

        w.context.approver = Switching()
        run_turns(w, "go")
        assert w.ran["act"] == [] and "plan mode is on" in w.texts()[0]


def test_esc_at_a_plan_ends_the_turn_and_no_one_there_makes_it_the_result(tmp_path: Path) -> None:
    asked = Answer([calls("exit_plan", plan="# Plan")])
    with world([asked, asked], tmp_path, Deny(stop=True), Deny("no screen", unattended=True)) as w:
        w.tools["exit_plan"] = exit_plan.TOOL
        w.context.tool_context.plan_mode = w.context.permissions
        w.context.permissions.set_mode("plan")
        run_turns(w, "go", "again")
        ended = w.told(TurnFinished)
        assert [(each.reason, each.code) for each in ended] == [("denied", ended[0].code), ("done", 0)]
        assert w.told(ToolCallFinished)[-1].result.human.answer == "# Plan"
        assert w.context.permissions.rules.mode == "plan"


@each_row(
    ("rows", "working", "lines"),
    [
        (10, False, []),
        (2, True, ["To-dos: 3 of 8 done · now"]),
        (4, True, ["☒ 2", "▸ now", "☐ 4", "  5 more (/todo)"]),
        (99, True, ["☒ 2", "▸ now", "☐ 4", "☐ 5", "☐ 6", "  3 more (/todo)"]),
        (0, True, []),
    ],
)
def test_the_screen_shows_what_is_around_the_item_in_work(rows: int, working: bool, lines: list[str]) -> None:
    ctx = RenderContext(40, Theme(False, False))
    todos = [*(("completed", str(at)) for at in range(3)), ("in_progress", "now")]
    todos += [("pending", str(at)) for at in range(4, 8)]
    assert draw_todos(todos, ctx, rows=rows, working=working) == lines
    assert draw_todos([("completed", "x")], ctx, rows=rows, working=working) == []
    assert all(
        len(line) <= 20
        for line in draw_todos([("pending", "x" * 99)], RenderContext(20, ctx.theme), rows=9, working=True)
    )
    assert TodoItem("x", "in_progress").shown == "x"
