"""Translate key sequences of several encodings to those of an unconfigured terminal.

A program that was killed may leave a terminal that sends codes for keys or reports their release.
"""

from __future__ import annotations

import re
import sys

from transcripts.patterns import lazy_pattern

ESCAPE_KEY = "\x1b[27u"  # unlike ESC alone, it does not change the key that follows
# A control sequence (CSI; with the odd ones of the Linux console and old mice) or a key of the keypad in
# application mode (SS3), and the start of such a sequence.
SEQUENCE = lazy_pattern(r"\x1b(?:\[(?:\[.|M...|[0-?]*[ -/]*[@-~])|O[j-yMX])", re.DOTALL)
BEGUN_SEQUENCE = lazy_pattern(r"\x1b(?:O|\[(?:\[|M.{0,2}|[0-?]*[ -/]*))?\Z", re.DOTALL)
_APPLICATION_KEYPAD = dict(zip("jklmnopqrstuvwxyMX", "*+,-./0123456789\r=", strict=True))
# Keys by their codes: CSI-u `code:shifted:base;modifiers:event u`, and xterm's modifyOtherKeys.
_CODED_KEY = lazy_pattern(r"\x1b\[(\d+)(?::(\d*))?(?::(\d+))?(?:;(\d*)(?::(\d))?(?:;[\d:]*)?)?u", re.ASCII)
_OTHER_KEY = lazy_pattern(r"\x1b\[27;(\d+);(\d+)~", re.ASCII)
# An arrow or another named key in kitty's protocol: with an event, or with locks among the modifiers.
_NAMED_KEY = lazy_pattern(r"\x1b\[(\d+);(\d+)(?::(\d))?([A-HPQS~])", re.ASCII)
_SHIFT, _ALT, _CTRL, _SUPER, _HYPER, _META = (1 << bit for bit in range(6))
_RELEASED = "3"  # an event
_CONTROLS = {chr(code + 0x60): chr(code) for code in range(1, 27)}
_CONTROLS |= {" ": "\0", "@": "\0", "[": ESCAPE_KEY, "\\": "\x1c", "]": "\x1d", "^": "\x1e", "_": "\x1f"}
_CONTROLS |= {"/": "\x1f", "-": "\x1f"}
_MOVES = ("[D", "[C", "[A", "[B", "[5~", "[6~", "[H", "[F", "[2~", "[3~")
_KEYPAD = {  # code -> characters
    **dict(enumerate("0123456789./*-+\r=,", 57399)),
    **{code: f"\x1b{move}" for code, move in enumerate(_MOVES, 57417)},
}


def _sent_by_key(code: int, shifted: int, base: int, held: int) -> str:
    """Return the characters a terminal sends for a key if no program enabled key codes; "" if it sends none.

    `code` and `shifted` are the key's characters without and with Shift, `base` its character on a US
    keyboard; 0 means unknown.
    """
    if held & (_SUPER | _HYPER):
        return ""
    alt = "\x1b" if held & (_ALT | _META) else ""
    special = {
        **_KEYPAD,
        0x09: "\x1b[Z" if held & _SHIFT else "\t",
        0x0D: "\n" if held else "\r",
        0x1B: ESCAPE_KEY,
        0x7F: f"{alt}\x7f",
    }
    if code in special:
        return special[code]
    if held & _CTRL:
        char = _CONTROLS.get(chr(base or code).lower(), "")
        return char if char == ESCAPE_KEY else alt * bool(char) + char
    char = chr(shifted or code)
    char = char.upper() if held & _SHIFT and len(char.upper()) == 1 else char
    return alt + char if char.isprintable() else ""


def as_sent(found: re.Match[str]) -> str:
    """Return a sequence as an unconfigured keyboard sends it; "" for a key without a meaning."""
    if found[0].startswith("\x1bO"):
        return _APPLICATION_KEYPAD[found[0][-1]]
    if named := _NAMED_KEY.fullmatch(found[0]):
        first, modifiers, event, final = named.groups()
        held = _held_keys(modifiers)
        if final in "ABFH" or first in ("2", "3", "5", "6"):
            held &= _SHIFT | _CTRL  # with Alt, each would be Esc followed by the key
        if event == _RELEASED:
            return ""
        if held:
            return f"\x1b[{first};{held + 1}{final}"
        return f"\x1b[{first}~" if final == "~" else f"\x1b[{final}"
    if coded := _CODED_KEY.fullmatch(found[0]):
        *codes, modifiers, event = coded.groups()
    elif other := _OTHER_KEY.fullmatch(found[0]):
        codes = [other[2], "", ""]
        modifiers = other[1]
        event = ""
    else:
        return found[0]
    code, shifted, base = (_number(given) for given in codes)
    return "" if event == _RELEASED else _sent_by_key(code, shifted, base, _held_keys(modifiers))


def _number(digits: str | None) -> int:
    """Return the number, 0 for no digits; at most the highest code of a character."""
    return min(int((digits or "0")[:9]), sys.maxunicode)


def _held_keys(modifiers: str | None) -> int:
    """Return the bits of the held modifiers from a parameter that is larger by 1; locks are removed."""
    return max(_number(modifiers) - 1, 0) & 0x3F  # without the bits of the locks
