"""Text is cut at line ends, made plain for the model, or escaped for the screen."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agent.ui.terminal_text import escape_prose, escape_strict
from tools.truncate import INVISIBLE, JOINERS, count_invisible, cut_at_lines, escaped, printable, without_tags


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


def test_backspaces_take_back():
    assert printable("B\bBo\bol\bld") == "Bold"
    assert printable("\bfirst\n\bsecond") == "first\nsecond", "but no line end, and not what is not there"


def test_hidden_characters_are_removed_and_counted():
    text = "ab\U000e0041\u202ec\u200bd"
    assert printable(text) == "abcd"
    assert count_invisible(text) == 3
    assert count_invisible("plain") == 0
    assert count_invisible("⚠\ufe0f 👩\u200d🚀") == 0
    assert count_invisible("x\ufe01\ufe02") >= 2


def test_the_screen_shows_what_a_terminal_would_obey():
    assert escaped("a\x1b[2Jb\u202e\x9b\x7f\n\t") == "a␛[2JbU+202EU+009B␡\n\t"
    assert escaped("two\nlines", keep="") == "two␊lines"


@given(st.text())
def test_nothing_unsafe_is_left_on_the_screen(text):
    shown = escaped(text)
    assert shown == escaped(shown)
    assert all(char in "\n\t" or (ord(char) >= 0x20 and not 0x7F <= ord(char) <= 0x9F) for char in shown)


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_printable_text_holds_no_control_and_no_hidden_characters(text):
    plain = printable(text)
    assert count_invisible(plain) == 0
    assert not any(ord(char) < 0x20 and char not in "\n\t" for char in plain)


def test_one_table_says_what_cannot_be_seen():
    """Of the model's text it is removed; on the screen it is spelled out, but for joiners in prose."""
    invisible = re.findall(f"[{INVISIBLE}]", "".join(map(chr, range(0x110000))))
    joiners = [char for char in invisible if re.match(f"[{JOINERS}]", char)]
    assert len(joiners) == 10 and len(invisible) > 4_000
    for char in invisible:
        assert printable(f"a{char}b") == "ab"
        assert escape_strict(char) == f"<U+{ord(char):04X}>" and escaped(char) == f"U+{ord(char):04X}"
        assert escape_prose(char) == (char if char in joiners else escape_strict(char))
        assert count_invisible(char) == (char not in "\u200d\ufe0e\ufe0f")


def test_visible_format_characters_stay_in_the_text_of_the_model():
    assert printable("\u0600 \u06dd") == "\u0600 \u06dd"
    assert escape_strict("\u06dd") == "<U+06DD>"


def test_only_tags_are_taken_out_where_the_rest_has_a_meaning():
    assert without_tags("a\U000e0041\u202eb\u200d") == "a\u202eb\u200d"
