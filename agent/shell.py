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


# Programs that only look, whatever their arguments; those of git and find that do.
_LOOKS = {
    "ls",
    "cat",
    "head",
    "tail",
    "grep",
    "rg",
    "wc",
    "pwd",
    "echo",
    "printf",
    "which",
    "file",
    "stat",
    "du",
}
_LOOKS |= {
    "df",
    "date",
    "id",
    "whoami",
    "uname",
    "ps",
    "tree",
    "diff",
    "cmp",
    "cut",
    "tr",
    "true",
    "false",
    "test",
}
_GIT_LOOKS = {
    "status",
    "diff",
    "log",
    "show",
    "blame",
    "rev-parse",
    "ls-files",
    "grep",
    "describe",
    "shortlog",
}
_FIND_ACTS = {"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"}


def only_looks(line: str) -> bool:
    """Whether a command line surely changes no file: every simple command in it is known to only look."""
    found = simple_commands(line)
    return found is not None and all(_looks(words) for words in found)


def _looks(words: list[str]) -> bool:
    name, rest = words[0], words[1:]
    if name == "git":
        return bool(rest) and rest[0] in _GIT_LOOKS and not any(word.startswith("--output") for word in rest)
    if name == "find":
        return not _FIND_ACTS.intersection(rest)
    return name in _LOOKS


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
