"""Turn one frame of the live part of the screen into the next, with few bytes.

The terminal moves rows that moved, by inserting and deleting lines; of a changed row only the part that
differs is written. The position of the frame on the screen is unknown: all cursor movements are relative.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from operator import eq
from typing import Literal, NamedTuple

from msgspec import Struct

from transcripts.patterns import lazy_pattern

from .terminal_text import painted_width

# The cursor's column after a text depends on the widths that the terminal gives its characters. Terminals
# agree on these: Latin, Greek, Cyrillic, punctuation, arrows, boxes, Braille, most of CJK.
_CERTAIN_WIDTH = lazy_pattern(
    "[\x00-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u2199\u21b5\u2200-\u22ff"
    "\u23bf\u23ce\u2400-\u2426\u2500-\u25fc\u2713-\u2718\u276f\u2800-\u28ff\u3001-\u3029\u3041-\u3096\u30a0-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]*"
)
_CODES = lazy_pattern(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)")
MIN_KEPT_END = 8  # equal characters at the end of a row that are worth not rewriting
ERASE_TO_END = "\x1b[K"


class Frame(Struct, frozen=True):
    """Rows (with SGR codes), none wider than the screen, and the cursor's (row, column)."""

    rows: tuple[str, ...] = ("",)
    cursor: tuple[int, int] = (0, 0)


class _Pen:
    """The output so far, and the row of the frame that the cursor is in."""

    def __init__(self, row: int) -> None:
        self.row = row
        self.written: list[str] = []

    def go(self, row: int, column: int = 0) -> None:
        """Move to a row that is on the screen already."""
        down = row - self.row
        self.row = row
        if 0 <= down <= 3 and not column:  # that are shorter than a code that moves down
            self.write("\r" + "\n" * down)
            return
        if down:
            self.write(f"\x1b[{down}B" if down > 0 else f"\x1b[{-down}A")
        self.write(f"\x1b[{column + 1}G" if column else "\r")

    def write(self, text: str) -> None:
        self.written.append(text)

    def add_rows(self, count: int) -> None:
        """Add `count` rows below; the cursor is in the first column."""
        self.write("\v" * count)  # a line feed for terminals, to which drivers add no carriage return
        self.row += count


def frame_update(old: Frame, new: Frame, *, printed: Sequence[str], height: int) -> str:
    """Return the output that turns `old` into the finished rows `printed` and below them `new`.

    `height` is that of the screen. The cursor starts where `old` has it and ends where `new` has it. Return
    "" if nothing has changed.
    """
    target = [*printed, *new.rows]
    shown = list(old.rows)
    at = (new.cursor[0] + len(printed), new.cursor[1])
    if target == shown and at == old.cursor:
        return ""
    pen = _Pen(old.cursor[0])
    kept = _alike(shown, target)
    end = min(_alike_ends(shown[kept:], target[kept:]), height - 1)  # a row is left to be inserted above them
    while len(target) - kept > height:  # the part that scrolls away is written first
        several = max(height - end, 1)
        step = [*target[: kept + several], *target[len(target) - end :]]
        _change_rows(pen, shown, step, kept)
        shown = step
        kept = kept + several
    _change_rows(pen, shown, target, kept)
    pen.go(*at)
    return "".join(pen.written)


def _change_rows(pen: _Pen, old: list[str], target: list[str], kept: int) -> None:
    """Delete rows, add rows below, insert rows and rewrite those that stay in place."""
    steps = _steps(old, target, kept)
    rows = old.copy()
    for step in reversed([step for step in steps if step.kind == "delete"]):
        pen.go(step.first)
        pen.write(f"\x1b[{step.end - step.first}M")
        del rows[step.first : step.end]
    if len(target) > len(old):
        pen.go(len(old) - 1)
        pen.add_rows(len(target) - len(old))
    for step in steps:
        if step.kind == "insert":
            count = step.end - step.first
            if step.first < len(rows):
                pen.go(step.first)
                pen.write(f"\x1b[{count}L")
            rows[step.first : step.first] = [""] * count
    for at, (before, after) in enumerate(zip(rows, target, strict=True)):
        if before != after:
            column, text = row_change(before, after)
            pen.go(at, column)
            pen.write(text)


