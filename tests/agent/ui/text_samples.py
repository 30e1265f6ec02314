"""Texts that are hard to fit on a screen, and widths that are hard to fit them into."""

import re

from hypothesis import strategies as st
from wcwidth import wcswidth

# All that UTF-8 can encode. What `st.text` draws from is the same, but takes seconds to be found out.
CHARACTERS = st.characters(exclude_categories=["Cs"])
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


def without_sgr(text):
    """The text without codes that only colour it; any other escape sequence stays, to be noticed."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def too_wide(text, columns):
    """Return the lines that take more cells than allowed; a single wide character may be in one column."""
    lines = without_sgr(text).split("\n")
    return [line for line in lines if wcswidth(line) > max(columns, 2) or wcswidth(line) < 0]
