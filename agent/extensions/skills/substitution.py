"""Fill in what a command's text leaves open: arguments, folders, and the places of command lines. Pure.

The text is gone through once. What is filled in is never looked at again, so that no argument can bring a
command line or another placeholder.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_BLOCK = r"^```![ \t]*\n(?P<block>.*?)\n```[ \t]*$"
_INLINE = r"(?<!\S)(?<!`` )!`(?P<line>[^`\n]+)`"
_FILLED_PLACE = (
    r"(?P<escaped>\\)?\$(?:ARGUMENTS\[(?P<at>\d{1,6})\]|(?P<all>ARGUMENTS)\b|(?P<number>\d+)"
    r"|\{(?P<variable>[A-Z_]+)\}|(?P<name>[A-Za-z_][\w-]*))"
)
_IN_TEXT = re.compile(f"{_BLOCK}|{_INLINE}|{_FILLED_PLACE}", re.MULTILINE | re.DOTALL)
_IN_LINE = re.compile(_FILLED_PLACE)
_ZERO_BASED = re.compile(r"\$0(?!\d)|\$ARGUMENTS\[")
_COUNTED_FROM_ONE = re.compile(r"(?<!\\)\$[1-9]")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A place in the text where the output of a command line belongs; `inline`: within a line."""

    line: str
    inline: bool


Piece = str | CommandLine


@dataclass(frozen=True, slots=True)
class GivenValues:
    """What is filled in: the arguments as they were typed, the names of some, and variables by name."""

    arguments: str = ""
    names: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def counts_from_one(text: str) -> bool:
    """Whether `$1` is the first argument, as in older files: one that counts from 0 shows it somewhere."""
    return _COUNTED_FROM_ONE.search(text) is not None and _ZERO_BASED.search(text) is None


def written_lines(text: str) -> list[str]:
    """The command lines of a text as they are written, each on one line."""
    lines = (match["line"] or match["block"] for match in _IN_TEXT.finditer(text))
    return [" ".join(line.split()) for line in lines if line is not None]


def fill_in(text: str, given: GivenValues) -> list[Piece]:
    """The text with its places filled in, in pieces: what stands between command lines, and those."""
    filling = _Filling(given, _split(given.arguments), int(_ZERO_BASED.search(text) is None))
    pieces: list[Piece] = []
    end = 0
    for match in _IN_TEXT.finditer(text):
        between, end = text[end : match.start()], match.end()
        line = match["line"] if match["line"] is not None else match["block"]
        if line is None:
            pieces.append(between + filling.place(match))
        else:
            pieces += [between, CommandLine(_IN_LINE.sub(filling.place, line), match["line"] is not None)]
    pieces.append(text[end:])
    if given.arguments and not filling.used:
        pieces.append(f"\n\nARGUMENTS: {given.arguments}")
    return pieces


@dataclass(slots=True)
class _Filling:
    """What places are filled with, and whether any took an argument."""

    given: GivenValues
    words: Sequence[str]
    first: int  # what the first argument is counted as by `$N`
    used: bool = False

    def place(self, match: re.Match[str]) -> str:
        value = self._value(match)
        if value is None:
            return match[0]
        if match["escaped"]:
            return match[0][1:]
        return value

    def _value(self, match: re.Match[str]) -> str | None:
        """What belongs there; None where the place stays as it is."""
        if match["variable"] is not None:
            return self.given.variables.get(match["variable"])
        name = match["name"]
        if name is not None and name not in self.given.names:
            return None
        value = self._argument(match, name)
        self.used = self.used or (value is not None and not match["escaped"])
        return "" if match["escaped"] else value

    def _argument(self, match: re.Match[str], name: str | None) -> str | None:
        if match["all"]:
            return self.given.arguments
        if name is not None:
            at = list(self.given.names).index(name)
        else:
            at = int(match["at"]) if match["at"] is not None else int(match["number"][:6]) - self.first
        return self.words[at] if 0 <= at < len(self.words) else None


def _split(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # a quote that is not closed
        return arguments.split()
