"""Shorten text that is too long for the model or the screen. Pure."""

from __future__ import annotations

from collections.abc import Mapping

NO_OUTPUT = "[no output]"  # for the model, of a command that printed nothing
_UNCUT_CHARS = 30_000  # of an output that is shown completely, as in Claude Code
_MOST_UNCUT_CHARS = 150_000
_HEAD_SHARE = 2 / 15
_TAIL_SHARE = 5 / 6  # of a longer one; with the notes it stays below that number
_MAX_FOUND_CHARS = 500  # of a line of a search result; a longer one is cut around the match
_FOUND_LEAD_CHARS = 100  # shown before the match


def shown_chars(environ: Mapping[str, str]) -> tuple[int, tuple[int, int]]:
    """Return the maximum length of an uncut output, and the lengths of both ends of a longer one."""
    wanted = environ.get("BASH_MAX_OUTPUT_LENGTH", "").strip()
    uncut = min(int(wanted), _MOST_UNCUT_CHARS) if wanted.isascii() and wanted.isdigit() else _UNCUT_CHARS
    return uncut, (int(uncut * _HEAD_SHARE), max(1, int(uncut * _TAIL_SHARE)))


def cut_at_lines(head: str, tail: str) -> tuple[str, str]:
    """Return the beginning and the end of a text, cut to whole lines if that costs at most a quarter."""
    at = head.rfind("\n")
    if at >= len(head) * 3 // 4:
        head = head[:at]
    at = tail.find("\n")
    if 0 <= at <= len(tail) // 4:
        tail = tail[at + 1 :]
    return head, tail


def cut_around(line: str, start: int) -> str:
    """Cut a long line around the text at `start`, with the numbers of characters that are left out."""
    if len(line) <= _MAX_FOUND_CHARS:
        return line
    first = start - _FOUND_LEAD_CHARS if start > _MAX_FOUND_CHARS - _FOUND_LEAD_CHARS else 0
    last = first + _MAX_FOUND_CHARS
    after = f"…[+{len(line) - last:,} chars]" if last < len(line) else ""
    return f"{f'[{first:,} chars]…' if first else ''}{line[first:last]}{after}"


def last_lines(text: str, most: int) -> str:
    """Return the whole lines within the last `most` characters; without any, the end of one after `…`."""
    if len(text) <= most:
        return text
    cut = text[-most:]
    begin = cut.find("\n") + 1
    return cut[begin:].lstrip("\n") if 0 < begin < len(cut) else f"…{cut}"
