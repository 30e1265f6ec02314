"""Replace an exact piece of text in the bytes it came from.

Pieces are found in text with unified line endings; the splice is made in the original bytes, so that nothing
outside the piece can change. edit_diagnostics.py explains why a piece was not found.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from tools.text import TextForm, unify_newlines
from transcripts.patterns import lazy_pattern

from .unified_diff import MAX_COMPARED_LINES, diff_lines, equal_start

_SNIPPET_LINES = 24
_SNIPPET_LINE_CHARS = 2_000  # of each of them
_NEWLINE = lazy_pattern("\r\n|\n|\r")


class NotRepresentable(Exception):
    """A place in the text has no exact counterpart in the bytes."""


class SourceText(Struct, frozen=True):
    """A file's bytes with their text; `flat` has unified line endings, and is searched for pieces."""

    data: bytes
    text: str
    flat: str
    form: TextForm
    pairs: tuple[int, ...]  # offsets in `flat` of line endings that are two characters (CR LF) in `text`

    def raw(self, place: int) -> int:
        """Return the offset in `text` of an offset in `flat`."""
        return place + bisect_left(self.pairs, place)


def source_text(data: bytes, text: str, form: TextForm) -> SourceText:
    """Prepare bytes, and the text and form that `decode_text` found in them, to be searched."""
    pairs = [found.start() for found in re.finditer("\r\n", text)] if "\r" in text else []
    places = tuple(place - index for index, place in enumerate(pairs))
    return SourceText(data, text=text, flat=unify_newlines(text), form=form, pairs=places)


def find_all(flat: str, piece: str) -> list[int]:
    """Return all offsets of the piece, also overlapping ones; if many overlap, only some of them."""
    found: list[int] = []
    most = len(flat) // len(piece) + 10  # counted beyond the number that fits without overlapping
    place = flat.find(piece)
    while place >= 0 and len(found) < most:
        found.append(place)
        place = flat.find(piece, place + 1)
    return found


def any_overlap(places: list[int], size: int) -> bool:
    """Return whether pieces of this size overlap at these offsets, which are in ascending order."""
    return any(after - before < size for before, after in pairwise(places))


def splice(source: SourceText, places: list[int], old: str, new: str) -> bytes:
    """Return the bytes with `new` for `old` (both with unified line endings) at offsets that do not overlap.

    Unchanged lines keep their line ending; new ones get that of the line that they replace or of their
    neighbours. Raises UnicodeEncodeError if the file's encoding lacks a character of `new`, NotRepresentable
    if a place has no counterpart in the bytes, or a line ending would merge with one outside.
    """
    form = source.form
    pieces: list[bytes] = []
    done = 0
    for place, (start, end) in zip(places, _byte_spans(source, places, len(old)), strict=True):
        before = form.decode(source.data[start:end])
        newline = _newline_near(source, source.raw(place), source.raw(place + len(old)))
        pieces += (
            source.data[done:start],
            form.encode(_with_newlines_of(before, new, newline, common=form.newline)),
        )
        done = end
    spliced = b"".join([*pieces, source.data[done:]])
    if "\r" in source.text:
        text = form.decode(form.body(spliced))
        lines = source.flat.count("\n") + len(places) * (new.count("\n") - old.count("\n"))
        if unify_newlines(text).count("\n") != lines:
            raise NotRepresentable
    return spliced


def with_line_endings_of(before: str, new: str, common: str) -> str:
    """Return `new` (with unified line endings) with those of the text that it replaces, line by line.

    `common` is the most frequent one. It is used for all lines if too many differ to be compared.
    """
    kept = diff_lines(unify_newlines(before))
    wanted = diff_lines(new)
    start = equal_start(kept, wanted)
    end = equal_start(kept[start:][::-1], wanted[start:][::-1])
    if len(kept) + len(wanted) - 2 * (start + end) > MAX_COMPARED_LINES:
        return new.replace("\n", common)
    return _with_newlines_of(before, new, common, common=common)


