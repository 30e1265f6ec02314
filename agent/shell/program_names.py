"""Find other names of the programs in a line: the targets of links, originals of copies, git aliases.

Deny rules name programs. A file of the project may be a link to one or a copy, and `git p` may be `git push`.
The names found are added to the commands that a line runs. Pure: files are accessed through a port.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from tools.text import word_set

from .line_reading import Invocation, LineReading, read_line
from .option_syntax import NotProved
from .parsed_text import HOME, is_unknown
from .simple_commands import Words
from .vital_places import Places, scenes

GIT_OPTIONS_WITH_VALUES = word_set("-C -c --git-dir --work-tree --namespace --config-env --attr-source")
# Common subcommands of git. Aliases cannot replace them, so no settings are read for them.
_UNALIASED_COMMANDS = word_set(
    "add am apply archive bisect blame branch bundle cat-file check-ignore checkout cherry cherry-pick clean"
    " clone commit config count-objects describe diff diff-tree difftool fetch filter-branch for-each-ref"
    " format-patch fsck gc grep help init log ls-files ls-remote ls-tree merge merge-base mergetool mv notes"
    " prune pull push range-diff rebase reflog remote repack replace rerere reset restore rev-list rev-parse"
    " revert rm shortlog show show-branch show-ref sparse-checkout stash status submodule switch"
    " symbolic-ref tag update-index update-ref var version whatchanged worktree write-tree"
)


class ProgramFiles(Protocol):
    """Access to the programs and settings that the words of a line refer to."""

    def other_names(self, word: str, folder: str, wanted: frozenset[str]) -> frozenset[str]:
        """Return the other names of a program that a word names in `folder`.

        These are the files that it links to, and those programs in `wanted` that it is a copy of. Installed
        programs have none.
        """

    def own_programs(self, words: Sequence[str], folder: str) -> str:
        """Return a digest of the project's files that words name in `folder` as programs or scripts.

        It covers the targets of their links, and their contents. "" if there are none.
        """

    def program(self, name: str, folder: str) -> str | None:
        """Return the file that the shell would run for a name in `folder`, None if there is none."""

    def steering_digests(
        self, names: Sequence[str], operands: Sequence[str], folder: str
    ) -> Mapping[str, str]:
        """Return the digests of files with these names, and of scripts they name, by path in the project.

        They are looked for in `folder`, above it, and in directories that the operands name.
        """

    def is_outside(self, word: str, folder: str) -> bool:
        """Return whether a word, taken as a path in `folder`, leads out of the project."""

    def may_write(self, path: str) -> bool:
        """Return whether the user may write to an existing path."""

    def variable(self, name: str) -> str:
        """Return the value of a variable in the environment of commands, "" if it is not set."""

    def text(self, path: str) -> str:
        """Return the text of a file in the project, even through a link; "" if it is elsewhere or large."""

    def file_names(self, folder: str) -> Sequence[str]:
        """Return the names in a directory of the project, sorted; none if it is elsewhere or large."""

    def git_values(self, folder: str) -> Mapping[str, Sequence[str]]:
        """Return the values of each setting of git, such as `remote.origin.url`. Raises NotProved."""

    def made_git_values(self, folder: str) -> Mapping[str, Sequence[str]]:
        """Return the values of the settings of another repository below the project, as `git_values` does.

        Commands may have written them. The path of each of its hooks is among them, named `hooks/pre-push`.
        """


class Standpoint(NamedTuple):
    """The context for reading a line: its directories, and access to program files."""

    places: Places
    files: ProgramFiles

    def is_untouched(self, program: str, here: str, steering: Collection[str]) -> bool:
        """Return whether a program is not one of the project, and no variable of `steering` is set."""
        path = self.files.program(program, here)
        is_outside = path is not None and self.files.is_outside(path, here)
        return is_outside and not any(map(self.files.variable, steering))


def own_programs_of(line: str, folder: str, files: ProgramFiles) -> str:
    """Return a digest of the project's own programs that a line runs in `folder`; "" if it names none."""
    words = {command.words[0] for command in read_line(line).invocations if command.words}
    return files.own_programs(sorted(word for word in words if not is_unknown(word)), folder)


def own_program(line: str, seen: Standpoint) -> str:
    """Return a program of the project that a line runs by its name alone, "" if there is none."""
    for scene in scenes(read_line(line).invocations, seen.places):
        word = "".join(scene.command.words[:1])
        if word and not is_unknown(word) and "/" not in word:
            path = seen.files.program(word, scene.here or seen.places.cwd)
            if path is not None and path.startswith(f"{seen.places.folder}/"):
                return path
    return ""


