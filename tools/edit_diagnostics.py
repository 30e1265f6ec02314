"""Explain why a text to replace is not in a file, and find the nearest lines. Pure.

All texts here have unified line ends.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from time import thread_time

from transcripts import INVISIBLE
from transcripts.patterns import lazy_pattern

from .patch import added_omission

_SEARCH_LIMIT_S = 0.2  # of computing, for a similar block; the best one found by then counts
_MIN_LIKENESS = 0.6  # from which a block is worth showing, as difflib counts
_MIN_DONE_CHARS = 4  # of new_string near the best match, to tell that the edit was made already
_MIN_FAR_DONE_CHARS = 30  # the same where nothing in the file is like old_string
_MAX_BLOCK_LINES = 12  # of the file that are shown
_LEAD_LINES = 3  # shown before the first line that differs in a block that is cut
_MAX_LINE_CHARS = 500  # of a line that are compared and shown
_LEAD_CHARS = 200  # shown before the first character that differs in a line that is cut
_PIECE_CHARS = (16, 8)  # of a text, by which its place in a long line is found
_MAX_PIECES = 40  # of one size that are sought
_MAX_SOUGHT_CHARS = 2_000  # of a text that is cut into such pieces
_CHUNK_CHARS = 1_024
_MAX_COMPARED_CHARS = 2_000  # of a block, to name the characters that differ
_MAX_NAMED_CHARS = 6
_LINE_NUMBER = lazy_pattern(r"^ *\d+(?:\t|→|\|| \| |: ?)", re.MULTILINE)
_SPACE_OR_TAB = lazy_pattern(r"[ \t\r\f\v]+")
_TYPOGRAPHY = str.maketrans("‘’‚‛“”„‟′″‐‑‒–—―−", "''''\"\"\"\"'\"-------")
_UNSEEN_CHARS = lazy_pattern(f"[{INVISIBLE}]")
_ALIKE = "characters that look alike differ (quotes, dashes, special spaces, accents, width, joiners)"


def diagnose_mismatch(flat: str, old: str, new: str) -> str:
    """One or two lines that say why `old` is not in the file's text, and the lines that come nearest."""
    if "\ufffd" in old and "\ufffd" not in flat:
        return (
            "old_string holds \ufffd, which stands for bytes that are not text. Match the text around them."
        )
    lines = [line for line in old.split("\n") if line.strip()]
    if lines and all(_LINE_NUMBER.match(line) for line in lines):
        place = flat.find(_LINE_NUMBER.sub("", old))
        if place < 0:
            return "old_string holds line numbers, which are not in the file. Leave them and the tab out."
        return (
            f"old_string holds the line numbers of the read output. Leave them and the tab after them out; "
            f"without them it is on line {_line_of(flat, place)}."
        )
    if omission := added_omission(old, flat):
        return (
            f"old_string holds {omission!r}, which is not in the file: it has to be exact. Copy the code "
            "that this stands for, or make an edit of each part."
        )
    if old.endswith("\n") and old.strip() and flat.endswith(old.rstrip("\n")):
        return "The file ends there without that line end: leave the newline at the end of old_string out."
    return _almost_there(flat, old) or _nearest(flat, old, new)


def _almost_there(flat: str, old: str) -> str:
    """Describe a difference of white space, similar characters, or escapes alone; "" for more."""
    wanted = old.strip("\n").split("\n")
    for simple in (_one_blank, _no_blanks):
        if (first := _find_block(flat, old, simple)) is not None:
            shown = _excerpt(flat, first, wanted)
            return f"Only white space differs (tabs, spaces, blank ends). The file has:\n{shown}"
    for simple in (_plain_characters, _plain_and_no_blanks):
        if (first := _find_block(flat, old, simple)) is not None:
            block = flat.split("\n")[first : first + len(wanted)]
            if len(block) == 1:  # the text may be anywhere in a long line
                at = _place_in(block[0], wanted[0])
                block = [block[0][at : at + len(wanted[0])] if at else block[0]]
            named = _differing_characters("\n".join(block), old)
            also = "" if simple is _plain_characters else ", and white space"
            return f"Only {_ALIKE}{also}{named}. The file has:\n{_excerpt(flat, first, wanted)}"
    plain = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")
    place = flat.find(plain) if plain != old else -1
    if place >= 0:
        return f"old_string is escaped once too often; unescaped it is on line {_line_of(flat, place)}."
    escaped = old.strip("\n").replace("\n", "\\n").replace("\t", "\\t")
    place = flat.find(escaped) if escaped != old.strip("\n") else -1
    if place >= 0:
        return (
            "The file has a backslash and n (or t) where old_string has a line end (or tab): double the "
            f"backslash in the call. It is on line {_line_of(flat, place)}."
        )
    return ""


