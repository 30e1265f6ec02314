"""Search files for a regular expression without ripgrep, as a separate program.

It is run by its path and imports none of our modules. For each matching line it writes a JSON line in the
format of `rg --json`. It is a separate process since a pattern can take forever, and Python cannot interrupt
it. Patterns are those of Python's re. Syntax that only ripgrep supports is an error, even if re would accept
it with another meaning.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

_BINARY_HEAD_BYTES = 8_000  # in which a binary file contains a NUL, as for git
MAX_SEARCHED_BYTES = 64 * 1024 * 1024  # of one file; larger ones are skipped
_WIDE_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# Word boundaries of ripgrep, which re takes for a plain `<` or `b`.
_MISREAD = r"(?<!\\)(?:\\\\)*(\\[<>]|\\b\{(?:start|end)(?:-half)?\})"


def main(names: str, pattern: str, flags: str, before: str, after: str, codec: str = "utf-8") -> int:
    """Search the files of a list of NUL-terminated names.

    `flags` are letters: i case-insensitive, m multiline, s dots match newlines, c CR LF is a line ending too,
    1 only the first match of each file. `codec` is that of files without a byte order mark; bytes that it
    does not have become lone surrogates.
    """
    try:
        regex = _compiled(pattern, flags)
    except (re.error, RecursionError, OverflowError, ValueError, FutureWarning) as error:
        sys.stdout.write(f"regex parse error: {error}\n")
        return 2
    for name in Path(names).read_bytes().split(b"\0")[:-1]:
        path = Path(name.decode("utf-8", "surrogateescape"))
        text, is_binary = _text_of(path, codec)
        if is_binary:
            if regex.search(text.replace("\0", "\n")):
                _tell("end", path, binary_offset=text.index("\0"))
            continue
        text = text.replace("\r\n", "\n") if "c" in flags else text
        lines = text.removesuffix("\n").split("\n") if text else []
        found = dict(_matches(regex, text, lines, flags))
        shown = {near for at in found for near in _around(at, int(before), int(after), len(lines))}
        for number in sorted(shown):
            _write(path, number + 1, lines[number], found.get(number))
        sys.stdout.flush()
    return 0


def _compiled(pattern: str, flags: str) -> re.Pattern[str]:
    """Compile the pattern. Raises FutureWarning for sets within sets, ValueError for other misreadings."""
    if misread := re.search(_MISREAD, pattern):
        raise ValueError(f"Python's re does not support {misread[1]}; use \\b for a word boundary")
    wanted = re.MULTILINE
    wanted |= re.IGNORECASE if "i" in flags else re.NOFLAG
    wanted |= re.DOTALL if "s" in flags else re.NOFLAG
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        return re.compile(pattern, wanted)


def _opened(path: Path) -> int:
    """Return a descriptor of a file. Raises OSError if a part of its path has become a link."""
    *folders, name = path.parts
    passing = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
    here = os.open(folders.pop(0) if path.is_absolute() else ".", passing)
    try:
        for part in folders:
            inner = os.open(part, passing, dir_fd=here)
            os.close(here)
            here = inner
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    finally:
        os.close(here)


def _text_of(path: Path, codec: str) -> tuple[str, bool]:
    """Return the text of a file and whether it is binary; no text if it is too large or unreadable."""
    try:
        opened = _opened(path)
        with os.fdopen(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                return "", False
            data = file.read(MAX_SEARCHED_BYTES + 1)
        if len(data) > MAX_SEARCHED_BYTES:
            return "", False
    except OSError:
        return "", False
    if codec.startswith("utf-32"):  # with a mark
        return data.decode("utf-32", "replace"), False
    if wide := _WIDE_MARKS.get(data[:2]):
        return data.decode(wide, "replace"), False
    if codec.startswith("utf-16"):  # without a mark
        return data.decode(codec, "replace"), False
    is_binary = b"\0" in data[:_BINARY_HEAD_BYTES]
    return data.removeprefix(codecs.BOM_UTF8).decode(codec, "surrogateescape"), is_binary


def _matches(regex: re.Pattern[str], text: str, lines: list[str], flags: str) -> Iterator[tuple[int, int]]:
    """Yield (index of a line, start of the match in it) of the matching lines."""
    hits: Iterator[tuple[int, int]] = _matches_across(regex, text)
    if "m" not in flags:
        hits = ((at, found.start()) for at, line in enumerate(lines) if (found := regex.search(line)))
    for hit in hits:
        yield hit
        if "1" in flags:
            return


def _matches_across(regex: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    line = line_start = seen = 0  # the index and start of the line of the last match, the end of the search
    reported = -1
    for found in regex.finditer(text):
        start = found.start()
        line += text.count("\n", seen, start)
        line_start = max(line_start, text.rfind("\n", seen, start) + 1)
        last = line + text.count("\n", start, max(start, found.end() - 1))
        if line > reported:
            yield line, start - line_start
        yield from ((at, 0) for at in range(max(reported, line) + 1, last + 1))
        seen = start
        reported = last


def _around(at: int, before: int, after: int, count: int) -> range:
    return range(max(0, at - before), min(count, at + after + 1))


def _write(path: Path, number: int, line: str, start: int | None) -> None:
    """Write a line of JSON; `start` is the start of the match, None for a line of the context."""
    kind = "context" if start is None else "match"
    size = len(line[:start].encode("utf-8", "surrogateescape")) if start else 0
    submatches = [] if start is None else [{"start": size}]
    _tell(kind, path, line_number=number, lines={"text": line}, submatches=submatches)


def _tell(kind: str, path: Path, **about: object) -> None:
    sys.stdout.write(json.dumps({"type": kind, "data": {"path": {"text": str(path)}, **about}}) + "\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
