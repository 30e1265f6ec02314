"""Prove of the commands of a line that they only read, or say why that is not known.

The words are judged here; the files and programs that they mean are asked of a `CommandEnvironment`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from tools.text import word_set

from .option_syntax import NotProved, SetTrap
from .program_names import ProgramFiles
from .reading_git import reading_of_git
from .reading_languages import BUILTINS, LANGUAGES
from .reading_programs import Reading, reading_of_tabled, reading_of_version
from .simple_commands import Glob, Words, parse_joined_commands

# What else the shell does by itself, bash(1). Behind one of these words may mean anything.
_OTHER_BUILTINS = word_set(
    ". alias bg bind break builtin caller compgen complete compopt continue declare dirs disown enable"
    " eval exec exit export fc fg getopts hash help history jobs kill let local logout mapfile popd pushd"
    " read readarray readonly return shift shopt source suspend times trap typeset ulimit umask"
    " unalias unset wait cd"
)
# Subcommands of git that look at contents, in whatever form.
_LOOKING = word_set(
    "status diff log show blame annotate grep whatchanged diff-tree diff-index diff-files stash cat-file"
    " describe"
)


class JudgedCommand(NamedTuple):
    """A simple command with the doubt whether it only reads, "" for a proof.

    is_trap  the doubt is about what a repository makes git run: no rule for the command removes it
    """

    words: Words
    doubt: str = ""
    is_trap: bool = False


class ReadingJudge(ProgramFiles, Protocol):
    """Knows which commands only read: by their words, and by the files and programs that these mean."""

    def judge(self, line: str, folder: str) -> list[JudgedCommand] | None:
        """Judge each simple command of a line that is run in `folder`; None where the line is not parsed."""


class CommandEnvironment(Protocol):
    """Knows the system as far as a proof needs it. Methods raise NotProved where a command may do harm."""

    def check(self, reading: Reading, folder: str) -> None:
        """Raise unless the command, run in `folder`, runs the program it names and reads what may be read."""

    def folder_below(self, folder: str, path: str) -> str:
        """Return where `cd PATH` leads from `folder`: a real path within the project."""

    def can_enter(self, folder: str) -> bool:
        """Return whether `cd` to this directory succeeds as things are."""


def prove_line(line: str, folder: str, environment: CommandEnvironment) -> list[JudgedCommand] | None:
    """Judge each simple command of a line; None where the line is not parsed.

    A proof holds only where the shell is as it began: behind a builtin that is not known every command is in
    doubt, and each directory that a `cd` before may have led to has to do. Beside a command that is in doubt
    new files may be there, named like options.
    """
    joined = parse_joined_commands(line)
    if joined is None:
        return None
    for alone in (True, False):
        shell = _Shell(environment, here={folder}, all={folder}, alone=alone)
        behind = [*(joint for joint, _ in joined[1:]), ""]
        triples = zip(joined, behind, strict=True)
        found = [shell.judge(joint, words, then) for (joint, words), then in triples]
        if not any(command.doubt for command in found):
            break
    return found


class _Shell(Struct):
    """The directories the shell may be in: `here` for the next command, `all` after a `cd` that may fail.

    `alone` tells that nothing else runs than what only reads,
    `changed` names a builtin behind which words may mean anything; `certain` tells that each command of the
    list so far was joined by `&&`; `before` is where it was before a `cd` that was sure to succeed.
    """

    environment: CommandEnvironment
    here: set[str]
    all: set[str]
    alone: bool
    certain: bool = True
    changed: str = ""
    before: set[str] = field(default_factory=set)

    def judge(self, joint: str, words: Words, then: str) -> JudgedCommand:
        """Judge the next command of the line; `then` is the joint behind it."""
        in_shell = joint != "|" and then not in ("|", "||")
        if joint in ("", ";", "\n"):
            self.certain = True
        elif joint != "&&":
            self.certain = False
        if joint != "&&" or not self.certain:
            self.here = set(self.all)
        if self.changed:
            return JudgedCommand(words, f"behind {self.changed} it may mean anything")
        try:
            self._prove(words, runs_first=in_shell and joint in ("", ";", "\n"))
        except SetTrap as trap:
            return JudgedCommand(words, str(trap), is_trap=True)
        except NotProved as doubt:
            self.changed = words[0] if words[0] in _OTHER_BUILTINS or words[0] in BUILTINS else ""
            trap_text = self._trap_for(words)
            return JudgedCommand(words, trap_text or str(doubt), is_trap=bool(trap_text))
        return JudgedCommand(words)

    def _trap_for(self, words: Words) -> str:
        """Return what the repository makes git run in a look that is not proved, "" for nothing."""
        if words[0].rpartition("/")[2] != "git" or _LOOKING.isdisjoint(words[1:]):
            return ""
        writes_index = not {"diff", "describe"}.isdisjoint(words[1:])
        reading = Reading(program="git", git="index" if writes_index else "contents")
        try:
            for folder in self.here:
                self.environment.check(reading, folder)
        except SetTrap as doubt:
            return str(doubt)
        except NotProved:
            pass
        return ""

    def _prove(self, words: Words, *, runs_first: bool) -> None:
        if words[0] == "cd":
            self._change_folder(words[1:], is_sure=runs_first)
            return
        before_end = words[: words.index("--")] if "--" in words else words
        if not self.alone and any(isinstance(w, Glob) and w.startswith(("*", "?", "[")) for w in before_end):
            raise NotProved("a file may come that is named like an option")
        reading = reading_of(words)
        for folder in self.here:
            self.environment.check(reading, folder)

    def _change_folder(self, arguments: Sequence[str], *, is_sure: bool) -> None:
        """`is_sure` tells that the command is run in the shell itself, whatever becomes of others."""
        operands = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
        if operands == ["-"] and self.before and is_sure:
            left = self.here
            self.all = self.before
            self.here = set(self.before)
            self.before = left
            return
        if len(operands) != 1 or operands[0].startswith("-") or isinstance(operands[0], Glob):
            raise NotProved("cd is not known to stay in the project")
        for folder in self.here:
            self.environment.check(Reading(program="cd", builtin=True), folder)
        there = {self.environment.folder_below(folder, operands[0]) for folder in self.here}
        succeeds = self.alone and all(map(self.environment.can_enter, there))
        sure = is_sure and succeeds
        self.all = set(there) if sure else self.all | there
        self.before = self.here if sure else set()
        if len(self.all) > 8:
            raise NotProved("there are too many folders it may be run in")
        self.here = there


def _of_system(path: str, arguments: Sequence[str]) -> Reading:
    """Return what a program reads that is named by its path in a directory of the system."""
    name = path.rpartition("/")[2]
    only_builtins = BUILTINS.keys() - word_set("echo printf pwd true false test [")
    if "/" in path[path.index("bin/") + 4 :] or name in only_builtins:
        raise NotProved(f"{path} is not known to only read")
    return replace(reading_of([name, *arguments]), program=path, builtin=False)


def reading_of(words: Words) -> Reading:
    """Return what a simple command reads. Raises NotProved where it may do anything else."""
    program, *arguments = words
    if program.startswith(("/usr/bin/", "/bin/", "/usr/local/bin/", "/opt/homebrew/bin/")):
        return _of_system(program, arguments)
    if program in BUILTINS:
        return replace(BUILTINS[program](arguments), program=program, builtin=True)
    if program in LANGUAGES and arguments not in (["--version"], ["--help"]):
        return LANGUAGES[program](arguments)
    if program == "git":
        return reading_of_git(arguments)
    reading = reading_of_version(program, arguments) or reading_of_tabled(program, arguments)
    if reading is None:
        raise NotProved(f"{program} is not known to only read")
    return reading