def _byte_spans(source: SourceText, places: list[int], size: int) -> Iterator[tuple[int, int]]:
    """Return the byte spans of pieces of `flat`; each is checked to decode to the same text."""
    form = source.form
    at = len(source.form.mark)
    last = 0
    for place in places:
        raw_start = source.raw(place)
        raw_end = source.raw(place + size)
        body = source.text[raw_start:raw_end]
        start = at + _byte_size(form, source.text[last:raw_start])
        end = start + _byte_size(form, body)
        try:
            faithful = form.decode(source.data[start:end]) == body
        except UnicodeDecodeError:
            faithful = False
        if not faithful:
            raise NotRepresentable
        yield start, end
        at = end
        last = raw_end


def _byte_size(form: TextForm, text: str) -> int:
    if form.codec == "utf-8" and text.isascii():
        return len(text)
    return len(form.encode(text))


def _newline_near(source: SourceText, start: int, end: int) -> str:
    """Return the ending of the line in which a piece of the text ends, else of the last line before it."""
    if "\r" not in source.text:
        return "\n"
    following = _NEWLINE.search(source.text, end)
    if following is not None:
        return following[0]
    ends = _NEWLINE.findall(source.text, max(0, source.text.rfind("\n", 0, start) - 1), start)
    return ends[-1] if ends else source.form.newline or "\n"


def _with_newlines_of(before: str, new: str, newline: str, *, common: str) -> str:
    """Return `new` with the file's line endings: those in `before`, for other lines those of neighbours.

    `newline` is the line ending that follows, for lines without a neighbour in `before`; `common` is used
    between neighbours that differ.
    """
    if "\n" not in new or unify_newlines(before).replace("\n", newline) == before:
        return new.replace("\n", newline) if newline != "\n" else new
    kept = re.findall("[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$", before)
    wanted = re.findall("[^\n]*\n|[^\n]+$", new)
    ends = [found[0] if (found := _NEWLINE.search(line)) else newline for line in kept]
    styled: list[str] = []
    matcher = difflib.SequenceMatcher(None, [unify_newlines(line) for line in kept], wanted, False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            styled += kept[i1:i2]
            continue
        own = ends[i1:i2]
        if not own:
            around = {*ends[max(0, i1 - 1) : i1], *(ends[i1 : i1 + 1] or [newline])}
            own = [*around] if len(around) == 1 else [common or newline]
        styled += [line.replace("\n", own[min(at, len(own) - 1)]) for at, line in enumerate(wanted[j1:j2])]
    mixed = "".join(styled)
    return mixed if unify_newlines(mixed) == new else new.replace("\n", newline)  # a lone CR met an LF


def snippet(flat: str, start: int, end: int) -> str:
    """Return the lines of start..end with one before and one after, numbered, without the middle of many.

    A very long line is cut around its change.
    """
    first = flat.count("\n", 0, start)
    last = first + flat.count("\n", start, max(start, end - 1))
    lines = flat.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    low = max(0, first - 1)
    high = min(len(lines), last + 2)
    if high - low < 4:
        high = min(len(lines), low + 4)
        low = max(0, high - 4)
    numbers = list(range(low, high))
    if len(numbers) > _SNIPPET_LINES:
        numbers = [*numbers[: _SNIPPET_LINES // 2], -1, *numbers[-_SNIPPET_LINES // 2 :]]
    column = start - (flat.rfind("\n", 0, start) + 1)
    return "\n".join(
        "…" if n < 0 else f"{n + 1}\t{_cut(lines[n], column if n == first else 0)}" for n in numbers
    )


def _cut(line: str, column: int) -> str:
    """Return the part of a long line around a column, with marks where text is omitted."""
    begin = max(0, min(column - _SNIPPET_LINE_CHARS // 2, len(line) - _SNIPPET_LINE_CHARS))
    end = begin + _SNIPPET_LINE_CHARS
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"
