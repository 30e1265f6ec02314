"""Output to the terminal: finished text once, the live part in its place, nothing ever cleared."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.ui.live_view import LiveView, RunningCall, draw_unfinished
from agent.ui.markdown_stream import MAX_UNFINISHED_LINES, MarkdownStream
from agent.ui.terminal_text import RenderContext, Theme
from tests.sampling import sampled
from tests.tables import each_row

from .pty_terminal import PtyTerminal


def test_a_long_session_never_clears_and_emits_finished_text_once(terminal):
    for number in range(12):
        terminal.type(f"paragraphs 40;bash number {number};say end {number}\r").sees(f"\nend {number}\n")
        terminal.misses("Ctrl-C to interrupt")
    raw = bytes(terminal.raw)
    for forbidden in (b"\x1b[2J", b"\x1b[3J", b"\x1b[?1049h", b"\x1b[?47h", b"\x1bc", b"\x1b[?1000h"):
        assert forbidden not in raw
    assert raw.count(b"\x1b[?2026h") == raw.count(b"\x1b[?2026l")
    lines = terminal.everything.split("\n")
    for number in range(12):
        assert sum(line == f"● bash  number {number}" for line in lines) == 1
        assert sum(line == f"end {number}" for line in lines) == 1
    assert sum("Paragraph 39 stands here" in line for line in lines) == 12


def test_each_frame_moves_within_the_screen_only(terminal):
    terminal.type("lines 300;markdown;bash x\r").sees("● bash  x")
    ups = [int(up or 1) for up in re.findall(rb"\x1b\[(\d*)A", bytes(terminal.raw))]
    assert max(ups) < 24
    assert [f"• line {number} of the list" for number in range(300)] == [
        line.strip() for line in terminal.everything.split("\n") if line.strip().startswith("• line")
    ]


def test_streamed_blocks_are_printed_when_complete_and_the_tail_is_live(terminal):
    terminal.type("stream one para;stream graph\\n\\nnext;wait\r").sees("Ctrl-C to interrupt")
    terminal.sees("one paragraph").open_gate().misses("Ctrl-C to interrupt")


def test_streamed_markdown_ends_as_if_it_had_come_whole(tmp_path):
    with PtyTerminal(tmp_path, (80, 60)) as terminal:
        terminal.ready().type("markdown\r").sees("The end.").misses("Ctrl-C to interrupt")
        streamed = terminal.text.partition("❯ markdown")[2].partition("────────────────────────────\n❯")[0]
        terminal.type("/markdown\r").sees("❯ /markdown")
        terminal.until(lambda: terminal.text.count("The end.") == 2)
        whole = terminal.text.partition("❯ /markdown")[2].partition("────────────────────────────\n❯")[0]
    assert [line for line in streamed.split("\n") if "───" not in line or "system" in line] == [
        line for line in whole.split("\n") if "───" not in line or "system" in line
    ]


@pytest.mark.parametrize("size", sampled([(20, 5), (40, 10), (120, 40)], 3))
def test_the_input_and_the_status_line_always_have_their_place(tmp_path, size):
    with PtyTerminal(tmp_path, size) as terminal:
        terminal.sees("❯", "23%").type("lines 50;stream " + "words " * 200 + ";run\r").sees("23% of 200k")
        terminal.type("typing").sees("❯ typing")
        rows = terminal.text.split("\n")
        assert len(rows) <= size[1]
        assert "23%" in rows[-1]


def test_resizing_while_text_streams_keeps_finished_lines_unique(tmp_path):
    with PtyTerminal(tmp_path, TERM="linux") as terminal:  # pyte does not reflow, like the console
        terminal.ready().type("paragraphs 30;run a;paragraphs 30;run b\r").sees("compiling").type("draft")
        for columns, rows in ((60, 24), (120, 30), (50, 12), (30, 5), (100, 30)):
            terminal.resize(columns, rows).sees("draft")
        terminal.sees("Ctrl-C to interrupt").open_gate("a").open_gate("b").misses("Ctrl-C to interrupt").sees(
            "❯ draft"
        )
        assert terminal.text.count("❯ draft") == 1
        assert terminal.text.count("23% of 200k") == 1


def test_control_characters_of_the_outside_reach_the_screen_as_pictures(terminal):
    payload = r"\x1b[2Jcleared \x1b]0\x3btitle\x07 \u202eevil \x9b31m \x08\x08"
    terminal.type(f"output {payload};raw {payload}\\n\\nnext\r").sees(
        "␛[2Jcleared", "<U+202E>evil", "<U+009B>31m"
    )
    terminal.misses("Ctrl-C to interrupt")
    raw = bytes(terminal.raw)
    assert b"\x1b[2J" not in raw
    assert b"\x1b]0;title" not in raw
    assert "\u202e".encode() not in raw
    assert b"\xc2\x9b" not in raw


def test_square_brackets_and_html_are_literal(terminal):
    terminal.type("raw [bold]not markup[/bold] <div>tag</div>\\n\\nx;output [red]x[/red];notice [b]n[/b]\r")
    terminal.sees("[bold]not markup[/bold] <div>tag</div>", "[red]x[/red]", "[b]n[/b]")


def test_thinking_retries_losses_and_free_space_are_reported(terminal):
    terminal.type("think step by step;say so;compact;lost;critical\r").sees(
        "Thought for", "[auto compact] 180k -> 42k"
    )
    terminal.sees("The reply is incomplete: connection reset. The", "94% of 200k, nearly full")


def test_read_only_calls_are_one_line_until_something_else_comes(terminal):
    terminal.type("reads 1;say one;reads 12;run make\r").sees("● read  src/part_0.py  10 lines", "compiling")
    terminal.sees("read  12 files, 120 lines")
    assert "part_5" not in terminal.everything
    terminal.open_gate("make").misses("Ctrl-C to interrupt").type("\x0f")
    terminal.sees("read  src/part_11.py  10 lines")
    assert terminal.everything.count("12 files, 120 lines") == 1


def test_what_came_before_the_replayed_messages_is_shown_by_a_key(terminal):
    terminal.type("replay\r").sees("2 earlier messages · Ctrl-O to show", "❯ what is shown again")
    assert "what came before" not in terminal.text
    terminal.misses("Ctrl-C to interrupt").type("\x0f").sees("❯ what came before\n\nanswered")


def test_a_fault_in_the_driver_is_reported_and_the_session_continues(terminal):
    terminal.type("boom\r").sees("internal error in makeroom: RuntimeError: boom in the driver")
    terminal.sees("/bug writes a report").type("say still here\r").sees("\nstill here")


def test_a_turn_that_a_command_began_is_echoed_once(terminal):
    terminal.type("/init\r").sees("❯ /init", "❯ say initialised", "\ninitialised")
    assert terminal.text.count("❯ say initialised") == 1
    terminal.type("/exit\r").ends()
    assert "Resume this session with: makeroom --resume s42" in terminal.text


def test_an_idle_prompt_writes_nothing(terminal):
    terminal.type("say done\r").sees("\ndone").misses("Ctrl-C to interrupt")
    terminal.type("x").sees("❯ x")
    terminal.until(lambda: not terminal.writes_within(0.3), "quiet")
    before = len(terminal.raw)
    assert not terminal.writes_within(1.2)
    assert len(terminal.raw) == before


def test_no_colour_is_sent_when_none_is_wanted(tmp_path):
    with PtyTerminal(tmp_path, NO_COLOR="1") as terminal:
        terminal.ready().type("bash x;edit;markdown\r").sees("The end.").type("/context\r").sees(
            "Context  39k"
        )
        codes = {
            code
            for group in re.findall(rb"\x1b\[([\d;]*)m", bytes(terminal.raw))
            for code in group.split(b";")
        }
    assert codes <= {b"", b"0", b"1", b"2", b"3", b"4", b"7", b"9", b"22", b"23", b"24"}


def test_elapsed_time_is_drawn_at_most_ten_times_a_second(terminal):
    terminal.type("run\r").sees("running, 1 s")
    start = bytes(terminal.raw).count(b"\x1b[?2026h")
    terminal.sees("running, 2 s")
    assert bytes(terminal.raw).count(b"\x1b[?2026h") - start <= 2 * 10 + 5  # one second, and some slack


def test_what_is_copied_reaches_the_terminal_as_one_sequence_and_is_reported(terminal):
    terminal.type("/copy\r").sees("gave 4 characters", "❯ /copy")
    assert b"\x1b]52;c;YmzDvG0=\x07" in terminal.raw


def test_the_clock_of_a_turn_stands_while_a_question_waits():
    live_view = LiveView()
    live_view.start(100.0)
    live_view.calls[1, 0] = RunningCall("bash", "x", started_at=102.0)
    live_view.pause_clocks(True, 110.0)
    live_view.pause_clocks(True, 150.0)
    live_view.pause_clocks(False, 170.0)
    live_view.pause_clocks(False, 171.0)
    assert (live_view.started_at, live_view.calls[1, 0].started_at) == (160.0, 162.0)


def blocks(text, step=1):
    stream = MarkdownStream()
    found = []
    for at in range(0, len(text), step):
        found += stream.feed(text[at : at + step])
    return [chunk.text for chunk in [*found, *stream.end()]]


def finished(text):
    """Return the part that is finished before the end is known, and the tail."""
    stream = MarkdownStream()
    return [chunk.text for chunk in stream.feed(text)], stream.unfinished


def test_a_paragraph_is_finished_by_what_follows_its_blank_line():
    assert finished("one\ntwo\n\n") == ([], "one\ntwo")
    assert finished("one\ntwo\n\nth") == (["one\ntwo"], "th")


def test_an_indented_line_after_a_blank_one_still_belongs_to_the_list():
    assert finished("- a\n\n  more of a\n") == ([], "- a\n\n  more of a")


def test_a_heading_is_finished_at_once_and_ends_a_paragraph():
    assert finished("words\n# Title\n") == (["words", "# Title"], "")


def test_a_fence_is_finished_by_its_closing_and_keeps_blank_lines():
    assert finished("```py\na\n\n\nb\n")[0] == []
    assert finished("```py\na\n\n\nb\n```\n") == (["```py\na\n\n\nb\n```"], "")


@each_row("inner", ["~~~", "``", "```` not closed"])
def test_a_fence_is_not_closed_by_another_mark(inner):
    text = f"````\n{inner}\nx\n````\n" if inner.startswith("~") else f"~~~\n{inner}\nx\n~~~\n"
    assert blocks(text) == [text.strip("\n")]


def test_a_fence_within_a_list_item_does_not_end_the_list():
    text = "- item\n  ```\n  code\n  ```\n- next"
    assert blocks(text) == [text]


def test_a_long_fence_is_cut_into_slices_that_are_fences_themselves():
    code = [f"line {number}" for number in range(3 * MAX_UNFINISHED_LINES)]
    found = blocks("```py\n" + "\n".join(code) + "\n```\n")
    assert len(found) > 2
    assert all(piece.startswith("```py\n") and piece.endswith("\n```") for piece in found)
    assert [line for piece in found for line in piece.split("\n")[1:-1]] == code


def test_a_long_tight_list_is_cut_at_items():
    items = [f"- item {number}" for number in range(200)]
    found = blocks("\n".join(items))
    assert len(found) > 2
    assert "\n".join(found).split("\n") == items


def test_an_inline_pair_of_backticks_opens_no_fence():
    assert blocks("```code``` in a line\n\nnext") == ["```code``` in a line", "next"]


def test_a_new_text_after_the_end_starts_clean():
    stream = MarkdownStream()
    stream.feed("```\nopen")
    stream.end()
    assert [chunk.text for chunk in stream.feed("para\n\nnext")] == ["para"]


HEAD = "| number | name |\n|-------:|------|\n"
ROWS = [f"| {at} | name {at} of the many that there are |\n" for at in range(1000)]


def test_of_a_table_that_is_too_long_for_the_screen_the_end_is_drawn_as_a_table():
    ctx = RenderContext(60, Theme(False, False))
    for count in range(1, 60):
        for text in ("words\n\n" + HEAD + "".join(ROWS[:count]), HEAD + "".join(ROWS[:count])[:-9]):
            drawn = draw_unfinished(text, ctx, fence="", rows=12)
            assert len(drawn) <= 12 and "|" not in "".join(drawn), drawn
            assert f"name {count - 1} of" in drawn[-1] or f"name {count - 2} of" in drawn[-1] or count == 1
    assert draw_unfinished("a | b\n" * 40, ctx, fence="", rows=3) == ["a | b a | b"]  # no table


def test_a_table_is_drawn_without_bars_from_its_first_cell_on():
    text = "words\n\n| number | a \\| b |\n|-------:|------|\n| 1 | name |"
    ctx = RenderContext(60, Theme(False, False))
    for size in range(text.index("|"), len(text)):
        drawn = draw_unfinished(text[:size].strip("\n"), ctx, fence="", rows=12)
        assert "|" not in "".join(drawn).replace("a | b", "").replace("a |", ""), (text[:size], drawn)
    art = "| |\n|o|\n| "
    assert draw_unfinished(art, ctx, fence="", rows=12) == ["| | |o| |"]


@each_row("step", [7, 997, 5000])
def test_a_table_that_is_cut_continues_with_its_head_and_every_row_is_whole(step):
    chunks = blocks("before\n\n" + HEAD + "".join(ROWS) + "\nafter", step)
    tables = chunks[1:-1]
    assert (chunks[0], chunks[-1]) == ("before", "after") and len(tables) > 1
    assert all(f"{table}\n".startswith(HEAD) for table in tables)
    assert "".join(f"{table}\n".removeprefix(HEAD) for table in tables) == "".join(ROWS)
    cut = HEAD + "".join(ROWS[: 12_000 // len(ROWS[-1])])
    assert HEAD.strip() not in blocks(cut + "| 1 | x |\n" * 40 + "\nafter", step)


PIECES = st.sampled_from(
    [
        "word",
        "\n",
        "\n\n",
        "# h\n",
        "- i\n",
        "  x\n",
        "```\n",
        "~~~\n",
        "1. n\n",
        "| a | b |\n",
        "> q\n",
        " ",
        "\r\n",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=30), st.integers(1, 9))
def test_however_it_is_cut_into_deltas_the_blocks_are_the_same_and_no_word_is_lost(pieces, step):
    text = "".join(pieces)
    assert blocks(text, step) == blocks(text, max(len(text), 1))
    kept = "\n".join(blocks(text))
    for word in ("word", "# h", "- i", "1. n", "> q"):
        assert kept.count(word) == text.replace("\r\n", "\n").count(word)
