"""Say why a piece of text was not found in a file, and where something like it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    if "\ufffd" in old and "\ufffd" not in flat:
        return "old_string holds \ufffd, which stands for bytes that are no text. Match the text around them."
    lines = [line for line in old.split("\n") if line.strip()]
    if lines and all(_LINE_NUMBER.match(line) for line in lines):
        place = flat.find(_LINE_NUMBER.sub("", old))
        if place < 0:
            return "old_string holds line numbers, which are not in the file. Leave them and the tab out."
        return (
            f"old_string holds the line numbers of the read output. Leave them and the tab after them out; "
            f"without them it is on line {_line_of(flat, place)}."
        )
    place = flat.find(new) if len(new.strip()) >= 4 else -1
    if place >= 0:
        line = _line_of(flat, place)
        return f"new_string is already in the file, on line {line}: the edit seems to be done."
    for filler in (" ", ""):
        first = _find_block(flat, old, filler)
        if first is not None:
            shown = _excerpt(flat, first, old.strip("\n").count("\n") + 1)
            return f"Only white space differs (tabs, spaces, blank ends). The file has:\n{shown}"
    place = flat.translate(_TYPOGRAPHY).find(old.translate(_TYPOGRAPHY))
    if place >= 0:
        shown = _excerpt(flat, _line_of(flat, place) - 1, old.count("\n") + 1)
        return f"Only quotes, dashes or special spaces differ (curly and straight). The file has:\n{shown}"
    plain = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")
    place = flat.find(plain) if plain != old else -1
    if place >= 0:
        return f"old_string is escaped once too often; unescaped it is on line {_line_of(flat, place)}."
    return _nearest(flat, old)


def _nearest(flat: str, old: str) -> str:
    wanted = old.strip("\n").split("\n")
    likeness, first = max(
        _similar_blocks(flat.split("\n"), wanted), default=(0.0, 0), key=lambda found: found[0]
    )
    if likeness < _MIN_LIKENESS:
        return "Nothing like it was found. Read the file again and copy the text exactly."
    return f"The nearest text is this; copy it exactly:\n{_excerpt(flat, first, len(wanted))}"


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


def _find_block(flat: str, old: str, filler: str) -> int | None:
    """The index of the file's line where `old` begins once every run of white space is the filler."""
    wanted = [filler.join(line.split()) for line in old.strip("\n").split("\n")]
    if not any(wanted):
        return None
    lines = "\n".join(["", *(filler.join(line.split()) for line in flat.split("\n")), ""])
    place = lines.find("\n".join(["", *wanted, ""]))
    if place >= 0:
        return lines.count("\n", 0, place)
    place = lines.find(wanted[0]) if len(wanted) == 1 else -1
    return lines.count("\n", 0, place) - 1 if place >= 0 else None


def _excerpt(flat: str, first: int, count: int) -> str:
    """So many lines from the index `first` on with their numbers, shortened."""
    lines = flat.split("\n")[first : first + min(count, _MAX_BLOCK_LINES)]
    return "\n".join(f"{number:6d}\t{line[:_MAX_LINE_CHARS]}" for number, line in enumerate(lines, first + 1))


def _line_of(flat: str, place: int) -> int:
    return flat.count("\n", 0, place) + 1
