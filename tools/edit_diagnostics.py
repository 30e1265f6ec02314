"""Explain why a text to replace is not in a file, and find the most similar lines. Pure.

All texts here have unified line endings.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import partial
from time import thread_time

from transcripts import INVISIBLE
from transcripts.patterns import lazy_pattern
from transcripts.wording import pluralize

from .left_out_text import added_omission, is_omission

_MIN_LIKENESS = 0.6  # difflib's ratio, from which a block is worth showing
_SLACK_LINES = 12  # by which the file's block may be longer than old_string
_MAX_OMITTED_LINES = 300  # the same if old_string has dots for omitted lines
_MAX_UNLIKE_LINES = 3  # at either end
_MAX_NAMED_RANGES = 6
_MAX_BLOCK_LINES = 60  # of the file, shown at most
_MAX_LINE_CHARS = 500  # of a line, compared and shown at most
_PIECE_CHARS = (16, 8)  # of the pieces of a text by which its place in a long line is found
_CHUNK_CHARS = 1_024
_MAX_COMPARED_CHARS = 2_000  # of a block, to name the characters that differ
_MAX_NAMED_CHARS = 6
_LINE_NUMBER = lazy_pattern(r"^ *\d+(?:\t|→|\|| \| |: ?)", re.MULTILINE)
_DOTS = lazy_pattern(
    r"\s*(?:\.{3}|…)\s*|\s*(?:#|//|--|/\*|<!--|;|%)\s*(?:(?:\.{3}|…).*|.*(?:\.{3}|…)\s*(?:\*/|-->)?\s*)"
)
_SPACE_OR_TAB = lazy_pattern(r"[ \t\r\f\v]+")
_TYPOGRAPHY = str.maketrans("‘’‚‛“”„‟′″‐‑‒–—―−", "''''\"\"\"\"'\"-------")
_UNSEEN_CHARS = lazy_pattern(f"[{INVISIBLE}]")


def diagnose_mismatch(flat: str, old: str, new: str) -> str:
    """Explain in a line or two why `old` is not in the file's text, and show the most similar lines."""
    if "\ufffd" in old and "\ufffd" not in flat:
        return (
            "old_string contains \ufffd, which stands for bytes that are not valid text. "
            "Match the text around them."
        )
    lines = [line for line in old.split("\n") if line.strip()]
    if lines and all(_LINE_NUMBER.match(line) for line in lines):
        place = flat.find(_LINE_NUMBER.sub("", old))
        if place < 0:
            return "old_string contains line numbers, which are not in the file. Remove them and their tabs."
        return (
            "old_string contains the line numbers of the read output. Remove them and their tabs; "
            f"without them it matches on line {_line_of(flat, place)}."
        )
    if omission := added_omission(old, flat):
        return (
            f"old_string contains {omission!r}, which is not in the file: it must match exactly. "
            f"Include the code that this stands for, or edit each part separately.{_closest(flat, old)}"
        )
    if old.endswith("\n") and old.strip() and flat.endswith(old.rstrip("\n")):
        return "The file does not end with a newline: remove the one at the end of old_string."
    return _almost_there(flat, old) or _nearest(flat, old, new)


_ALIKE = "similar-looking characters (quotes, dashes, special spaces, accents, width, joiners)"


def _almost_there(flat: str, old: str) -> str:
    """Describe a difference only in whitespace, similar-looking characters or escapes; "" for any other."""
    lines = flat.split("\n")
    wanted = old.strip("\n").split("\n")
    for simple in (_one_space, _no_spaces):
        if (first := _find_block(flat, old, simple)) is not None:
            shown = _excerpt(lines, first, first + len(wanted), wanted)
            others = _others(flat, lines[first : first + len(wanted)])
            return f"Only whitespace differs (tabs, spaces, ends of lines). The file has:\n{shown}{others}"
    for simple in (_plain_characters, _plain_and_no_spaces):
        if (first := _find_block(flat, old, simple)) is not None:
            block = lines[first : first + len(wanted)]
            if len(block) == 1:  # the text may be anywhere in a long line
                at = _place_in(block[0], wanted[0])
                block = [block[0][at : at + len(wanted[0])] if at else block[0]]
            named = _differing_characters("\n".join(block), old)
            also = "" if simple is _plain_characters else " and whitespace"
            shown = _excerpt(lines, first, first + len(wanted), wanted)
            others = _others(flat, block)
            return f"Only {_ALIKE}{also} differ{named}. The file has:\n{shown}{others}"
    plain = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")
    place = flat.find(plain) if plain != old else -1
    if place >= 0:
        return f"old_string is escaped once too often; unescaped, it is on line {_line_of(flat, place)}."
    escaped = old.strip("\n").replace("\n", "\\n").replace("\t", "\\t")
    place = flat.find(escaped) if escaped != old.strip("\n") else -1
    if place >= 0:
        return (
            "The file has a literal \\n (or \\t) where old_string has a newline (or tab): double the "
            f"backslash in the call. It is on line {_line_of(flat, place)}."
        )
    return ""


