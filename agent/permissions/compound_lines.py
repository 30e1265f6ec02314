"""Reads lines with loops, conditions, subshells and variables into the simple commands in them.

As exact as shell_syntax.py: what is not read with certainty makes the line none that is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from tools.files.text_encoding import word_set

from .shell_syntax import ESCAPE_IN_QUOTES, KEYWORDS, MAX_PARSED_CHARS

_LEADING = word_set("if then elif else while until do { ! time")  # a command follows
_ENDING = word_set("fi done }")
_LOOPING = word_set("for while until")
_STEP_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t]+)
    |(?P<joint>&&|\|\||;(?![;&])|\|(?!&)|\n)
    |(?P<redirect>(?:(?P<output>[12]?)(?:>>?[ \t]*/dev/null|>&[12])|(?:<|&>>?)[ \t]*/dev/null)
        (?=[ \t\n;|&<>)]|\Z))
    |(?P<input><)(?![<>&(])[ \t]*
    |(?P<subshell>\()(?!\()
    |(?P<close>\))
    |(?P<comment>\#[^\n]*)
    |(?P<empty>\{\}(?=[ \t\n;|)]|\Z))
    |(?P<brace>[{}](?=[ \t\n;|)]|\Z))
    |(?P<plain>(?:[\w./,:+%^=!\]-]|@(?!\{))+)
    |'(?P<single>[^']*)'
    |(?P<double>")
    |\\(?P<escaped>[ -~])
    |(?P<glob>[*?[])
    |(?P<inner>[~#])
    |(?P<dollar>\$)
    """,
    re.VERBOSE | re.ASCII,
)
_QUOTED_TEXT = re.compile(r"(?:[^\"\\$`]|\\[^\n]|\$(?=[\"\s|)]))+")
_DOLLAR = re.compile(
    r"\$(?:(?P<name>[A-Za-z_]\w*|[?#$!0])|\{(?P<braced>[A-Za-z_]\w*)\}|(?P<sum>\(\([\d\s+*/%-]*\)\))|(?P<code>\()(?!\())",
    re.ASCII,
)
_ASSIGNED = re.compile(r"([a-z][a-z0-9_]*)=(.*)", re.ASCII | re.DOTALL)
_SETTABLE = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
# A word of a condition in double brackets; a part of it, and such a condition.
_CONDITION_WORD = re.compile(
    r"""'(?P<single>[^'\n]*)'|"(?P<double>[^"\\$`\n]*)"|(?P<quote>"?)\$(?:(?P<name>\w+)|\{(?P<braced>\w+)\})(?P=quote)"""
    r"|(?P<plain>[\w./=!-]+)",
    re.ASCII,
)
_OPERAND = r"""(?:'[^'\n]*'|"[^"\\$`\n]*"|"\$\w+"|"\$\{\w+\}"|\$\w+|[\w./][\w./-]*)"""
_PART = rf"(?:-[bcdefghkLNOGprsSuwxnz][ \t]+{_OPERAND}|{_OPERAND}[ \t]+(?:==?|!=)[ \t]+{_OPERAND})"
_CONDITION_PART = re.compile(_PART, re.ASCII)
_CONDITION = re.compile(
    rf"\[\[[ \t]+(?:![ \t]+)?{_PART}(?:[ \t]+(?:&&|\|\|)[ \t]+(?:![ \t]+)?{_PART})*[ \t]+\]\]"
    r"(?=[ \t\n;|&)]|\Z)",
    re.ASCII,
)
_MAX_NESTED = 8  # subshells and substitutions within each other


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word: text, a special character of a glob, a variable by its name, or what is not known."""

    kind: Literal["text", "glob", "variable", "unknown"]
    text: str
    quoted: bool = True


@dataclass(frozen=True, slots=True)
class PossibleCommand:
    """A simple command of a line with loops and conditions: it may run any number of times, or never.

    joint  that stands before it; ";" where that is not known, "!" where its status is turned round
    then   the joint behind it
    words  each in its pieces
    sure   whether it is run once, in the shell itself, if the shell gets there
    """

    joint: str
    then: str
    words: tuple[tuple[Piece, ...], ...]
    sure: bool


_TEXT_CAT = (Piece("text", "cat"),)


class _NotRead(Exception):
    """A line holds what is not read here."""


class _Found:
    """What was read of a line: its commands, and the values that its variables may have, None for unknown."""

    def __init__(self) -> None:
        self.steps: list[PossibleCommand] = []
        self.values: dict[str, list[tuple[Piece, ...] | None]] = {}
        self.depth = 0  # of subshells and substitutions
        self.open = 0  # conditions, loops and braces around
        self.looped = False  # whether a loop began somewhere before

    def _end_word(self, command: _Command) -> None:
        pieces, command.pieces = command.pieces, None
        if pieces is None:
            return
        if command.awaits_input:
            command.awaits_input = False
            command.inputs.append(tuple(pieces))
            return
        word = pieces[0].text if len(pieces) == 1 and not pieces[0].quoted else ""
        first = not command.words and not command.redirected
        if first and word in _LEADING:
            if word in ("!", "time") and command.joint in ("|", "!"):  # there it is a program
                raise _NotRead
            self._open(word)
            command.joint = "!" if word in ("!", "time") else ";"
            command.in_while = word == "while"
        elif first and word in _ENDING:
            self.open -= 1
            if self.open < 0:
                raise _NotRead
            command.closed = True
        elif word in ("{", "}") or (not command.words and word in KEYWORDS and not (first and word == "for")):
            raise _NotRead
        else:
            command.words.append(tuple(pieces))

    def _end_command(self, command: _Command, joint: str) -> None:
        self._end_word(command)
        if command.awaits_input:
            raise _NotRead
        if command.closed:
            if command.words:
                raise _NotRead
        elif not command.words:
            if joint != "\n" or command.redirected or command.joint == "!":
                raise _NotRead
        elif self._sets_variables(command):
            command.is_silent = True
        else:
            self._add(command, joint)
        own = bool(command.words) and not command.is_silent
        for word in command.inputs:
            self.steps.append(PossibleCommand("&&" if own else ";", ";", (_TEXT_CAT, word), sure=False))

    def _open(self, word: str) -> None:
        self.open += word in ("if", "while", "until", "{")
        self.looped = self.looped or word in _LOOPING

    def _add(self, command: _Command, joint: str) -> None:
        name = command.words[0]
        text = "".join(piece.text for piece in name)
        if any(piece.kind in ("variable", "unknown") for piece in name) or not text:
            raise _NotRead
        if any(piece.kind == "glob" for piece in name) and text != "[":
            raise _NotRead
        if "=" in text or "%" in text or (text == "cd" and (self.looped or not command.is_plain)):
            raise _NotRead
        sure = self.depth == 1 and not self.open and not self.looped
        self.steps.append(PossibleCommand(command.joint, joint, tuple(command.words), sure))

    def _take_condition(self, command: _Command, condition: re.Match[str]) -> None:
        """`[[ … ]]` as `test` of each of its parts."""
        for part in _CONDITION_PART.finditer(condition[0]):
            words = [(Piece("text", "test"),)]
            for word in _CONDITION_WORD.finditer(part[0]):
                name = word["name"] or word["braced"]
                text = word["single"] or word["double"] or word["plain"] or ""
                words.append((Piece("variable", name) if name else Piece("text", text),))
            self.steps.append(PossibleCommand(";", ";", tuple(words), sure=False))
        command.closed = True

    def _sets_variables(self, command: _Command) -> bool:
        """Whether a command only sets variables: `for x in`, `x=`, `while read x`. Their values are kept."""
        first = command.words[0]
        words = [_plain_text(word) for word in command.words]
        if words[0] == "for" and len(words) > 2 and words[2] == "in" and not command.inputs:
            self.open += 1
            self.looped = True
            self._set(words[1], [*command.words[3:]])
            return True
        if first[0].kind == "text" and not first[0].quoted and (made := _ASSIGNED.match(first[0].text)):
            if len(words) != 1 or command.inputs or command.redirected:
                raise _NotRead
            value = (Piece("text", made[2]), *first[1:])
            self._set(made[1], [value if all(piece.kind == "text" for piece in value) else None])
            return True
        names = words[1:] if words[0] == "IFS=" else words
        if command.in_while and names[:1] == ["read"]:
            for name in names[2:] if names[1:2] == ["-r"] else names[1:]:
                self._set(name, [None])
            return True
        return False

    def _set(self, name: str, values: list[tuple[Piece, ...] | None]) -> None:
        if not _SETTABLE.fullmatch(name):
            raise _NotRead
        self.values.setdefault(name, []).extend(values)


class StepReader(_Found):
    """Reads a line into the simple commands that it may run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.at = 0

    def read_list(self, closing: str) -> None:
        """Read commands up to the bracket, or to the end of the text. Raises _NotRead."""
        self.depth += 1
        if self.depth > _MAX_NESTED:
            raise _NotRead
        command, joint = _Command(";" if closing else ""), ""
        while self.at < len(self.text):
            if command.begins and (condition := _CONDITION.match(self.text, self.at)):
                self.at = condition.end()
                self._take_condition(command, condition)
                continue
            token = _STEP_TOKEN.match(self.text, self.at)
            if token is None:
                raise _NotRead
            self.at = token.end()
            if token.lastgroup == "close":
                break
            if token.lastgroup != "joint":
                self._take(command, token)
                continue
            self._end_word(command)
            if token[0] == "\n" and command.is_empty and command.joint != "!":
                continue
            joint = token[0]
            self._end_command(command, joint)
            apart = joint in (";", "\n") or not (command.closed or command.is_silent)
            command = _Command(joint if apart else "!")
        else:
            if closing:
                raise _NotRead
            token = None
        if (token is not None and token.lastgroup == "close") != bool(closing):
            raise _NotRead
        self._end_command(command, "\n")
        if joint not in ("", "\n", ";") and command.is_empty:
            raise _NotRead
        self.depth -= 1

    def _take(self, command: _Command, token: re.Match[str]) -> None:
        kind, text = token.lastgroup or "", token[0]
        if kind == "comment" and command.pieces is not None:
            kind, self.at = "inner", token.start() + 1
            text = "#"
        if kind in ("blank", "redirect", "input"):
            number = command.pieces is not None and kind != "blank"
            self._end_word(command)
            if kind != "blank":
                command.redirected = True
                if number:  # it may be the number of a file
                    raise _NotRead
            command.awaits_input = command.awaits_input or kind == "input"
        elif kind == "comment":
            return
        elif kind == "subshell":
            self._read_subshell(command)
        elif command.closed and not command.awaits_input:
            raise _NotRead
        elif kind == "dollar":
            self.at = token.start()
            self._read_dollar(command, quoted=False)
        elif kind == "double":
            self._read_double(command)
        elif kind == "glob":
            command.add(Piece("glob", text, quoted=False))
        elif kind == "inner":
            before = command.pieces[-1] if command.pieces else None
            if before is None or before.kind != "text" or (text == "~" and before.text[-1:] in "=:"):
                raise _NotRead
            command.add(Piece("text", text))
        elif kind == "brace" and command.pieces is not None:
            raise _NotRead
        else:
            command.add(Piece("text", token[token.lastgroup or 0], quoted=kind not in ("plain", "brace")))

    def _read_subshell(self, command: _Command) -> None:
        if command.pieces is not None or command.words or command.redirected or command.closed:
            raise _NotRead
        self.read_list(")")
        command.closed = True

    def _read_double(self, command: _Command) -> None:
        command.add(Piece("text", ""))
        while not self.text.startswith('"', self.at):
            if plain := _QUOTED_TEXT.match(self.text, self.at):
                self.at = plain.end()
                command.add(Piece("text", ESCAPE_IN_QUOTES.sub(r"\1", plain[0])))
            else:
                self._read_dollar(command, quoted=True)
        self.at += 1

    def _read_dollar(self, command: _Command, *, quoted: bool) -> None:
        found = _DOLLAR.match(self.text, self.at)
        if found is None:
            raise _NotRead
        self.at = found.end()
        if name := found["name"] or found["braced"]:
            command.add(Piece("variable", name, quoted))
            return
        if found["code"]:
            self.read_list(")")
            command.joint, command.is_silent = "!", True  # a `cd` in there is none of the shell's
        command.add(Piece("unknown", "", quoted))


