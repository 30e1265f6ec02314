"""Replace an exact piece of a text in the bytes it came from, and show what changed.

Matching is on text with unified line ends; the splice is on the original bytes, so that nothing outside
the matched span can change. Why a piece was not found is for misses.py.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from .text_encoding import TextForm, unified_ends

_CONTEXT = 3  # lines shown around a change in a diff, as diff -u does
_DIFF_LINES = 1_500  # changed lines on both sides up to which the two are compared line by line
_PLACEHOLDER = re.compile(r"\[(?:cleared|snipped|folded|persisted)\b[^\]\n]*\br\d+(?:\.\d+)?\b[^\]\n]*\]")
_TAG = "<persisted-output"


class NotRepresentable(Exception):
    """A place in the text cannot be found in the bytes: the encoding does not say it back exactly."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file's bytes with their text. `flat` is the text with unified line ends, where pieces are found."""

    data: bytes
    text: str
    flat: str
    form: TextForm
    pairs: tuple[int, ...]  # where in `flat` a line end stands for two characters (CR LF)

    def raw(self, place: int) -> int:
        """The place in `text` of a place in `flat`."""
        return place + bisect_left(self.pairs, place)


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff and its figures."""

    text: str
    added: int
    removed: int

    @property
    def note(self) -> str:
        return f"+{self.added} -{self.removed}"


def source(data: bytes, text: str, form: TextForm) -> Source:
    """The bytes and the text that `text.decode` found in them, ready to be searched."""
    pairs = [found.start() for found in re.finditer("\r\n", text)] if "\r" in text else []
    places = tuple(place - index for index, place in enumerate(pairs))
    return Source(data, text, unified_ends(text), form, places)


def matches(flat: str, piece: str) -> list[int]:
    """Every place where the piece begins, those that overlap too."""
    found = []
    place = flat.find(piece)
    while place >= 0:
        found.append(place)
        place = flat.find(piece, place + 1)
    return found


def overlap(places: list[int], size: int) -> bool:
    return any(after - before < size for before, after in pairwise(places))


def line_numbers(flat: str, places: list[int]) -> list[int]:
    """The line (from 1) on which each of the rising places is."""
    lines, line, last = [], 1, 0
    for place in places:
        line += flat.count("\n", last, place)
        last = place
        lines.append(line)
    return lines


def splice(origin: Source, places: list[int], old: str, new: str) -> bytes:
    """The bytes with `new` instead of `old` (both with unified line ends) at places that do not overlap.

    Lines that stay as they are keep their line end, new ones get the one that is most frequent in the file.
    Raises UnicodeEncodeError where `new` does not exist in the file's encoding, NotRepresentable where the
    place cannot be told in the bytes, or where a line end would grow together with one outside.
    """
    pieces: list[bytes] = []
    done = 0
    for start, end in _byte_spans(origin, [(place, place + len(old)) for place in places]):
        before = origin.form.decode(origin.data[start:end])
        pieces += (origin.data[done:start], origin.form.encode(_in_style(before, new, origin.form.newline)))
        done = end
    spliced = b"".join([*pieces, origin.data[done:]])
    if "\r" in origin.text:
        text = origin.form.decode(origin.form.body(spliced))
        lines = origin.flat.count("\n") + len(places) * (new.count("\n") - old.count("\n"))
        if unified_ends(text).count("\n") != lines:
            raise NotRepresentable
    return spliced


def holds_placeholder(text: str) -> bool:
    """Whether the text has the form in which we show what was left out of the conversation.

    Such as "[cleared: read src/a.py, 3,412 tokens; recall r57 shows it]". A model that sees it in its own
    old calls may copy it into a file.
    """
    return _TAG in text or _PLACEHOLDER.search(text) is not None


def snippet(flat: str, start: int, end: int, most: int = 24) -> str:
    """The lines of start..end with one before and one after, numbered; the middle of many is left out."""
    first = flat.count("\n", 0, start)
    last = first + flat.count("\n", start, max(start, end - 1))
    lines = flat.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    low, high = max(0, first - 1), min(len(lines), last + 2)
    if high - low < 4:
        high = min(len(lines), low + 4)
        low = max(0, high - 4)
    numbers = list(range(low, high))
    if len(numbers) > most:
        numbers = [*numbers[: most // 2], -1, *numbers[-most // 2 :]]
    return "\n".join("      …" if n < 0 else f"{n + 1:6d}\t{lines[n][:2000]}" for n in numbers)


def diff(old: str, new: str, name: str) -> Diff:
    """The unified diff of two texts with unified line ends; equal lines around are skipped first, fast."""
    before, after = _lines(old), _lines(new)
    start = 0
    for left, right in zip(before, after, strict=False):
        if left != right:
            break
        start += 1
    same_end = 0
    for left, right in zip(reversed(before[start:]), reversed(after[start:]), strict=False):
        if left != right:
            break
        same_end += 1
    low = max(0, start - _CONTEXT)
    one = before[low : len(before) - same_end + _CONTEXT] if same_end > _CONTEXT else before[low:]
    two = after[low : len(after) - same_end + _CONTEXT] if same_end > _CONTEXT else after[low:]
    groups = _groups(one, two, start - low, min(same_end, _CONTEXT))
    lines = [f"--- a/{name}", f"+++ b/{name}"]
    added = removed = 0
    for line in _hunks(groups, one, two, low):
        added += line[0] == "+"
        removed += line[0] == "-"
        lines.append(line)
    return Diff("\n".join(lines) + "\n" if added + removed else "", added, removed)


def _lines(text: str) -> list[str]:
    """Lines without their ends; a last one without an end is marked as diff does."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    else:
        lines[-1] += "\n\\ No newline at end of file"
    return lines


