"""Text is shortened, plain or escaped, and says so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tools.truncate import escaped, printable, truncate, unseen


def test_short_text_is_left_alone():
    clipped = truncate("a\nb\n")
    assert (clipped.text, clipped.omitted_chars, clipped.omitted_lines) == ("a\nb\n", 0, 0)


def test_long_text_keeps_its_head_and_its_tail_and_counts_the_rest():
    text = "".join(f"line {n}\n" for n in range(10_000))
    clipped = truncate(text)
    assert clipped.text.startswith("line 0\n") and clipped.text.endswith("line 9999\n")
    assert len(clipped.text) < 30_100
    gap = next(line for line in clipped.text.splitlines() if line.startswith("[..."))
    assert f"{clipped.omitted_chars:,} characters" in gap and f"{clipped.omitted_lines:,} lines" in gap
    kept = clipped.text.replace(gap + "\n", "")
    assert len(kept) + clipped.omitted_chars == len(text)
    assert kept.count("\n") + clipped.omitted_lines == 10_000


@given(st.text(alphabet="ab\n", max_size=300), st.integers(0, 40), st.integers(0, 40))
def test_what_is_clipped_and_what_is_left_add_up(text, head, tail):
    clipped = truncate(text, head, tail)
    if clipped.omitted_chars == 0:
        assert clipped.text == text
        return
    before, after = clipped.text.split("[... ")
    after = after.partition("]\n")[2]
    if len(before) > head or not text.startswith(before):
        before = before[:-1]  # the newline that was put before the gap
    assert text.startswith(before) and text.endswith(after)
    assert len(before) <= head and len(after) <= tail
    assert len(before) + clipped.omitted_chars + len(after) == len(text)


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


def test_hidden_characters_are_removed_and_counted():
    text = "ab\U000e0041\u202ec\u200bd"
    assert printable(text) == "abcd"
    assert unseen(text) == 3
    assert unseen("plain") == 0
    assert unseen("⚠\ufe0f 👩\u200d🚀") == 0
    assert unseen("x\ufe01\ufe02") >= 2


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
    assert unseen(plain) == 0
    assert not any(ord(char) < 0x20 and char not in "\n\t" for char in plain)
