"""Read git's settings: aliases, and programs that read-only commands of git could run.

No variable keeps git from running textconv programs, filters and programs that check signatures. So these
settings are searched for in the files of the user and the system, of every repository that a directory may
belong to, of its submodules, and in all files that those include. Anything that looks like such a setting
counts, anywhere in the file. So does the one hook that a read-only command can run: `git diff` and
`git describe --dirty` write the index if modification times have changed, even with GIT_OPTIONAL_LOCKS=0
(git 2.39).
"""

from __future__ import annotations

# Settings files are found in the way git does.
# ruff: noqa: PTH118, PTH120
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tools.files import FileError, canonical_path, is_inside
from transcripts.patterns import lazy_pattern

from .git_files import GitSetting, first_line, git_dir_of, parse_settings, repository_above, settings_text
from .git_index import submodules
from .option_syntax import NotProved, SetTrap

_MAX_GIVEN_SETTINGS = 100  # given by variables
_MAX_HOOKS = 50  # of one repository, to name
_MAX_FILES = 60  # settings files read for one verdict
# The only variables of git that are known to be harmless.
_HARMLESS_VARIABLES = lazy_pattern(
    r"GIT_(?:(?:AUTHOR|COMMITTER|MERGE|PS1|PROMPT|SSL|HTTP|CURL|LFS|PREVIOUS)_\w+|BRANCH|COMMIT|URL|EDITOR"
    r"|SEQUENCE_EDITOR|PAGER|TERMINAL_PROMPT|ASKPASS|SSH|SSH_COMMAND|OPTIONAL_LOCKS|NO_LAZY_FETCH|CONFIG_(?:COUNT|NOSYSTEM|GLOBAL|SYSTEM)"
    r"|CONFIG_(?:KEY|VALUE)_\d+|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM)"
)
# Settings that run programs for any command, and those that run them when contents are shown. An fsmonitor
# that is not a boolean is a program (git before 2.31 runs it even if told not to).
_ALWAYS = lazy_pattern(
    r"\bshowsignature\b|%G|\bsort\s*=[^\n]*signature"
    r"|\bfsmonitor\s*=\s*+(?!(?:true|false|yes|no|on|off|[01])\s*$)",
    re.IGNORECASE | re.MULTILINE,
)
_FOR_CONTENTS = lazy_pattern(
    r"\b(?:textconv|clean|smudge|process|command|external)\s*=|\bsubmodule\s*=\s*\"?diff|\bsubmodulesummary\b"
    r"|\bdiffmerges\s*=\s*r",  # repeats the merge, which runs merge drivers
    re.IGNORECASE,
)
_UNSEEN_IN_VALUES = lazy_pattern(r'"|\\\r?\n')  # quotes and escaped newlines, after which values continue
_PARTIAL_CLONE = lazy_pattern(r"\bpromisor\b|\bpartialclone\b", re.IGNORECASE)  # fetches missing objects
_LARGE_FILES = lazy_pattern(
    r"^\s*(?:clean\s*=\s*git-lfs clean -- %f|smudge\s*=\s*git-lfs smudge -- %f"
    r"|process\s*=\s*git-lfs filter-process)[ \t]*$",
    re.MULTILINE,
)
_INDEX_HOOK = "post-index-change"
_HOOKS_FOLDER = lazy_pattern(r"\bhookspath\s*=[ \t]*(.*)", re.IGNORECASE)
_PATH = lazy_pattern(r"\bpath\s*=[ \t]*(.*)", re.IGNORECASE)
_WORK_TREE = lazy_pattern(r"\bworktree\s*=[ \t]*(.*)", re.IGNORECASE)
_PLAIN_VALUE = lazy_pattern(r'"?([^"\\;#]+?)"?[ \t\r]*')


class _NamesProgram(NotProved):
    """A settings file names a program that could run."""


