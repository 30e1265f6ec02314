"""What goes to the terminal: finished text once, the live part in its place, nothing ever cleared."""

import re

import pytest

from .person import Person


@pytest.fixture
def person(tmp_path):
    with Person(tmp_path) as someone:
        yield someone.ready()


def test_a_long_session_never_clears_and_emits_finished_text_once(person):
    for number in range(12):
        person.type(f"paragraphs 40;bash number {number};say end {number}\r").sees(f"\nend {number}\n")
        person.misses("Ctrl-C to interrupt")
    raw = bytes(person.raw)
    for forbidden in (b"\x1b[2J", b"\x1b[3J", b"\x1b[?1049h", b"\x1b[?47h", b"\x1bc", b"\x1b[?1000h"):
        assert forbidden not in raw
    assert raw.count(b"\x1b[?2026h") == raw.count(b"\x1b[?2026l")
    lines = person.everything.split("\n")
    for number in range(12):
        assert sum(line == f"● bash  number {number}" for line in lines) == 1
        assert sum(line == f"end {number}" for line in lines) == 1
    assert sum("Paragraph 39 stands here" in line for line in lines) == 12


def test_each_frame_moves_within_the_screen_only(person):
    person.type("lines 300;markdown;bash x\r").sees("● bash  x")
    ups = [int(up or 1) for up in re.findall(rb"\x1b\[(\d*)A", bytes(person.raw))]
    assert max(ups) < 24
    assert [f"• line {number} of the list" for number in range(300)] == [
        line.strip() for line in person.everything.split("\n") if line.strip().startswith("• line")
    ]


def test_streamed_blocks_are_printed_when_complete_and_the_tail_is_live(person):
    person.type("stream one para;stream graph\\n\\nnext;wait\r").sees("Ctrl-C to interrupt")
    person.sees("one paragraph").open().misses("Ctrl-C to interrupt")


def test_streamed_markdown_ends_as_if_it_had_come_whole(tmp_path):
    with Person(tmp_path, (80, 60)) as person:
        person.ready().type("markdown\r").sees("The end.").misses("Ctrl-C to interrupt")
        streamed = person.text.partition("❯ markdown")[2].partition("────────────────────────────\n❯")[0]
        person.type("/markdown\r").sees("❯ /markdown")
        person.until(lambda: person.text.count("The end.") == 2)
        whole = person.text.partition("❯ /markdown")[2].partition("────────────────────────────\n❯")[0]
    assert [line for line in streamed.split("\n") if "───" not in line or "system" in line] == [
        line for line in whole.split("\n") if "───" not in line or "system" in line
    ]


@pytest.mark.parametrize("size", [(40, 10), (20, 5), (120, 40)])
def test_the_input_and_the_status_line_always_have_their_place(tmp_path, size):
    with Person(tmp_path, size) as person:
        person.sees("❯", "23%").type("lines 50;stream " + "words " * 200 + ";run\r").sees("23% of 200k")
        person.type("typing").sees("❯ typing")
        rows = person.text.split("\n")
        assert len(rows) <= size[1]
        assert "23%" in rows[-1]


def test_resizing_while_text_streams_keeps_finished_lines_unique(tmp_path):
    with Person(tmp_path, TERM="linux") as person:  # pyte does not reflow, like the console
        person.ready().type("paragraphs 30;run a;paragraphs 30;run b\r").sees("compiling").type("draft")
        for columns, rows in ((60, 24), (120, 30), (50, 12), (30, 5), (100, 30)):
            person.resize(columns, rows).sees("draft")
        person.sees("Ctrl-C to interrupt").open("a").open("b").misses("Ctrl-C to interrupt").sees("❯ draft")
        assert person.text.count("❯ draft") == 1
        assert person.text.count("23% of 200k") == 1


def test_control_characters_of_the_outside_reach_the_screen_as_pictures(person):
    payload = r"\x1b[2Jcleared \x1b]0\x3btitle\x07 \u202eevil \x9b31m \x08\x08"
    person.type(f"output {payload};raw {payload}\\n\\nnext\r").sees(
        "␛[2Jcleared", "<U+202E>evil", "<U+009B>31m"
    )
    person.misses("Ctrl-C to interrupt")
    raw = bytes(person.raw)
    assert b"\x1b[2J" not in raw
    assert b"\x1b]0;" not in raw
    assert "\u202e".encode() not in raw
    assert b"\xc2\x9b" not in raw


def test_square_brackets_and_html_are_literal(person):
    person.type("raw [bold]not markup[/bold] <div>tag</div>\\n\\nx;output [red]x[/red];notice [b]n[/b]\r")
    person.sees("[bold]not markup[/bold] <div>tag</div>", "[red]x[/red]", "[b]n[/b]")


def test_thinking_retries_losses_and_room_are_told(person):
    person.type("think step by step;say so;compact;lost;critical\r").sees(
        "Thought for", "[auto compact] 180k -> 42k"
    )
    person.sees("stream broke (connection reset)", "94% of 200k CRITICAL")


def test_a_fault_in_the_driver_is_told_and_the_session_goes_on(person):
    person.type("boom\r").sees("RuntimeError: boom in the driver").type("say still here\r").sees(
        "\nstill here"
    )


def test_a_turn_that_a_command_began_is_echoed_once(person):
    person.type("/init\r").sees("❯ /init", "❯ say initialised", "\ninitialised")
    assert person.text.count("❯ say initialised") == 1
    person.type("/exit\r").ends()
    assert "Go on with: makeroom --resume s42" in person.text


def test_an_idle_prompt_writes_nothing(person):
    person.type("say done\r").sees("\ndone").misses("Ctrl-C to interrupt")
    person.type("x").sees("❯ x")
    person.until(lambda: not person._wait_quiet(0.3), "quiet")
    before = len(person.raw)
    assert not person._wait_quiet(1.2)
    assert len(person.raw) == before


def test_no_colour_is_sent_when_none_is_wanted(tmp_path):
    with Person(tmp_path, NO_COLOR="1") as person:
        person.ready().type("bash x;edit;markdown\r").sees("The end.").type("/context\r").sees("Context  39k")
        codes = {
            code for group in re.findall(rb"\x1b\[([\d;]*)m", bytes(person.raw)) for code in group.split(b";")
        }
    assert codes <= {b"", b"0", b"1", b"2", b"3", b"4", b"7", b"9", b"22", b"23", b"24"}


def test_elapsed_time_is_drawn_at_most_ten_times_a_second(person):
    person.type("run\r").sees("running, 1 s")
    start = bytes(person.raw).count(b"\x1b[?2026h")
    person.sees("running, 3 s")
    assert bytes(person.raw).count(b"\x1b[?2026h") - start <= 2 * 2 * 10 + 10  # two seconds, and some slack


def test_what_is_copied_reaches_the_terminal_as_one_sequence_and_is_told(person):
    person.type("/copy\r").sees("gave 4 characters", "❯ /copy")
    assert b"\x1b]52;c;YmzDvG0=\x07" in person.raw
