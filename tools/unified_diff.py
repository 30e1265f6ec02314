"""Show what changed in a text, as `diff -u` does."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from msgspec import Struct

MAX_COMPARED_LINES = 1_500  # of both sides; more count as one change
_CONTEXT_LINES = 3  # shown around a change in a diff, as in diff -u


class UnifiedDiff(Struct, frozen=True):
    """A diff as `diff -u` writes it, and the numbers of lines added and removed."""

    text: str
    added: int
    removed: int

    @property
    def note(self) -> str:
        return f"+{self.added} -{self.removed}"


def unified_diff(old: str, new: str, name: str) -> UnifiedDiff:
    """Return the diff of two texts with unified line endings. Equal lines at both ends are skipped first."""
    before = diff_lines(old)
    after = diff_lines(new)
    start = equal_start(before, after)
    same_end = equal_start(before[start:][::-1], after[start:][::-1])
    low = max(0, start - _CONTEXT_LINES)
    tail = min(same_end, _CONTEXT_LINES)
    one = before[low : len(before) - same_end + tail]
    two = after[low : len(after) - same_end + tail]
    lines = [f"--- a/{name}", f"+++ b/{name}", *_hunks(one, two, low, (start - low, tail))]
    added = sum(line[0] == "+" for line in lines[2:])
    removed = sum(line[0] == "-" for line in lines[2:])
    return UnifiedDiff("\n".join(lines) + "\n" if added + removed else "", added=added, removed=removed)


def diff_lines(text: str) -> list[str]:
    """Return the lines; a last line without a newline is marked as by diff."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    else:
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def equal_start(one: list[str], two: list[str]) -> int:
    """Return the number of equal lines at the beginning."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(two)))


def _hunks(one: list[str], two: list[str], low: int, equal: tuple[int, int]) -> Iterator[str]:
    """Yield the lines of the diff. `low` lines come before; `equal` has the equal lines at both ends."""
    if len(one) + len(two) <= MAX_COMPARED_LINES:
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
