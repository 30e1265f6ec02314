"""Say why a piece of text was not found in a file, and where something like it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from time import thread_time

_PATIENCE = 0.2  # seconds of computing spent on the search for a similar block; what is found by then counts
_ENOUGH = 0.6  # likeness from which a block is worth showing, as difflib counts
_SHOWN = 12  # lines of the file shown at most
_NUMBERED = re.compile(r"^ *\d+(?:\t|→|\|| \| |: ?)", re.MULTILINE)
_TYPOGRAPHY = str.maketrans("‘’‚‛“”„‟′″‐‑‒–—―−\u00a0\u202f", "''''\"\"\"\"'\"-------  ")


def diagnose_mismatch(flat: str, old: str, new: str) -> str:
    """One or two lines that say why `old` is not in the file's text, and the lines that come nearest.

    All three have unified line ends.
    """
    for find in (_damaged, _numbered, _applied, _spaced, _typographic, _overescaped):
        found = find(flat, old, new)
        if found is not None:
            return found
    return _nearest(flat, old)


def _damaged(flat: str, old: str, new: str) -> str | None:
    if "\ufffd" not in old or "\ufffd" in flat:
        return None
    return "old_string holds \ufffd, which stands for bytes that are no text. Match the text around them."


def _numbered(flat: str, old: str, new: str) -> str | None:
    lines = [line for line in old.split("\n") if line.strip()]
    if not lines or not all(_NUMBERED.match(line) for line in lines):
        return None
    bare = _NUMBERED.sub("", old)
    place = flat.find(bare)
    if place < 0:
        return "old_string holds line numbers, which are not in the file. Leave them and the tab out."
    return (
        f"old_string holds the line numbers of the read output. Leave them and the tab after them out; "
        f"without them it is on line {_line(flat, place)}."
    )


def _applied(flat: str, old: str, new: str) -> str | None:
    if not new.strip() or len(new.strip()) < 4:
        return None
    place = flat.find(new)
    if place < 0:
        return None
    return f"new_string is already in the file, on line {_line(flat, place)}: the edit seems to be done."


def _spaced(flat: str, old: str, new: str) -> str | None:
    place = _block(flat, old, lambda line: " ".join(line.split()))
    if place is None:
        place = _block(flat, old, lambda line: "".join(line.split()))
    if place is None:
        return None
    return f"Only white space differs (tabs, spaces, blank ends). The file has:\n{_show(flat, *place)}"


def _typographic(flat: str, old: str, new: str) -> str | None:
    place = flat.translate(_TYPOGRAPHY).find(old.translate(_TYPOGRAPHY))
    if place < 0:
        return None
    first = _line(flat, place)
    shown = _show(flat, first - 1, first - 1 + old.count("\n") + 1)
    return f"Only quotes, dashes or special spaces differ (curly and straight). The file has:\n{shown}"


def _overescaped(flat: str, old: str, new: str) -> str | None:
    plain = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")
    place = flat.find(plain) if plain != old else -1
    if place < 0:
        return None
    return f"old_string is escaped once too often; unescaped it is on line {_line(flat, place)}."


def _nearest(flat: str, old: str) -> str:
    wanted = old.strip("\n").split("\n")
    best, score = -1, 0.0
    for index, likeness in _likenesses(flat.split("\n"), wanted):
        if likeness > score:
            best, score = index, likeness
    if score < _ENOUGH:
        return "Nothing like it was found. Read the file again and copy the text exactly."
    return f"The nearest text is this; copy it exactly:\n{_show(flat, best, best + len(wanted))}"


def _likenesses(lines: list[str], wanted: list[str]) -> Iterator[tuple[int, float]]:
    """(first line, likeness) of the blocks around lines that are like the longest wanted one."""
    anchor = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    target = wanted[anchor].strip()[:500]
    if not target:
        return
    until = thread_time() + _PATIENCE
    matcher = SequenceMatcher(None, "", target, False)
    for index, line in enumerate(lines):
        if thread_time() > until:
            return
        matcher.set_seq1(line.strip()[:500])
        if matcher.real_quick_ratio() < _ENOUGH or matcher.quick_ratio() < _ENOUGH:
            continue
        likeness = matcher.ratio()
        if likeness >= _ENOUGH:
            start = max(0, index - anchor)
            yield start, likeness + _equal_share(lines[start : start + len(wanted)], wanted)


def _equal_share(lines: list[str], wanted: list[str]) -> float:
    same = sum(one.strip() == two.strip() for one, two in zip(lines, wanted, strict=False))
    return same / len(wanted)


def _block(flat: str, old: str, plain: Callable[[str], str]) -> tuple[int, int] | None:
    """The lines [first, last) that are those of `old` under `plain`."""
    wanted = [plain(line) for line in old.strip("\n").split("\n")]
    if not any(wanted):
        return None
    lines = [plain(line) for line in flat.split("\n")]
    haystack, needle = "\n".join(["", *lines, ""]), "\n".join(["", *wanted, ""])
    place = haystack.find(needle)
    if place < 0 and len(wanted) == 1 and wanted[0]:
        place = haystack.find(wanted[0])
        if place < 0:
            return None
        first = haystack.count("\n", 0, place) - 1
        return first, first + 1
    if place < 0:
        return None
    first = haystack.count("\n", 0, place)
    return first, first + len(wanted)


def _show(flat: str, first: int, last: int) -> str:
    lines = flat.split("\n")
    low, high = max(0, first), min(len(lines), last, first + _SHOWN)
    return "\n".join(f"{index + 1:6d}\t{lines[index][:500]}" for index in range(low, high))


def _line(flat: str, place: int) -> int:
    return flat.count("\n", 0, place) + 1
