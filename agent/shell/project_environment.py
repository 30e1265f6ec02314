"""Check programs, files and git settings of the system for the proof that a command is read-only."""

from __future__ import annotations

# The proof follows links itself. A Path would drop dots that have to be checked.
# ruff: noqa: PTH112, PTH118, PTH119
import os
import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase

from tools.files import FileError, canonical_path, is_inside
from tools.guarded import is_protected, is_secret_link, may_be_secret, secret_links, sounds_secret
from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .git_index import tracked_secrets
from .git_settings import GitSettings
from .option_syntax import NotProved
from .program_files import ProjectPrograms
from .read_only import JudgedCommand, prove_line
from .reading_programs import Reading
from .simple_commands import Glob

_ALSO_READABLE = "/usr"
_NEVER_READABLE = ("/proc", "/sys", "/dev")  # even if the project is the root directory
# A quoted character, a special one, other text.
_QUOTED_CHARACTER = lazy_pattern(r"\[([*?[])\]")
_GLOB_PARTS = lazy_pattern(r"\[([*?[])\]|([*?[])|([^*?[]+)")
# The number of entries that are checked in a directory which is searched, nearest first, where files with
# secrets usually are. Checking more takes too long for a verdict.
_MAX_SEARCHED = 1_500
# Names that need approval if a command names them, but not if a search includes them: settings of tools that
# are rarely secret, and files that makeroom wrote itself.
_PASSED_BY = word_set(".makeroom .transcripts .task_outputs .docker .npmrc .pypirc")
_ODD_PATTERN = lazy_pattern(r"[\\/{]|\[[\^:.=]")  # programs interpret it differently
_UNSEARCHED = word_set(".git .transcripts .task_outputs")


class ProjectEnvironment(ProjectPrograms):
    """The environment of a project's commands, for the proof that they are read-only."""

    def judge(self, line: str, folder: str) -> list[JudgedCommand] | None:
        """See read_only.ReadingJudge."""
        return prove_line(line, folder, self)

    def check(self, reading: Reading, folder: str) -> None:
        """Raise NotProved if the command, run in `folder`, may run or read something else."""
        self.check_program(reading, folder)
        if reading.below:
            folder = self.folder_below(folder, reading.below)
        for word in reading.paths:
            for path in _matches(word, folder):
                self._check_path(path, word)
        for word in reading.places:
            for path in _matches(word, folder):
                self._check_place(path, word)
        for word in reading.revisions:
            self._check_revision(word, folder)
        for word in reading.trees:
            for path in _matches(word, folder):
                self._check_tree(_canonical(path), reading)
        if reading.git:
            GitSettings(self.environ, self.folder, reading.git).check(folder)
        if reading.prints:
            _check_tracked(reading, folder)

    def folder_below(self, folder: str, path: str) -> str:
        """Return the target of `cd`. Raises NotProved if it is outside the project or a link leads to it."""
        there = _canonical(os.path.join(folder, path))
        if not is_inside(there, self.folder):
            raise NotProved(f"{path} is outside the project")
        if there != os.path.normpath(os.path.join(folder, path)):
            raise NotProved(f"{path} leads through a link")
        return there

    def can_enter(self, folder: str) -> bool:
        """Return whether `cd` to this directory succeeds at present."""
        return os.path.isdir(folder) and os.access(folder, os.X_OK)

    def _check_path(self, path: str, word: str) -> None:
        real = self._check_place(path, word)
        if is_protected(real, "read") or is_secret_link(real, self.folder):
            raise NotProved(f"{word} may contain secrets")

    def _check_place(self, path: str, word: str) -> str:
        """Check a path of which only names and metadata are read; return it without links."""
        real = _canonical(path)
        inside = is_inside(real, self.folder) or is_inside(real, _ALSO_READABLE)
        if real != "/dev/null" and (not inside or any(is_inside(real, place) for place in _NEVER_READABLE)):
            raise NotProved(f"{word} is outside the project")
        return real

    def _check_revision(self, word: str, folder: str) -> None:
        """Check an operand of git: a path if it looks like one or exists, else the name of an object."""
        steps = word.split("/")
        is_there = False
        for path in _matches(word, folder):
            if word.startswith("/") or ".." in steps or isinstance(word, Glob) or os.path.lexists(path):
                self._check_path(path, word)
                is_there = True
        named = word.rpartition(":")[2]
        if is_protected("/" + named, "read") or (not is_there and sounds_secret(os.path.basename(named))):
            raise NotProved(f"{word} may contain secrets")

    def _check_tree(self, root: str, reading: Reading) -> None:
        """Check the names below a directory, nearest first; all of them if links are followed."""
        is_secret = secret_links(self.folder)
        waiting = deque([root])
        seen = {root}
        count = 0
        while waiting:
            for entry in _entries(waiting.popleft()):
                count += 1
                if count > _MAX_SEARCHED:
                    if reading.follows:
                        raise NotProved("there are too many files to check for links")
                    return
                if reading.visible and entry.name.startswith("."):
                    continue
                if entry.is_symlink():
                    if not reading.follows:
                        continue
                    self._check_path(entry.path, entry.path)
                if _sounds_protected(entry) or _is_such_link(entry, is_secret):
                    _check_omitted(entry.name, reading)
                path = _canonical(entry.path) if entry.is_symlink() else entry.path
                if entry.is_dir() and entry.name not in _UNSEARCHED and path not in seen:
                    seen.add(path)
                    waiting.append(path)


