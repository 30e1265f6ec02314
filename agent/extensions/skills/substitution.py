"""Fill in the placeholders of a command's text: arguments, variables, the output of command lines. Pure.

The text is scanned once, without the inserted values, so that no argument can add a command line or a
placeholder.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache

from msgspec import Struct


class CommandLine(Struct, frozen=True):
    """A placeholder for the output of a command line; `inline`: within a line."""

    line: str
    inline: bool


class GivenValues(Struct, frozen=True):
    """The values to fill in: the arguments as typed, the names of some, and variables by name."""

    arguments: str = ""
    names: Sequence[str] = ()
    variables: Mapping[str, str] = {}


@cache
def _place() -> re.Pattern[str]:
    """Match a placeholder for a value: `$ARGUMENTS[1]`, `$ARGUMENTS`, `$1`, `${VARIABLE}`, `$name`.

    Amounts such as `$150` and `$1.50` are not placeholders.
    """
    return re.compile(
        r"(?P<escaped>\\)?\$(?:ARGUMENTS\[(?P<at>\d{1,6})\]|(?P<all>ARGUMENTS)\b|(?P<number>\d)(?![.,]?\d)"
        r"|\{(?P<variable>[A-Z_]+)\}|(?P<name>[A-Za-z_][\w-]*))"
    )


@cache
def _place_or_line() -> re.Pattern[str]:
    """Match a placeholder for a value or a command line, in a block of its own or within a line."""
    block = r"^```![ \t]*\n(?P<block>.*?)\n```[ \t]*$"
    inline = r"(?<!\S)(?<!`` )!`(?P<line>[^`\n]+)`"
    return re.compile(f"{block}|{inline}|{_place().pattern}", re.MULTILINE | re.DOTALL)


def _counts_from_zero(text: str) -> bool:
    return re.search(r"\$0(?![.,]?\d)|\$ARGUMENTS\[", text) is not None


def counts_from_one(text: str) -> bool:
    """Return true if `$1` is the first argument, as in older files; newer ones count from 0."""
    return re.search(r"(?<!\\)\$1(?![.,]?\d)", text) is not None and not _counts_from_zero(text)


def written_lines(text: str) -> list[str]:
    """Return the command lines of a text as written, each on one line."""
    lines = (match["line"] or match["block"] for match in _place_or_line().finditer(text))
    return [" ".join(line.split()) for line in lines if line is not None]


def fill_in(text: str, given: GivenValues) -> list[str | CommandLine]:
    """Return the text with its placeholders filled in, as texts and the command lines between them."""
    filling = _Filling(given, first=0 if _counts_from_zero(text) else 1)
    pieces: list[str | CommandLine] = []
    end = 0
    for match in _place_or_line().finditer(text):
        between = text[end : match.start()]
        end = match.end()
        inline = match["line"] is not None
        line = match["line"] if inline else match["block"]
        if line is None:
            pieces.append(between + filling.value(match))
        else:
            pieces += [between, CommandLine(_place().sub(filling.value, line), inline)]
    pieces.append(text[end:])
    if given.arguments and not filling.used:
        pieces.append(f"\n\nARGUMENTS: {given.arguments}")
    return pieces


class _Filling:
    """The values for the placeholders of one text; `used` once a placeholder has used an argument.

    `first` is the number of the first argument in `$N`.
    """

    def __init__(self, given: GivenValues, first: int) -> None:
        self._given = given
        self._words = _split(given.arguments)
        self._first = first
        self.used = False

    def value(self, match: re.Match[str]) -> str:
        """Return the text for a placeholder, unchanged if there is nothing to fill in or it is escaped."""
        name = match["name"]
        if match["variable"] is not None:
            value = self._given.variables.get(match["variable"])
        elif name is not None and name not in self._given.names:
            value = None
        elif match["escaped"]:
            value = ""
        else:
            value = self._argument(match)
            self.used = self.used or value is not None
        if value is None:
            return match[0]
        return match[0][1:] if match["escaped"] else value

    def _argument(self, match: re.Match[str]) -> str | None:
        if match["all"]:
            return self._given.arguments
        if match["name"] is not None:
            at = list(self._given.names).index(match["name"])
        elif match["at"] is not None:
            at = int(match["at"])
        else:
            at = int(match["number"]) - self._first
        return self._words[at] if 0 <= at < len(self._words) else None


def _split(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # an unclosed quote
        return arguments.split()
