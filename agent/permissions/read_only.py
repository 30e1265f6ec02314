"""Whether a command line changes no file: only then it runs without a scan of the project around it."""

from __future__ import annotations

from tools.text_encoding import word_set

from .shell_syntax import Glob, Words, parse_simple_commands

# Programs that only read, whatever their arguments but those below; and the subcommands of git that do.
_READ_ONLY_PROGRAMS = word_set(
    "ls cat head tail grep rg wc pwd echo which file stat du df id whoami uname ps tree diff cmp cut tr"
    " true false find"
)
_READ_ONLY_GIT_COMMANDS = word_set("status diff log show blame rev-parse ls-files grep describe shortlog")
_WRITING_OPTIONS = {
    "find": word_set("-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls"),
    "git": word_set("--output --open-files-in-pager -O --ext-diff"),
    "tree": word_set("-o --output"),
    "file": word_set("-C --compile"),
    "rg": word_set("--pre"),
}


def is_read_only(line: str) -> bool:
    """Whether every simple command of the line is known to only read; False where it cannot be parsed."""
    commands = parse_simple_commands(line)
    return commands is not None and all(map(_only_reads, commands))


def _only_reads(words: Words) -> bool:
    program, *arguments = words
    if any(type(word) is Glob and word[0] in "*?[-" for word in arguments):
        return False  # a file may be named like an option
    options = _WRITING_OPTIONS.get(program, frozenset())
    if any(word == option or word.startswith(f"{option}=") for word in arguments for option in options):
        return False
    if program == "git":
        opens_pager = any(word.startswith("-O") for word in arguments)
        return bool(arguments) and arguments[0] in _READ_ONLY_GIT_COMMANDS and not opens_pager
    return program in _READ_ONLY_PROGRAMS
