"""A command line taken apart for the permission rules: strict, and None where it is not sure.

Only plain commands joined by `&&`, `||`, `;`, `|` and newlines are taken apart. Substitutions, redirections
to files, subshells, here-documents, comments, globbed or computed command names, background jobs and variable
assignments in front make the whole line unparsable, so that it is asked about as a whole. `rough_commands`
reads any line, and badly: good enough to forbid, never to allow.
"""

from __future__ import annotations

import re
import shlex

_OPAQUE = re.compile(
    r"`|\$\(|\$\{|<\(|>\(|<<|\\\n|[(){}]|\$'|\$\"|(?:^|[\s;|&])#|[\x00-\x08\x0b-\x1f\x7f]|[^\x00-\x7f]"
)
_SAFE_REDIRECT = re.compile(r"(?:[12]?>>?\s*/dev/null|2>&1|1>&2|&>\s*/dev/null)(?=[\s;|&]|$)")
_JOINTS = {"&&", "||", ";", "|"}
_ASSIGNMENT = re.compile(r"^\w+=")
_BLANK = re.compile(r"\$IFS\b|\$\{IFS\b[^}]*\}")
_HOME = re.compile(r"\$HOME\b|\$\{HOME\b[^}]*\}")
_ROUGH_JOINT = re.compile(r"[;&|\r\n(){}`]")


def simple_commands(line: str) -> list[list[str]] | None:
    """The simple commands of a line as lists of words, or None if it holds anything but those."""
    text = _SAFE_REDIRECT.sub(" ", line.replace("\r\n", "\n").strip())
    if not text or _OPAQUE.search(_live(text)):
        return None
    try:
        lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=";&|<>")
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:
        return None
    return _split(words)


def rough_commands(line: str) -> list[list[str]]:
    """Any line cut at whatever may join commands, in quotes or not; `~` stands for $HOME.

    Quotes and backslashes are dropped, so what is quoted counts as if it were to be run.
    """
    text = _HOME.sub("~", _BLANK.sub(" ", re.sub(r"\\\r?\n", "", line)))
    pieces = _ROUGH_JOINT.split(re.sub(r"[\"'\\]", "", text))
    return [words for piece in pieces if (words := re.split(r"[\s,<>$]+", piece.strip()))[0]]


def _split(words: list[str]) -> list[list[str]] | None:
    if not words or words[0] in _JOINTS or words[-1] in _JOINTS - {";"}:
        return None
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


def _live(text: str) -> str:
    """The text as far as a shell acts on it: nothing of what single quotes hold, of double ones only `$` and
    backquotes with what follows.

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


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Programs that only look, whatever their arguments but those named below; those of git that do.
_LOOKS = _words(
    "ls cat head tail grep rg wc pwd echo which file stat du df id whoami uname ps tree diff cmp cut tr"
    " true false"
)
_GIT_LOOKS = _words("status diff log show blame rev-parse ls-files grep describe shortlog")
_ACTS = {
    "find": _words("-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls"),
    "git": _words("--output --open-files-in-pager -O --ext-diff"),
    "tree": _words("-o --output"),
    "file": _words("-C --compile"),
    "rg": _words("--pre"),
}


def is_read_only(line: str) -> bool:
    """Whether a command line surely changes no file: every simple command in it is known to only look."""
    found = simple_commands(line)
    return found is not None and all(_looks(words) for words in found)


def _looks(words: list[str]) -> bool:
    name, rest = words[0], words[1:]
    acts = _ACTS.get(name, frozenset())
    if any(word == act or word.startswith(f"{act}=") for word in rest for act in acts):
        return False
    if name == "git":
        return bool(rest) and rest[0] in _GIT_LOOKS and not any(word.startswith("-O") for word in rest)
    return name in _LOOKS or name == "find"
