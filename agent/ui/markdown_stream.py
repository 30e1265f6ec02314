"""Cut streamed markdown into finished blocks, so that each is printed exactly once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct

from transcripts.patterns import lazy_pattern

MAX_UNFINISHED_LINES = 60  # of a fence or a list, after which it is cut
MAX_UNFINISHED_CHARS = 12_000  # of any block: rich takes up to 0.5 s for this much
TOO_LONG_TO_SHOW = "…\n\n(The rest is too long for the screen. Run /export to write it to a file.)\n"
_FENCE = lazy_pattern(r"^( *(?:[-*+] +|\d+[.)] +)?)(`{3,}|~{3,})(.*)$")
_HEADING = lazy_pattern(r"^#{1,6}(\s|$)")
_LIST_ITEM = lazy_pattern(r"^([-*+]|\d+[.)])\s")
_CELL_END = lazy_pattern(r"(?<!\\)\|")
_TABLE_RULE = lazy_pattern(r"\|?(?: *:?-+:? *\|)+(?: *:?-+:?)?")


class MarkdownChunk(Struct, frozen=True):
    """A finished piece of markdown; `joined` if it continues the previous piece without a gap."""

    text: str
    joined: bool = False


class MarkdownStream:
    """A text in markdown that arrives in pieces.

    A block is finished when later text cannot change its drawing: a paragraph, list or table when an
    unindented line follows its blank line, a heading at its line end, a fence at its closing. Long blocks are
    cut into slices, so that the unfinished part stays small. `feed` and `end` return the finished blocks;
    `unfinished` is the rest.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._pieces: list[str] = []  # of the unfinished line
        self._size = 0  # characters since the last finished block
        self._total = 0  # characters of the text
        self._after_blank = False
        self._joined = False
        self._reopened = ""  # the head of a table that was cut, until a row follows it
        self._done: list[MarkdownChunk] = []
        self.fence: re.Match[str] | None = None  # opening line of the fence that is still open

    @property
    def unfinished(self) -> str:
        return "\n".join([*self._lines, "".join(self._pieces)]).strip("\n")

    def feed(self, text: str) -> list[MarkdownChunk]:
        # The screen shows this many characters of a reply.
        room = 1_000_000 - self._total
        self._total += len(text)
        if len(text) > room:
            text = text[:room] + TOO_LONG_TO_SHOW if room > 0 else ""
        for at in range(0, len(text), MAX_UNFINISHED_CHARS):
            self._feed(text[at : at + MAX_UNFINISHED_CHARS])
        return self._collect()

    def end(self) -> list[MarkdownChunk]:
        """End the text: everything is finished, and the next text starts from scratch."""
        if any(self._pieces):
            self._end_line()
        self._finish()
        self.fence = None
        self._joined = False
        self._total = 0
        return self._collect()

    def _feed(self, text: str) -> None:
        *lines, last = text.split("\n")
        self._size += len(text)
        for line in lines:
            self._pieces.append(line)
            self._end_line()
        self._pieces.append(last)
        if self._after_blank and self._begins_block():
            self._finish()
        if self._size > MAX_UNFINISHED_CHARS:
            self._cut()

    def _begins_block(self) -> bool:
        """Return whether the unfinished line is known to be unindented."""
        begun = "".join(self._pieces)
        return bool(begun.strip()) and not begun[0].isspace()

    def _end_line(self) -> None:
        line = "".join(self._pieces)
        self._pieces.clear()
        self._take(line.rstrip("\r"))

    def _cut(self) -> None:
        """Finish the text so far in the middle of a block; a table continues with its head."""
        head = () if self.fence else table_head(self._lines)
        if head and [*head] != self._lines:
            self._finish(joined_next=True)
            self._lines = [*head]
            self._reopened = "\n".join(head)
            return
        if any(self._pieces):
            self._end_line()
        if opener := self.fence:
            self._lines.append(opener[2])
        self._finish(joined_next=True)
        self._lines += [opener.string] if opener else []

    def _collect(self) -> list[MarkdownChunk]:
        done = self._done
        self._done = []
        return done

    def _take(self, line: str) -> None:
        if self.fence:
            self._take_fenced(line, self.fence)
        elif not line.strip():
            self._after_blank = bool(self._lines)
            if self._lines:
                self._lines.append("")
        else:
            self._take_prose(line)

    def _take_prose(self, line: str) -> None:
        flush_left = not line[0].isspace()
        opener = _FENCE.match(line)
        if flush_left and (self._after_blank or opener or _HEADING.match(line)):
            self._finish()
        elif len(self._lines) >= MAX_UNFINISHED_LINES and all(map(_LIST_ITEM.match, (line, self._lines[0]))):
            self._finish(joined_next=True)
        self._after_blank = False
        self._lines.append(line)
        if opener and not ("`" in opener[2] and "`" in opener[3]):
            self.fence = opener
        elif _HEADING.match(line):
            self._finish()

    def _take_fenced(self, line: str, opener: re.Match[str]) -> None:
        indent, mark, _ = opener.groups()
        self._lines.append(line)
        if line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            self.fence = None
            if not indent and self._lines[0].lstrip().startswith(mark):
                self._finish()
        elif len(self._lines) > MAX_UNFINISHED_LINES and not indent:
            self._lines.append(mark)
            self._finish(joined_next=True)
            self._lines.append(opener.string)

    def _finish(self, joined_next: bool = False) -> None:
        text = "\n".join(self._lines).strip("\n")
        if text.strip() and text != self._reopened:
            self._done.append(MarkdownChunk(text, self._joined))
        self._joined = joined_next
        self._lines = []
        self._after_blank = False
        self._size = 0
        self._reopened = ""


def with_table_rule(lines: list[str]) -> list[str]:
    """Return the lines with a whole rule below the head of a table that has only begun at their end.

    Without it, the head would be drawn as a text with bars until the rule has arrived.
    """
    rows = list(takewhile(lambda line: line.lstrip().startswith("|"), reversed(lines)))
    if len(rows) != 1 and (len(rows) != 2 or rows[0].strip("|:- ")):
        return lines
    at = len(lines) - len(rows)
    head = lines[at].strip()
    columns = len(_CELL_END.split(head[1:].removesuffix("|")))
    return [*lines[: at + 1], "|---" * columns + "|"] if head.strip("|:- ") else lines[:at]


def table_head(lines: Sequence[str]) -> Sequence[str]:
    """Return the first two lines of the table at the end of the lines, () without one."""
    for at in range(len(lines) - 1, 0, -1):
        if not lines[at].strip():
            break
        if _TABLE_RULE.fullmatch(lines[at].strip()) and "|" in lines[at - 1]:
            return lines[at - 1 : at + 1]
    return ()
