"""Replace an exact piece of text in the bytes it came from, and show what changed.

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

_CONTEXT_LINES = 3  # shown around a change in a diff, as in diff -u
_SNIPPET_LINES = 24
_BRACKETED = lazy_pattern(r"\[(?:cleared|snipped|summarized|folded|persisted)\b[^\[\]\n]*+\]")
_SHOWN_RECALL_ID = lazy_pattern(r"\br\d{1,15}(?:\.\d{1,9})?\b")
# Whole lines that the view shows instead of text, or above it; an omission note ends its line. The forms come
# from compact/page_references.py, compact/clearing.py, compact/restoring.py, and from their earlier versions.
_STAND_IN_LINE = lazy_pattern(
    r"^[ \t]*+\[lines \d++-\d++ are unchanged since r\d++ above(?:, where they are lines [\d-]++)?+\][ \t]*$"
    r"|^[ \t]*+\[(?:lines \d++-\d++ are|file) unchanged since r\d++, which is no longer shown: "
    r"[^\n\[\]]*+\][ \t]*$"
    r"|^[ \t]*+\[this result: r\d++\][ \t]*$"
    r"|\[\.\.\. [\d,]++ characters omitted; recall\(\"r[\d.]++\"\) shows all of it(?:\. Excerpts:)?+\]"
    r"[ \t]*$"
    r"|^[ \t]*+\[lines \d++-\d++ are not repeated: as in (?:lines \d++-\d++ of )?r[\d.]++ above\][ \t]*$"
    r"|^[ \t]*+\[put back: [^\n]*, (?:lines \d++-\d++|part), shown earlier and cleared \(r[\d.]++\)\][ \t]*$"
    r"|\[\.\.\. [\d,]++ characters are left out here; recall r[\d.]++ shows it all(?: \.\.\.|; of them:)?+\]"
    r"[ \t]*$",
    re.MULTILINE,
)
# A line that consists of a comment with dots and what they stand for.
_OMISSION = lazy_pattern(
    r"^[ \t]*+(?:#|//|/\*|<!--|--|;|%|\{/\*)[ \t]*+(?:\.\.\.|…)[^\n]{0,40}?"
    r"\b(?:existing|unchanged|rest of|remaining|the rest|other (?:code|methods|functions|fields|imports"
    r"|cases)|previous code|same as (?:before|above)|omitted|for brevity|no changes?)\b"
    r"[^\n]{0,80}$",
    re.IGNORECASE | re.MULTILINE,
)
# The same in words or dots alone, or in brackets: it may be meant literally, unless lines are lost with it.
_PLAIN_OMISSION = lazy_pattern(
    r"^[ \t]*+(?:(?:#|//|/\*|<!--|--|;|%|\{/\*|\"|'|rem\b)[ \t\"'-]*+[\[(<]?[ .…]*"
    r"|(?:\.{3} ?|… ?)?[\[(](?![ .…\])]*$)[ .…]*|(?:\.{3} ?|… ?)(?=\w))(?:"
    r"(?:keep |leave )?(?:the |your )?(?:existing|previous|original|remaining|other|same|unchanged) "
    r"(?:code|implementation|contents?|logic|methods|functions|imports|body|lines|fields|cases|tests)"
    r"|(?:all |the )*(?:rest|remaining|other|everything else)(?: \w+){0,4}?(?: (?:is|are))?"
    r"(?: (?:stays?|remains?|kept|left))? (?:unchanged|untouched|the same|as it (?:is|was))"
    r"|(?:keep |leave )?(?:the )?(?:rest|remainder) of (?:the |this |your )?(?:existing |original )?(?:"
    r"code|file|functions?|methods?|class(?:es)?|implementation|module|body|contents?|logic|script|component|document"
    r"|page|query|fields|cases|imports|tests|table|list|styles|routes|section|config(?:uration)?)"
    r"|(?:keep |leave )the rest"
    r"|more (?:code|methods|functions|imports|lines|fields|cases|tests)|unchanged|no changes?"
    r"|same as (?:before|above|(?:the )?original)|code(?= )|omitted|truncated|snip(?:ped)?|\.{3}|…"
    r")(?: (?:goes|is|are|stays?|remains?|kept|here|below|above|unchanged|omitted|the same|as (?:is|before)"
    r"|for brevity))*[ .…:\])>\"'-]*(?:\*/\}?|-->)?[ \t]*$"
    r"|^[ \t]*+(?:#|//|/\*|<!--|--|;|%|\{/\*)[ \t]*+[\[(<]?(?:\.{3}|…)[^\n]{0,100}$",  # in any language
    re.IGNORECASE | re.MULTILINE,
)
_NEWLINE = lazy_pattern("\r\n|\n|\r")
_STORED_OUTPUT_TAG = "<persisted-output"


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


class UnifiedDiff(Struct, frozen=True):
    """A diff as `diff -u` writes it, and the numbers of lines added and removed."""

    text: str
    added: int
    removed: int

    @property
    def note(self) -> str:
        return f"+{self.added} -{self.removed}"


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
    kept = _lines(unify_newlines(before))
    wanted = _lines(new)
    start = _common(kept, wanted)
    end = _common(kept[start:][::-1], wanted[start:][::-1])
    if len(kept) + len(wanted) - 2 * (start + end) > _MAX_COMPARED_LINES:
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


def added_placeholder(new: str, old: str) -> str:
    """Return the first placeholder of the conversation in `new` that is not in `old`, "" if there is none.

    Such as `[cleared: bash make, 3,412 tokens. recall("r57") shows it]` or `[lines 1-60 are unchanged since
    r6 above]`. A model that sees one may copy it into a file.
    """
    found = [_STORED_OUTPUT_TAG] if _STORED_OUTPUT_TAG in new else []
    found += [each[0] for each in _BRACKETED.finditer(new) if _SHOWN_RECALL_ID.search(each[0])]
    found += [each[0].strip() for each in _STAND_IN_LINE.finditer(new)]
    return next((each for each in dict.fromkeys(found) if each not in old), "")


def added_omission(new: str, old: str) -> str:
    """Return the first comment in `new`, but not in `old`, that stands for omitted code; "" if there is none.

    Such as "# ... existing code ..." or "// ... rest of the function unchanged ...", or, if lines of `old`
    are missing, "/* unchanged */" or "# ...".
    """
    added = [found[0].strip() for found in _OMISSION.finditer(new)]
    plain = [found[0].strip() for found in _PLAIN_OMISSION.finditer(new)]
    if plain:
        kept = {line.strip() for line in new.split("\n")}
        lost = [line for line in old.split("\n") if line.strip() and line.strip() not in kept]
        added += plain if len(lost) >= 2 else []
    return next((each for each in added if each not in old), "")


def is_omission(line: str) -> bool:
    """Return whether a line may stand for omitted code."""
    return bool(_OMISSION.search(line) or _PLAIN_OMISSION.search(line))


def snippet(flat: str, start: int, end: int) -> str:
    """Return the lines of start..end with one before and one after, numbered, without the middle of many."""
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
    return "\n".join("…" if n < 0 else f"{n + 1}\t{lines[n][:2_000]}" for n in numbers)


def unified_diff(old: str, new: str, name: str) -> UnifiedDiff:
    """Return the diff of two texts with unified line endings. Equal lines at both ends are skipped first."""
    before = _lines(old)
    after = _lines(new)
    start = _common(before, after)
    same_end = _common(before[start:][::-1], after[start:][::-1])
    low = max(0, start - _CONTEXT_LINES)
    tail = min(same_end, _CONTEXT_LINES)
    one = before[low : len(before) - same_end + tail]
    two = after[low : len(after) - same_end + tail]
    lines = [f"--- a/{name}", f"+++ b/{name}", *_hunks(one, two, low, (start - low, tail))]
    added = sum(line[0] == "+" for line in lines[2:])
    removed = sum(line[0] == "-" for line in lines[2:])
    return UnifiedDiff("\n".join(lines) + "\n" if added + removed else "", added=added, removed=removed)


def _lines(text: str) -> list[str]:
    """Return the lines; a last line without a newline is marked as by diff."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    else:
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _common(one: list[str], two: list[str]) -> int:
    """Return the number of equal lines at the beginning."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(two)))


_MAX_COMPARED_LINES = 1_500  # of both sides; more are shown as one change


def _hunks(one: list[str], two: list[str], low: int, equal: tuple[int, int]) -> Iterator[str]:
    """Yield the lines of the diff. `low` lines come before; `equal` has the equal lines at both ends."""
    if len(one) + len(two) <= _MAX_COMPARED_LINES:
        groups = list(difflib.SequenceMatcher(None, one, two, False).get_grouped_opcodes(_CONTEXT_LINES))
    else:
        head = equal[0]
        end_one = len(one) - equal[1]
        end_two = len(two) - equal[1]
        before = ("equal", 0, head, 0, head)
        after = ("equal", end_one, len(one), end_two, len(two))
        groups = [[before, ("replace", head, end_one, head, end_two), after]]
    for group in groups:
        first = group[0]
        last = group[-1]
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
