"""Cut the lines to be shown out of a file, however large it is or however long its lines are.

A file that fits in memory is cut from its text; a larger one is read through once, piece by piece, and only
what is shown is kept. Line ends are CR LF, LF and CR.
"""

from __future__ import annotations

import codecs
import functools
import hashlib
import io
import os
import threading
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from itertools import accumulate
from time import monotonic

from .safe_open import WHOLE
from .text_encoding import TextForm, decode, unified_ends

LINES = 2_000  # lines shown at once
WIDTH = 2_000  # characters of a line that are shown
SIZE = 50_000  # bytes (as UTF-8) shown at once
PATIENCE = 5.0  # seconds spent on looking through a large file; what was found by then is shown
_PIECE = 256 * 1024
_HEAD = 64 * 1024  # bytes by which the encoding of a large file is judged
_TAIL = 20_000  # lines at the end of a large file among which a window may begin
_END = 1024 * 1024  # bytes at the end of a huge file in which its last lines are looked for


@dataclass(slots=True)
class LineWindow:
    """Lines first.. of a file. `total` is None where nobody counted to the end.

    `first` is negative where it counts from the end of a file too large to be counted. `more` tells that
    lines follow. `sha256` is that of the whole file, None where it was not read to the end.
    """

    first: int
    lines: list[str]
    total: int | None
    more: bool
    form: TextForm
    sha256: str | None = None
    stopped: bool = False
    long: bool = True  # whether some lines may be longer than WIDTH
    cut: dict[int, int] = field(default_factory=dict)  # index of a line already cut: characters left out

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def window(text: str, form: TextForm, offset: int, limit: int) -> LineWindow:
    """The window of a whole text. `offset` counts from 1, or from the end where it is negative."""
    flat = unified_ends(text)
    if offset == 1 and flat.isascii():
        return _beginning(flat, form, limit)
    lines = flat.split("\n")
    if not lines[-1]:
        lines.pop()
    total = len(lines)
    first = max(1, total + offset + 1 if offset < 0 else offset)
    shown = _within_size(lines[first - 1 : first - 1 + limit])
    return LineWindow(first, shown, total, first + len(shown) <= total, form)


def _beginning(flat: str, form: TextForm, limit: int) -> LineWindow:
    """The usual window: from the first line on, each character one byte. Does not look at what follows."""
    total = flat.count("\n") + (not flat.endswith("\n"))
    end = len(flat) if len(flat) <= SIZE else flat.rfind("\n", 0, SIZE) + 1
    long = not end or _has_long(flat, end)
    shown = flat[:end].split("\n")
    if not shown[-1]:
        shown.pop()
    shown = shown[:limit]
    if long:
        shown = _within_size(flat.split("\n", limit)[: min(limit, total)])
    return LineWindow(1, shown, total, len(shown) < total, form, long=long)


def _has_long(flat: str, end: int) -> bool:
    """Whether a line up to `end` is longer than WIDTH; looks for line ends a width apart only."""
    start = 0
    while end - start > WIDTH:
        found = flat.rfind("\n", start, start + WIDTH + 1)
        if found < 0:
            return True
        start = found + 1
    return False


def numbered(view: LineWindow) -> str:
    """The lines as `cat -n` shows them; what is cut off a long one is counted."""
    lines = view.lines
    if not lines:
        return ""
    if view.long:
        lines = [_cut(line, view.cut.get(index, 0)) for index, line in enumerate(lines)]
    pieces = [""] * (2 * len(lines))
    pieces[::2] = _numbers(view.first, len(lines))
    pieces[1::2] = lines
    return "".join(pieces)[1:]


@functools.lru_cache(maxsize=8)
def _numbers(first: int, count: int) -> list[str]:
    """What stands before each line, the end of the one before included; most reads begin with line 1."""
    return [f"\n{number:6d}\t" for number in range(first, first + count)]


def scan(descriptor: int, size: int, offset: int, limit: int, gone: threading.Event) -> LineWindow | None:
    """The window of a file too large to be held; None where it holds no text.

    `size` is what stat said. A file of at most WHOLE bytes is read to its end, counted and hashed.
    """
    head = os.pread(descriptor, _HEAD, 0)
    form = _form(head)
    if form is None:
        return None
    if offset < 0 and size > WHOLE:
        return _end_of(descriptor, size, form, -offset, limit)
    sieve = _Sieve(offset, limit)
    hash = hashlib.sha256()
    errors = "replace" if form.errors == "strict" else form.errors  # its beginning need not be all of it
    translate = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(form.codec)(errors), True)
    until = monotonic() + PATIENCE
    os.lseek(descriptor, len(form.mark), os.SEEK_SET)
    hash.update(form.mark)
    ended = False
    while not ended and not (size > WHOLE and sieve.full):
        if gone.is_set() or monotonic() > until:
            break
        piece = os.read(descriptor, _PIECE)
        ended = not piece
        hash.update(piece)
        sieve.feed(translate.decode(piece, final=ended))
    return sieve.window(form, hash.hexdigest() if ended else None, ended)