def _one_blank(line: str) -> str:
    return _SPACE_OR_TAB.sub(" ", line).strip(" ")


def _no_blanks(line: str) -> str:
    return _SPACE_OR_TAB.sub("", line)


def _plain_characters(line: str) -> str:
    """The line with one form for each character that looks the same, and none that cannot be seen."""
    if line.isascii():
        return line
    return unicodedata.normalize("NFKC", _UNSEEN_CHARS.sub("", line.translate(_TYPOGRAPHY)))


def _plain_and_no_blanks(line: str) -> str:
    return "".join(_plain_characters(line).split())


def _find_block(flat: str, old: str, simple: Callable[[str], str]) -> int | None:
    """The index of the file's line where `old` begins once every line is simplified."""
    wanted = [simple(line) for line in old.strip("\n").split("\n")]
    if not any(wanted):
        return None
    lines = "\n".join(["", *map(simple, flat.split("\n")), ""])
    place = lines.find("\n".join(["", *wanted, ""]))
    if place >= 0:
        return lines.count("\n", 0, place)
    place = lines.find(wanted[0]) if len(wanted) == 1 else -1
    return lines.count("\n", 0, place) - 1 if place >= 0 else None


def _differing_characters(found: str, old: str) -> str:
    """The characters that differ, by code point: `: the file has U+00A0 (no-break space) where ...`."""
    found = found[:_MAX_COMPARED_CHARS]
    old = old.strip("\n")[:_MAX_COMPARED_CHARS]
    steps = [step for step in SequenceMatcher(None, found, old, False).get_opcodes() if step[0] != "equal"]
    within = [step for step in steps if step[0] != "delete" or (step[1] > 0 and step[2] < len(found))]
    theirs = _named("".join(found[i1:i2] for _, i1, i2, _, _ in within))
    given = _named("".join(old[j1:j2] for *_, j1, j2 in within))
    return f": the file has {theirs or 'nothing'} where old_string has {given or 'nothing'}"


def _named(text: str) -> str:
    names = [
        f"U+{ord(each):04X} ({unicodedata.name(each, 'a control').lower()})" for each in dict.fromkeys(text)
    ]
    more = ", ..." if len(names) > _MAX_NAMED_CHARS else ""
    return ", ".join(names[:_MAX_NAMED_CHARS]) + more


def _nearest(flat: str, old: str, new: str) -> str:
    wanted = old.strip("\n").split("\n")
    blocks = _similar_blocks(flat.split("\n"), wanted)
    likeness, first, anchor = max(blocks, default=(0.0, 0, 0), key=lambda found: found[0])
    is_near = likeness >= _MIN_LIKENESS
    if done := _line_of_done(flat, old, new, anchor + 1 if is_near else None):
        return f"new_string is already in the file, on line {done}: the edit seems to be done."
    if not is_near:
        return "Nothing like it was found. Read the file again and copy the text exactly."
    return f"The nearest text is this; copy it exactly:\n{_excerpt(flat, first, wanted)}"


def _line_of_done(flat: str, old: str, new: str, near: int | None) -> int:
    """The line of `new` where that takes in the line `near`; 0 where it does not.

    Short texts stand everywhere, so one that is not near has to be long and the only one. Text that is within
    `old` would be there before the edit too.
    """
    size = len(new.strip())
    if size < _MIN_DONE_CHARS or _next_whole(old, new) >= 0:
        return 0
    if near is None:
        is_one = size >= _MIN_FAR_DONE_CHARS and flat.count(new) == 1
        return _line_of(flat, flat.find(new)) if is_one else 0
    place = _next_whole(flat, new)
    while place >= 0:
        line = _line_of(flat, place)
        if line <= near <= line + new.strip("\n").count("\n"):
            return line
        place = _next_whole(flat, new, place + 1) if line <= near else -1
    return 0


def _next_whole(text: str, piece: str, start: int = 0) -> int:
    """Find the next place of the piece without cutting a word in two; -1 where there is none."""
    place = text.find(piece, start)
    while place >= 0:
        end = place + len(piece)
        cuts_first = text[max(0, place - 1) : place].isalnum() and piece[0].isalnum()
        if not cuts_first and not (text[end : end + 1].isalnum() and piece[-1].isalnum()):
            return place
        place = text.find(piece, place + 1)
    return -1


