"""Search files for a regular expression where ripgrep cannot: a program of its own.

It is run by its path and imports nothing of ours. For each line found it writes a line of JSON in the form of
`rg --json`. A pattern can take forever, and nothing within Python could stop it. What ripgrep calls by other
names than Python is translated.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

MAX_SEARCHED_BYTES = 64 * 1024 * 1024  # of one file; larger ones are passed over
_WIDE_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_FAR_PLANES = 0x40000  # of Unicode, in which nobody writes
_ONLY_RIPGREP = "{} is for ripgrep alone, which is not installed or does not take the rest of the pattern"
NAMED_SETS = {  # of characters, within brackets
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\ \t", "digit": "0-9",
    "cntrl": r"\x00-\x1f\x7f", "graph": "!-~", "lower": "a-z", "print": r"\ -~", "punct": r"!-/:-@\[-`{-~",
    "space": r"\ \t-\r", "upper": "A-Z", "word": "0-9A-Z_a-z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_WORD_EDGES = {
    r"\<": r"\b(?=\w)", r"\>": r"\b(?<=\w)", r"\b{start}": r"\b(?=\w)", r"\b{end}": r"\b(?<=\w)",
    r"\b{start-half}": r"(?<!\w)", r"\b{end-half}": r"(?!\w)", r"\z": r"\Z",
}  # fmt: skip
_ESCAPE = r"\\[pPxuUb]\{[^{}]*\}|\\[pP][A-Za-z]|\\."
_SET_PART = rf"{_ESCAPE}|\[:\^?[a-z]+:\]"
# Compiled on first use: globs take NAMED_SETS from here when the program starts, and no pattern is read then.
# A set that is never closed goes on to the end: whatever it holds is not looked at again.
_PATTERN_PART = (
    rf"(?s:(?P<escape>{_ESCAPE})|(?P<set>\[\^?\]?(?:{_SET_PART}|[^\\\]])*+(?:\]|\\?\Z))"
    r"|\(\?(?P<flags>[A-Za-z]++(?:-[A-Za-z]++)?|-[A-Za-z]++)\)|(?P<named>\(\?<(?=[A-Za-z_]))|.)"
)


def main(names: str, pattern: str, flags: str, context: str) -> int:
    """Search the files of a list, their names ended by NUL.

    `flags` are letters: i in any letter case, m across lines, c CR LF is a line end too, 1 only the first
    match of each file.
    """
    try:
        regex = re.compile(_translated(pattern), re.MULTILINE | (re.IGNORECASE if "i" in flags else 0))
    except (re.error, RecursionError, OverflowError, ValueError) as error:
        sys.stdout.write(f"regex parse error: {error}\n")
        return 2
    for name in Path(names).read_bytes().split(b"\0")[:-1]:
        path = Path(name.decode("utf-8", "surrogateescape"))
        text, is_binary = _text_of(path)
        if is_binary:
            if regex.search(text.replace("\0", "\n")):
                _tell("end", path, binary_offset=text.index("\0"))
            continue
        text = text.replace("\r\n", "\n") if "c" in flags else text
        lines = text.removesuffix("\n").split("\n") if text else []
        found = dict(_matches(regex, text, lines, flags))
        shown = {near for at in found for near in _around(at, int(context), len(lines))}
        for number in sorted(shown):
            _write(path, number + 1, lines[number], found.get(number))
        sys.stdout.flush()
    return 0


def _translated(pattern: str) -> str:
    """The pattern as Python writes it. Raises ValueError for what only ripgrep has.

    Flags count from where they stand to the end of their group: that becomes a group of its own, in each of
    the alternatives that follow.
    """
    if re.search(r"\(\?[A-Za-z]*x", pattern):  # brackets may be in comments
        return pattern
    parts, opened = list[str](), [""]  # the groups for flags, by the groups that they are in
    for found in re.finditer(_PATTERN_PART, pattern):
        part = found[0]
        if found["escape"]:
            part = _escape(part)
        elif found["set"]:
            if pattern.startswith("]", found.end()) and "[" in re.sub(_SET_PART, "", part[1:]):
                raise ValueError(_ONLY_RIPGREP.format(f"{part}], a set within a set,"))
            part = _set(part)
        elif found["flags"]:
            part = f"(?{found['flags']}:"
            opened[-1] += part
        elif found["named"] or part == "(":
            opened.append("")
            part = "(?P<" if found["named"] else part
        elif part == ")" and len(opened) > 1:
            part += ")" * opened.pop().count("(")
        elif part == "|":
            part = ")" * opened[-1].count("(") + part + opened[-1]
        parts.append(part)
    return "".join(parts) + ")" * opened[0].count("(")


def _set(text: str) -> str:
    if operator := re.search("&&|--|~~", re.sub(_SET_PART, "", text)):
        raise ValueError(_ONLY_RIPGREP.format(f"{operator[0]} in a set of characters"))
    members = re.sub(rf"(?s:{_SET_PART}|[\[|])", lambda found: _escape(found[0], within=True), text[1:])
    return f"[{members}"


def _escape(text: str, within: bool = False) -> str:
    """What a part of the pattern with a backslash, or a named set, is in Python. `within` a set?"""
    if text in ("[", "|"):  # of which Python warns
        return f"\\{text}"
    if text.startswith("[:"):
        negated, name = text[2] == "^", text[2:-2].removeprefix("^")
        if negated or name not in NAMED_SETS:
            raise ValueError(_ONLY_RIPGREP.format(text))
        return NAMED_SETS[name]
    if text[1] in "pP":
        chars = _characters(text)
        return chars if within else f"[{chars}]"
    if text[1] in "xuU" and text[2:3] == "{":
        return f"\\U{int(text[3:-1], 16):08x}"
    return text if within else _WORD_EDGES.get(text, text)


def _characters(text: str) -> str:
    """The characters of a general category, such as `\\pL` or `\\p{Lu}`, as ranges."""
    category = text[2:].strip("{}")
    negated = (text[1] == "P") != category.startswith("^")
    category = category.removeprefix("^")
    categories = map(unicodedata.category, map(chr, range(_FAR_PLANES)))
    kinds = groupby(enumerate(categories), lambda each: each[1].startswith(category) != negated)
    runs = [[code for code, _ in run] for is_in, run in kinds if is_in]
    if sum(map(len, runs)) in (0, _FAR_PLANES):
        raise ValueError(_ONLY_RIPGREP.format(text))
    if runs[-1][-1] == _FAR_PLANES - 1:
        runs[-1].append(sys.maxunicode)
    return "".join(f"\\U{codes[0]:08x}-\\U{codes[-1]:08x}" for codes in runs)


def _text_of(path: Path) -> tuple[str, bool]:
    """The text of a file and whether it is binary; no text where it is too large or cannot be read."""
    try:
        if path.stat().st_size > MAX_SEARCHED_BYTES:
            return "", False
        data = path.read_bytes()
    except OSError:
        return "", False
    codec = _WIDE_MARKS.get(data[:2])
    if codec:
        return data.decode(codec, "replace"), False
    is_binary = b"\0" in data
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8"), is_binary
    except UnicodeDecodeError:
        text = data.decode("utf-8", "surrogateescape")
    strays = len(re.findall("[\udc80-\udcff]", text))
    if len(data.translate(None, bytes(range(128)))) < 2 * strays:  # mostly Windows-1252, as old files are
        return data.decode("cp1252", "surrogateescape"), is_binary
    return text, is_binary


def _matches(regex: re.Pattern[str], text: str, lines: list[str], flags: str) -> Iterator[tuple[int, int]]:
    """(index of a line, where in it the match begins) of the lines that match."""
    hits: Iterator[tuple[int, int]] = _matches_across(regex, text)
    if "m" not in flags:
        hits = ((at, found.start()) for at, line in enumerate(lines) if (found := regex.search(line)))
    for hit in hits:
        yield hit
        if "1" in flags:
            return


def _matches_across(regex: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    line = line_start = seen = 0  # the index of the line where the last match began, its place, the match's
    told = -1
    for found in regex.finditer(text):
        start = found.start()
        line += text.count("\n", seen, start)
        line_start = max(line_start, text.rfind("\n", seen, start) + 1)
        last = line + text.count("\n", start, max(start, found.end() - 1))
        if line > told:
            yield line, start - line_start
        yield from ((at, 0) for at in range(max(told, line) + 1, last + 1))
        seen, told = start, last


def _around(at: int, context: int, count: int) -> range:
    return range(max(0, at - context), min(count, at + context + 1))


def _write(path: Path, number: int, line: str, start: int | None) -> None:
    """`start` is where the match begins; None for a line of the context."""
    kind = "context" if start is None else "match"
    size = len(line[:start].encode("utf-8", "surrogateescape")) if start else 0
    submatches = [] if start is None else [{"start": size}]
    _tell(kind, path, line_number=number, lines={"text": line}, submatches=submatches)


def _tell(kind: str, path: Path, **about: object) -> None:
    sys.stdout.write(json.dumps({"type": kind, "data": {"path": {"text": str(path)}, **about}}) + "\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
