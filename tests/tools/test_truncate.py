"""Text is cut at line ends, made plain for the model, or escaped for the screen."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agent.ui.terminal_text import escape_prose, escape_strict
from tests.sampling import UNICODE
from tests.tables import each_row
from tools.text.display import count_invisible, escaped, printable, without_tags
from tools.text.shortening import cut_at_lines
from transcripts.invisible import INVISIBLE, JOINERS


def test_a_cut_is_moved_to_a_line_end_where_that_costs_little():
    assert cut_at_lines("one\ntwo\nth", "ee\nfour\nfive") == ("one\ntwo", "four\nfive")
    assert cut_at_lines("one\nlonger line", "longer line\nend") == ("one\nlonger line", "longer line\nend")
    assert cut_at_lines("abc\n", "\nabc") == ("abc", "abc")
    assert cut_at_lines("abcd\nefg", "") == ("abcd\nefg", "")
    assert cut_at_lines("", "") == ("", "")
    assert cut_at_lines("", "ab\nabcde") == ("", "abcde"), "a quarter of it"
    assert cut_at_lines("", "abc\nabcd") == ("", "abc\nabcd")


@given(st.text(alphabet="ab\n", max_size=40), st.text(alphabet="ab\n", max_size=40))
def test_a_cut_takes_at_most_a_quarter_and_only_at_line_ends(head: str, tail: str):
    first, last = cut_at_lines(head, tail)
    assert head.startswith(first) and tail.endswith(last)
    assert first == head or (head[len(first)] == "\n" and len(first) >= len(head) * 3 // 4)
    before = tail[: len(tail) - len(last)]
    assert last == tail or (
        before[-1] == "\n" and "\n" not in before[:-1] and len(before) <= len(tail) // 4 + 1
    )


def test_control_sequences_are_stripped_for_the_model():
    noisy = "\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07clip \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ "
    noisy += "\x1bPq#0\x1b\\dcs\a \x9b1mc1"
    assert printable(noisy) == "red clip link dcs c1"


def test_a_sequence_that_never_closes_eats_no_other_line():
    assert printable("a\x1b]0;title\nb\x1bPxx\nc") == "a\nb\nc"


def test_progress_bars_are_left_in_their_final_state():
    assert printable("10%\r50%\r100%\ndone\r\n") == "100%\ndone\n"
    assert printable("downloading\rok") == "okwnloading"
    assert printable("downloading\r\x1b[Kok") == "ok"
    assert printable("half\r") == "half"


def test_a_failure_that_was_redrawn_is_kept_once_above_the_final_state():
    drawn = "a: ok\rb: FAILED (3)\rc: ok\rdone          \nnext"
    assert printable(drawn) == "b: FAILED (3)\ndone          \nnext"
    assert printable("".join(f"ran {n}, {n // 9} failed\r" for n in range(50))) == "ran 49, 5 failed"
    assert printable("ran 8, 2 errors\rran 9, 0 errors, done") == "ran 8, 2 errors\nran 9, 0 errors, done"
    assert printable("1 of 9, 0 failed\rready           ") == "ready           "


def test_backspaces_take_back():
    assert printable("B\bBo\bol\bld") == "Bold"
    assert printable("\bfirst\n\bsecond") == "first\nsecond", "but no line end, and not what is not there"


def test_hidden_characters_are_removed_and_counted():
    text = "ab\U000e0041\u202ec\u200bd"
    assert printable(text) == "abcd"
    assert count_invisible(text) == 3
    assert count_invisible("plain") == 0
    assert count_invisible("x\ufe01\ufe02") == 2


FLAG = "🏴" + "".join(chr(0xE0000 + ord(char)) for char in "gbeng\x7f")
EVERYDAY = [
    "⚠\ufe0f deprecated ✔\ufe0f ok ❤\ufe0e 1\ufe0f\u20e3 #\ufe0f\u20e3 ©\ufe0f",
    "🏳\ufe0f\u200d🌈 👨\u200d👩\u200d👧 👩🏽\u200d💻 ❤\ufe0f\u200d🔥 🏴\u200d☠\ufe0f 👁\ufe0f\u200d🗨\ufe0f",
    "می\u200cخواهم PDF\u200cها ۵۰\u200cها",
    "ක\u0dca\u200dෂ ന\u0d4d\u200d, क\u094d\u200cष",
    "ᠠ\u180b",
    "葛\U000e0100城 辻\U000e0101",
    f"{FLAG}{FLAG}!",
]
SMUGGLED = [  # (text, what is left of it)
    ("⚠" + "".join(chr(0xFE00 + at) for at in (6, 8, 15, 14)) + "x", "⚠x"),
    ("👍" + "".join(chr(0xE0100 + ord(char) - 16) for char in "obey") + "!", "👍!"),
    ("".join("葛" + chr(0xE0100 + ord(char) - 16) for char in "obey"), "葛葛葛葛"),
    ("葛\U000e0100\U000e0101", "葛"),
    ("".join("x" + selector for selector in "\ufe0e\ufe0f\ufe0f\ufe0e"), "xxxx"),
    ("".join("ж" + selector for selector in "\ufe0e\ufe0f\ufe0f\ufe0e"), "жжжж"),
    ("".join("x" + joiner for joiner in "\u200c\u200d\u200c\u200d"), "xxxx"),
    ("م\u200c\u200d\u200cم 👩\u200d\u200d👩", "مم 👩👩"),
    ("⚠\ufe0f\u200b\u200c 1\ufe0f \u200d\ufe0f", "⚠ 1 "),
    ("❤\ufe0f\u200dx", "❤x"),
    (FLAG[:-1] + "ж" + FLAG[1:], "🏴ж"),
    (FLAG + FLAG[1:], FLAG),
    ("שלום\u200f\u202e", "שלום"),
]


@each_row("text", EVERYDAY)
def test_joiners_and_selectors_stay_where_writing_has_them(text: str):
    assert printable(text) == without_tags(text) == text and count_invisible(text) == 0
    assert escape_strict(text) == escape_prose(text) == escaped(text) == text


@each_row(("text", "left"), SMUGGLED)
def test_what_hides_text_is_taken_out_of_the_models_text_and_spelled_out_on_the_screen(text: str, left: str):
    assert printable(text) == left
    hidden = count_invisible(text)
    assert hidden == len(text) - len(left) >= 1
    assert escape_strict(text).count("<U+") == hidden == escaped(text).count("U+")


def test_the_screen_shows_what_a_terminal_would_obey():
    assert escaped("a\x1b[2Jb\u202e\x9b\x7f\n\t") == "a␛[2JbU+202EU+009B␡\n\t"
    assert escaped("two\nlines", keep="") == "two␊lines"


@given(st.text(UNICODE))
def test_nothing_unsafe_is_left_on_the_screen(text):
    shown = escaped(text)
    assert shown == escaped(shown)
    assert all(char in "\n\t" or (ord(char) >= 0x20 and not 0x7F <= ord(char) <= 0x9F) for char in shown)


@given(st.text(UNICODE))
def test_printable_text_holds_no_control_and_no_hidden_characters(text):
    check_is_plain(printable(text))


PIECES = [*"a1 ⚠葛مᠠ👩\x00\r\x1b\u200b\u200c\u200d\ufe0e\ufe0f\u20e3\U000e0100", *FLAG]


@given(st.lists(st.sampled_from(PIECES)))
def test_printable_text_holds_no_two_joiners_one_after_the_other(pieces):
    plain = printable("".join(pieces))
    check_is_plain(plain)
    assert not re.search("[\u200b\u200c\u200d\ufe0e\U000e0100]{2}|\ufe0f{2}", plain)


def check_is_plain(plain: str) -> None:
    assert count_invisible(plain) == 0
    assert not any(ord(char) < 0x20 and char not in "\n\t" for char in plain)


def test_one_table_says_what_cannot_be_seen():
    """Of the model's text it is removed; on the screen it is spelled out, except joiners in prose."""
    invisible = re.findall(f"[{INVISIBLE}]", "".join(map(chr, range(0x110000))))
    joiners = [char for char in invisible if re.match(f"[{JOINERS}]", char)]
    assert len(joiners) == 10 and len(invisible) > 4_000
    for char in invisible:
        assert printable(f"a{char}b") == "ab"
        assert escape_strict(char) == f"<U+{ord(char):04X}>" and escaped(char) == f"U+{ord(char):04X}"
        assert escape_prose(char) == (char if char in joiners else escape_strict(char))
        assert count_invisible(char) == 1, "alone"


def test_visible_format_characters_stay_in_the_text_of_the_model():
    assert printable("\u0600 \u06dd") == "\u0600 \u06dd"
    assert escape_strict("\u06dd") == "<U+06DD>"


def test_only_tags_are_taken_out_where_the_rest_has_a_meaning():
    assert without_tags("a\U000e0041\u202eb\u200d") == "a\u202eb\u200d"
