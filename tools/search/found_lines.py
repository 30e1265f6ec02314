"""Read what a search program writes: lines of JSON in the form of `rg --json`, or counts of lines."""

from __future__ import annotations

import base64
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tools.text import cut_around
from transcripts.patterns import lazy_bytes_pattern, lazy_pattern

MAX_SEARCH_BYTES = 8 * 1024 * 1024  # of lines that a search keeps; what was found by then is shown
MAX_FOUND_LINE_BYTES = 16 * 1024 * 1024  # of the JSON of one line up to the end of its first match
_LINE_COST_BYTES = 150  # of memory for a line besides its text
_KEPT_HEAD_BYTES = 32_768  # of a line that is too long: with the path, in base64 at worst
_KEPT_TAIL_BYTES = 128  # as long as what is sought in the JSON at most
# Within a text of JSON each quote has a backslash before it, so that these are found outside of texts alone.
_FIRST_MATCH = lazy_bytes_pattern(rb'"start":\d+,"end":\d+\}')
_NUMBER_FIELD = lazy_bytes_pattern(rb'"line_number": ?(\d+),')
_KIND_AND_PATH = lazy_pattern(r'\{"type": ?"(match|context)", ?"data": ?\{"path": ?')


class FoundLine(Struct, frozen=True):
    """A line of a file as it is shown: where in it the match begins, None for a line of the context."""

    number: int
    text: str
    start: int | None


class SearchOutput(Struct, frozen=True):
    """The findings by file name; why the search could not begin, or why it ended early.

    counts    how many lines match; `lines` are then empty
    binary    files that are no text and match somewhere
    skipped   large files that are no text, and were not searched
    searched  how many files were searched, if that is known
    """

    lines: Mapping[str, Sequence[FoundLine]] = {}
    message: str = ""
    stopped: str = ""
    counts: Mapping[str, int] = {}
    binary: Sequence[str] = ()
    skipped: Sequence[str] = ()
    searched: int | None = None


class FoundReader:
    """Takes what a search writes, as it comes, and keeps what is shown of it: of the files that are `wanted`.

    A line of a minified file can be megabytes, with a hundred thousand matches that ripgrep tells in full: of
    these the first is kept, and of the line what is around it.
    """

    def __init__(self, wanted: Callable[[str], bool] = lambda name: True, *, counting: bool = False) -> None:
        self.room = MAX_SEARCH_BYTES
        self._wanted = wanted
        self._counting = counting
        self._counts = dict[str, int]()
        self._found: dict[str, list[FoundLine]] = defaultdict(list)
        self._messages = list[str]()
        self._binary = list[str]()
        self._line = bytearray()  # that is not at its end yet
        self._known = False  # what is needed of that line: the rest is passed over
        self._oversized = False  # the middle of that line was dropped

    def take(self, data: bytes) -> bool:
        """Return whether there is room for more."""
        *ended, last = data.split(b"\n")
        for part in ended:
            self._extend(part)
            self._end_line()
            if self.room <= 0:
                return False
        self._extend(last)
        return True

    def output(self, stopped: str) -> SearchOutput:
        """Return the findings; where the search was `stopped`, at most one match of its current line."""
        if self._known or not stopped:
            self._end_line()
        lines = {name: self._found[name] for name in sorted(self._found)}
        message = "" if lines or self._counts or stopped else "\n".join(self._messages).strip()
        counts = {name: self._counts[name] for name in sorted(self._counts)}
        return SearchOutput(lines, message, stopped=stopped, counts=counts, binary=sorted(self._binary))

    def _extend(self, part: bytes) -> None:
        if self._known:
            return
        start = max(0, len(self._line) - _KEPT_TAIL_BYTES)  # what is sought may have come in two parts
        self._line += part
        if first := None if self._oversized else _FIRST_MATCH.search(self._line, start):
            self._line[first.end() :] = b"]}}"
            self._known = True
        elif self._oversized or len(self._line) > MAX_FOUND_LINE_BYTES:
            self._known = _NUMBER_FIELD.search(self._line, start if self._oversized else 0) is not None
            self._oversized = True
            if not self._known:
                del self._line[_KEPT_HEAD_BYTES:-_KEPT_TAIL_BYTES]

    def _end_line(self) -> None:
        raw = bytes(self._line)
        oversized = self._oversized
        self._line.clear()
        self._known = self._oversized = False
        counted, mark, count = raw.partition(b"\0")  # as ripgrep counts lines
        if mark and count.isdigit():
            name = _relative(os.fsdecode(counted))
            if self._wanted(name):
                self._counts[name] = int(count)
            return
        if not raw.startswith(b"{"):
            self._messages.append(raw.decode("utf-8", "replace"))
            self.room -= len(raw)
            return
        if oversized:
            self._keep_oversized(raw)
            return
        try:
            line = json.loads(raw)
        except ValueError:
            return
        about = line["data"]
        if line["type"] in ("match", "context"):
            self._keep(_name(about["path"]), _found_lines(about))
        elif line["type"] == "end" and about["binary_offset"] is not None:
            name = _name(about["path"])
            self._found.pop(name, None)
            if self._wanted(name):
                self._binary.append(name)

    def _keep(self, name: str, lines: Iterable[FoundLine]) -> None:
        if name not in self._found and not self._wanted(name):
            return
        if self._counting:
            self._counts[name] = self._counts.get(name, 0) + sum(1 for _ in lines)
            return
        for line in lines:
            self._found[name].append(line)
            self.room -= len(line.text) + _LINE_COST_BYTES

    def _keep_oversized(self, raw: bytes) -> None:
        head = raw[:_KEPT_HEAD_BYTES].decode("utf-8", "replace")
        about = _KIND_AND_PATH.match(head)
        number = _NUMBER_FIELD.search(raw)
        if about is not None and number is not None:
            name = _name(json.JSONDecoder().raw_decode(head, about.end())[0])
            text = f"[too long to be shown: more than {MAX_FOUND_LINE_BYTES:,} bytes]"
            self._keep(name, [FoundLine(int(number[1]), text=text, start=0 if about[1] == "match" else None)])


def _found_lines(about: Mapping[str, Any]) -> Iterator[FoundLine]:
    text = _text(about["lines"]).removesuffix("\n")
    start = about["submatches"][0]["start"] if about["submatches"] else None
    if start:
        start = len(text.encode("utf-8", "surrogateescape")[:start].decode("utf-8", "replace"))
    for at, line in enumerate(text.split("\n")):
        begin = 0 if start and at else start
        yield FoundLine(
            about["line_number"] + at, text=cut_around(line.removesuffix("\r"), begin or 0), start=begin
        )


def _text(value: Mapping[str, str]) -> str:
    """A text as ripgrep writes it: as it is, or its bytes where they are no UTF-8."""
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "surrogateescape")


def _name(path: Mapping[str, str]) -> str:
    return _relative(_text(path))


def _relative(path: str) -> str:
    """A path as ripgrep writes it where it walks, without the `./` that the walk begins with."""
    return path.removeprefix("./")