Opcode = tuple[str, int, int, int, int]


def _groups(one: list[str], two: list[str], head: int, tail: int) -> list[list[Opcode]]:
    """What changed, in groups with their context; very long changes as one."""
    if len(one) + len(two) <= _DIFF_LINES:
        return list(difflib.SequenceMatcher(None, one, two, False).get_grouped_opcodes(_CONTEXT))
    end_one, end_two = len(one) - tail, len(two) - tail
    whole: list[Opcode] = [
        ("equal", 0, head, 0, head),
        ("replace", head, end_one, head, end_two),
        ("equal", end_one, len(one), end_two, len(two)),
    ]
    return [whole]


def _hunks(groups: list[list[Opcode]], one: list[str], two: list[str], low: int) -> Iterator[str]:
    for group in groups:
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2], low)} +{_range(first[3], last[4], low)} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in one[i1:i2])
            else:
                yield from (f"-{line}" for line in one[i1:i2])
                yield from (f"+{line}" for line in two[j1:j2])


def _range(start: int, end: int, low: int) -> str:
    size = end - start
    first = start + low + (1 if size else 0)
    return str(first) if size == 1 else f"{first},{size}"


def _byte_spans(origin: Source, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Where the spans of `flat` are in the bytes; each is checked to say the same text."""
    form, at, last = origin.form, len(origin.form.mark), 0
    for start, end in spans:
        raw_start, raw_end = origin.raw(start), origin.raw(end)
        gap, body = origin.text[last:raw_start], origin.text[raw_start:raw_end]
        begin = at + _size(form, gap)
        finish = begin + _size(form, body)
        try:
            faithful = form.decode(origin.data[begin:finish]) == body
        except UnicodeDecodeError:
            faithful = False
        if not faithful:
            raise NotRepresentable
        yield begin, finish
        at, last = finish, raw_end


def _size(form: TextForm, text: str) -> int:
    if form.codec == "utf-8" and text.isascii():
        return len(text)
    return len(form.encode(text))


def _in_style(before: str, new: str, newline: str) -> str:
    """`new` with the file's line ends; lines that `before` had already keep theirs."""
    newline = newline or "\n"
    if "\r" not in before:
        uniform = newline == "\n" or "\n" not in before
    else:
        uniform = unified_ends(before).replace("\n", newline) == before
    if uniform or "\n" not in new:
        return new.replace("\n", newline) if newline != "\n" else new
    kept = re.findall("[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$", before)
    wanted = re.findall("[^\n]*\n|[^\n]+$", new)
    styled: list[str] = []
    matcher = difflib.SequenceMatcher(None, [unified_ends(line) for line in kept], wanted, False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            styled += kept[i1:i2]
        else:
            styled += [line.replace("\n", newline) for line in wanted[j1:j2]]
    mixed = "".join(styled)
    return mixed if unified_ends(mixed) == new else new.replace("\n", newline)  # a lone CR met an LF