def _one_space(line: str) -> str:
    return _SPACE_OR_TAB.sub(" ", line).strip(" ")


def _no_spaces(line: str) -> str:
    return _SPACE_OR_TAB.sub("", line)


def _plain_characters(line: str) -> str:
    """Return the line with one form for similar-looking characters, and without invisible ones."""
    if line.isascii():
        return line
    return unicodedata.normalize("NFKC", _UNSEEN_CHARS.sub("", line.translate(_TYPOGRAPHY)))


def _plain_and_no_spaces(line: str) -> str:
    return "".join(_plain_characters(line).split())


def _find_block(flat: str, old: str, simple: Callable[[str], str]) -> int | None:
    """Return the index of the line where `old` begins if all lines are simplified, None if it does not."""
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
    """Name the characters that differ by code point: `: the file has U+00A0 (no-break space) where ...`."""
    found = found[:_MAX_COMPARED_CHARS]
    old = old.strip("\n")[:_MAX_COMPARED_CHARS]
    steps = [step for step in SequenceMatcher(None, found, old, False).get_opcodes() if step[0] != "equal"]
    within = [step for step in steps if step[0] != "delete" or (step[1] > 0 and step[2] < len(found))]
    theirs = _named("".join(found[i1:i2] for _, i1, i2, _, _ in within))
    given = _named("".join(old[j1:j2] for *_, j1, j2 in within))
    return f": the file has {theirs or 'nothing'} where old_string has {given or 'nothing'}"


def _named(text: str) -> str:
    names = [
        f"U+{ord(each):04X} ({unicodedata.name(each, 'control character').lower()})"
        for each in dict.fromkeys(text)
    ]
    more = ", ..." if len(names) > _MAX_NAMED_CHARS else ""
    return ", ".join(names[:_MAX_NAMED_CHARS]) + more


def _closest(flat: str, old: str) -> str:
    """Return a sentence with the lines that omitted code in old_string stands for, "" if none are similar."""
    lines = flat.split("\n")
    wanted = old.strip("\n").split("\n")
    found = _closest_lines(lines, wanted)
    return f" The file has:\n{_excerpt(lines, found.start, found.stop, wanted)}" if found else ""