@dataclass(slots=True)
class _Command:
    """The simple command in progress; `closed` tells that it ends a subshell, a loop or a condition."""

    joint: str
    words: list[tuple[Piece, ...]] = field(default_factory=list)
    pieces: list[Piece] | None = None
    inputs: list[tuple[Piece, ...]] = field(default_factory=list)
    awaits_input: bool = False
    redirected: bool = False
    closed: bool = False
    in_while: bool = False
    is_silent: bool = False  # what follows cannot be told to run where this one did

    @property
    def begins(self) -> bool:
        """Whether nothing of it was read yet."""
        return self.is_empty and self.pieces is None and not self.awaits_input

    @property
    def is_empty(self) -> bool:
        return not (self.words or self.closed or self.redirected)

    @property
    def is_plain(self) -> bool:
        """Whether all words are text, and nothing is read."""
        return not self.inputs and all(piece.kind == "text" for word in self.words for piece in word)

    def add(self, piece: Piece) -> None:
        self.pieces = [*(self.pieces or ()), piece]


def _plain_text(word: tuple[Piece, ...]) -> str:
    """The text of a word that is one unquoted piece, else ""."""
    return word[0].text if len(word) == 1 and word[0].kind == "text" and not word[0].quoted else ""


def parse_steps(line: str) -> StepReader | None:
    """The simple commands of a line that may hold loops, conditions and variables; None for any other line.

    Whatever bash would run of the line is among the steps: keywords in no order are an error there.
    """
    if len(line) > MAX_PARSED_CHARS or line.startswith(("-", "+")):
        return None
    if not line.replace("\n", "").replace("\t", "").isprintable():
        return None
    reader = StepReader(line)
    try:
        reader.read_list("")
    except _NotRead:
        return None
    return reader
