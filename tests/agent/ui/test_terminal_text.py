"""Characters that a terminal would obey, hide or reorder are shown by name, and text is cut by cells."""

import sys
import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.ui.terminal_text import (
    cell_width,
    clip,
    clip_painted,
    escape_output,
    escape_prose,
    escape_strict,
    longest_end,
    one_line,
    wrap,
)
from tests.tables import each_row

from .text_samples import CHARACTERS

PAYLOADS = [
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x1b]52;c;aGk=\x07",
    "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[?1049h",
    "\x1bc",
    "\x1b[31m",
    "\x1bP+q\x1b\\",
    "\x9b2J",
    "\x9d0;x\x9c",
    "\x90q\x9c",
    "a\rb",
    "a\bb",
    "a\x7fb",
    "\x00",
    "\x07",
    "\x0e",
    "\x0f",
    "\x05",
    "\x0b",
    "\x0c",
    "\u202eevil",
    "\u2066a\u2069",
    "\u200bx",
    "\ufeffx",
    "\u2060",
    "\u00ad",
    "\u061c",
    "\u180e",
    "\u3164",
    "\u115f",
    "\uffa0",
    "\U000e0041",
    "\U000e0101",
    "\ufe01",
    "\ud800",
    "\udcff",
    "\ufffe",
    "\u2028",
    "\u2029",
    "\x85",
    "\u206a",
    "\U0001d173",
]


@each_row("payload", PAYLOADS)
@each_row("escape", [escape_strict, escape_prose])
def test_no_payload_reaches_the_terminal(payload, escape):
    shown = escape(payload)
    assert shown != payload
    assert "\x1b" not in shown
    shown.encode("utf-8")
    assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)


def test_every_format_character_that_python_knows_is_spelled_out():
    missed = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cf", "Cs", "Cc", "Zl", "Zp")
        and chr(code) not in "\n\t"
        and escape_strict(chr(code)) == chr(code)
    ]
    assert missed == []


def test_plain_text_of_all_scripts_is_left_alone():
    text = "naïve 日本語 עברית العربية e\u0301 [bold]x[/] `~ \t\n 🙂"
    assert escape_strict(text) == text


def test_prose_keeps_the_joiners_that_emoji_and_persian_need():
    family, persian = "👨\u200d👩\u200d👧", "می\u200cخواهم"
    assert escape_prose(family + persian) == family + persian
    assert escape_strict(family + persian) == family + persian
    assert escape_prose("a\u200db") == "a\u200db" and escape_strict("a\u200db") == "a<U+200D>b"


def test_escapes_are_shown_as_pictures_and_names():
    assert escape_strict("\x1b[0m\u202e\x7f\x9b") == "␛[0m<U+202E>␡<U+009B>"


def test_output_has_plain_line_ends_and_shows_a_lone_return():
    assert escape_output("a\r\nb\rc") == "a\nb␍c"
    assert escape_output("\tx") == " " * 8 + "x" and escape_output("\tx", 4) == "    x"
    assert escape_output("12.0K\ta\n日本\tb\n\u202e\tc\t") == "12.0K   a\n日本    b\n<U+202E>        c       "


def test_one_line_is_one_line():
    assert one_line(" a\nb\tc \n") == "a ⏎ b c"


@settings(max_examples=60, deadline=None)
@given(st.text(CHARACTERS, max_size=200), st.integers(1, 60))
def test_any_text_wraps_within_any_width_and_loses_nothing_but_spaces(text, columns):
    safe = "".join(char for char in text if char.isprintable())
    lines = wrap(safe, columns)
    assert all(cell_width(line) <= max(columns, 2) for line in lines)
    assert "".join(lines).replace(" ", "") == safe.replace(" ", "")


def test_clip_never_cuts_into_a_wide_character():
    assert clip("日本語", 4) == "日…"
    assert clip("abc", 3) == "abc"
    assert clip("abcd", 1) == "…"
    assert clip("abcd", 0) == ""


def test_an_emoji_of_several_characters_is_not_torn():
    family = "👨\u200d👩\u200d👧"
    assert cell_width(family) == 6 and clip(f"{family}{family}", 8) == f"{family}…"
    assert longest_end(f"{family}{family}", 7) == family
    assert wrap(f"a {family}{family}", 8) == ["a", family, family]
    assert clip_painted(f"\x1b[1m{family}🇩🇪🇯🇵\x1b[0m", 10) == f"\x1b[1m{family}…\x1b[m"