class GitSettings:
    """The settings that git would read in a directory; each file is read once."""

    def __init__(self, environ: Mapping[str, str], project: str, reads: str) -> None:
        """Take the environment, the project, and what git reads (a value of `Reading.git`)."""
        self.environ = environ
        self.project = project
        self.contents = reads != "names"
        self.index = reads == "index"
        self._read: set[str] = set()
        self._repositories: set[str] = set()
        self._hooks_paths: list[str] = []  # as written in the settings

    def check(self, folder: str) -> None:
        """Raise SetTrap if a repository names a program that could run, NotProved if it may name one."""
        for name in self.environ:
            if name.startswith("GIT_") and not _HARMLESS_VARIABLES.fullmatch(name):
                raise NotProved(f"the variable {name} changes how git works")
        for key, value in self._given():
            self._check_text(f"{key.rpartition('.')[2]} = {value}", "")
        for path in self._of_user():
            self._check_file(path)
        for above in (Path(folder), *Path(folder).parents):
            self._check_repository(str(above))

    def values(self, folder: str) -> dict[str, list[str]]:
        """Return the values of each setting in a directory's repository by its name, the strongest last.

        Sections and keys are in lower case. Raises NotProved if they cannot be determined.
        """
        found: dict[str, list[str]] = {}
        for setting in self._settings([*self._of_user(), *self._of_repository(folder)]):
            found.setdefault(setting.name, []).append(setting.value)
        for key, value in self._given():
            found.setdefault(key.lower(), []).append(value)
        return found

    def made_values(self, folder: str) -> dict[str, list[str]]:
        """Return the values of settings by name, and the path of each hook by `hooks/` and its name.

        They are those of the repository that a directory belongs to, if it is not the project's own but below
        it, so that commands may have written them. Raises NotProved if they cannot be determined.
        """
        found: dict[str, list[str]] = {}
        git_dir = _git_dir_around(folder)
        shared = _shared_dir(git_dir)
        is_own = _canonical(shared) == _canonical(_shared_dir(_git_dir_around(self.project)))
        if (
            not git_dir
            or is_own
            or not any(is_inside(_canonical(each), self.project) for each in (folder, shared))
        ):
            return found
        for setting in self._settings(_settings_files(git_dir)):
            found.setdefault(setting.name, []).append(setting.value)
        hooks = f"{shared}/hooks"
        if named := found.get("core.hookspath"):
            hooks = self._path(named[-1], f"{repository_above(folder) or folder}/.")
        paths = [path for path in Path(hooks).glob("*") if path.suffix != ".sample"]
        return found | {f"hooks/{path.name}": [str(path)] for path in sorted(paths)[:_MAX_HOOKS]}

    def _settings(self, files: Iterable[str]) -> Iterator[GitSetting]:
        """Yield the settings in files, and in those that they include. Raises NotProved."""
        waiting = [*reversed([*files])]
        while waiting:
            path = waiting.pop()
            for setting in parse_settings(self._unread_text(path)):
                yield setting
                if setting.section in ("include", "includeif") and setting.key == "path":
                    waiting.append(self._path(setting.value, path))

    def _given(self) -> Iterator[tuple[str, str]]:
        """Yield the names and values of the settings that variables give."""
        for at in range(_MAX_GIVEN_SETTINGS):
            if key := self.environ.get(f"GIT_CONFIG_KEY_{at}"):
                yield key, self.environ.get(f"GIT_CONFIG_VALUE_{at}", "")

    def _unread_text(self, path: str) -> str:
        """Return the text of a settings file, "" if there is none or it was read before. Raises NotProved."""
        if path in self._read:
            return ""
        self._read.add(path)
        if len(self._read) > _MAX_FILES:
            raise NotProved("git has too many settings files")
        return settings_text(path)

    def _of_repository(self, folder: str) -> Iterator[str]:
        """Yield the settings files of the repository that a directory belongs to."""
        top = repository_above(folder)
        if top is not None:
            yield from _settings_files(git_dir_of(top))

    def _of_user(self) -> Iterator[str]:
        home = self.environ.get("HOME", "")
        settings = self.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
        yield self.environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig"
        yield "/usr/local/etc/gitconfig"
        yield "/opt/homebrew/etc/gitconfig"
        if given := self.environ.get("GIT_CONFIG_GLOBAL"):
            yield given
        yield f"{settings}/git/config"
        yield f"{home}/.gitconfig"

    def _check_repository(self, folder: str) -> None:
        """Check the repository of a working directory, if it is one. Bare repositories are rejected."""
        if _looks_bare(folder):
            raise NotProved(f"{folder} looks like a bare repository")
        if folder in self._repositories or not os.path.lexists(f"{folder}/.git"):
            return
        self._repositories.add(folder)
        git_dir = git_dir_of(folder)
        shared = _shared_dir(git_dir)
        try:
            for path in _settings_files(git_dir):
                self._check_file(path)
        except _NamesProgram as found:
            raise SetTrap(str(found)) from found
        if self.contents:
            if self.index:
                self._check_hooks(folder, shared)
            for below in submodules(git_dir):
                self._check_repository(f"{folder}/{below}")

    def _check_hooks(self, folder: str, shared: str) -> None:
        """Raise SetTrap if reading the repository's files could run a hook."""
        for hooks in (f"{shared}/hooks", *(self._path(value, f"{folder}/.") for value in self._hooks_paths)):
            if os.path.lexists(f"{hooks}/{_INDEX_HOOK}"):
                raise SetTrap(f"git could run a program: {hooks}/{_INDEX_HOOK}")

    def _check_file(self, path: str) -> None:
        self._check_text(self._unread_text(path), path)

    def _check_text(self, text: str, path: str) -> None:
        for form in (text, _UNSEEN_IN_VALUES.sub("", text)):
            for pattern in (_ALWAYS, _FOR_CONTENTS) if self.contents else (_ALWAYS,):
                if found := pattern.search(_LARGE_FILES.sub("", form)):
                    raise _NamesProgram(f"git could run a program: {path} has {found[0].strip()}")
        if _PARTIAL_CLONE.search(text):
            raise NotProved(f"git could fetch missing objects: {path}")
        for match in _WORK_TREE.finditer(text):
            if not is_inside(_canonical(self._path(match[1], path)), self.project):
                raise NotProved(f"{path} sets another working directory")
        self._hooks_paths += (match[1] for match in _HOOKS_FOLDER.finditer(text))
        for match in _PATH.finditer(text):
            self._check_file(self._path(match[1], path))

    def _path(self, value: str, path: str) -> str:
        """Return the path that a value in the file `path` names. Raises NotProved."""
        plain = _PLAIN_VALUE.fullmatch(value)
        if plain is None or (plain[1].startswith(("%", "~")) and not plain[1].startswith("~/")):
            raise NotProved(f"{path} contains a path in an unknown form")
        if plain[1].startswith("~/"):
            return self.environ.get("HOME", "") + plain[1][1:]
        return os.path.join(os.path.dirname(path), plain[1])


def _looks_bare(folder: str) -> bool:
    """Return whether a directory may be a git directory itself."""
    return os.path.lexists(f"{folder}/HEAD") and (
        os.path.lexists(f"{folder}/objects") or os.path.lexists(f"{folder}/commondir")
    )


def _git_dir_around(folder: str) -> str:
    """Return the git directory that git finds in a directory or above it; "" if there is none."""
    for place in map(str, (Path(folder), *Path(folder).parents)):
        if os.path.lexists(f"{place}/.git"):
            return git_dir_of(place)
        if _looks_bare(place):
            return place
    return ""


def _shared_dir(git_dir: str) -> str:
    """Return the git directory that all worktrees of a repository share."""
    common = first_line(f"{git_dir}/commondir")
    return os.path.join(git_dir, common) if common else git_dir


def _settings_files(git_dir: str) -> tuple[str, ...]:
    """Return the paths of a repository's settings files."""
    shared = _shared_dir(git_dir)
    return f"{shared}/config", f"{shared}/config.worktree", f"{git_dir}/config.worktree"


def _canonical(path: str) -> str:
    try:
        return canonical_path(path)
    except FileError as error:
        raise NotProved(str(error)) from error
