"""Plan, to-do list and mode through turns, rewinds and compactions: what people see and the model is told."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.session.plan_and_todo import TodoItem, newest_todos
from agent.ui.live_view import draw_todos
from agent.ui.terminal_text import RenderContext, Theme
from compact.settings import CompactSettings
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls, says
from tools import todo
from tools.base import ToolResult, text_result
from transcripts.entries import Prompt
from transcripts.fold import fold

from .world import World, world

SUMMARY = CompactSettings(policy="classic", trigger=14_000, min_compact_size=1_000, tail_max_tokens=100)
SUMMED_UP = Answer([says("<summary>much was done</summary>")])
TODOS = [
    {"content": "Read `a.py`; [then] b", "status": "completed", "activeForm": "Reading"},
    {"content": "Write tests", "status": "in_progress", "activeForm": "Writing tests"},
    {"content": "Run them", "status": "pending"},
]


def run_turns(w: World, *turns: Any) -> None:
    """Turns on one loop; what is no text is called in its place."""

    async def whole() -> None:
        for each in turns:
            if callable(each):
                each()
            else:
                await w.turn(each)
        await w.context.model.close()  # type: ignore[attr-defined]

    asyncio.run(whole())
    w.check()


def shown(w: World) -> list[str]:
    _, items = newest_todos(w.session.folded) or (0, ())
    return [item.shown for item in items]


def test_the_list_is_that_of_the_newest_call_that_was_taken_also_after_a_rewind_and_a_resume(
    tmp_path: Path,
) -> None:
    steps = [
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


@pytest.mark.parametrize(
    ("rows", "working", "lines"),
    [
        (10, False, ["To do: 3 of 8 done · now"]),
        (2, True, ["To do: 3 of 8 done · now"]),
        (4, True, ["☒ 2", "▸ now", "☐ 4", "  5 more: /todo"]),
        (99, True, ["☒ 2", "▸ now", "☐ 4", "☐ 5", "☐ 6", "  3 more: /todo"]),
        (0, True, []),
    ],
)
def test_the_screen_shows_what_is_around_the_item_in_work(rows: int, working: bool, lines: list[str]) -> None:
    ctx = RenderContext(40, Theme(False, False))
    todos = [*(("completed", str(at)) for at in range(3)), ("in_progress", "now")]
    todos += [("pending", str(at)) for at in range(4, 8)]
    assert draw_todos(todos, ctx, rows, working) == lines
    assert draw_todos([("completed", "x")], ctx, rows, working) == []
    assert all(
        len(line) <= 20 for line in draw_todos([("pending", "x" * 99)], RenderContext(20, ctx.theme), 9, True)
    )
    assert TodoItem("x", "in_progress").shown == "x"
