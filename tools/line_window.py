"""Select the lines of a file to show, however large the file is and however long its lines are.

A file that fits in memory is processed as one text; a larger one is read once, and only the lines to show are
kept. Line endings are CR LF, LF and CR.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import threading
from bisect import bisect_right
from collections import deque
from itertools import accumulate
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from tools.files import MAX_WHOLE_BYTES
from tools.text import TextForm, decode_text, unify_newlines
from transcripts.patterns import lazy_pattern

MAX_WINDOW_LINES = 2_000
MAX_WINDOW_BYTES = 50_000  # as UTF-8
MAX_WIDTH_CHARS = 2_000  # of a line, shown at most
_ENCODED_DATA = lazy_pattern(r"[A-Za-z0-9+/=_-]{1000}")  # such as images in notebooks and style sheets
_SCAN_LIMIT_S = 5.0  # for reading through a large file; the lines found by then are shown
_END_BYTES = 1024 * 1024  # at the end of a huge file, searched for its last lines


class LineWindow(Struct, frozen=True):
    """Consecutive lines of a file as shown: long ones are cut, with the number of omitted characters."""

    first: int  # number of the first line; negative (from the end) in a file that is too large to count
    lines: list[str]
    total: int | None  # the number of lines of the file; None if not counted
    more: bool  # whether lines follow
    form: TextForm
    sha256: str | None = None  # of the whole file; None if it was not read to the end
    stopped: bool = False  # whether the search for the lines took too long

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def cut_text(
    text: str,
    form: TextForm,
    wanted: tuple[int, int],
    sha256: str | None = None,
    max_bytes: int = MAX_WINDOW_BYTES,
) -> LineWindow:
    """Return the window of a text. `wanted`: first line, from 1, or from the end if negative; how many."""
    offset, limit = wanted
    flat = unify_newlines(text)
    lines = flat.split("\n")
    if not lines[-1]:
        lines.pop()
    total = len(lines)
    first = max(1, total + offset + 1 if offset < 0 else offset)
    shown = lines[first - 1 : first - 1 + limit]
    small = len(flat) <= max_bytes and flat.isascii()
    if not small or max(map(len, shown), default=0) > MAX_WIDTH_CHARS:
        shown = _shown(shown, max_bytes)
    return LineWindow(
        first, lines=shown, total=total, more=first + len(shown) <= total, form=form, sha256=sha256
    )


def number_lines(window: LineWindow) -> str:
    """Return each line after its number and a tab; padding would make a page a sixth larger."""
    pieces = [""] * (2 * len(window.lines))
    pieces[::2] = _line_prefixes(window.first, len(window.lines))
    pieces[1::2] = window.lines
    return "".join(pieces)[1:]


@functools.lru_cache(maxsize=8)
def _line_prefixes(first: int, count: int) -> list[str]:
    """Return the prefix of each line, after a newline. Cached, since most reads begin with line 1."""
    return [f"\n{number}\t" for number in range(first, first + count)]


_BUFFER_BYTES = 256 * 1024


def scan_file(
    descriptor: int,
    size: int,
    wanted: tuple[int, int],
    abandoned: threading.Event,
    max_bytes: int = MAX_WINDOW_BYTES,
) -> LineWindow | None:
    """Return the window of a file that is too large for memory; None if it is binary. Raises OSError.

    `size` is the size that the system reports. A file of at most MAX_WHOLE_BYTES is read to its end, its
    lines are counted, and it is hashed.
    """
    form = _form_of(os.pread(descriptor, 64 * 1024, 0))
    if form is None:
        return None
    if wanted[0] < 0 and size > MAX_WHOLE_BYTES:
        return _last_lines(descriptor, size, form, wanted, max_bytes)
    os.lseek(descriptor, len(form.mark), os.SEEK_SET)
    source = _HashingReader(descriptor, form.mark, abandoned)
    errors = form.errors if form.errors == "surrogateescape" else "replace"  # the rest may not be text
    with io.TextIOWrapper(io.BufferedReader(source, _BUFFER_BYTES), form.codec, errors) as file:
        return _scan(file, source, form, wanted, size > MAX_WHOLE_BYTES, max_bytes)


class _HashingReader(io.RawIOBase):
    """Reads the rest of an open file, and hashes it. It ends early if that takes too long."""

    def __init__(self, descriptor: int, mark: bytes, abandoned: threading.Event) -> None:
        self._descriptor = descriptor
        self._abandoned = abandoned
        self._until = monotonic() + _SCAN_LIMIT_S
        self.hash = hashlib.sha256(mark)
        self.stopped = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._abandoned.is_set() or monotonic() > self._until:
            self.stopped = True
            return 0
        count = os.readv(self._descriptor, [buffer])
        self.hash.update(buffer[:count])
        return count


_SCAN_CHARS = 64 * 1024  # of a large file, read at once


def _scan(
    file: io.TextIOWrapper,
    source: _HashingReader,
    form: TextForm,
    wanted: tuple[int, int],
    huge: bool,
    max_bytes: int,
) -> LineWindow:
    """Read the lines and keep the wanted ones. A huge file is read no further than these."""
    offset, limit = wanted
    # A window begins at most this many lines before the end of a large file.
    kept: deque[tuple[str, int]] = deque(maxlen=min(-offset, 20_000) if offset < 0 else None)
    line = 1
    start = ""
    length = 0
    kept_chars = 0
    full = False  # all wanted lines have been read
    while not (huge and full) and (text := file.read(_SCAN_CHARS)):
        *closed, rest = text.split("\n")
        if closed:
            lengths = [length + len(closed[0]), *map(len, closed[1:])]
            closed[0] = start + closed[0]
            skipped = max(0, offset - line, len(closed) + offset if offset < 0 else 0)
            if not full:
                pairs = zip(closed[skipped:], lengths[skipped:], strict=True)
                kept.extend((each[:MAX_WIDTH_CHARS], size) for each, size in pairs)
                kept_chars += sum(map(len, closed[skipped:]))
            full = offset > 0 and (len(kept) >= limit or kept_chars >= max_bytes)
            line = line + len(closed)
            start = ""
            length = 0
        start = (start + rest)[:MAX_WIDTH_CHARS]
        length = length + len(rest)
    if length and not full and line >= offset:
        kept.append((start, length))
    line += length > 0
    ended = not source.stopped and not (huge and full)
    first = offset if offset > 0 else line - len(kept)
    found = [*kept][:limit]
    shown = _shown([text for text, _ in found], max_bytes, [size for _, size in found])
    total = line - 1 if ended else None
    more = not ended or first + len(shown) < line
    sha256 = source.hash.hexdigest() if ended else None
    return LineWindow(
        first,
        lines=shown,
        total=total,
        more=more,
        form=form,
        sha256=sha256,
        stopped=source.stopped and not full,
    )


def _last_lines(
    descriptor: int, size: int, form: TextForm, wanted: tuple[int, int], max_bytes: int
) -> LineWindow:
    """Return the last lines of a huge file, numbered from its end: -1 is the last one."""
    start = len(form.mark) + (size - len(form.mark) - _END_BYTES) // form.unit * form.unit
    data = os.pread(descriptor, _END_BYTES, start)
    text = data.decode(form.codec, "replace" if form.errors == "strict" else form.errors)
    text = unify_newlines(text).partition("\n")[2]  # the first line is incomplete
    window = cut_text(text, form, wanted, max_bytes=max_bytes)
    return replace(window, first=window.first - (window.total or 0) - 1, total=None)


def _form_of(sample: bytes) -> TextForm | None:
    """Return the form of a large file, judged by its beginning, which may end within a character."""
    guesses = [decode_text(sample[: len(sample) - less]) for less in range(4)]
    for less, found in enumerate(guesses):
        form = found[1] if found is not None else None
        if form is None or not (form.strays or form.guessed or (form.codec == "cp1252" and less < 3)):
            break
    else:
        found = guesses[0]
    return found and found[1]


def _shown_width(line: str) -> int:
    """Return the number of characters of a line to show; fewer if the line is encoded data."""
    if len(line) < MAX_WIDTH_CHARS:
        return MAX_WIDTH_CHARS
    data = _ENCODED_DATA.search(line, 0, MAX_WIDTH_CHARS)
    is_data = data is not None and len(set(data[0])) >= 20
    return min(MAX_WIDTH_CHARS, data.start() + 100) if is_data and data else MAX_WIDTH_CHARS


def _shown(lines: list[str], max_bytes: int, lengths: list[int] | None = None) -> list[str]:
    """Return the leading lines that fit in a window, at least one, each cut to its width.

    `lengths` are those of the whole lines, in characters, if the lines were cut already.
    """
    lengths = lengths or [*map(len, lines)]
    if max(lengths, default=0) <= MAX_WIDTH_CHARS and "".join(lines).isascii():
        sizes = [length + 1 for length in lengths]
    else:
        cut = [line[: _shown_width(line)] for line in lines]
        sizes = [len(line.encode("utf-8", "surrogatepass")) + 1 for line in cut]
        left = [length - len(line) for length, line in zip(lengths, cut, strict=True)]
        lines = [f"{line}…[+{left[at]:,} chars]" if left[at] > 0 else line for at, line in enumerate(cut)]
    return lines[: max(1, bisect_right([*accumulate(sizes)], max_bytes))]