class _Step(NamedTuple):
    """Rows to delete, counted in the old frame, or to insert, counted in the new one."""

    kind: Literal["delete", "insert"]
    first: int
    end: int  # exclusive


def _steps(old: list[str], target: list[str], kept: int) -> list[_Step]:
    """Return the rows to delete and to insert after the kept ones."""
    end = _alike_ends(old[kept:], target[kept:])
    low = kept
    old_high = len(old) - end
    new_high = len(target) - end
    if min(old_high, new_high) - low < 4:  # fewer changed rows are not worth a search for moved ones
        codes = [("replace", 0, old_high - low, 0, new_high - low)]
    else:
        rows = old[low:old_high], target[low:new_high]
        codes = [*SequenceMatcher(lambda row: not row, *rows, autojunk=False).get_opcodes()]
    steps = []
    for kind, old_from, old_to, new_from, new_to in codes:
        more = (new_to - new_from) - (old_to - old_from)
        if kind == "equal" or not more:
            continue
        if more > 0:
            steps.append(_Step("insert", first=low + new_to - more, end=low + new_to))
        else:
            steps.append(_Step("delete", first=low + old_to + more, end=low + old_to))
    return steps


def _alike_ends(old: list[str], new: list[str]) -> int:
    """Return the number of rows at the end of both that can be treated as the same."""
    return sum(1 for _ in takewhile(bool, map(_resemble, reversed(old), reversed(new))))


def _resemble(old: str, new: str) -> bool:
    """Return whether rows differ at most in their start, where the spinner and its clock are."""
    return old == new or bool(old and old[-MIN_KEPT_END:] == new[-MIN_KEPT_END:] and len(old) > MIN_KEPT_END)


def _alike(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the number of items at the start of both that are equal."""
    return sum(1 for _ in takewhile(bool, map(eq, first, second)))


def row_change(old: str, new: str) -> tuple[int, str]:
    """Return the column and the text to write there that turn one row into the other."""
    rows = (old, new)
    filled = any(mark in row for row in rows for mark in ("\x1b[K", "\x1b]8;"))
    if filled or not all(_CERTAIN_WIDTH.fullmatch(_CODES.sub("", row)) for row in rows):
        # Erased before it is written: after a full row, erasing would take the last cell.
        return 0, (ERASE_TO_END if old else "") + new
    begin = _outside_codes(new, _alike(old, new))
    held = _held_codes(new[:begin])
    end = _kept_end(old, new, begin)
    changed = new[begin : len(new) - end]
    was = old[begin : len(old) - end]
    if not end and painted_width(changed) < painted_width(was):
        # tmux counts the cells of a row that are erased behind its text when it breaks long rows after a
        # resize: only a row that is erased from its start is as short as its text.
        return 0, ERASE_TO_END + new
    text = held + changed + ("\x1b[m" if _held_codes(held + changed) else "")
    return painted_width(new[:begin]), text


def _kept_end(old: str, new: str, begin: int) -> int:
    """Return the number of characters at the end of both rows that are equal and in the same columns."""
    size = _alike(old[begin:][::-1], new[begin:][::-1])
    for row in (old, new):
        cut = len(row) - size
        size = len(row) - next((m.end() for m in _CODES.finditer(row) if m.start() < cut < m.end()), cut)
    if size < MIN_KEPT_END:
        return 0
    heads = [row[: len(row) - size] for row in (old, new)]
    same = _held_codes(heads[0]) == _held_codes(heads[1])
    return size if same and painted_width(heads[0]) == painted_width(heads[1]) else 0


def _outside_codes(row: str, at: int) -> int:
    """Return the index `at`, or the start of the code that contains it."""
    return next((code.start() for code in _CODES.finditer(row) if code.start() < at < code.end()), at)


def _held_codes(text: str) -> str:
    """Return the SGR codes in force at the end of the text."""
    held = ""
    for code in _CODES.findall(text):
        held = "" if code in ("\x1b[0m", "\x1b[m") else held + code
    return held
