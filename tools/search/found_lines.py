"""Parse the output of a search program: JSON lines in the format of `rg --json`, or counts of lines."""

from __future__ import annotations

import base64
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tools.text import cut_around
from transcripts.patterns import lazy_bytes_pattern, lazy_pattern

MAX_SEARCH_BYTES = 8 * 1024 * 1024  # of lines that a search keeps; results up to then are shown
MAX_FOUND_LINE_BYTES = 16 * 1024 * 1024  # of the JSON of one line up to the end of its first match
_KEPT_HEAD_BYTES = 32_768  # of a line that is too long, which includes the path (possibly in base64)
_KEPT_TAIL_BYTES = 128  # the maximum length of the markers searched for in the JSON
# In JSON strings quotes are escaped, so these patterns only match outside of strings.
_FIRST_MATCH = lazy_bytes_pattern(rb'"start":\d+,"end":\d+\}')
_NUMBER_FIELD = lazy_bytes_pattern(rb'"line_number": ?(\d+),')
# Lines of ripgrep that say nothing: the beginning of a file, and the end of one that is not binary.
_BEGIN = b'{"type":"begin",'
_END = b'{"type":"end",'
_KIND_AND_PATH = lazy_pattern(r'\{"type": ?"(match|context)", ?"data": ?\{"path": ?')


class FoundLine(Struct, frozen=True):
    """A line of a file, and the start of the match in it, None for a line of the context."""

    number: int
    text: str
    start: int | None


class SearchOutput(Struct, frozen=True):
    """The results by file name, with the reason why the search could not begin or ended early.

    counts    the numbers of matching lines, without `lines`
    binary    binary files with a match
    skipped   large binary files that were not searched
    searched  the number of files that were searched, if known
    unsifted  there was no time to find all files that ripgrep takes for binary, some of which are texts
    """

    lines: Mapping[str, Sequence[FoundLine]] = {}
    message: str = ""
    stopped: str = ""
    counts: Mapping[str, int] = {}
    binary: Sequence[str] = ()
    skipped: Sequence[str] = ()
    searched: int | None = None
    unsifted: bool = False


class FoundReader:
    """Reads the output of a search as it arrives, and keeps the part to show, of `wanted` files.

    A line of a minified file can have megabytes, and a hundred thousand matches that ripgrep lists. Only the
    first match is kept, with the text around it.
    """

    def __init__(self, wanted: Callable[[str], bool] = lambda name: True, *, counting: bool = False) -> None:
        self.room = MAX_SEARCH_BYTES
        self._wanted = wanted
        self._counting = counting
        self._counts = dict[str, int]()
        self._found: dict[str, list[FoundLine]] = defaultdict(list)
        self._messages = list[str]()
        self._binary = list[str]()
        self._line = bytearray()  # an incomplete line
        self._known = False  # that line has been evaluated, so its rest is skipped
        self._oversized = False  # the middle of that line was dropped

    def take(self, data: bytes) -> bool:
        """Process output; return whether the limits allow more."""
        *ended, last = data.split(b"\n")
        for part in ended:
            self._extend(part)
            self._end_line()
            if self.room <= 0:
                return False
        self._extend(last)
        return True

    def output(self, stopped: str) -> SearchOutput:
        """Return the results; if the search was `stopped`, with at most one match of its current line."""
        if self._known or not stopped:
            self._end_line()
        lines = {name: self._found[name] for name in sorted(self._found)}
        message = "" if lines or self._counts or stopped else "\n".join(self._messages).strip()
        counts = {name: self._counts[name] for name in sorted(self._counts)}
        return SearchOutput(lines, message, stopped=stopped, counts=counts, binary=sorted(self._binary))

    def _extend(self, part: bytes) -> None:
        if self._known:
            return
        start = max(0, len(self._line) - _KEPT_TAIL_BYTES)  # a marker may arrive in two parts
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
        counted, mark, count = raw.partition(b"\0")  # ripgrep's format for counts
        if mark and count.isdigit():
            name = _relative(os.fsdecode(counted))
            if self._wanted(name):
                self._counts[name] = int(count)
            return
        if not raw.startswith(b"{"):
            self._messages.append(raw.decode("utf-8", "replace"))
            self.room -= len(raw)
            return
        if raw.startswith(_BEGIN) or (raw.startswith(_END) and b'"binary_offset":null' in raw):
            return  # two of three lines, if each file has one match
        if oversized:
            self._keep_oversized(raw)
            return
        try:
            line = _decoded(raw)
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
            self.room -= len(line.text) + 150  # of memory besides its text

    def _keep_oversized(self, raw: bytes) -> None:
        head = raw[:_KEPT_HEAD_BYTES].decode("utf-8", "replace")
        about = _KIND_AND_PATH.match(head)
        number = _NUMBER_FIELD.search(raw)
        if about is not None and number is not None:
            name = _name(json.JSONDecoder().raw_decode(head, about.end())[0])
            text = f"[too long to show: more than {MAX_FOUND_LINE_BYTES:,} bytes]"
            self._keep(name, [FoundLine(int(number[1]), text=text, start=0 if about[1] == "match" else None)])


def _decoded(raw: bytes) -> Any:
    """Return the value of a line of JSON. Raises ValueError."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:  # it does not read lone surrogates, as Python writes them
        return json.loads(raw)


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
    """Return a text of ripgrep's JSON: a string, or its bytes if they are not UTF-8."""
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "surrogateescape")


def _name(path: Mapping[str, str]) -> str:
    return _relative(_text(path))


def _relative(path: str) -> str:
    """Return a path from a walk of ripgrep, without the leading `./`."""
    return path.removeprefix("./")
