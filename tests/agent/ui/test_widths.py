"""Nothing that is printed is wider than the terminal, whatever the text and however narrow."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import wcswidth

from agent import events
from agent.events import ContextChart
from agent.ports import PermissionQuestion, Status
from agent.ui import approval as approve
from agent.ui import live_view as live
from agent.ui import status
from agent.ui import text_cells as cells
from agent.ui.labels import RenderContext, user
from agent.ui.markdown import markdown
from agent.ui.plain_repl import PlainWriter
from agent.ui.render import diff, event_text
from agent.ui.theme import Theme
from tools.access import Access
from transcripts.facts import Result
from transcripts.messages import TextBlock

SGR = re.compile(r"\x1b\[[0-9;]*m")
SAMPLES = [
    "plain words that go on for a while and then some more",
    "averyveryverylongwordwithoutanyspaceinitthatmustbebrokensomewhere" * 3,
    "日本語のとても長い文章はここで折り返されなければなりません。" * 3,
    "한국어 문장도 넓은 글자를 가지고 있습니다",
    "emoji 🙂🚀🎉 and family 👨\u200d👩\u200d👧\u200d👦 flags 🇩🇪🇯🇵 keycap 1\ufe0f\u20e3",
    "combining e\u0301e\u0301e\u0301 and zalgo a\u0300\u0301\u0302\u0303\u0304",
    "עברית וגם العربية in one line",
    "tabs\tand\ttabs\t\tagain",
    "[bold]brackets[/bold] [link=x]y[/link] [/] [",
    "control \x1b[31m\x07\x08\x9b and \u202e bidi \u200b zero",
    "| a | b |\n|---|---|\n| one two three four | 日本語日本語 |\n| " + "x" * 90 + " | y |",
    "```python\nprint('" + "long " * 30 + "')\n\tindented\n```",
    "# Heading long enough to wrap on narrow screens\n\n- one\n  - nested 日本\n    1. deep\n\n> quote",
    "1. " + "word " * 40 + "\n2. 二番目",
    "https://example.org/a/very/long/path/that/never/ends/" + "segment/" * 12,
    "",
    "\n\n\n",
    "a",
]
WIDTHS = [1, 2, 3, 5, 8, 11, 12, 13, 17, 20, 33, 40, 64, 80, 120]
DIFF = (
    "--- a\n+++ b\n@@ -9,3 +9,3 @@\n 日本 context\n-"
    + "old " * 40
    + "\n+\tnew 🙂\x1b[2J\n@@ -99 +99 @@\n-x\n+y"
)


def too_wide(text, columns):
    """The lines that take more cells than there are; one wide character may stand in one column."""
    lines = [SGR.sub("", line) for line in text.split("\n")]
    return [line for line in lines if wcswidth(line) > max(columns, 2) or wcswidth(line) < 0]


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("theme", [Theme(), Theme(False)], ids=["colour", "plain"])
def test_nothing_is_wider_than_the_screen(columns, theme):
    for full in (False, True):
        look = RenderContext(columns, theme, full)
        for sample in SAMPLES:
            for drawn in everything(sample, look):
                assert too_wide(drawn, columns) == [], (sample, drawn)
                assert not re.search(
                    r"[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202e\u200b]", SGR.sub("", drawn)
                )


@pytest.mark.parametrize("columns", [20, 30, 80])
def test_the_map_of_the_context_always_tells_how_full_it_is(columns, capsys):
    rows = (("tool results", 48_000), ("user text", 2_000), ("free", 150_000))
    event = ContextChart("The context of claude-sonnet-5-5: NORMAL", rows, 200_000)
    lines = SGR.sub("", event_text(event, RenderContext(columns, Theme(False)))).splitlines()
    assert any(line.endswith("50k of 200k (25%)") for line in lines[:2]) and too_wide(lines[0], columns) == []
    PlainWriter(None).emit(event)
    assert "NORMAL: 50,000 of 200,000 tokens (25%)\n" in capsys.readouterr().out


def everything(sample, look):
    yield markdown(sample, look.columns, look.theme)
    yield user(sample, look)
    result = Result(
        1, 0.0, 1, 0, (TextBlock(sample),), human={"text": sample, "note": sample}, about={"exit": 1}
    )
    yield event_text(events.ToolCallFinished(1, 0, "bash", sample, result, 3.0, denied=True), look)
    edited = Result(1, 0.0, 1, 0, (TextBlock(sample),), human={"diff": DIFF, "note": sample})
    yield event_text(events.ToolCallFinished(1, 0, sample or "x", sample, edited, 3.0), look)
    yield event_text(events.Notice(sample, "error"), look)
    yield event_text(events.ContextCompacted(sample, "auto", (), {}), look)
    yield event_text(events.CommandOutput(sample), look)
    yield event_text(events.TurnFinished("failed", 1, sample), look)
    yield event_text(ContextChart("Context", ((sample, 40_000), ("b", 1), ("free", 9)), 200_000), look)
    yield "\n".join(diff(DIFF, look))
    yield status.status_line(Status(sample, 5, 100, "WARNING", 1.5, "manual", "s", "/w", 2, sample), 3, look)
    asked = PermissionQuestion(
        "bash", sample, (Access("write", sample, outside=True),), sample, sample, {"text": sample}, "k"
    )
    panel = approve.ApprovalPanel(asked, approve.choices(asked), None, 0.0)  # type: ignore[arg-type]
    yield "\n".join(approve.draw(panel, look, 20))
    yield "\n".join(live.lines(running(sample), look, 20, 75.0))


def running(sample):
    state = live.LiveView()
    state.start(0.0)
    state.take(events.ToolCallStarted(1, 0, "bash", sample), 1.0)
    state.take(events.ToolCallProgress(1, 0, sample), 2.0)
    state.take(events.ThinkingDelta(sample), 3.0)
    state.take(events.Retrying(sample, 5.0, 1, 10), 4.0)
    state.queued = [sample, sample]
    return state


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.integers(1, 60))
def test_any_text_wraps_within_any_width_and_loses_nothing_but_spaces(text, columns):
    safe = "".join(char for char in text if char.isprintable())
    lines = cells.wrap(safe, columns)
    assert all(cells.width(line) <= max(columns, 2) for line in lines)
    assert "".join(lines).replace(" ", "") == safe.replace(" ", "")


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=300), st.integers(1, 60))
def test_any_text_is_drawn_as_markdown_without_an_exception_or_a_control_character(text, columns):
    drawn = SGR.sub("", markdown(text, columns, Theme()))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", drawn)


def test_clip_never_cuts_into_a_wide_character():
    assert cells.clip("日本語", 4) == "日…"
    assert cells.clip("abc", 3) == "abc"
    assert cells.clip("abcd", 1) == "…"
    assert cells.clip("abcd", 0) == ""
