"""Split a command line into the simple commands that a shell would run.

`parse_simple_commands` is exact and gives up if it is not certain, so its result may be used to allow.
`find_possible_commands` reads any line and finds too many commands rather than too few, so its result may be
used to deny, but never to allow.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct, field

from tools.text import word_set
from transcripts.patterns import lazy_pattern

MAX_LINE_CHARS = 10_000
Words = list[str]  # of one simple command: the program, then its arguments, unquoted; never empty
# The tokens of a line that can be parsed. The first alternative that matches is taken.
_TOKEN = lazy_pattern(
    r"""
    (?P<blank>[ \t]+)
    |(?P<joint>&&|\|\||;(?!&)|\||\n)
    |(?P<redirect>(?:(?P<output>[12]?)(?:>>?[ \t]*/dev/null|>&[12])|(?:<|&>>?)[ \t]*/dev/null)
        (?=[ \t\n;|&<>]|\Z))
    |(?P<input><(?![<>&(]))
    |(?P<reflog>@\{[\w-]+\})            # HEAD@{1}: braces without a comma or dots are literal
    |(?P<plain>(?:[\w./,:+%^=!\]-]|@(?!\{))+)
    |'(?P<single>[^']*)'
    |"(?P<double>(?:[^"\\$`]|\\[^\n])*)"
    |\\(?P<escaped>[ -~])
    |(?P<glob>[*?[])
    |(?P<inner>[~#])                    # only within a word, where they are literal
    |(?P<empty>\{\}(?=[ \t\n;|&]|\Z))    # only as a separate word, which find replaces
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE_IN_QUOTES = lazy_pattern(r"\\([$`\"\\])")
_GLOB_CHARACTER = lazy_pattern(r"([*?[])")
_KEYWORDS = word_set(
    "! [[ ]] case coproc do done elif else esac fi for function if in select then time until while"
)
_BLANK_VARIABLE = lazy_pattern(r"\$IFS\b|\$\{IFS\b[^}]*\}")
_HOME_VARIABLE = lazy_pattern(r"\$HOME\b|\$\{HOME\b[^}]*\}")
_POSSIBLE_OPERATOR = lazy_pattern(r"[;&|\r\n(){}`]")


class Glob(str):
    """A word with `*`, `?` or `[` outside quotes, which the shell may replace with names of files.

    `pattern` is the word with each quoted character of these in brackets: `[*]`.
    """

    __slots__ = ("pattern",)

    pattern: str

    def __new__(cls, text: str, pattern: str) -> Glob:
        made = super().__new__(cls, text)
        made.pattern = pattern
        return made


class JoinedCommand(NamedTuple):
    """A simple command, the operator before it, and the files that its input is redirected from."""

    joint: str
    words: Words
    inputs: Words


class _Line(Struct):
    """The commands parsed so far with the operator before each, and the one in progress."""

    commands: list[JoinedCommand] = field(default_factory=list)
    words: Words = field(default_factory=list)
    word: str | None = None  # None between words
    pattern: str = ""
    is_glob: bool = False
    redirected: bool = False
    inputs: Words = field(default_factory=list)
    names_input: bool = False  # the next word is one of `inputs`
    joint: str = ""

    def extend_word(self, text: str, pattern: str | None = None) -> None:
        self.word = (self.word or "") + text
        self.pattern += _GLOB_CHARACTER.sub(r"[\1]", text) if pattern is None else pattern
        self.is_glob = self.is_glob or pattern is not None

    def end_word(self) -> None:
        if self.word is not None:
            words = self.inputs if self.names_input else self.words
            words.append(Glob(self.word, self.pattern) if self.is_glob else self.word)
            self.names_input = False
        self.word = None
        self.pattern = ""
        self.is_glob = False

    def end_command(self, joint: str) -> bool:
        """End a command that has a plain first word; return False if an operator is not allowed here."""
        self.end_word()
        if self.names_input or any(isinstance(word, Glob) for word in self.inputs):
            return False
        if not self.words:
            return joint == "\n" and not self.redirected
        program = self.words[0]
        if not program or program in _KEYWORDS or "=" in program or "%" in program:
            return False
        if type(program) is Glob and program != "[":  # which is not a pattern on its own
            return False
        self.commands.append(JoinedCommand(self.joint, self.words, self.inputs))
        self.words = []
        self.inputs = []
        self.redirected = False
        self.joint = joint
        return True


