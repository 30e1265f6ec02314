"""Make text safe for a terminal: what would steer it, hide in it or reorder it is shown by name.

`strict` is for whatever a person judges by (commands, diffs, paths, the output of tools): every control,
format and invisible character is spelled out. `gentle` is for prose of the model: joiners that scripts
and emoji need stay. Both keep newlines and tabs.
"""

from __future__ import annotations

import re

# Control characters but \t and \n; U+2028/9; surrogates and noncharacters.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
# Category Cf of Unicode 16 (tests compare it with unicodedata), but for the joiners and marks below.
_FORMATS = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
# Letters and marks that show nothing: fillers, and variation selectors (text is smuggled in them).
_INVISIBLE = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe00-\ufe0d"
_JOINERS = "\u200c-\u200f\ufe0e\ufe0f"

_STRICT = re.compile(f"[{_CONTROLS}{_FORMATS}{_INVISIBLE}{_JOINERS}]")
_GENTLE = re.compile(f"[{_CONTROLS}{_FORMATS}{_INVISIBLE}]")


def strict(text: str) -> str:
    """The text with everything that is not plainly visible spelled out: `␛`, `<U+202E>`."""
    return _STRICT.sub(_spell, text)


def gentle(text: str) -> str:
    """Like `strict`, but zero-width joiners, direction marks and emoji selectors stay."""
    return _GENTLE.sub(_spell, text)


def one_line(text: str) -> str:
    """`strict`, on one line: newlines are shown as `⏎`, tabs as a space."""
    return strict(text.strip().replace("\r\n", "\n")).replace("\n", " ⏎ ").replace("\t", " ")


def output(text: str) -> str:
    """The output of a command: `strict`, with its line ends made plain and tabs as spaces."""
    return strict(text.replace("\r\n", "\n")).expandtabs(4)


def _spell(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"
