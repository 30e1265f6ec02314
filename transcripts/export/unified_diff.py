"""Read a unified diff as numbered rows, and find the words by which a changed line differs. Pure.

For the screen and for exported pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from transcripts.patterns import lazy_pattern

from .code_languages import language_of

_HUNK_STARTS = lazy_pattern(r"@@ -(\d+)\S* \+(\d+)")  # in the old and the new file
_PIECE = lazy_pattern(r"\w+|\s+|.")
MAX_MARKED_LINE_CHARS = 400  # words of longer lines are not compared
MAX_MARKED_LINES = 150  # of one diff: comparing takes up to half a millisecond a line
MAX_SKIPPED_LINES = 4  # that were put between two that belong together
MIN_KEPT_SHARE = 0.5  # of both lines that must have stayed, for marks to tell more than they hide

T = TypeVar("T")
Span = tuple[int, int]
ChangedWords = tuple[tuple[Span, ...], tuple[Span, ...]]  # of the old line, of the new one


class DiffRow(Struct, frozen=True):
    """A line of a diff. `sign` is "+", "-", " ", or "@" for a gap; `marks` are the words that changed."""

    number: int | None
    sign: str
    text: str
    marks: tuple[Span, ...] = ()


class UnifiedDiff(Struct, frozen=True):
    """A diff as rows; `name` is the one that its head gives the file, "" if it has none."""

    name: str
    rows: tuple[DiffRow, ...]

    @property
    def language(self) -> str:
        """The language of the file, "text" if it has none that is coloured."""
        return language_of(self.name)

    def marked(self, count: int | None = None) -> UnifiedDiff:
        """Return the diff, or its first `count` rows, with the words marked that changed in a line.

        They are looked for where removed and added lines stand in pairs.
        """
        return replace(self, rows=tuple(_with_marks(self.rows[:count])))

    def by_side(self, read: Callable[[str], Iterable[T]]) -> list[T]:
        """Apply `read` to each row, as lines of a whole file: removed ones as they stood in the old file."""
        sides = {}
        for sign in "-+":
            rows = (row for row in self.rows if row.sign in (sign, " ", "@"))
            code = "\n".join("" if row.sign == "@" else row.text for row in rows)
            sides[sign] = iter(read(code))
        found = []
        for row in self.rows:
            found.append(next(sides["-" if row.sign == "-" else "+"]))
            if row.sign in " @":
                next(sides["-"])
        return found


def read_diff(lines: Sequence[str]) -> UnifiedDiff:
    """Read the lines of a unified diff."""
    return UnifiedDiff(_file_name(lines), tuple(_rows(lines)))


def _file_name(lines: Sequence[str]) -> str:
    """The name that the head of a diff gives the file, "" if it has none."""
    for line in lines:
        if line.startswith("@@"):
            break
        if line.startswith("+++ ") and line[4:] != "/dev/null":
            return line[4:].removeprefix("b/")
    return ""


def _rows(lines: Sequence[str]) -> list[DiffRow]:
    """The lines of a unified diff with the numbers that they have in their file; heads are left out."""
    rows: list[DiffRow] = []
    old = new = 0
    for line in lines:
        if line.startswith("@@"):
            starts = _HUNK_STARTS.match(line)
            old, new = (max(int(start), 1) for start in starts.groups()) if starts else (1, 1)
            rows += [DiffRow(None, sign="@", text="")] if rows else []
        elif not (old or new) or line.startswith("\\") or not line:
            continue
        elif line[0] == "-":
            rows.append(DiffRow(old, sign="-", text=line[1:]))
            old += 1
        else:
            rows.append(DiffRow(new, sign="+" if line[0] == "+" else " ", text=line[1:]))
            old = old + (line[0] != "+")
            new = new + 1
    return rows


def _with_marks(rows: Sequence[DiffRow]) -> list[DiffRow]:
    """The rows with the words marked that changed in a line, where removed and added lines stand in pairs."""
    runs = [(sign, [*run]) for sign, run in groupby(rows, lambda row: row.sign)]
    compared = 0
    for at in range(len(runs) - 1):
        sign, removed = runs[at]
        next_sign, added = runs[at + 1]
        if (sign, next_sign) != ("-", "+") or compared > MAX_MARKED_LINES:
            continue
        for old, new, marks in _pairs(removed, added):
            removed[old] = replace(removed[old], marks=marks[0])
            added[new] = replace(added[new], marks=marks[1])
        compared += len(removed)
    return [row for _, run in runs for row in run]


def _pairs(removed: Sequence[DiffRow], added: Sequence[DiffRow]) -> Iterator[tuple[int, int, ChangedWords]]:
    """Pair each removed line with the added one that replaced it, in order, and yield the changed words.

    The partner of a line is the next one that has enough in common with it.
    """
    begin = 0
    for old, row in enumerate(removed):
        for new in range(begin, min(begin + MAX_SKIPPED_LINES + 1, len(added))):
            marks = changed_words(row.text, added[new].text)
            if any(marks):
                yield old, new, marks
                begin = new + 1
                break


def changed_words(old: str, new: str) -> ChangedWords:
    """The stretches of both lines that differ; none where they have little in common."""
    if max(len(old), len(new)) > MAX_MARKED_LINE_CHARS or not (old.strip() and new.strip()):
        return (), ()
    words = [_PIECE.findall(old), _PIECE.findall(new)]
    codes = SequenceMatcher(str.isspace, words[0], words[1], autojunk=False).get_opcodes()
    kept = sum(len("".join(words[0][low:high])) for kind, low, high, _, _ in codes if kind == "equal")
    if kept < MIN_KEPT_SHARE * max(len(old), len(new)):
        return (), ()
    changes = [code for code in codes if code[0] != "equal"]
    return (
        tuple(_spans(words[0], [(low, high) for _, low, high, _, _ in changes])),
        tuple(_spans(words[1], [(low, high) for _, _, _, low, high in changes])),
    )


def _spans(words: list[str], changes: list[Span]) -> Iterator[Span]:
    for low, high in changes:
        begin = sum(map(len, words[:low]))
        end = begin + sum(map(len, words[low:high]))
        if end > begin:
            yield begin, end