class _Sieve:
    """Takes a text piece by piece and keeps the lines of a window, each up to its width."""

    def __init__(self, offset: int, limit: int) -> None:
        self._first = offset  # of the window; negative: the last lines
        self._limit = limit
        self._line = 1  # the one that is being read
        self._open = False  # whether something of it was read
        self._kept: deque[tuple[str, int]] = deque(maxlen=min(-offset, _TAIL) if offset < 0 else None)
        self._start: list[str] = []
        self._length = 0
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._first > 0 and (len(self._kept) >= self._limit or self._bytes >= SIZE)

    def feed(self, text: str) -> None:
        place = 0
        while place < len(text):
            if self._skipping():
                place = self._skip(text, place)
                continue
            end = text.find("\n", place)
            self._take(text, place, end if end >= 0 else len(text))
            if end < 0:
                return
            self._close()
            place = end + 1

    def window(self, form: TextForm, sha256: str | None, ended: bool) -> LineWindow:
        if self._open:
            self._close()
        total = self._line - 1 if ended else None
        kept = list(self._kept)[: self._limit]
        first = self._first if self._first > 0 else max(1, self._line - len(self._kept))
        shown = _within_size([line for line, _ in kept])
        cut = {index: left for index, (_, left) in enumerate(kept[: len(shown)]) if left}
        more = not ended or first + len(shown) < self._line
        return LineWindow(first, shown, total, more, form, sha256, not ended and not self.full, cut=cut)

    def _skipping(self) -> bool:
        return self._first > 0 and (self._line < self._first or self.full)

    def _skip(self, text: str, place: int) -> int:
        """Pass over lines that are only counted; returns where the window begins, or the end."""
        count = text.count("\n", place)
        if self.full or self._line + count < self._first:
            self._line += count
            self._open = not text.endswith("\n")
            return len(text)
        while self._line < self._first:
            place = text.index("\n", place) + 1
            self._line += 1
        self._open = False
        return place

    def _take(self, text: str, start: int, end: int) -> None:
        room = WIDTH - self._length
        if room > 0:
            self._start.append(text[start : min(end, start + room)])
        self._length += end - start
        self._open = True

    def _close(self) -> None:
        if not self._skipping():
            line = "".join(self._start)
            self._kept.append((line, max(0, self._length - WIDTH)))
            self._bytes += len(line) + 1
        self._start, self._length, self._open = [], 0, False
        self._line += 1


def _end_of(descriptor: int, size: int, form: TextForm, wanted: int, limit: int) -> LineWindow:
    """The last lines of a huge file, numbered from its end: -1 is the last one."""
    start = len(form.mark) + (size - len(form.mark) - _END) // form.unit * form.unit
    data = os.pread(descriptor, _END, start)
    text = data.decode(form.codec, "replace" if form.errors == "strict" else form.errors)
    lines = unified_ends(text).split("\n")[1:]  # the first one began before
    if lines and not lines[-1]:
        lines.pop()
    count = min(wanted, len(lines))
    shown = _within_size(lines[len(lines) - count :][:limit])
    return LineWindow(-count, shown, None, len(shown) < count, form)


def _form(head: bytes) -> TextForm | None:
    """The form of a large file by its beginning, which may end within a character."""
    for less in range(4):
        found = decode(head[: len(head) - less] if less else head)
        if found is None:
            return None
        if not found[1].strays and (found[1].codec != "cp1252" or less == 3):
            return found[1]
    found = decode(head)
    return found[1] if found is not None else None


def _within_size(lines: list[str]) -> list[str]:
    """As many lines as may be shown at once, at least one."""
    sizes = [*accumulate(map(_bytes, lines))]
    return lines[: max(1, bisect_right(sizes, SIZE))]


def _bytes(line: str) -> int:
    """What a line takes in a result, its end included."""
    shown = line if len(line) <= WIDTH else line[:WIDTH]
    return 1 + (len(shown) if shown.isascii() else len(shown.encode("utf-8", "surrogatepass")))


def _cut(line: str, before: int) -> str:
    left = before + max(0, len(line) - WIDTH)
    return f"{line[:WIDTH]}…[+{left:,} chars]" if left else line
