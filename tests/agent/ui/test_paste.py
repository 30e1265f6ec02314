"""Pastes of any size and shape arrive as they are, and send nothing by themselves."""

import ast

import pytest

from agent.ui.paste_chips import PasteChips

from .person import Person

START, END = b"\x1b[200~", b"\x1b[201~"


@pytest.fixture
def person(tmp_path):
    with Person(tmp_path) as someone:
        yield someone.ready()


def sent(person):
    """Send what is written; returns the prompt as the driver got it."""
    person.type("\r").logged("prompt ")
    person.until(lambda: "\n" in person.log)
    return ast.literal_eval(person.log.partition("prompt ")[2].split("\n")[0])


def test_a_small_paste_is_inserted_and_not_sent(person):
    person.type(START + b"two\r\nlines\tand a tab" + END).sees("❯ two\n  lines")
    assert person.log == ""
    assert sent(person) == "two\nlines\tand a tab"


def test_a_big_paste_is_a_chip_that_expands_to_the_same_text(person):
    text = "".join(f"line {number} é日本 \x00 👨\u200d👩\u200d👧\n" for number in range(200))
    person.type("see ").type(START + text.encode() + END).sees("❯ see [paste 1: 201 lines]").type(" ok")
    assert sent(person) == f"see {text} ok"
    person.until(lambda: "❯ see [paste 1: 201 lines] ok" in person.everything, "the chip in the scrollback")


def test_backspace_removes_a_whole_chip(person):
    person.type(START + b"x\n" * 50 + END).sees("[paste 1").type("\x7fshort").sees("❯ short").misses("[paste")
    assert sent(person) == "short"


def test_two_chips_keep_their_texts_and_order(person):
    first, second = b"a\n" * 20, b"b" * 3000
    person.type(START + first + END).type(" then ").type(START + second + END)
    person.sees("[paste 1: 21 lines] then [paste 2: 3,000 characters]")
    assert sent(person) == f"{first.decode()} then {second.decode()}"


def test_five_megabytes_arrive_whole(person):
    text = ("0123456789abcdef" * 4 + "\n") * (5 * 1024 * 1024 // 65)
    person.type(START + text.encode() + END).sees("[paste 1:")
    assert sent(person) == text


def test_a_paste_without_its_end_does_not_freeze_the_keyboard(person):
    person.type(START + b"lost end").sees("❯ lost end").type("!").sees("❯ lost end!")


def test_marks_and_characters_cut_by_reads_are_put_together(person):
    for piece in (b"\x1b[20", b"0~caf", b"\xc3", b"\xa9\xf0\x9f", b"\x99\x82\x1b[2", b"01~", b"after"):
        person.type(piece)
        person.until(lambda: True)
    person.sees("❯ café🙂after")


def test_a_paste_that_looks_like_a_command_or_keys_is_text(person):
    person.type(START + b"/exit\r\x03\x04" + END).sees("❯ /exit")
    assert sent(person) == "/exit\n\x03\x04"


def test_invalid_bytes_do_not_break_the_prompt(person):
    person.type(START + b"bad \xff\xfe bytes" + END).sees("bad").type("\r").logged("prompt 'bad")


def test_chips_in_memory_expand_byte_for_byte():
    chips = PasteChips()
    texts = ["x\n" * 9, "y" * 1001, "\u202e\x1b" * 600]
    whole = "".join(f"[{chips.paste(text)}]" for text in texts)
    assert len(whole) == 9
    assert chips.expand(whole) == "".join(f"[{text}]" for text in texts)
    assert chips.labelled(whole).count("[paste") == 3


def test_line_ends_of_every_kind_become_newlines_once():
    chips = PasteChips()
    assert chips.paste("a\r\nb\rc\nd") == "a\nb\nc\nd"
