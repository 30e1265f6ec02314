"""Whether a command line only reads: every simple command of it is proved to, or it is not known.

What the words tell is decided here; what files and programs they mean is asked of `Surroundings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Protocol

from tools.files.text_encoding import word_set

from .allow_rules import Trap
from .compound_lines import Piece, PossibleCommand, StepReader, parse_steps
from .option_syntax import NotProved, SetTrap
from .reading_git import reading_of_git
from .reading_languages import BUILTINS, LANGUAGES, reading_of_xargs
from .reading_programs import SHOWN_VARIABLES, Reading, reading_of_tabled, reading_of_version
from .shell_syntax import Glob, Words, parse_joined_commands

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
_PROGRAM_FOLDERS = ("/usr/bin/", "/bin/", "/usr/local/bin/", "/opt/homebrew/bin/")
_ALSO_PROGRAMS = word_set("echo printf pwd true false test [")
# What only prints or compares its words, whatever they are, and programs for which some places are free.
_TAKING_ANY_WORDS = word_set("echo : true false basename dirname")
_SHOWN = SHOWN_VARIABLES | {"?", "#", "$", "!", "0"}
_UNBROKEN = re.compile(r"[\w./:,+%@^=-]+", re.ASCII)  # no shell splits it, or takes it for a pattern
_COMPARES = word_set("= == != -eq -ne -lt -le -gt -ge")
_MAX_MEANINGS = 60  # of one command, by the values of its variables
_MAX_POSSIBLE_FOLDERS = 8  # in which a command may be run, after several `cd` that may have failed


class Surroundings(Protocol):
    """What the proof has to know of the system. The methods raise NotProved where a command may do harm."""

    def check(self, reading: Reading, folder: str) -> None:
        """Whether the command, run in `folder`, runs the program it names and reads what may be read."""

    def folder_below(self, folder: str, path: str) -> str:
        """Where `cd PATH` leads from `folder`: a real path within the project."""

    def is_exported(self, name: str) -> bool:
        """Whether a variable is one of the environment, which programs would see changed."""

    def check_unbroken(self, glob: Glob, folder: str) -> None:
        """Whether what the shell puts in place of a glob stays one word each time it is read."""

    def can_enter(self, folder: str) -> bool:
        """Whether `cd` to this folder succeeds as things are."""


def prove_line(line: str, folder: str, surroundings: Surroundings) -> list[tuple[Words, str]] | None:
    """Each simple command of a line with the doubt whether it only reads, "" for a proof; None: not parsed.

    A proof holds only where the shell is as it began: behind a builtin that is not known every command is in
    doubt, and each folder that a `cd` before may have led to has to do. Beside a command that is in doubt new
    files may be there, named like options.
    """
    joined = parse_joined_commands(line)
    if joined is None:
        return _prove_steps(line, folder, surroundings)
    for alone in (True, False):
        shell = _Shell(surroundings, {folder}, {folder}, alone)
        behind = [*(joint for joint, _ in joined[1:]), ""]
        triples = zip(joined, behind, strict=True)
        found = [(words, shell.doubt_about(joint, words, then)) for (joint, words), then in triples]
        if not any(doubt for _, doubt in found):
            break
    return found


def _prove_steps(line: str, folder: str, surroundings: Surroundings) -> list[tuple[Words, str]] | None:
    """As `prove_line`, where the line holds loops, conditions or variables; None without a proof for all."""
    reader = parse_steps(line)
    if reader is None or any(map(surroundings.is_exported, (*reader.values, "BASH_FUNC_read%%"))):
        return None
    shell = _Shell(surroundings, {folder}, {folder}, alone=True)
    found: list[tuple[Words, str]] = []
    try:
        meant = Meanings(reader)
        for step in reader.steps:
            for words, split in meant.of(step):
                if shell.doubt_about(step.joint, words, step.then, is_sure=step.sure):
                    return None
                for glob in split:
                    for place in shell.here:
                        surroundings.check_unbroken(glob, place)
                found.append((words, ""))
    except NotProved:
        return None
    return found


class _Unknown(str):
    """A word that is not known; several words where it is not `quoted`."""

    __slots__ = ("quoted",)

    quoted: bool


class Meanings:
    """The words that steps may have: for each variable, each value that the line gives it, and none."""

    def __init__(self, reader: StepReader) -> None:
        self.values: Mapping[str, list[str | None]] = {
            name: ["", *(None if value is None else self._value(value) for value in values)]
            for name, values in reader.values.items()
        }

    def of(self, step: PossibleCommand) -> Iterator[tuple[Words, list[Glob]]]:
        """(words, globs among them that the shell reads once more) of a command."""
        named = {piece.text for word in step.words for piece in word if piece.kind == "variable"}
        names = sorted(named & self.values.keys())
        if not named - self.values.keys() <= _SHOWN:
            raise NotProved("a variable has no value that is known")
        choices = [self.values[name] for name in names]
        for count, values in enumerate(product(*choices)):
            if count >= _MAX_MEANINGS:
                raise NotProved("it may mean too much")
            split: list[Glob] = []
            meant = dict(zip(names, values, strict=True))
            words = [(word, self._word(word, meant, split)) for word in step.words]
            kept = [text for word, text in words if text or not _may_vanish(word)]
            yield _without_unknown(kept), split

    def _value(self, pieces: Sequence[Piece]) -> str | None:
        word = self._word(pieces, {}, []) if all(piece.kind != "variable" for piece in pieces) else None
        return None if isinstance(word, _Unknown) else word

    def _word(self, pieces: Sequence[Piece], meant: Mapping[str, str | None], split: list[Glob]) -> str:
        text = pattern = ""
        is_glob, unknown, quoted = False, False, True
        for piece in pieces:
            value = meant.get(piece.text) if piece.kind == "variable" else piece.text
            is_value = piece.kind == "variable"
            if value is None or piece.kind == "unknown":
                unknown, quoted = True, quoted and piece.quoted
                continue
            if is_value and not piece.quoted:
                self._check_unquoted(value, split)
            is_glob = is_glob or piece.kind == "glob" or (is_value and isinstance(value, Glob))
            text += value
            literal = re.sub(r"([*?[])", r"[\1]", value)
            pattern += value if piece.kind == "glob" else getattr(value, "pattern", literal)
        if unknown:
            word = _Unknown("x")
            word.quoted = quoted and not is_glob
            return word
        return Glob(text, pattern) if is_glob else text

    def _check_unquoted(self, value: str, split: list[Glob]) -> None:
        if isinstance(value, Glob):
            split.append(value)
        elif value and not _UNBROKEN.fullmatch(value):
            raise NotProved("a value may be several words")


def _may_vanish(word: Sequence[Piece]) -> bool:
    """Whether the word is none where its variables have no values."""
    return all(piece.kind == "variable" and not piece.quoted for piece in word)


def _without_unknown(words: Words) -> Words:
    """The words, where what is not known among them is only printed or compared. Raises NotProved."""
    places = [at for at, word in enumerate(words) if isinstance(word, _Unknown)]
    program, *rest = words
    is_free = program in _TAKING_ANY_WORDS or (program == "printf" and places[:1] != [1])
    if not places or is_free:
        return [str(word) if isinstance(word, _Unknown) else word for word in words]
    compared = rest[:-1] if program == "[" else rest if program == "test" else []
    compared = compared[1:] if compared[:1] == ["!"] else compared
    quoted = all(word.quoted for word in words if isinstance(word, _Unknown))
    two = len(compared) == 2 and type(compared[0]) is str and compared[0] in ("-n", "-z")
    three = len(compared) == 3 and type(compared[1]) is str and compared[1] in _COMPARES
    if not quoted or not (two or three):
        raise NotProved("a word is not known")
    return [str(word) if isinstance(word, _Unknown) else word for word in words]


@dataclass(slots=True)
class _Shell:
    """Where the shell may be: `here` for the next command, `all` after a `cd` that may have failed.

    `alone` tells that nothing else runs than what only reads,
    `changed` names a builtin behind which words may mean anything; `certain` tells that each command of the
    list so far was joined by `&&`; `before` is where it was before a `cd` that was sure to succeed.
    `joint` and `last` are what stands before the `current` command.
    """

    surroundings: Surroundings
    here: set[str]
    all: set[str]
    alone: bool
    certain: bool = True
    changed: str = ""
    before: set[str] = field(default_factory=set)
    joint: str = ""
    last: Words = field(default_factory=list)
    current: Words = field(default_factory=list)

    def doubt_about(self, joint: str, words: Words, then: str, *, is_sure: bool = True) -> str:
        """Why the next command is not known to only read; "" if it is.

        `then` is the joint behind it; `is_sure` tells that it stands in no loop, condition or subshell.
        """
        self.joint, self.last, self.current = joint, self.current, words
        in_shell = is_sure and joint != "|" and then not in ("|", "||")
        if joint in ("", ";", "\n"):
            self.certain = True
        elif joint != "&&":
            self.certain = False
        if joint != "&&" or not self.certain:
            self.here = set(self.all)
        if self.changed:
            return f"behind {self.changed} it may mean anything"
        try:
            self._prove(words, runs_first=in_shell and joint in ("", ";", "\n"))
        except SetTrap as doubt:
            return Trap(doubt)
        except NotProved as doubt:
            self.changed = words[0] if words[0] in _OTHER_BUILTINS or words[0] in BUILTINS else ""
            return self._trap_for(words) or str(doubt)
        return ""

    def _trap_for(self, words: Words) -> str:
        """What the repository makes git run in a look that is not known to only read; "" for nothing."""
        if words[0].rpartition("/")[2] != "git" or _LOOKING.isdisjoint(words[1:]):
            return ""
        writes_index = not {"diff", "describe"}.isdisjoint(words[1:])
        try:
            for folder in self.here:
                self.surroundings.check(Reading("git", git="index" if writes_index else "contents"), folder)
        except SetTrap as doubt:
            return Trap(doubt)
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
        behind_find = self.joint == "|" and self.last[:1] == ["find"] and not isinstance(self.last[0], Glob)
        is_xargs = words[0] == "xargs" and behind_find and not any(isinstance(word, Glob) for word in words)
        reading = reading_of_xargs(words[1:], self.last) if is_xargs else reading_of(words)
        for folder in self.here:
            self.surroundings.check(reading, folder)

    def _change_folder(self, arguments: Sequence[str], *, is_sure: bool) -> None:
        """`is_sure` tells that the command is run in the shell itself, whatever becomes of others."""
        operands = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
        if operands == ["-"] and self.before and is_sure:
            self.all, self.here, self.before = self.before, set(self.before), self.here
            return
        if len(operands) != 1 or operands[0].startswith("-") or isinstance(operands[0], Glob):
            raise NotProved("cd is not known to stay in the project")
        for folder in self.here:
            self.surroundings.check(Reading("cd", builtin=True), folder)
        there = {self.surroundings.folder_below(folder, operands[0]) for folder in self.here}
        succeeds = self.alone and all(map(self.surroundings.can_enter, there))
        sure = is_sure and succeeds
        self.all, self.before = (set(there), self.here) if sure else (self.all | there, set())
        if len(self.all) > _MAX_POSSIBLE_FOLDERS:
            raise NotProved("there are too many folders it may be run in")
        self.here = there


def _of_system(path: str, arguments: Sequence[str]) -> Reading:
    """What a program reads that is named by its path in a folder of the system."""
    name = path.rpartition("/")[2]
    if "/" in path[path.index("bin/") + 4 :] or name in BUILTINS.keys() - _ALSO_PROGRAMS:
        raise NotProved(f"{path} is not known to only read")
    return replace(reading_of([name, *arguments]), program=path, builtin=False)


def reading_of(words: Words) -> Reading:
    """What a simple command reads. Raises NotProved where it may do anything else."""
    program, *arguments = words
    if program.startswith(_PROGRAM_FOLDERS):
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
