"""Splits a command line into the simple commands that a shell would run.

`parse_simple_commands` is exact, and gives up where it is not sure: what it returns may be used to allow.
`find_possible_commands` reads any line and finds too much rather than too little: it may be used to forbid,
never to allow.
"""

from __future__ import annotations

import re
import shlex

Words = list[str]  # of one simple command: the program, then its arguments, unquoted; never empty
_OPAQUE = re.compile(
    r"`|\$\(|\$\{|<\(|>\(|<<|\\\n|[(){}]|\$'|\$\"|(?:^|[\s;|&])#|[\x00-\x08\x0b-\x1f\x7f]|[^\x00-\x7f]"
)
_HARMLESS_REDIRECT = re.compile(r"(?:[12]?>>?\s*/dev/null|2>&1|1>&2|&>\s*/dev/null)(?=[\s;|&]|$)")
_OPERATORS = {"&&", "||", ";", "|"}
_LEADING_ASSIGNMENT = re.compile(r"^\w+=")
_BLANK_VARIABLE = re.compile(r"\$IFS\b|\$\{IFS\b[^}]*\}")
_HOME_VARIABLE = re.compile(r"\$HOME\b|\$\{HOME\b[^}]*\}")
_POSSIBLE_OPERATOR = re.compile(r"[;&|\r\n(){}`]")


def parse_simple_commands(line: str) -> list[Words] | None:
    """The simple commands of a line in their order, or None if it holds anything else or may do so.

    Read are plain commands joined by `&&`, `||`, `;`, `|` and newlines; redirections to /dev/null and
    between the outputs are passed over. Substitutions, other redirections, subshells, here-documents,
    comments, background jobs, computed command names and leading assignments give None.
    """
    text = _HARMLESS_REDIRECT.sub(" ", line.replace("\r\n", "\n").strip())
    if not text or _OPAQUE.search(_unquoted(text)):
        return None
    try:
        lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=";&|<>")
        lexer.whitespace_split = True
        lexer.commenters = ""
        return _split(list(lexer))
    except ValueError:
        return None


def find_possible_commands(line: str) -> list[Words]:
    """All that may be a command in any line: cut at whatever may join commands, in quotes or not.

    Quotes and backslashes are removed, so that what is quoted counts as if it were run; `~` stands for
    $HOME. Words that only a real parser could tell apart from commands are among the results.
    """
    text = _HOME_VARIABLE.sub("~", _BLANK_VARIABLE.sub(" ", re.sub(r"\\\r?\n", "", line)))
    pieces = _POSSIBLE_OPERATOR.split(re.sub(r"[\"'\\]", "", text))
    return [words for piece in pieces if (words := re.split(r"[\s,<>$]+", piece.strip()))[0]]


def _split(tokens: list[str]) -> list[Words] | None:
    if not tokens or tokens[0] in _OPERATORS or tokens[-1] in _OPERATORS - {";"}:
        return None
    commands: list[Words] = [[]]
    for token in tokens:
        if token in _OPERATORS:
            commands.append([])
        elif token and not token.strip(";&|<>"):
            return None
        else:
            commands[-1].append(token)
    commands = [words for words in commands if words]
    if not commands or any(_LEADING_ASSIGNMENT.match(words[0]) or "$" in words[0] for words in commands):
        return None
    return commands


def _unquoted(text: str) -> str:
    """The text as far as a shell interprets it: nothing in single quotes, only `$` and backquotes, with the
    character after a `$`, in double quotes.

    An apostrophe within double quotes opens nothing, and a backslash outside quotes takes the next character.
    """
    kept: list[str] = []
    quote, at = "", 0
    while at < len(text):
        char = text[at]
        if char == "\\" and quote != "'":
            if not quote:
                kept.append(text[at : at + 2])
            at += 1
        elif char in "'\"" and quote in ("", char):
            kept.append(char)
            quote = "" if quote else char
        elif not quote or (quote == '"' and (char in "$`" or kept[-1] == "$")):
            kept.append(char)
        at += 1
    return "".join(kept)
