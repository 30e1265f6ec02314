"""Read a unified diff as numbered rows, and find the words that differ in a changed line. Pure.

Used by the screen and by exported pages.
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

_HUNK_STARTS = lazy_pattern(r"@@ -(\d+)\S* \+(\d+)")  # line numbers in the old and the new file
_PIECE = lazy_pattern(r"\w+|\s+|.")

T = TypeVar("T")
Span = tuple[int, int]
ChangedWords = tuple[tuple[Span, ...], tuple[Span, ...]]  # of the old line, of the new one


class DiffRow(Struct, frozen=True):
    """A line of a diff. `sign` is "+", "-", " ", or "@" for a gap; `marks` are the changed words."""

    number: int | None
    sign: str
    text: str
    marks: tuple[Span, ...] = ()


class UnifiedDiff(Struct, frozen=True):
    """A diff as rows; `name` is the file's name in the header of the diff, "" if there is none."""

    name: str
    rows: tuple[DiffRow, ...]

    @property
    def language(self) -> str:
        """The language of the file, "text" if its code is not coloured."""
        return language_of(self.name)

    def marked(self, count: int | None = None) -> UnifiedDiff:
        """Return the diff, or its first `count` rows, with the changed words of paired lines marked."""
        return replace(self, rows=tuple(_with_marks(self.rows[:count])))

    def by_side(self, read: Callable[[str], Iterable[T]]) -> list[T]:
        """Apply `read` to the code of each side, and return its result for each row, in order.

        `read` gets the lines of the old or the new file and returns one value per line.
        """
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
    """Return the file's name in the header of a diff, "" if there is none."""
    for line in lines:
        if line.startswith("@@"):
            break
        if line.startswith("+++ ") and line[4:] != "/dev/null":
            return line[4:].removeprefix("b/")
    return ""


def _rows(lines: Sequence[str]) -> list[DiffRow]:
    """Return the lines of a unified diff with their line numbers in the file, without headers."""
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
    """Return the rows with the changed words marked where an added line replaced a removed one."""
    runs = [(sign, [*run]) for sign, run in groupby(rows, lambda row: row.sign)]
    compared = 0
    for at in range(len(runs) - 1):
        sign, removed = runs[at]
        next_sign, added = runs[at + 1]
        # comparing takes up to half a millisecond per line
        if (sign, next_sign) != ("-", "+") or compared > 150:
            continue
        for old, new, marks in _pairs(removed, added):
            removed[old] = replace(removed[old], marks=marks[0])
            added[new] = replace(added[new], marks=marks[1])
        compared += len(removed)
    return [row for _, run in runs for row in run]


def _pairs(removed: Sequence[DiffRow], added: Sequence[DiffRow]) -> Iterator[tuple[int, int, ChangedWords]]:
    """Yield (removed, added, changed words) for each removed line and the added one that replaced it.

    The first two are indexes. A line is paired with the next added line that has enough in common with it.
    """
    begin = 0
    for old, row in enumerate(removed):
        for new in range(begin, min(begin + 5, len(added))):
            marks = changed_words(row.text, added[new].text)
            if any(marks):
                yield old, new, marks
                begin = new + 1
                break


def changed_words(old: str, new: str) -> ChangedWords:
    """Return the spans of both lines that differ; none if they have little in common."""
    # Longer lines are not compared.
    if max(len(old), len(new)) > 400 or not (old.strip() and new.strip()):
        return (), ()
    words = [_PIECE.findall(old), _PIECE.findall(new)]
    codes = SequenceMatcher(str.isspace, words[0], words[1], autojunk=False).get_opcodes()
    kept = sum(len("".join(words[0][low:high])) for kind, low, high, _, _ in codes if kind == "equal")
    if kept < 0.5 * max(len(old), len(new)):  # marks of less are not useful
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