def parse_simple_commands(line: str) -> list[Words] | None:
    """Return the simple commands of a line in order, or None if it contains or may contain anything else.

    This includes input from files, which `parse_joined_commands` allows.

    The line may consist of plain commands joined by `&&`, `||`, `;`, `|` and newlines. Redirections to and
    from /dev/null and between the outputs are ignored. The result is None for expansions, other redirections,
    subshells, braces, here-documents, comments, background jobs, keywords, computed command names, leading
    assignments, control characters and white space except space and tab. It is also None for a line of more
    than 10,000 characters, and for one that begins like an option of bash. A word that the shell may replace
    with names of files is a `Glob`.
    """
    joined = parse_joined_commands(line)
    if joined is None or any(command.inputs for command in joined):
        return None
    return [command.words for command in joined]


def parse_joined_commands(line: str) -> list[JoinedCommand] | None:
    """Parse like `parse_simple_commands`, with the operator before each command, "" before the first."""
    if len(line) > MAX_LINE_CHARS or line.startswith(("-", "+")):
        return None
    if not line.replace("\n", "").replace("\t", "").isprintable():
        return None
    parsed = _Line()
    at = 0
    while at < len(line):
        token = _TOKEN.match(line, at)
        if token is None or not _take(parsed, token):
            return None
        at = token.end()
    if not parsed.end_command("\n") or parsed.joint not in ("\n", ";"):
        return None
    return parsed.commands


def _take(parsed: _Line, token: re.Match[str]) -> bool:
    """Add a token to the line; return False if it is not allowed here."""
    kind = token.lastgroup
    text = token[0]
    if kind == "blank":
        parsed.end_word()
    elif kind == "joint":
        return parsed.end_command(text)
    elif kind in ("redirect", "input"):
        return _take_redirect(parsed, token["output"] or "", is_input=kind == "input")
    elif kind == "inner":
        if not parsed.word or (text == "~" and parsed.word[-1] in "=:"):
            return False
        parsed.extend_word(text)
    elif kind == "empty":
        if parsed.word is not None:
            return False
        parsed.extend_word(text)
    elif kind == "glob":
        parsed.extend_word(text, text)
    elif kind == "double":
        parsed.extend_word(_ESCAPE_IN_QUOTES.sub(r"\1", token["double"]))
    else:
        parsed.extend_word(token[kind or 0])
    return True


def _take_redirect(parsed: _Line, output: str, *, is_input: bool) -> bool:
    """Take a redirection. A number belongs to it only if it is the whole word before it."""
    word = parsed.word
    parsed.end_word()
    if parsed.names_input:
        return False
    parsed.redirected = True
    parsed.names_input = is_input
    return word is None or not (output or word.isdigit())


def find_possible_commands(line: str) -> list[Words]:
    """Return everything that may be a command in any line: its parts between operators, quoted or not.

    Quotes and backslashes are removed, so quoted text counts as if it were run. `~` stands for $HOME.
    Words that only a real parser could distinguish from commands are among the results.
    """
    text = _HOME_VARIABLE.sub("~", _BLANK_VARIABLE.sub(" ", re.sub(r"\\\r?\n", "", line)))
    pieces = _POSSIBLE_OPERATOR.split(re.sub(r"[\"'\\]", "", text))
    return [words for piece in pieces if (words := re.split(r"[\s,<>$]+", piece.strip()))[0]]