def _sounds_protected(entry: os.DirEntry[str]) -> bool:
    """Return whether searches that include a file need approval because of its name."""
    name = entry.name
    is_doubtful = name[0] in "._iI" or may_be_secret(name.lower())
    return is_doubtful and name.lower() not in _PASSED_BY and is_protected(entry.path, "read")


def _is_such_link(entry: os.DirEntry[str], is_secret: Callable[[os.stat_result], bool]) -> bool:
    """Return whether a file is also one with secrets, by a hard link."""
    with suppress(OSError):
        return not entry.is_dir() and is_secret(entry.stat(follow_symlinks=False))
    return False


def _check_omitted(name: str, reading: Reading) -> None:
    """Raise NotProved unless the search omits files of this name."""
    if any(fnmatchcase(name, each) and not _ODD_PATTERN.search(each) for each in reading.left_out):
        return
    may_match = (fnmatchcase(name, each) or _ODD_PATTERN.search(each) for each in reading.names)
    if not reading.names or any(may_match):
        raise NotProved(f"it reads {name}, which may contain secrets")


def _check_tracked(reading: Reading, folder: str) -> None:
    """Raise NotProved if git, when printing changes or lines of any files, could print secrets."""
    named = [path for word in reading.revisions for path in _matches(word, folder)]
    below = [os.path.normpath(path) for path in named if os.path.lexists(path) or set(path) & {"*", "?"}]
    for path, unchanged in tracked_secrets(folder):
        is_meant = not below or any(is_inside(path, place) or fnmatchcase(path, place) for place in below)
        left_out = unchanged and reading.prints == "changed" and len(below) >= len(reading.revisions)
        if is_meant and not left_out:
            raise NotProved(f"it may print {os.path.basename(path)}, which may contain secrets")


def _canonical(path: str) -> str:
    try:
        return canonical_path(path)
    except FileError as error:
        raise NotProved(str(error).partition("\n")[0]) from error


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _matches(word: str, folder: str) -> list[str]:
    """Return the paths that may replace a glob, rather too many than too few."""
    as_it_stands = os.path.join(folder, word)
    if not isinstance(word, Glob):
        return [as_it_stands]
    found = ["/" if word.pattern.startswith("/") else folder]
    compared = 0
    for step in word.pattern.split("/"):
        if not any(special for _, special, _ in _GLOB_PARTS.findall(step)):
            literal = _QUOTED_CHARACTER.sub(r"\1", step)
            found = [f"{path}/{literal}" for path in found]
            continue
        pattern = re.compile(_step_pattern(step), re.DOTALL)
        names = [(path, name) for path in found for name in _names(path)]
        compared += len(names)
        if compared > 5_000:
            raise NotProved(f"{word} may match too many files")
        names = [(path, name) for path, name in names if pattern.fullmatch(name)]
        if word.startswith(step) and any(name.startswith("-") for _, name in names):
            raise NotProved(f"{word} may match a file named like an option")
        found = [f"{path}/{name}" for path, name in names]
    return [*found, as_it_stands]


def _names(folder: str) -> list[str]:
    return [".", "..", *(entry.name for entry in _entries(folder))]


def _step_pattern(step: str) -> str:
    """Return a regular expression for a part of a glob. It accepts anything after a list of characters.

    A name that starts with a dot is only matched by a part that does too.
    """
    found = "" if step.startswith(".") else r"(?!\.)"
    for quoted, special, plain in _GLOB_PARTS.findall(step):
        if special == "[":
            return found + ".*"
        found += {"*": ".*", "?": "."}.get(special, re.escape(quoted or plain))
    return found
