"""Read git's settings: programs that it could run while it only looks, and aliases.

No variable keeps git from running textconv programs, filters and programs that check signatures. So their
settings are searched for: in the files of the person and the system, of every repository that a folder may
belong to, of its submodules, and in what those include. Anything like such a setting counts, wherever in the
file it stands. So does the one hook that a look can run: `git diff` and `git describe --dirty` write the
index where times of files have changed, whatever GIT_OPTIONAL_LOCKS says (git 2.39).
"""

from __future__ import annotations

# Settings are found as git finds them.
# ruff: noqa: PTH110, PTH112, PTH113, PTH116, PTH118, PTH119, PTH120, PTH123, PTH208
import os
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tools.base import ToolError
from tools.files.resolve_path import canonical_path, is_inside
from tools.sandbox.guarded_names import is_protected, repositories_in_index, sounds_secret
from transcripts.patterns import lazy_bytes_pattern, lazy_pattern

from .option_syntax import NotProved, SetTrap

_MAX_INDEX_BYTES = 64_000_000
_MAX_GIVEN_SETTINGS = 100  # by variables
_MAX_FILES = 60  # of settings, read for one verdict
# Variables that steer git are not known to be harmless but for these.
_HARMLESS_VARIABLES = lazy_pattern(
    r"GIT_(?:(?:AUTHOR|COMMITTER|MERGE|PS1|PROMPT|SSL|HTTP|CURL|LFS|PREVIOUS)_\w+|BRANCH|COMMIT|URL|EDITOR"
    r"|SEQUENCE_EDITOR|PAGER|TERMINAL_PROMPT|ASKPASS|SSH|SSH_COMMAND|OPTIONAL_LOCKS|NO_LAZY_FETCH|CONFIG_(?:COUNT|NOSYSTEM|GLOBAL|SYSTEM)"
    r"|CONFIG_(?:KEY|VALUE)_\d+|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM)"
)
# Settings that run programs whatever is shown; and those that do for a look into contents. An fsmonitor
# that is no truth value is a program (git before 2.31 does not hear that it must not run).
_ALWAYS = lazy_pattern(
    r"\bshowsignature\b|%G|\bsort\s*=[^\n]*signature"
    r"|\bfsmonitor\s*=\s*+(?!(?:true|false|yes|no|on|off|[01])\s*$)",
    re.IGNORECASE | re.MULTILINE,
)
_FOR_CONTENTS = lazy_pattern(
    r"\b(?:textconv|clean|smudge|process|command|external)\s*=|\bsubmodule\s*=\s*\"?diff|\bsubmodulesummary\b"
    r"|\bdiffmerges\s*=\s*r",  # merges again, by merge drivers
    re.IGNORECASE,
)
_UNSEEN_IN_VALUES = lazy_pattern(r'"|\\\r?\n')  # quotes, and ends of lines: values go on behind them
_PARTIAL_CLONE = lazy_pattern(r"\bpromisor\b|\bpartialclone\b", re.IGNORECASE)  # fetches what is looked at
_LARGE_FILES = lazy_pattern(
    r"^\s*(?:clean\s*=\s*git-lfs clean -- %f|smudge\s*=\s*git-lfs smudge -- %f"
    r"|process\s*=\s*git-lfs filter-process)[ \t]*$",
    re.MULTILINE,
)
_SECTION = lazy_pattern(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_INDEX_HOOK = "post-index-change"
_HOOKS_FOLDER = lazy_pattern(r"\bhookspath\s*=[ \t]*(.*)", re.IGNORECASE)
_PATH = lazy_pattern(r"\bpath\s*=[ \t]*(.*)", re.IGNORECASE)
_WORK_TREE = lazy_pattern(r"\bworktree\s*=[ \t]*(.*)", re.IGNORECASE)
_PLAIN_VALUE = lazy_pattern(r'"?([^"\\;#]+?)"?[ \t\r]*')
_SECRET_IN_INDEX = lazy_bytes_pattern(
    rb"(?:\.env(?:\.[^\0/]*)?|\.(?:pem|key|p8|p12|pfx|ppk|kdbx|agekey|pgpass|envrc|netrc|npmrc|pypirc|my\.cnf|htpasswd"
    rb"|git-credentials)|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|(?:secrets?|credentials?)[^\0/]*\.(?:ya?ml|json|toml))\0",
    re.IGNORECASE,
)


class _NamesProgram(NotProved):
    """A file of settings names a program that could run."""


class GitSettings:
    """The settings that git would read in a folder; each file is read once."""

    def __init__(self, environ: Mapping[str, str], project: str, reads: str) -> None:
        """`reads`: what is looked at, as `Reading.git` says."""
        self.environ = environ
        self.project = project
        self.contents = reads != "names"
        self.index = reads == "index"
        self._read: set[str] = set()
        self._repositories: set[str] = set()
        self._hooks_paths: list[str] = []  # as settings name them

    def check(self, folder: str) -> None:
        """Raises SetTrap where a repository names a program that could run, NotProved where it may be so."""
        for name in self.environ:
            if name.startswith("GIT_") and not _HARMLESS_VARIABLES.fullmatch(name):
                raise NotProved(f"{name} steers git")
        for at in range(_MAX_GIVEN_SETTINGS):
            key = self.environ.get(f"GIT_CONFIG_KEY_{at}")
            if key is None:
                break
            self._check_text(f"{key.rpartition('.')[2]} = {self.environ.get(f'GIT_CONFIG_VALUE_{at}')}", "")
        for path in self._of_person():
            self._check_file(path)
        for above in (Path(folder), *Path(folder).parents):
            self._check_repository(str(above))

    def aliases(self, folder: str) -> dict[str, list[str]]:
        """Return what may be meant by each alias of a folder's repository, by its name in lower case.

        Raises NotProved where that cannot be told.
        """
        found: dict[str, list[str]] = {}
        for at in range(_MAX_GIVEN_SETTINGS):
            name = self.environ.get(f"GIT_CONFIG_KEY_{at}", "").lower()
            if name.startswith("alias."):
                value = self.environ.get(f"GIT_CONFIG_VALUE_{at}", "")
                found.setdefault(name.removeprefix("alias."), []).append(value)
        waiting = [*self._of_person(), *self._of_repository(folder)]
        while waiting:
            path = waiting.pop()
            if path in self._read:
                continue
            self._read.add(path)
            if len(self._read) > _MAX_FILES:
                raise NotProved("git has too many files of settings")
            for section, inner, name, value in parse_settings(_text(path)):
                if section == "alias" and (inner or name) not in ("", "command"):
                    found.setdefault((inner or name).lower(), []).append(value)
                elif section in ("include", "includeif") and name == "path":
                    waiting.append(self._path(value, path))
        return found

    def _of_repository(self, folder: str) -> Iterator[str]:
        """The files of settings of the repository that a folder belongs to."""
        above = (str(place) for place in (Path(folder), *Path(folder).parents))
        top = next((place for place in above if os.path.lexists(f"{place}/.git")), None)
        if top is not None:
            git_dir = self._git_dir(top)
            common = _first_line(f"{git_dir}/commondir")
            shared = os.path.join(git_dir, common) if common else git_dir
            yield from (f"{shared}/config", f"{shared}/config.worktree", f"{git_dir}/config.worktree")

    def _of_person(self) -> Iterator[str]:
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
        """The repository whose working folder this is, if it is one; a bare one is none that is known."""
        if os.path.lexists(f"{folder}/HEAD") and (
            os.path.lexists(f"{folder}/objects") or os.path.lexists(f"{folder}/commondir")
        ):
            raise NotProved(f"{folder} looks like a bare repository")
        if folder in self._repositories or not os.path.lexists(f"{folder}/.git"):
            return
        self._repositories.add(folder)
        git_dir = self._git_dir(folder)
        common = _first_line(f"{git_dir}/commondir")
        shared = os.path.join(git_dir, common) if common else git_dir
        try:
            for path in (f"{shared}/config", f"{shared}/config.worktree", f"{git_dir}/config.worktree"):
                self._check_file(path)
        except _NamesProgram as found:
            raise SetTrap(str(found)) from found
        if self.contents:
            if self.index:
                self._check_hooks(folder, shared)
            for below in _submodules(git_dir):
                self._check_repository(f"{folder}/{below}")

    def _check_hooks(self, folder: str, shared: str) -> None:
        """Raises SetTrap where a look into the repository's files could run a hook."""
        for hooks in (f"{shared}/hooks", *(self._path(value, f"{folder}/.") for value in self._hooks_paths)):
            if os.path.lexists(f"{hooks}/{_INDEX_HOOK}"):
                raise SetTrap(f"git could run a program: {hooks}/{_INDEX_HOOK}")

    def _git_dir(self, folder: str) -> str:
        path = f"{folder}/.git"
        if os.path.isdir(path):
            return path
        line = _first_line(path)
        return os.path.join(folder, line.removeprefix("gitdir:").strip())

    def _check_file(self, path: str) -> None:
        if path in self._read:
            return
        self._read.add(path)
        if len(self._read) > _MAX_FILES:
            raise NotProved("git has too many files of settings")
        self._check_text(_text(path), path)

    def _check_text(self, text: str, path: str) -> None:
        for form in (text, _UNSEEN_IN_VALUES.sub("", text)):
            for pattern in (_ALWAYS, _FOR_CONTENTS) if self.contents else (_ALWAYS,):
                if found := pattern.search(_LARGE_FILES.sub("", form)):
                    raise _NamesProgram(f"git could run a program: {path} has {found[0].strip()}")
        if _PARTIAL_CLONE.search(text):
            raise NotProved(f"git could fetch what is missing: {path}")
        for match in _WORK_TREE.finditer(text):
            if not is_inside(_canonical(self._path(match[1], path)), self.project):
                raise NotProved(f"{path} moves the working folder")
        self._hooks_paths += (match[1] for match in _HOOKS_FOLDER.finditer(text))
        for match in _PATH.finditer(text):
            self._check_file(self._path(match[1], path))

    def _path(self, value: str, path: str) -> str:
        """The path that a value in the file `path` names."""
        plain = _PLAIN_VALUE.fullmatch(value)
        if plain is None or (plain[1].startswith(("%", "~")) and not plain[1].startswith("~/")):
            raise NotProved(f"{path} has a path of a form that is not known")
        if plain[1].startswith("~/"):
            return self.environ.get("HOME", "") + plain[1][1:]
        return os.path.join(os.path.dirname(path), plain[1])


class TrackedSecret(NamedTuple):
    """A file of a repository that may hold secrets; `unchanged` since the index was written."""

    path: str
    unchanged: bool


def tracked_secrets(folder: str) -> Iterator[TrackedSecret]:
    """Yield the files that may hold secrets in a folder's repository, by their names in the index."""
    above = (str(place) for place in (Path(folder), *Path(folder).parents))
    top = next((place for place in above if os.path.lexists(f"{place}/.git")), None)
    git_dir = f"{top}/.git"
    if top is not None and not os.path.isdir(git_dir):
        git_dir = os.path.join(top, _first_line(git_dir).removeprefix("gitdir:").strip())
    data = _bytes(f"{git_dir}/index", _MAX_INDEX_BYTES) if top is not None else b""
    for found in _SECRET_IN_INDEX.finditer(data):
        end = found.end() - 1
        start = data.rfind(b"\0", 0, end) + 1
        start += data[start] == end - start - 1  # the length of the name stands before it
        name = os.fsdecode(data[start:end])
        path = f"{top}/{name}"
        is_harmless = os.path.exists(path) and not is_protected(path, "read")
        if is_harmless or not sounds_secret(os.path.basename(name)):
            continue
        entry = data[max(start - 62, 0) : start]  # what stands before the name, with SHA-1
        yield TrackedSecret(path, _stamp_of(path) == entry[8:16] + entry[36:40])


def _stamp_of(path: str) -> bytes:
    """Time of change and size of a file as the index has them."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return b""
    seconds, rest = divmod(found.st_mtime_ns, 1_000_000_000)
    return struct.pack(">III", seconds & 0xFFFFFFFF, rest, found.st_size & 0xFFFFFFFF)


class GitSetting(NamedTuple):
    """One setting of a file; section and key are in lower case, `inner` is the section's name in quotes."""

    section: str
    inner: str
    key: str
    value: str


def parse_settings(text: str) -> Iterator[GitSetting]:
    """Yield the settings of a text."""
    section = inner = ""
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    for line in lines:
        if header := _SECTION.match(line):
            section = header[1].lower()
            inner = re.sub(r"\\(.)", r"\1", header[2] or "")
            line = line[header.end() :]
        key, _, value = line.partition("=")
        if re.fullmatch(r"[A-Za-z][\w-]*", key.strip()):
            yield GitSetting(section, inner, key.strip().lower(), _plain_value(value, lines))


def _plain_value(text: str, lines: Iterator[str]) -> str:
    """A value without its quotes and the comment behind it; it may go on in the next lines."""
    found: list[str] = []
    quoted = False
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 == len(text):
            text = next(lines, "")
            at = 0
            continue
        if char == "\\":
            at += 1
            found.append({"n": "\n", "t": "\t", "b": "\b"}.get(text[at], text[at]))
        elif char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            break
        else:
            found.append(char)
        at += 1
    return "".join(found).strip()


def _canonical(path: str) -> str:
    try:
        return canonical_path(path)
    except ToolError as error:
        raise NotProved(str(error)) from error


def _text(path: str) -> str:
    return _bytes(path, 1_000_000).decode("latin-1")


def _bytes(path: str, limit: int) -> bytes:
    """Return what is in a regular file; nothing where there is none."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return b""
    except (OSError, ValueError) as error:
        raise NotProved(f"{path} cannot be read") from error
    with open(opened, "rb") as file:
        found = os.fstat(opened)
        if not os.path.isfile(path) or found.st_size > limit:
            raise NotProved(f"{path} is no file of settings")
        return file.read(limit)


def _first_line(path: str) -> str:
    return _text(path).partition("\n")[0].strip() if os.path.isfile(path) else ""


def _submodules(git_dir: str) -> Iterator[str]:
    """Folders, relative to the working one, that the index names as repositories, and perhaps others."""
    try:
        names = [name for name in os.listdir(git_dir) if name == "index" or name.startswith("sharedindex.")]
    except OSError:
        names = []
    for name in names:
        data = _bytes(f"{git_dir}/{name}", _MAX_INDEX_BYTES)
        found = (path for size in (20, 32) for path in repositories_in_index(data, size))
        yield from (os.fsdecode(path) for path in found if 0 < len(path) < 4096 and b"\0" not in path)
