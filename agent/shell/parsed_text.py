"""The values that shell text is read into: words before their expansion, commands, and marks.

A mark is a character that stands in resolved text for what is not known: ANY is unknown text within one word,
SPLIT is unknown text that may be any number of words, STAR and ONE are globs (`*`, `?` and `[!…]`), CLASS is
`[…]`, HOME is the home directory. UNSET stands before what the line's own text does not set, which may well
be empty. BLANK is where a word is split. They are noncharacters of Unicode, which no line may hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from msgspec import Struct, field

from transcripts.patterns import lazy_pattern

MAX_STEPS = 2_000  # pieces of words of one line; recorded sessions have at most 500
ANY, SPLIT, STAR, ONE, CLASS, UNSET, HOME, BLANK = map(chr, range(0xFDD0, 0xFDD8))
MARKS = lazy_pattern("[\ufdd0-\ufddf]")


def program_name(word: str) -> str:
    """Return the name of a program without its directory, in lower case; "" where it is not known."""
    folder, _, name = word.rpartition("/")
    may_split = SPLIT in folder.replace(UNSET + SPLIT, "")
    if may_split or MARKS.search(name):
        return ""
    return name.casefold().removesuffix(".exe").removeprefix("=")  # zsh finds `=name` on PATH


def is_unknown(word: str) -> bool:
    """Return whether some piece of the word is not known; the home directory is known."""
    return MARKS.search(word.replace(HOME, "")) is not None


def is_open(word: str) -> bool:
    """Return whether a word is nothing but unknown: it may be an option, a script or a file."""
    return MARKS.sub("", word) == "" != word


class UnreadableError(Exception):
    """The text cannot be read with certainty as bash would read it."""


class NoSumError(UnreadableError):
    """A text that begins like an arithmetic expression does not end like one."""


class Part(NamedTuple):
    """A piece of a word: text, the name of a variable, the code of a substitution, or an unknown piece."""

    kind: Literal["text", "variable", "code", "unknown"]
    text: str
    quoted: bool


class RawWord(NamedTuple):
    """A word before its expansion. `source` is its text as written, without line continuations."""

    parts: tuple[Part, ...]
    source: str


class Assignment(NamedTuple):
    """A value that a variable may be set to, None where it is not known.

    listed  the word stands in a list, as those of a loop do, and may become several values
    """

    name: str
    value: RawWord | None
    listed: bool = False


class HereDocument(Struct):
    """The lines that follow a command as its input; `body` is read when the command's line ends."""

    delimiter: str
    quoted: bool
    strips_tabs: bool
    body: RawWord | None = None


class RawRedirect(NamedTuple):
    """A redirection before expansion; `stream` is what stands before its operator: "2", "" for nothing."""

    operator: str
    target: RawWord
    document: HereDocument | None
    stream: str


class RawCommand(Struct):
    """A simple command before expansion: what stands in it, in order.

    joint        the operator that follows: `|`, `&`, `;`, `&&`, `||` or ""
    source       the command whose output it reads through a pipe
    within       names of the functions in whose bodies it stands
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
    """The commands and values found in a line and its scripts so far, and the steps that may still be spent.

    assigned   every value that the line may give to a variable
    functions  names of those that the line defines
    unsure     some piece of a script was not known
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
    """A text and how far it is read. `read_commands` reads the commands of a substitution up to its end.

    nested    in a substitution, whose here-documents are its own
    blocked   in a substitution before which here-documents are pending
    bodies    the functions in whose bodies this is; "" for braces and brackets of no function
    defining  the function whose body is to come
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
        """The text of a backquoted substitution or of a here-document within this one."""
        found = ShellText(
            text, gathered=self.gathered, read_commands=self.read_commands, depth=self.depth, nested=True
        )
        found.deeper()
        found.shells = self.subshell()
        return found

    def subshell(self) -> tuple[int, ...]:
        """The numbers of the shells in a new subshell here."""
        return (*self.shells, self.gathered.steps)  # the steps left are a number of their own