def _nearest(flat: str, old: str, new: str) -> str:
    lines = flat.split("\n")
    wanted = old.strip("\n").split("\n")
    found = _closest_lines(lines, wanted)
    middle = found[len(found) // 2] + 1 if found else None
    if done := _line_of_done(flat, old, new, middle):
        return f"new_string is already in the file, on line {done}: the edit seems to have been made already."
    if found is None:
        return "Nothing similar was found. Read the file again and copy the text exactly."
    shown = _excerpt(lines, found.start, found.stop, wanted)
    others = _others(flat, lines[found.start : found.stop])
    return f"The closest match is below; copy it exactly:\n{shown}{others}"


def _others(flat: str, block: Sequence[str]) -> str:
    """Return a note if the file has the lines of the block more than once, "" if it does not."""
    count = flat.count("\n".join(block))
    if count < 2:
        return ""
    return f"\n[this text is in the file {count} times: include lines around the place, or set replace_all]"


_MIN_DONE_CHARS = 4  # of new_string near the best match, to conclude that the edit was already made
_MIN_FAR_DONE_CHARS = 30  # the same if nothing in the file is similar to old_string


def _line_of_done(flat: str, old: str, new: str, near: int | None) -> int:
    """Return the line of an occurrence of `new` that includes the line `near`, 0 if there is none.

    Short texts occur everywhere, so with `near` None the text has to be long and occur only once. Text within
    `old` was there before the edit, too.
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
    """Find the next occurrence of the piece that does not cut a word in two; -1 if there is none."""
    place = text.find(piece, start)
    while place >= 0:
        end = place + len(piece)
        cuts_first = text[max(0, place - 1) : place].isalnum() and piece[0].isalnum()
        if not cuts_first and not (text[end : end + 1].isalnum() and piece[-1].isalnum()):
            return place
        place = text.find(piece, place + 1)
    return -1


_SEARCH_LIMIT_S = 0.2  # of CPU time to find a similar line
_MIN_VOTING_CHARS = 4  # of a line that shows where the block is
_MAX_PLACES = 50  # of one line in the file that count
_Pairs = dict[int, int]  # index of a line of the file -> that of the wanted line that it corresponds to


def _closest_lines(lines: Sequence[str], wanted: Sequence[str]) -> range | None:
    """Return the indexes of the file's lines that correspond to the wanted ones, None if none are similar.

    Blank lines and indentation are ignored. Wanted lines before the first or after the last one that the file
    has correspond to as many lines of the file, at most _MAX_UNLIKE_LINES.
    """
    theirs = [line.strip() for line in lines]
    ours = [line.strip() for line in wanted]
    has_dots = any(_DOTS.fullmatch(line) or is_omission(line) for line in wanted)
    reach = _MAX_OMITTED_LINES if has_dots else _SLACK_LINES
    pairs = _corresponding(theirs, ours, reach)
    if not pairs:
        return None
    order = _without_strays(sorted(pairs.items()), theirs, _MAX_OMITTED_LINES if has_dots else 0)
    first, first_wanted = order[0]
    last, last_wanted = order[-1]
    before = sum(map(bool, ours[:first_wanted]))
    after = sum(map(bool, ours[last_wanted + 1 :]))
    above = [at for at in range(first - 1, -1, -1) if theirs[at]][: min(before, _MAX_UNLIKE_LINES)]
    below = [at for at in range(last + 1, len(theirs)) if theirs[at]][: min(after, _MAX_UNLIKE_LINES)]
    return range(min([first, *above]), max([last, *below]) + 1)


def _corresponding(theirs: Sequence[str], ours: Sequence[str], reach: int) -> _Pairs:
    """Pair the wanted lines with those of the file at the place that is most like them, {} if none is.

    Each line that is in both says where that is; a long one counts more, and one with many places in the file
    less. So does the line of the file that is most similar to the longest one, if that is not there.
    """
    places = defaultdict[str, list[int]](list)
    for index, line in enumerate(theirs):
        places[line].append(index)
    votes = defaultdict[int, float](float)
    for own, line in enumerate(ours):
        found = places[line] if len(line) >= _MIN_VOTING_CHARS else []
        for index in found[:_MAX_PLACES]:
            votes[index - own] += len(line) / len(found)
    longest = max(range(len(ours)), key=lambda own: len(ours[own]))
    similar = None if places[ours[longest]] else _most_similar(ours[longest], theirs)
    if similar is not None:
        votes[similar - longest] += len(ours[longest])
    if not votes:
        return {}
    shifts = range(-_SLACK_LINES, _SLACK_LINES + 1)
    offset = max(votes, key=lambda each: sum(votes.get(each + shift, 0.0) for shift in shifts))
    pairs = _pairs_near(offset, theirs, ours, reach)
    if similar is not None and similar - longest - offset in shifts:
        pairs.setdefault(similar, longest)
    return pairs


def _most_similar(target: str, theirs: Sequence[str]) -> int | None:
    """Return the index of the line that is most similar, None if none is similar enough."""
    target = target[:_MAX_LINE_CHARS]
    best: tuple[float, int | None] = (_MIN_LIKENESS, None)
    matcher = SequenceMatcher(None, "", target, False)
    until = thread_time() + _SEARCH_LIMIT_S
    for index, line in enumerate(theirs):
        if not target or thread_time() > until:
            break
        at = _likely_place(line, target) if len(line) > _MAX_LINE_CHARS else 0
        matcher.set_seq1(line[at : at + (len(target) if at else _MAX_LINE_CHARS)])
        if matcher.real_quick_ratio() >= best[0] and matcher.quick_ratio() >= best[0]:
            likeness = matcher.ratio()
            best = (likeness, index) if likeness > best[0] else best
    return best[1]


def _pairs_near(offset: int, theirs: Sequence[str], ours: Sequence[str], reach: int) -> _Pairs:
    """Pair the wanted lines with those of the file if the block begins at `offset`, or `reach` lines off."""
    near = range(max(0, offset - reach), min(len(theirs), offset + len(ours) + reach))
    filled = [at for at in near if theirs[at]]
    own = [at for at, line in enumerate(ours) if line]
    matcher = SequenceMatcher(None, [theirs[at] for at in filled], [ours[at] for at in own], False)
    blocks = matcher.get_matching_blocks()
    return {filled[a + at]: own[b + at] for a, b, size in blocks for at in range(size)}


def _without_strays(
    pairs: list[tuple[int, int]], theirs: Sequence[str], allowed: int
) -> list[tuple[int, int]]:
    """Return the pairs without short lines at either end that are far from the rest, such as a brace."""
    for end, near in ((0, 1), (-1, -2)):
        while len(pairs) > 1:
            gap = abs(pairs[end][0] - pairs[near][0]) - abs(pairs[end][1] - pairs[near][1])
            if gap <= max(allowed, _SLACK_LINES // 2) or len(theirs[pairs[end][0]]) > 2 * _SLACK_LINES:
                break
            del pairs[end]
    return pairs


def _excerpt(lines: Sequence[str], first: int, end: int, wanted: Sequence[str]) -> str:
    """Return the lines first..end-1, numbered, with a note of those that differ from the wanted ones.

    Of many lines, those around the first difference are shown; of a long line, the part around the text.
    """
    found = lines[first:end]
    own = {at: at for at in range(len(found))}
    differing = list[str]()
    extra = 0
    differs = 0
    for tag, i1, i2, j1, j2 in reversed(SequenceMatcher(None, found, wanted, False).get_opcodes()):
        own |= {i1 + at: min(j1 + at, j2 - 1) for at in range(i2 - i1) if j2 > j1}
        if tag != "equal":
            differs = i1
            extra += max(0, (j2 - j1) - (i2 - i1))
            if i2 > i1:
                differing.insert(0, f"{first + i1 + 1}" + (f"-{first + i2}" if i2 - i1 > 1 else ""))
    start = max(0, min(differs - 3, len(found) - _MAX_BLOCK_LINES))  # three lines of context
    shown = found[start : start + _MAX_BLOCK_LINES]
    rows = [
        f"{first + at + 1}\t{_cut(line, wanted[min(own.get(at, 0), len(wanted) - 1)])}"
        for at, line in enumerate(shown, start)
    ]
    if len(shown) < len(found):
        rows.append(
            f"[{len(shown)} of the {len(found)} lines {first + 1}-{first + len(found)}; "
            f"the first difference is on line {first + differs + 1}]"
        )
    elif len(found) > 1 or extra:
        named = ", ".join(differing[:_MAX_NAMED_RANGES]) + (", ..." if differing[_MAX_NAMED_RANGES:] else "")
        notes = [f"differing lines: {named}"] if differing else []
        notes += [f"old_string has {pluralize(extra, 'more line')}"] if extra else []
        rows += [f"[{'; '.join(notes)}]"] if notes else []
    return "\n".join(rows)


def _cut(line: str, wanted: str) -> str:
    """Return the line; of a long one, the part that corresponds to the wanted text or differs from it."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    at = _place_in(line, wanted)
    pairs = enumerate(zip(line[at:], wanted, strict=False))
    same = next((number for number, (one, two) in pairs if one != two), 0)
    start = max(at, at + same - 200)  # characters of context
    left = len(line) - start - _MAX_LINE_CHARS
    before = f"[+{start:,} chars]…" if start else ""
    return before + line[start : start + _MAX_LINE_CHARS] + (f"…[+{left:,} chars]" if left > 0 else "")


def _place_in(line: str, wanted: str) -> int:
    """Find the place of the wanted text in a long line, or the nearest match; 0 for other lines."""
    if len(line) <= _MAX_LINE_CHARS:
        return 0
    for simple in (_no_spaces, _plain_and_no_spaces):
        place = simple(line).find(simple(wanted)) if wanted.strip() else -1
        for start in range(0, len(line) if place >= 0 else 0, _CHUNK_CHARS):
            sizes = partial(_simple_size, simple, line[start : start + _CHUNK_CHARS])
            if sizes(_CHUNK_CHARS) > place:
                return start + bisect_right(range(_CHUNK_CHARS), place, key=sizes) - 1
            place -= sizes(_CHUNK_CHARS)
    return _likely_place(line, wanted)


def _simple_size(simple: Callable[[str], str], text: str, characters: int) -> int:
    return len(simple(text[:characters]))


_MAX_PIECES = 40  # of one size, searched for at most


def _likely_place(line: str, wanted: str) -> int:
    """Find the likely start of the text in the line, by its rarest piece there; 0 if none occurs."""
    # Each piece is searched for, so a long text would take long.
    wanted = wanted[:2_000]
    for size in _PIECE_CHARS:
        starts = range(0, max(1, len(wanted) - size + 1), 1 + len(wanted) // _MAX_PIECES)
        counts = [(count, at) for at in starts if (count := line.count(wanted[at : at + size]))]
        if counts:
            _, at = min(counts)
            return max(0, line.find(wanted[at : at + size]) - at)
    return 0


def _line_of(flat: str, place: int) -> int:
    return flat.count("\n", 0, place) + 1
