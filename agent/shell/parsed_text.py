"""The values that shell text is read into: words before expansion, commands, and marks.

A mark is a character that stands for unknown text: ANY is unknown text within one word, SPLIT is unknown text
that may be any number of words, STAR and ONE are globs (`*`, `?` and `[!…]`), CLASS is `[…]`, HOME is the
home directory. UNSET precedes the value of a variable that the line does not set, which is likely to be
empty. BLANK is a position where a word is split. Marks are Unicode noncharacters, which no line may contain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from msgspec import Struct, field

from transcripts.patterns import lazy_pattern

MAX_STEPS = 2_000  # parts of words in one line; recorded sessions have at most 500
ANY, SPLIT, STAR, ONE, CLASS, UNSET, HOME, BLANK = map(chr, range(0xFDD0, 0xFDD8))
MARKS = lazy_pattern("[\ufdd0-\ufddf]")


def program_name(word: str) -> str:
    """Return the name of a program without its directory, in lower case; "" if it is unknown."""
    folder, _, name = word.rpartition("/")
    may_split = SPLIT in folder.replace(UNSET + SPLIT, "")
    if may_split or MARKS.search(name):
        return ""
    return name.casefold().removesuffix(".exe").removeprefix("=")  # zsh looks up `=name` on PATH


def is_unknown(word: str) -> bool:
    """Return whether some part of the word is unknown. The home directory counts as known."""
    return MARKS.search(word.replace(HOME, "")) is not None


def is_open(word: str) -> bool:
    """Return whether a word is entirely unknown, and so may be an option, a script or a file."""
    return MARKS.sub("", word) == "" != word


class UnreadableError(Exception):
    """The text cannot be read with certainty in the way bash reads it."""


class NoSumError(UnreadableError):
    """A text begins like an arithmetic expression but does not end like one."""


class Part(NamedTuple):
    """A part of a word: text, the name of a variable, the code of a substitution, or unknown text."""

    kind: Literal["text", "variable", "code", "unknown"]
    text: str
    quoted: bool


class RawWord(NamedTuple):
    """A word before its expansion. `source` is its text as written, without line continuations."""

    parts: tuple[Part, ...]
    source: str


class Assignment(NamedTuple):
    """A value that a variable may be set to, None if it is unknown.

    listed  the word is part of a list (as in a loop), and may become several values
    """

    name: str
    value: RawWord | None
    listed: bool = False


class HereDocument(Struct):
    """The lines that follow a command as its input. `body` is read at the end of the command's line."""

    delimiter: str
    quoted: bool
    strips_tabs: bool
    body: RawWord | None = None


class RawRedirect(NamedTuple):
    """A redirection before expansion. `stream` is the number before its operator, "" for none."""

    operator: str
    target: RawWord
    document: HereDocument | None
    stream: str


class RawCommand(Struct):
    """The parts of a simple command before expansion, in order.

    joint        the operator that follows: `|`, `&`, `;`, `&&`, `||` or ""
    source       the command whose output it reads through a pipe
    within       names of the functions whose bodies contain it
    shells       numbers of the subshells and substitutions around it
    """

    words: list[RawWord] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    redirects: list[RawRedirect] = field(default_factory=list)
    joint: str = ""
    source: RawCommand | None = None
    within: tuple[str, ...] = ()
    shells: tuple[int, ...] = ()


class Gathered(Struct):
    """The commands and values found in a line and its scripts so far, and the number of steps left.

    assigned   every value that the line may assign to a variable
    functions  names of the functions that the line defines
    unsure     some part of a script was unknown
    """

    commands: list[RawCommand] = field(default_factory=list)
    assigned: list[Assignment] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    steps: int = MAX_STEPS
    unsure: bool = False

    def spend(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise UnreadableError


class ShellText(Struct):
    """A text and the position up to which it is read. `read_commands` reads the commands of a substitution.

    nested    in a substitution, which has its own here-documents
    blocked   in a substitution that follows pending here-documents
    bodies    the functions whose bodies contain this position; "" for other braces and parentheses
    defining  the function whose body follows
    """

    text: str
    gathered: Gathered
    read_commands: Callable[[ShellText, str], None]
    at: int = 0
    depth: int = 0
    nested: bool = False
    blocked: bool = False
    pending: list[HereDocument] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    defining: str = ""
    shells: tuple[int, ...] = ()

    def peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > 30:
            raise UnreadableError

    def inner(self, text: str) -> ShellText:
        """Return the text of a backquoted substitution or of a here-document within this one."""
        found = ShellText(
            text, gathered=self.gathered, read_commands=self.read_commands, depth=self.depth, nested=True
        )
        found.deeper()
        found.shells = self.subshell()
        return found

    def subshell(self) -> tuple[int, ...]:
        """Return the numbers of the shells around a new subshell, and a new one for it."""
        return (*self.shells, self.gathered.steps)  # the number of steps left is unique
