"""Say why a piece of text was not found in a file, and where something like it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from time import thread_time

_SEARCH_LIMIT_S = 0.2  # of computing, for a similar block; the best one found by then counts
_MIN_LIKENESS = 0.6  # from which a block is worth showing, as difflib counts
_MAX_BLOCK_LINES = 12  # of the file that are shown
_MAX_LINE_CHARS = 500  # of a line that are compared and shown
_LINE_NUMBER = re.compile(r"^ *\d+(?:\t|→|\|| \| |: ?)", re.MULTILINE)
_TYPOGRAPHY = str.maketrans("‘’‚‛“”„‟′″‐‑‒–—―−\u00a0\u202f", "''''\"\"\"\"'\"-------  ")


def diagnose_mismatch(flat: str, old: str, new: str) -> str:
    """One or two lines that say why `old` is not in the file's text, and the lines that come nearest.

    All three texts have unified line ends.
    """
    for find in (_undecodable, _numbered, _applied, _spaced, _typographic, _overescaped):
        found = find(flat, old, new)
        if found is not None:
            return found
    return _nearest(flat, old)


def _undecodable(flat: str, old: str, new: str) -> str | None:
    if "\ufffd" not in old or "\ufffd" in flat:
        return None
    return "old_string holds \ufffd, which stands for bytes that are no text. Match the text around them."


def _numbered(flat: str, old: str, new: str) -> str | None:
    lines = [line for line in old.split("\n") if line.strip()]
    if not lines or not all(_LINE_NUMBER.match(line) for line in lines):
        return None
    place = flat.find(_LINE_NUMBER.sub("", old))
    if place < 0:
        return "old_string holds line numbers, which are not in the file. Leave them and the tab out."
    return (
        f"old_string holds the line numbers of the read output. Leave them and the tab after them out; "
        f"without them it is on line {_line_of(flat, place)}."
    )


def _applied(flat: str, old: str, new: str) -> str | None:
    place = flat.find(new) if len(new.strip()) >= 4 else -1
    if place < 0:
        return None
    return f"new_string is already in the file, on line {_line_of(flat, place)}: the edit seems to be done."


def _spaced(flat: str, old: str, new: str) -> str | None:
    place = _find_block(flat, old, lambda line: " ".join(line.split()))
    if place is None:
        place = _find_block(flat, old, lambda line: "".join(line.split()))
    if place is None:
        return None
    return f"Only white space differs (tabs, spaces, blank ends). The file has:\n{_excerpt(flat, *place)}"


def _typographic(flat: str, old: str, new: str) -> str | None:
    place = flat.translate(_TYPOGRAPHY).find(old.translate(_TYPOGRAPHY))
    if place < 0:
        return None
    first = _line_of(flat, place) - 1
    shown = _excerpt(flat, first, first + old.count("\n") + 1)
    return f"Only quotes, dashes or special spaces differ (curly and straight). The file has:\n{shown}"


def _overescaped(flat: str, old: str, new: str) -> str | None:
    plain = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")
    place = flat.find(plain) if plain != old else -1
    if place < 0:
        return None
    return f"old_string is escaped once too often; unescaped it is on line {_line_of(flat, place)}."


def _nearest(flat: str, old: str) -> str:
    wanted = old.strip("\n").split("\n")
    likeness, first = max(
        _similar_blocks(flat.split("\n"), wanted), default=(0.0, 0), key=lambda found: found[0]
    )
    if likeness < _MIN_LIKENESS:
        return "Nothing like it was found. Read the file again and copy the text exactly."
    return f"The nearest text is this; copy it exactly:\n{_excerpt(flat, first, first + len(wanted))}"


def _similar_blocks(lines: list[str], wanted: list[str]) -> Iterator[tuple[float, int]]:
    """(likeness, index of the first line) of the blocks around lines that are like the longest wanted one."""
    anchor = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    target = wanted[anchor].strip()[:_MAX_LINE_CHARS]
    if not target:
        return
    until = thread_time() + _SEARCH_LIMIT_S
    matcher = SequenceMatcher(None, "", target, False)
    for index, line in enumerate(lines):
        if thread_time() > until:
            return
        matcher.set_seq1(line.strip()[:_MAX_LINE_CHARS])
        if matcher.real_quick_ratio() < _MIN_LIKENESS or matcher.quick_ratio() < _MIN_LIKENESS:
            continue
        likeness = matcher.ratio()
        if likeness >= _MIN_LIKENESS:
            first = max(0, index - anchor)
            block = zip(lines[first : first + len(wanted)], wanted, strict=False)
            same = sum(one.strip() == two.strip() for one, two in block)
            yield likeness + same / len(wanted), first


def _find_block(flat: str, old: str, plain: Callable[[str], str]) -> tuple[int, int] | None:
    """The lines [first, last) of the file that are those of `old` when both are made plain."""
    wanted = [plain(line) for line in old.strip("\n").split("\n")]
    if not any(wanted):
        return None
    lines = "\n".join(["", *map(plain, flat.split("\n")), ""])
    place = lines.find("\n".join(["", *wanted, ""]))
    if place >= 0:
        first = lines.count("\n", 0, place)
        return first, first + len(wanted)
    place = lines.find(wanted[0]) if len(wanted) == 1 else -1
    if place < 0:
        return None
    first = lines.count("\n", 0, place) - 1
    return first, first + 1


def _excerpt(flat: str, first: int, last: int) -> str:
    """The lines [first, last) with their numbers, shortened."""
    lines = flat.split("\n")
    low, high = max(0, first), min(len(lines), last, first + _MAX_BLOCK_LINES)
    return "\n".join(f"{index + 1:6d}\t{lines[index][:_MAX_LINE_CHARS]}" for index in range(low, high))


def _line_of(flat: str, place: int) -> int:
    return flat.count("\n", 0, place) + 1
