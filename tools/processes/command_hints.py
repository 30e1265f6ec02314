"""Interpret command lines and their output: the programs, exit codes that are answers, hints.

Pure. It does not decide what may run. The permission rules do, with a stricter reader.
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import Literal

from tools.text import word_set
from transcripts.patterns import lazy_pattern

_SEPARATORS = frozenset("();|&\n")
_PREFIXES = frozenset(("!", "command", "builtin", "exec", "time", "env", "nice", "{", "then", "do", "else"))
_SUBSTITUTION = lazy_pattern(r"[<>]\([^()]*\)")
_ASSIGNMENT_WORD = lazy_pattern(r"[A-Za-z_]\w*\+?=")

# Programs whose exit status 1 is an answer ("no match", "they differ", "no"), not a failure.
_ANSWERING = word_set("grep egrep fgrep zgrep rg ag diff cmp colordiff test [ [[ pgrep which")
_ANSWERING_GIT = frozenset(("grep", "diff"))
# Programs that wait forever without a terminal instead of giving up.
_EDITORS = word_set("vi vim nvim view vimdiff gvim emacs nano pico joe mcedit hx kak ed")
_EDITOR_BATCH = lazy_pattern(
    r"\s(?:-[a-zA-Z]*[es][a-zA-Z]*|--batch|--script|--version|--help|-c|\+\S+)(?=\s|$)"
)
# Options with which `watch` ends by itself.
_ENDING_WATCH = lazy_pattern(r"\s(?:-[a-z]*[gq]|--(?:chgexit|equexit))")
_FULL_SCREEN = word_set("top htop btop less more man watch tmux screen mc ncdu nnn lazygit tig k9s")
_REPLS = word_set("python python3 ipython node irb psql mysql sqlite3 ghci lua bc gdb")

_PROMPT = lazy_pattern(
    r"(?:pass(?:word|phrase)|user ?name|login|pin|otp|token)\b.{0,60}:\s*$"
    r"|[\[(](?:y(?:es)?)/(?:n(?:o)?)\b.{0,20}[\])]\W*$"
    r"|(?:continue|proceed|overwrite|are you sure)\b.{0,80}\?\s*$|press (?:enter|any key).{0,40}$|[?>:]\s*$",
    re.IGNORECASE,
)
# A case-insensitive pattern and the advice, for the model as well as for a user who typed `!`.
_OUTPUT_HINTS = (
    (
        r"Input is not from a terminal|must be run (?:in|from) a terminal|input device is not a TTY"
        r"|not a (?:tty|terminal)\b|Error opening terminal|no tty present",
        "this program requires a terminal, which commands do not have: use its batch options, or have the "
        "user run it in another terminal",
    ),
    (
        r"sudo: (?:a terminal is required|a password is required)",
        "sudo cannot ask for a password here: only the user can run the command, in another terminal",
    ),
    (
        r"sudo: (?:.{1,200} must be owned by uid 0|effective uid is not 0)",
        "sudo has no privileges in a user namespace: only the user can run the command, in another terminal, "
        "or start makeroom with MAKEROOM_NAMESPACE=off",
    ),
    (
        r"could not read (?:Username|Password)|terminal prompts disabled|Host key verification failed"
        r"|Permission denied \(publickey",
        "git and ssh cannot prompt here: they need a stored credential, an SSH agent or a known host key, "
        "which the user can set up in another terminal",
    ),
    (
        r"\.(?:transcripts|task_outputs)\b.{0,20}: Device or resource busy",
        "the files in that directory belong to makeroom, and commands cannot remove them; exclude them with "
        "`git clean -e .transcripts -e .task_outputs`",
    ),
    (
        r"Aborting commit due to empty commit message",
        "no editor can be opened here: pass the message with `git commit -m` or `-F`",
    ),
)
# The same for commands in the sandbox.
_SANDBOX_HINTS = (
    (
        r"sudo: The \"no new privileges\"",
        "sudo has no privileges in the sandbox: run the sudo command by itself, so that the user can approve "
        "running it outside",
    ),
    (
        r"gpg failed to sign the data|gpg: (?:can't connect to|keyblock resource|skipped .+No secret key)",
        "gpg has no keys in the sandbox: run the signing command by itself, so that the user can approve "
        "running it outside",
    ),
    (
        r"Failed to connect to (?:user scope |system scope )?bus|System has not been booted with systemd",
        "the D-Bus socket is hidden in the sandbox: run the command by itself, so that the user can approve "
        "running it outside",
    ),
    (
        r"lack of SYSV IPC support",
        "the sandbox of this system blocks System V IPC, which fakeroot needs",
    ),
    (
        r"Invalid cross-device link|\bEXDEV\b",
        "some directories are mounts of their own in the sandbox, such as those that lead to hidden files: "
        "files cannot be renamed from one to another. Copy the file and remove the original (mv does that, "
        "git mv does not)",
    ),
)


def lex_commands(line: str) -> list[list[str]]:
    """Return the words of each simple command, considering quotes but not here-documents and expansions.

    Empty if the line cannot be read. Sufficient for hints, not for permissions.
    """
    if len(line) > 20_000:  # shlex takes a microsecond per character
        return []
    lexer = shlex.shlex(_SUBSTITUTION.sub(" file ", line), posix=True, punctuation_chars="();|&\n")
    lexer.whitespace = " \t"
    lexer.commenters = ""
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word and _SEPARATORS.issuperset(word):
                found.append([])
            elif found[-1] or not (word in _PREFIXES or _ASSIGNMENT_WORD.match(word)):
                found[-1].append(word)
    except ValueError:
        return []
    return [words for words in found if words]


def _program(words: list[str]) -> str:
    return PurePosixPath(words[0]).name


def is_answer(line: str, status: int) -> bool:
    """Return whether exit status 1 of this command line means "no" rather than a failure."""
    commands = lex_commands(line) if status == 1 else []
    if not commands:
        return False
    last = commands[-1]
    if _program(last) == "git":
        return next((word for word in last[1:] if not word.startswith("-")), "") in _ANSWERING_GIT
    return _program(last) in _ANSWERING


def awaits_keys(line: str) -> Literal["editor", "watch", ""]:
    """Return the kind of the first program in the line that would wait for keys forever; "" for none."""
    for words in lex_commands(line):
        program = _program(words)
        options = " " + " ".join(words[1:])
        if program in _EDITORS and not _EDITOR_BATCH.search(options):
            return "editor"
        if program == "watch" and not _ENDING_WATCH.search(options):
            return "watch"
    return ""


def looks_like_prompt(text: str) -> bool:
    """Return whether output that stopped here ends in an unfinished line that asks for an answer."""
    last = text[-400:].rpartition("\n")[2]  # a longer line does not ask for anything
    return bool(last.strip() and _PROMPT.search(last))


def hint(line: str, output: str, sandboxed: bool = True) -> str | None:
    """Return the advice for a command that needed a user; None if nothing suggests that."""
    # After this notice ssh continues.
    output = output.replace("Pseudo-terminal will not be allocated because stdin is not a terminal.", "")
    for pattern, advice in _OUTPUT_HINTS + _SANDBOX_HINTS if sandboxed else _OUTPUT_HINTS:
        if re.search(pattern, output, re.IGNORECASE):
            return advice
    if output.strip():
        return None
    for words in lex_commands(line):
        program = _program(words)
        if program in _FULL_SCREEN:
            return f"{program} requires a terminal, which commands do not have: use one that prints and exits"
        if program in _REPLS and len(words) == 1:
            return (
                f"{program} without a script reads standard input, which is empty here: use -c, -e or a file"
            )
    return None
