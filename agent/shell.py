"""A command line taken apart for the permission rules: strict, and None where it is not sure.

Only plain commands joined by `&&`, `||`, `;`, `|` and newlines are taken apart. Substitutions, redirections
to files, subshells, here-documents, globbed or computed command names, background jobs and variable
assignments in front make the whole line unparsable, so that it is asked about as a whole.
"""

from __future__ import annotations

import re
import shlex

_OPAQUE = re.compile(r"`|\$\(|\$\{|<\(|>\(|<<|\\\n|[(){}]|\$'|\$\"|[\x00-\x08\x0b-\x1f\x7f]|[^\x00-\x7f]")
_SAFE_REDIRECT = re.compile(r"(?:[12]?>>?\s*/dev/null|2>&1|1>&2|&>\s*/dev/null)(?=[\s;|&]|$)")
_JOINTS = {"&&", "||", ";", "|", "\n"}
_ASSIGNMENT = re.compile(r"^\w+=")


def simple_commands(line: str) -> list[list[str]] | None:
    """The simple commands of a line as lists of words, or None if it holds anything but those."""
    text = _SAFE_REDIRECT.sub(" ", line.replace("\r\n", "\n").strip())
    if not text or _OPAQUE.search(_unquoted(text)):
        return None
    try:
        lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=";&|<>")
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:
        return None
    return _split(words)


def _split(words: list[str]) -> list[list[str]] | None:
    commands: list[list[str]] = [[]]
    for word in words:
        if word in _JOINTS:
            commands.append([])
        elif word and not word.strip(";&|<>"):
            return None
        else:
            commands[-1].append(word)
    found = [command for command in commands if command]
    if not found or any(_ASSIGNMENT.match(command[0]) or "$" in command[0] for command in found):
        return None
    return found


def _unquoted(text: str) -> str:
    """The text without what stands in single quotes, where nothing is expanded.

    An apostrophe within double quotes opens nothing, and a backslash outside quotes takes the next character.
    """
    kept: list[str] = []
    quote, at = "", 0
    while at < len(text):
        char = text[at]
        if quote != "'":
            kept.append(char)
        if char == "\\" and quote != "'":
            kept.append(text[at + 1 : at + 2])
            at += 1
        elif char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        at += 1
    return "".join(kept)