def _similar_blocks(lines: list[str], wanted: list[str]) -> Iterator[tuple[float, int, int]]:
    """(likeness, index of the first line, of the alike one) around lines that are like the longest wanted."""
    anchor = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    target = wanted[anchor].strip()[:_MAX_LINE_CHARS]
    if not target:
        return
    until = thread_time() + _SEARCH_LIMIT_S
    matcher = SequenceMatcher(None, "", target, False)
    for index, line in enumerate(lines):
        if thread_time() > until:
            return
        text = line.strip()
        at = _likely_place(text, target) if len(text) > _MAX_LINE_CHARS else 0
        matcher.set_seq1(text[at : at + (len(target) if at else _MAX_LINE_CHARS)])
        if matcher.real_quick_ratio() < _MIN_LIKENESS or matcher.quick_ratio() < _MIN_LIKENESS:
            continue
        likeness = matcher.ratio()
        if likeness >= _MIN_LIKENESS:
            first = max(0, index - anchor)
            block = zip(lines[first : first + len(wanted)], wanted, strict=False)
            same = sum(one.strip() == two.strip() for one, two in block)
            yield likeness + same / len(wanted), first, index


def _excerpt(flat: str, first: int, wanted: Sequence[str]) -> str:
    """The lines from the index `first` on that stand for the wanted ones, numbered.

    Of many those around the first that differs, with a note; of long ones what is around the text.
    """
    lines = flat.split("\n")[first : first + len(wanted)]
    pairs = enumerate(zip(lines, wanted, strict=False))
    differs = next((at for at, (one, two) in pairs if one != two), 0)
    start = max(0, min(differs - _LEAD_LINES, len(lines) - _MAX_BLOCK_LINES))
    shown = lines[start : start + _MAX_BLOCK_LINES]
    rows = [f"{first + at + 1}\t{_cut(line, wanted[at])}" for at, line in enumerate(shown, start)]
    if len(shown) < len(lines):
        rows.append(
            f"[{len(shown)} of the {len(lines)} lines {first + 1}-{first + len(lines)}; "
            f"the first that differs is line {first + differs + 1}]"
        )
    return "\n".join(rows)


def _cut(line: str, wanted: str) -> str:
    """The line; of a long one the part that stands for the wanted text, or that differs from it."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    at = _place_in(line, wanted)
    pairs = enumerate(zip(line[at:], wanted, strict=False))
    same = next((number for number, (one, two) in pairs if one != two), 0)
    start = max(at, at + same - _LEAD_CHARS)
    left = len(line) - start - _MAX_LINE_CHARS
    before = f"[+{start:,} chars]…" if start else ""
    return before + line[start : start + _MAX_LINE_CHARS] + (f"…[+{left:,} chars]" if left > 0 else "")


def _place_in(line: str, wanted: str) -> int:
    """Find the place of the wanted text in a long line, or the nearest match; 0 for other lines."""
    if len(line) <= _MAX_LINE_CHARS:
        return 0
    for simple in (_no_blanks, _plain_and_no_blanks):
        place = simple(line).find(simple(wanted)) if wanted.strip() else -1
        for start in range(0, len(line) if place >= 0 else 0, _CHUNK_CHARS):
            sizes = partial(_simple_size, simple, line[start : start + _CHUNK_CHARS])
            if sizes(_CHUNK_CHARS) > place:
                return start + bisect_right(range(_CHUNK_CHARS), place, key=sizes) - 1
            place -= sizes(_CHUNK_CHARS)
    return _likely_place(line, wanted)


def _simple_size(simple: Callable[[str], str], text: str, characters: int) -> int:
    return len(simple(text[:characters]))


def _likely_place(line: str, wanted: str) -> int:
    """Find the likely start of the text in the line, by its rarest piece there; 0 where none occurs."""
    wanted = wanted[:_MAX_SOUGHT_CHARS]
    for size in _PIECE_CHARS:
        starts = range(0, max(1, len(wanted) - size + 1), 1 + len(wanted) // _MAX_PIECES)
        counts = [(count, at) for at in starts if (count := line.count(wanted[at : at + size]))]
        if counts:
            _, at = min(counts)
            return max(0, line.find(wanted[at : at + size]) - at)
    return 0


def _line_of(flat: str, place: int) -> int:
    return flat.count("\n", 0, place) + 1
