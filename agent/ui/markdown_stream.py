"""Cut streamed markdown into finished blocks, so that each is printed once and never again.

A block is finished when nothing that may still come can change how it looks: a paragraph, list or table
when an unindented line follows its blank line, a heading at its line end, a fence at its closing. Long
fences and lists are cut into slices, so that the unfinished tail stays small.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SLICE = 60  # lines of a fence or a list that are kept back at most

_FENCE = re.compile(r"^( *(?:[-*+] +|\d+[.)] +)?)(`{3,}|~{3,})(.*)$")
_HEADING = re.compile(r"^#{1,6}(\s|$)")
_ITEM = re.compile(r"^([-*+]|\d+[.)])\s")


@dataclass(frozen=True, slots=True)
class MarkdownChunk:
    """A finished piece of markdown; `joined` when it continues the piece before without a gap."""

    text: str
    joined: bool = False


class MarkdownStream:
    """One streamed text. `feed` and `end` return what got finished; `tail` is the rest."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial = ""
        self._blank = False
        self._fence = ""  # the line that opened the fence we are in
        self._joined = False
        self._done: list[MarkdownChunk] = []

    @property
    def tail(self) -> str:
        """The unfinished end, as markdown."""
        return "\n".join([*self._lines, self._partial]).strip("\n")

    @property
    def fence(self) -> str:
        """The opening line of the fence that the tail is in, or ""."""
        return self._fence

    def feed(self, text: str) -> list[MarkdownChunk]:
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            self._take(line.rstrip("\r"))
        if self._blank and self._partial.strip() and not self._partial[0].isspace():
            self._finish()
        return self._collect()

    def end(self) -> list[MarkdownChunk]:
        """The text is over: everything is finished, and the next text starts anew."""
        if self._partial:
            self._take(self._partial)
        self._partial = ""
        self._finish()
        self._fence, self._joined = "", False
        return self._collect()

    def _collect(self) -> list[MarkdownChunk]:
        done, self._done = self._done, []
        return done

    def _take(self, line: str) -> None:
        if self._fence:
            self._take_fenced(line)
        elif not line.strip():
            self._blank = bool(self._lines)
            if self._lines:
                self._lines.append("")
        else:
            self._take_prose(line)

    def _take_prose(self, line: str) -> None:
        flush_left = not line[0].isspace()
        opener = _FENCE.match(line)
        if flush_left and (self._blank or opener or _HEADING.match(line)):
            self._finish()
        elif _ITEM.match(line) and len(self._lines) >= SLICE and _ITEM.match(self._lines[0]):
            self._finish(joined_next=True)
        self._blank = False
        self._lines.append(line)
        if opener and not ("`" in opener[2] and "`" in opener[3]):
            self._fence = line
        elif _HEADING.match(line):
            self._finish()

    def _take_fenced(self, line: str) -> None:
        self._lines.append(line)
        opener = _FENCE.match(self._fence)
        mark = opener[2] if opener else "```"
        if line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            alone = not (opener and opener[1])
            self._fence = ""
            if alone and self._lines[0].lstrip().startswith(mark):
                self._finish()
        elif len(self._lines) > SLICE and opener and not opener[1]:
            fence = self._fence
            self._lines.append(mark)
            self._finish(joined_next=True)
            self._fence = fence
            self._lines.append(fence)

    def _finish(self, joined_next: bool = False) -> None:
        text = "\n".join(self._lines).strip("\n")
        if text.strip():
            self._done.append(MarkdownChunk(text, self._joined))
        self._joined = joined_next
        self._lines, self._blank = [], False
