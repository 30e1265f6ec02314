"""Invisible characters that are ordinary at their place, and those that can hide text."""

from __future__ import annotations

import re

from tests.tables import each_row
from transcripts.invisible import INVISIBLE, is_harmless


@each_row(
    ("text", "harmless"),
    [
        ("\u8fbb\U000e0100", True),  # an ideograph with a variant
        ("\u3007\U000e0101 \U00020000\U000e0102", True),
        ("a\U000e0100", False),
        ("\u8fbb\U000e0130", False),  # no ideograph has so many variants
        ("\u8fbb\U000e0100\U000e0101", False),  # a run
        ("\u2764\ufe0f", True),  # an emoji in colour
        ("1\ufe0f\u20e3", True),  # a keycap
        ("1\ufe0f", False),
        ("\U0001f469\u200d\U0001f4bb", True),  # an emoji of two
        ("\u0645\u06cc\u200c\u062e", True),  # within a Persian word
        ("word\u200cs", False),
        ("\u1820\u180b", True),  # a Mongolian letter
        ("\U0001f3f4" + "".join(chr(0xE0000 + ord(char)) for char in "gbsct\x7f"), True),
        ("\U0001f3f4" + "".join(chr(0xE0000 + ord(char)) for char in "abc"), False),
        ("a\u202eb", False),
    ],
)
def test_a_character_is_ordinary_by_its_place(text: str, harmless: bool) -> None:
    found = [is_harmless(each) for each in re.finditer(f"[{INVISIBLE}]", text)]
    assert found and all(found) == harmless, found
