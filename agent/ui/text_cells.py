"""Measure, cut and wrap text by the cells it takes on a terminal; only `fit` and `bare` know of SGR codes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prompt_toolkit.utils import get_cwidth

_WIDE = "\ufe0f"
_SGR = re.compile(r"(\x1b\[[0-9;]*m)")


def bare(line: str) -> str:
    """The line without its SGR codes."""
    return _SGR.sub("", line) if "\x1b" in line else line


def fit(line: str, room: int) -> str:
    """A painted line, cut to `room` cells with its codes closed."""
    if width(bare(line)) <= room:
        return line
    kept, left = "", room - 1
    for piece in _SGR.split(line):
        if piece.startswith("\x1b"):
            kept += piece
        elif width(piece) > left:
            return f"{kept}{_head(piece, left) if left > 0 else ''}…\x1b[0m" if room > 0 else ""
        else:
            kept, left = kept + piece, left - width(piece)
    return kept


def width(text: str) -> int:
    """Cells of a text without control characters, rather too many than too few.

    Joined emoji count for all their parts, and the selector that may make a character wide for one.
    """
    return len(text) if text.isascii() else get_cwidth(text) + text.count(_WIDE)


def clip(text: str, room: int) -> str:
    """The text if it fits into `room` cells, else its start and `…`."""
    if width(text) <= room:
        return text
    if room <= 0:
        return ""
    return f"{_head(text, room - 1)}…"


def clip_start(text: str, room: int) -> str:
    """The text if it fits into `room` cells, else `…` and its end."""
    if width(text) <= room:
        return text
    cut = max(len(text) - max(room, 0), 0)
    while width(text[cut:]) > room - 1 and cut < len(text):
        cut += 1
    return f"…{text[cut:]}" if room > 0 else ""


def wrap(text: str, room: int) -> list[str]:
    """Lines of at most `room` cells, broken at spaces where that is possible. Tabs count as four."""
    lines: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        lines.extend(_wrap_line(line, max(room, 2)))
    return lines


def tail(text: str, room: int, rows: int) -> list[str]:
    """The last `rows` wrapped lines of a text; looks only at the end of a long one."""
    reach = text[-(room * rows * 2 + 200) :]
    return wrap(reach.rstrip("\n"), room)[-rows:] if rows > 0 else []


def _wrap_line(line: str, room: int) -> Iterator[str]:
    while width(line) > room:
        head = _head(line, room) or line[:1]
        cut = head.rfind(" ")
        if line[len(head) : len(head) + 1] == " ":
            cut = len(head)
        if cut <= 0 or not head[:cut].strip():
            yield head
            line = line[len(head) :]
        else:
            yield line[:cut]
            line = line[cut + 1 :]
    yield line


def _head(text: str, room: int) -> str:
    """The longest start of the text that fits, never cut before a combining character."""
    if text.isascii():
        return text[:room]
    used = 0
    for index, char in enumerate(text):
        used += 1 if char == _WIDE else get_cwidth(char)
        if used > room:
            return text[:index]
    return text
