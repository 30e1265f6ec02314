"""Prove that the commands of a line are read-only, or give the reason why that is not known.

Words are judged here. The files and programs that they refer to are checked by a `CommandEnvironment`.
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
from .simple_commands import Glob, JoinedCommand, Words, parse_joined_commands

# Other builtins of bash(1), after which words may mean anything.
_OTHER_BUILTINS = word_set(
    ". alias bg bind break builtin caller compgen complete compopt continue declare dirs disown enable"
    " eval exec exit export fc fg getopts hash help history jobs kill let local logout mapfile popd pushd"
    " read readarray readonly return shift shopt source suspend times trap typeset ulimit umask"
    " unalias unset wait cd"
)
# Subcommands of git that read the contents of files in some form.
_LOOKING = word_set(
    "status diff log show blame annotate grep whatchanged diff-tree diff-index diff-files stash cat-file"
    " describe"
)


def is_builtin(name: str) -> bool:
    """Return whether a name is that of a builtin of bash."""
    return name in _OTHER_BUILTINS or name in BUILTINS


class JudgedCommand(NamedTuple):
    """A simple command with the reason why it may not be read-only, "" if it is proved.

    is_trap  the doubt is about a program that a repository makes git run, or a command whose input is a file;
             no rule for the command removes it
    """

    words: Words
    doubt: str = ""
    is_trap: bool = False


class ReadingJudge(ProgramFiles, Protocol):
    """Judges which commands are read-only, by their words and the files and programs they refer to."""

    def judge(self, line: str, folder: str) -> list[JudgedCommand] | None:
        """Judge each simple command of a line that runs in `folder`; None if the line cannot be parsed."""


class CommandEnvironment(Protocol):
    """The facts about the system that a proof needs. Methods raise NotProved if a command may do harm."""

    def check(self, reading: Reading, folder: str) -> None:
        """Raise NotProved unless the command runs the program it names and only reads permitted files."""

    def folder_below(self, folder: str, path: str) -> str:
        """Return the target of `cd PATH` from `folder`: a real path within the project."""

    def can_enter(self, folder: str) -> bool:
        """Return whether `cd` to this directory succeeds at present."""


def prove_line(line: str, folder: str, environment: CommandEnvironment) -> list[JudgedCommand] | None:
    """Judge each simple command of a line; None if the line cannot be parsed.

    A proof requires that the shell's state is known: after an unknown builtin no command is proved, and a
    command after `cd` has to be read-only in each directory that the `cd` may have led to. If any command is
    in doubt, it may create files that are named like options.
    """
    joined = parse_joined_commands(line)
    if joined is None:
        return None
    for alone in (True, False):
        shell = _Shell(environment, here={folder}, all={folder}, alone=alone)
        behind = [*(command.joint for command in joined[1:]), ""]
        found = [shell.judge(command, then) for command, then in zip(joined, behind, strict=True)]
        if not any(command.doubt for command in found):
            break
    return found


class _Shell(Struct):
    """The state of the shell: `here` is its directory, `all` the possible ones after a `cd` that may fail.

    alone    all commands of the line are read-only
    changed  the builtin after which words may mean anything
    certain  each command of the list so far was joined by `&&`
    before   the directory before a `cd` that is certain to succeed
    """

    environment: CommandEnvironment
    here: set[str]
    all: set[str]
    alone: bool
    certain: bool = True
    changed: str = ""
    before: set[str] = field(default_factory=set)

    def judge(self, command: JoinedCommand, then: str) -> JudgedCommand:
        """Judge the next command of the line; `then` is the operator that follows.

        A rule for a command is not about the files that its input comes from, so that it never covers these.
        """
        judged = self._judge(command, then)
        return judged._replace(is_trap=True) if command.inputs and judged.doubt else judged

    def _judge(self, command: JoinedCommand, then: str) -> JudgedCommand:
        joint = command.joint
        words = command.words
        in_shell = joint != "|" and then not in ("|", "||")
        if joint in ("", ";", "\n"):
            self.certain = True
        elif joint != "&&":
            self.certain = False
        if joint != "&&" or not self.certain:
            self.here = set(self.all)
        if self.changed:
            return JudgedCommand(words, f"after {self.changed} it may mean anything")
        try:
            self._prove(words, command.inputs, runs_first=in_shell and joint in ("", ";", "\n"))
        except SetTrap as trap:
            return JudgedCommand(words, str(trap), is_trap=True)
        except NotProved as doubt:
            self.changed = words[0] if is_builtin(words[0]) else ""
            trap_text = self._trap_for(words)
            return JudgedCommand(words, trap_text or str(doubt), is_trap=bool(trap_text))
        return JudgedCommand(words)

    def _trap_for(self, words: Words) -> str:
        """Return the reason if the repository makes git run a program in an unproved command, "" if not."""
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

    def _prove(self, words: Words, inputs: Words, *, runs_first: bool) -> None:
        if words[0] == "cd" and not inputs:
            self._change_folder(words[1:], is_sure=runs_first)
            return
        before_end = words[: words.index("--")] if "--" in words else words
        if not self.alone and any(isinstance(w, Glob) and w.startswith(("*", "?", "[")) for w in before_end):
            raise NotProved("another command may create a file named like an option")
        reading = reading_of(words)
        for folder in self.here:
            self.environment.check(reading, folder)
            self.environment.check(Reading(program="<", builtin=True, paths=tuple(inputs)), folder)

    def _change_folder(self, arguments: Sequence[str], *, is_sure: bool) -> None:
        """Follow a `cd`; with `is_sure` it runs in the shell itself, whatever other commands return."""
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
            raise NotProved("it may run in too many directories")
        self.here = there


def _of_system(path: str, arguments: Sequence[str]) -> Reading:
    """Return the reading of a program that is named by its path in a system directory."""
    name = path.rpartition("/")[2]
    only_builtins = BUILTINS.keys() - word_set("echo printf pwd true false test [")
    if "/" in path[path.index("bin/") + 4 :] or name in only_builtins:
        raise NotProved(f"{path} is not known to be read-only")
    return replace(reading_of([name, *arguments]), program=path, builtin=False)


def reading_of(words: Words) -> Reading:
    """Return what a simple command reads. Raises NotProved if it may do anything else."""
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
        raise NotProved(f"{program} is not known to be read-only")
    return reading
