"""What the programs of a line are by other names: behind links and copies, and behind aliases of git.

Deny rules name programs. A file of the project may be a link to one, or its copy, and `git p` may be
`git push`: what is found so is added to what a line runs. Pure; files are looked at through a port.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tools.files.text_encoding import word_set
from transcripts.patterns import lazy_pattern

from .launches import is_unknown, program_name
from .line_reading import Invocation, LineReading, read_line
from .option_syntax import NotProved
from .parsed_text import HOME
from .simple_commands import Words
from .vital_places import Places, scenes

GIT_OPTIONS_WITH_VALUES = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace"))
_MAX_ALIASES = 10  # that lead from one to the next
# Commands that no alias replaces, of those that people use: for them no settings are read.
_UNALIASED_COMMANDS = word_set(
    "add am apply archive bisect blame branch bundle cat-file check-ignore checkout cherry cherry-pick clean"
    " clone commit config count-objects describe diff diff-tree difftool fetch filter-branch for-each-ref"
    " format-patch fsck gc grep help init log ls-files ls-remote ls-tree merge merge-base mergetool mv notes"
    " prune pull push range-diff rebase reflog remote repack replace rerere reset restore rev-list rev-parse"
    " revert rm shortlog show show-branch show-ref sparse-checkout stash status submodule switch"
    " symbolic-ref tag update-index update-ref var version whatchanged worktree write-tree"
)
# What has git read other settings than those that are looked at.
_STEERING_VARIABLE = lazy_pattern(
    r"HOME|XDG_CONFIG_HOME|GIT_(?:CONFIG\w*|DIR|COMMON_DIR|WORK_TREE|EXEC_PATH)"
)
_STEERING_OPTIONS = ("--git-dir", "--config-env", "--exec-path", "--work-tree")


class ProgramFiles(Protocol):
    """Knows the programs and the settings that words of a line mean."""

    def other_names(self, word: str, folder: str, wanted: frozenset[str]) -> frozenset[str]:
        """Names of what a file leads to that a word, in `folder`, names as a program; and of those programs
        in `wanted` whose copy it is. None of a program that lies where all programs do.
        """

    def own_programs(self, words: Sequence[str], folder: str) -> str:
        """A digest of those files of the project that words, in `folder`, name as programs or scripts: where
        their links lead, and what stands in them. "" where there are none.
        """

    def git_aliases(self, folder: str) -> Mapping[str, Sequence[str]]:
        """What git's settings may say of each alias, by its name in lower case. Raises NotProved."""


class Standpoint(Struct, frozen=True):
    """From where a line is read: the folders that it runs in, and what is known of files."""

    places: Places
    files: ProgramFiles


def own_programs_of(line: str, folder: str, files: ProgramFiles) -> str:
    """A digest of the project's own programs that a line runs in `folder`; "" where it names none."""
    words = {command.words[0] for command in read_line(line).invocations if command.words}
    return files.own_programs(sorted(word for word in words if not is_unknown(word)), folder)


def with_other_names(reading: LineReading, seen: Standpoint, wanted: frozenset[str]) -> LineReading:
    """The reading with what its programs are by other names; `wanted` are the names that matter."""
    found, code, opaque = list[Invocation](), list[str](), reading.opaque
    steered = _is_git_steered(reading)
    for scene in scenes(reading.invocations, seen.places):
        command, here = scene.command, scene.here or seen.places.cwd
        if not command.words:
            continue
        program = command.words[0].replace(HOME, seen.places.home)
        names = frozenset[str]() if is_unknown(program) else seen.files.other_names(program, here, wanted)
        found += (replace(command, words=(name, *command.words[1:])) for name in sorted(names))
        if program_name(command.words[0]) == "git" or "git" in names:
            behind = _behind_alias(command, here, seen.files, steered)
            found += behind.invocations
            code += behind.code
            opaque = opaque or behind.opaque
    if not found and opaque == reading.opaque:
        return reading
    return LineReading((*reading.invocations, *found), (*reading.code, *code), opaque, reading.assigned)


def _is_git_steered(reading: LineReading) -> bool:
    """Whether the line sets variables by which git reads other settings."""
    words = (word for command in reading.invocations for word in command.words[1:] if "=" in word)
    names = (*reading.assigned, *(word.partition("=")[0] for word in words))
    return any(map(_STEERING_VARIABLE.fullmatch, names))


def _behind_alias(command: Invocation, here: str, files: ProgramFiles, steered: bool) -> LineReading:
    """What a command of git runs where its subcommand is an alias, and opaque where that cannot be told."""
    found, code, opaque = list[Invocation](), list[str](), False
    waiting = [(list(command.words), command.sure, 0)]
    while waiting:
        words, sure, count = waiting.pop()
        at = _subcommand(words)
        if at == len(words) or is_unknown(words[at]) or words[at] in _UNALIASED_COMMANDS:
            continue
        if steered or count > _MAX_ALIASES or _steers(words[1:at]):
            return LineReading((*found,), (*code,), True)
        try:
            meanings = files.git_aliases(_git_folder(words[1:at], here)).get(words[at].lower(), ())
        except NotProved:
            return LineReading((*found,), (*code,), True)
        if not meanings:  # a program of that name
            found.append(replace(command, words=(f"git-{words[at]}", *words[at + 1 :]), sure=False))
        for meaning in meanings:
            surely = sure and len(meanings) == 1
            if meaning.startswith("!"):
                script = read_line(" ".join((meaning[1:], *map(shlex.quote, words[at + 1 :]))))
                found += (replace(each, sure=each.sure and surely) for each in script.invocations)
                code, opaque = [*code, *script.code], opaque or script.opaque
                continue
            next_words = ["git", *_split(meaning), *words[at + 1 :]]
            found.append(replace(command, words=tuple(next_words), sure=surely))
            waiting.append((next_words, surely, count + 1))
    return LineReading((*found,), (*code,), opaque)


def _subcommand(words: Words) -> int:
    """Where the subcommand of git stands; the number of words where there is none."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in GIT_OPTIONS_WITH_VALUES else 1
    return min(at, len(words))


def _steers(options: Words) -> bool:
    """Whether options of git name other settings; those that define an alias are looked at elsewhere."""
    return any(
        option.startswith(_STEERING_OPTIONS) or option.lower().startswith(("include.", "includeif."))
        for option in options
    )


def _git_folder(options: Words, here: str) -> str:
    """The folder that git works in, by its options `-C`."""
    for value in _values_of(options):
        here = value if value.startswith("/") else f"{here}/{value}"
    return here


def _values_of(options: Words) -> Iterator[str]:
    for at, option in enumerate(options):
        if option == "-C" and at + 1 < len(options):
            yield options[at + 1]


def _split(text: str) -> Words:
    """The words of an alias, as git splits it."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