def with_other_names(reading: LineReading, seen: Standpoint, wanted: frozenset[str]) -> LineReading:
    """Return the reading with other names of its programs added; `wanted` are the names that matter."""
    found: list[Invocation] = []
    code: list[str] = []
    opaque = reading.opaque
    is_steered = _is_git_steered(reading)
    for scene in scenes(reading.invocations, seen.places):
        command = scene.command
        here = scene.here or seen.places.cwd
        if not command.words:
            continue
        program = command.words[0].replace(HOME, seen.places.home)
        names = frozenset[str]() if is_unknown(program) else seen.files.other_names(program, here, wanted)
        found += (replace(command, words=(name, *command.words[1:])) for name in sorted(names))
        if command.program == "git" or "git" in names:
            behind = _AliasReader(seen, here, is_steered)
            behind.read(command)
            found += behind.found
            code += behind.code
            opaque = opaque or behind.opaque
    if not found and opaque == reading.opaque:
        return reading
    return LineReading(
        invocations=(*reading.invocations, *found),
        code=(*reading.code, *code),
        opaque=opaque,
        assigned=reading.assigned,
    )


def _is_git_steered(reading: LineReading) -> bool:
    """Return whether the line sets variables that make git read other settings."""
    words = (word for command in reading.invocations for word in command.words[1:] if "=" in word)
    names = (*reading.assigned, *(word.partition("=")[0] for word in words))
    steering = r"HOME|XDG_CONFIG_HOME|GIT_(?:CONFIG\w*|DIR|COMMON_DIR|WORK_TREE|EXEC_PATH)"
    return any(re.fullmatch(steering, name) for name in names)


class _AliasReader:
    """Reads the commands that git runs in the directory `here` if its subcommand is an alias.

    Afterwards `opaque` is True if they cannot be determined.
    """

    def __init__(self, seen: Standpoint, here: str, is_steered: bool) -> None:
        self.seen = seen
        self.here = here
        self.is_steered = is_steered
        self.found: list[Invocation] = []
        self.code: list[str] = []
        self.opaque = False

    def read(self, command: Invocation, count: int = 0) -> None:
        """Add the commands that a git command runs; `count` is the number of aliases already followed."""
        call = GitCall.of(command.words)
        if not call.name or is_unknown(call.name) or call.name in _UNALIASED_COMMANDS:
            return
        folder = call.folder(self.here, self.seen.places.home)
        if self.is_steered or count > 10 or _steers(call.options) or folder is None:
            self.opaque = True
            return
        try:
            values = self.seen.files.git_values(folder)
        except NotProved:
            self.opaque = True
            return
        meanings = alias_meanings(values).get(call.name.lower(), ())
        if not meanings:  # no alias, but a program
            program = (f"git-{call.name}", *call.arguments)
            self.found.append(replace(command, words=program, sure=False))
        is_sure = command.sure and len(meanings) == 1
        for meaning in meanings:
            if meaning.startswith("!"):
                self._add_script(" ".join((meaning[1:], *map(shlex.quote, call.arguments))), is_sure)
                continue
            resolved = replace(command, words=("git", *_split(meaning), *call.arguments), sure=is_sure)
            self.found.append(resolved)
            self.read(resolved, count + 1)

    def _add_script(self, text: str, is_sure: bool) -> None:
        script = read_line(text)
        self.found += (replace(each, sure=each.sure and is_sure) for each in script.invocations)
        self.code += script.code
        self.opaque = self.opaque or script.opaque


class GitCall(NamedTuple):
    """A command of git: the options before its subcommand, the name of that ("" for none), and the rest."""

    options: Sequence[str]
    name: str
    arguments: Sequence[str]

    @classmethod
    def of(cls, words: Sequence[str]) -> GitCall:
        """Return the parts of a command; `words` begin with the program."""
        at = 1
        while at < len(words) and words[at].startswith("-"):
            at += 2 if words[at] in GIT_OPTIONS_WITH_VALUES else 1
        return cls(options=words[1:at], name="".join(words[at : at + 1]), arguments=words[at + 1 :])

    def folder(self, here: str | None, home: str) -> str | None:
        """Return the directory that git works in if it is started in `here`; None if it is unknown."""
        for option, value in pairwise(self.options):
            if option == "-C":
                place = value.replace(HOME, home)
                if is_unknown(place):
                    here = None
                elif place.startswith("/"):
                    here = place
                elif here is not None:
                    here = f"{here}/{place}"
        return here


def _steers(options: Sequence[str]) -> bool:
    """Return whether options of git name other settings files."""
    steering = ("--git-dir", "--config-env", "--exec-path", "--work-tree")
    including = ("include.", "includeif.")
    return any(each.startswith(steering) or each.lower().startswith(including) for each in options)


def _split(text: str) -> Words:
    """Return the words of an alias, split in the way git does."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def alias_meanings(values: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the possible meanings of each alias in settings of git, by its name in lower case."""
    found: dict[str, list[str]] = {}
    for setting, meanings in values.items():
        section, _, name = setting.partition(".")
        if section == "alias":
            inner = name.rpartition(".")[0]  # of a subsection, whose key is `command`
            found.setdefault((inner or name).lower(), []).extend(meanings)
    return found
