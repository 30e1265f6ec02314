"""What a terminal would obey, hide or reorder is shown by name."""

import sys
import unicodedata

import pytest

from agent.ui.escape import gentle, one_line, output, strict

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


@pytest.mark.parametrize("payload", PAYLOADS, ids=ascii)
@pytest.mark.parametrize("escape", [strict, gentle])
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
        and strict(chr(code)) == chr(code)
    ]
    assert missed == []


def test_plain_text_of_all_scripts_is_left_alone():
    text = "naïve 日本語 עברית العربية e\u0301 [bold]x[/] `~ \t\n 🙂"
    assert strict(text) == text


def test_prose_keeps_the_joiners_that_emoji_and_persian_need():
    family, persian = "👨\u200d👩\u200d👧", "می\u200cخواهم"
    assert gentle(family + persian) == family + persian
    assert "U+200D" in strict(family)


def test_escapes_are_shown_as_pictures_and_names():
    assert strict("\x1b[0m\u202e\x7f\x9b") == "␛[0m<U+202E>␡<U+009B>"


def test_output_has_plain_line_ends_and_shows_a_lone_return():
    assert output("a\r\nb\rc") == "a\nb␍c"
    assert output("\tx") == "    x"


def test_one_line_is_one_line():
    assert one_line(" a\nb\tc \n") == "a ⏎ b c"
