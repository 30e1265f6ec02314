"""Files that other programs act on and that commands can make where there were none.

Nothing can be mounted upon a file that does not exist. Files by which git is controlled are renamed when a
command has made them in a repository that was there before: the next `git status` of the user would act on
them. Others are often made on purpose, such as by `npm install`, and are only reported.

A repository that a command makes is left as well, but without settings that make `git status` run a program
(`core.fsmonitor`, filters): if the project's index names that repository, `git status` in the project reads
its settings, too.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tools.files import FOLDER_FLAGS, LISTED_FOLDER, closing, one_line_path, safe_open, write_new
from tools.guarded import GIT_STEERING
from tools.text import word_set
from transcripts import RECORD_FOLDERS
from transcripts.patterns import lazy_bytes_pattern

from .git_files import names_in
from .guarded_state import rename_aside

# Of directories: opening one takes a step for each above it, and a command can nest thousands.
MAX_DEPTH = 100
_MAX_SEEN_FILES = 20_000  # files and directories, nearest to the top first: 0.1 s
_MAX_NAMED = 6
_MAX_PARTS = 100  # worktrees, and submodules
_CLOCK_S = 0.02  # by which the time of a file may be behind the clock
_TODO = "rebase-merge/git-rebase-todo"
# Of a repository, by which git decides what to show, hide, remove from a checkout, or where to push.
_READ_BY_GIT = ("info/exclude", "info/sparse-checkout", "info/grafts", "objects/info/alternates")
_FOLDERS_READ_BY_GIT = ("refs/replace", "remotes", "branches")
_EXECUTED = lazy_bytes_pattern(rb"^[ \t]*(?:exec|x)[ \t]", re.MULTILINE)
_RUN_LATER = word_set(".husky .vscode .idea .devcontainer .githooks")
_RUN_FILES = word_set("sitecustomize.py usercustomize.py .envrc .devcontainer.json hgrc")
_PROGRAMS = ("venv/bin", "env/bin", "node_modules/.bin")
_SECTION = lazy_bytes_pattern(rb"\s*\[\s*([\w-]+)(?:[.\s]+[^\]\n]*)?\]\s*", re.ASCII)
_SETTING = lazy_bytes_pattern(
    rb"\s*(?:([A-Za-z][\w-]*)\s*(?:=\s*(.*?)\s*)?)?(?:[#;].*)?", re.ASCII | re.DOTALL
)
_SWITCH = lazy_bytes_pattern(rb"(?:true|false|yes|no|on|off|0|1|)", re.IGNORECASE)
# Settings of git that name programs which `git status`, `git diff` and `git log` run, by section.
_RUN_BY_STATUS = {
    b"core": (b"fsmonitor", b"pager"),
    b"diff": (b"external", b"textconv", b"command"),
    b"filter": (b"clean", b"smudge", b"process"),
    b"interactive": (b"difffilter",),
    b"include": (b"path",),
    b"includeif": (b"path",),
}
_UNSEEN = frozenset(RECORD_FOLDERS)
_CONFIGURED_SCRIPT = lazy_bytes_pattern(
    rb"^[ \t]*(?:(?:fsmonitor|clean|smudge|process|textconv|command|external|sshCommand|editor|pager|program"
    rb"|driver|helper)[ \t]*=|[\w-]+[ \t]*=[ \t]*\"?!)(.*)$",
    re.MULTILINE | re.IGNORECASE,
)


def controls_git(path: str, known: Container[str]) -> bool:
    """Return whether a path in a project is that of a file by which a repository of `known` is controlled.

    Mercurial makes its `requires` with each repository, but an `hgrc` only with a clone.
    """
    folder, name = os.path.split(path)
    if name == "hgrc" and f"{folder}/requires" in known:
        return True
    return any(
        path.removesuffix(name) + mark in known
        for name in GIT_STEERING
        if path == name or path.endswith(f"/{name}")
        for mark in ("config", "commondir")
    )


def put_aside(folder: int, path: str) -> str:
    """Rename a file below the directory that is open as `folder`; return its new name. Raises OSError."""
    above, name = os.path.split(path)
    with closing(safe_open(above or ".", FOLDER_FLAGS, base=folder)) as here:
        return rename_aside(here, name, "put-aside")


def report_planted(
    folder: Path, since: float, reported: set[str], *, is_repository: bool = True
) -> list[str]:
    """Return a line about files changed since a time that other programs run, unless `reported`. Blocks.

    is_repository: the directory had a `.git` of its own at that time, whose settings are protected otherwise
    """
    try:
        top = safe_open(str(folder), LISTED_FOLDER)
    except OSError:
        return []
    with closing(top):
        names = list(_planted(top, since, is_repository))
        aside = {name: new for name in names if (new := _put_settings_aside(top, name))}
        found = Counter(name for name in names if name not in reported and name not in aside)
    reported.update(found)
    lines = [
        f"{one_line_path(name)} makes git run programs: renamed to {one_line_path(new)}"
        for name, new in list(aside.items())[:_MAX_NAMED]
    ]
    read_by_git = {name: count for name, count in found.items() if _is_read_by_git(name)}
    run = {name: count for name, count in found.items() if name not in read_by_git}
    for which, what in ((run, "other programs run files"), (read_by_git, "git acts on files")):
        if which:
            lines.append(f"{what} that changed while commands ran: {_enumerated(which)}")
    return lines


def _enumerated(found: Mapping[str, int]) -> str:
    """Return the first names, each with its number of files."""
    shown = [
        f"{one_line_path(name)} ({count} files)" if count > 1 else one_line_path(name)
        for name, count in islice(found.items(), _MAX_NAMED)
    ]
    more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
    return f"{', '.join(shown)}{more}"


def _is_read_by_git(path: str) -> bool:
    """Return whether the path of a planted file is that of one that git acts on, but that runs nothing."""
    return path.endswith(_READ_BY_GIT) or path.endswith(_FOLDERS_READ_BY_GIT)


def _planted(top: int, since: float, is_repository: bool) -> Iterator[str]:
    """Yield the changed files that other programs run or git acts on; of some directories, only its path."""
    scripts = _configured_scripts(top)
    waiting = deque([""])
    seen = 0
    while waiting and seen < _MAX_SEEN_FILES:
        place = waiting.popleft()
        in_programs = place.endswith(_PROGRAMS)
        names: set[str] = set()
        in_run_later = not _RUN_LATER.isdisjoint(place.split("/"))
        for entry in islice(_entries(top, place or "."), _MAX_SEEN_FILES - seen):
            seen += 1
            name = entry.name
            names.add(name)
            path = f"{place}/{name}" if place else name
            is_folder = entry.is_dir(follow_symlinks=False)
            if name == ".git" and is_folder:
                yield from _git_files(top, path, since, is_protected=path == ".git" and is_repository)
            elif is_folder:
                waiting += [path] if name not in _UNSEEN and path.count("/") < MAX_DEPTH else []
            elif in_programs or in_run_later or name == ".git" or name in _RUN_FILES or path in scripts:
                with suppress(FileNotFoundError):  # it has just been removed
                    if entry.stat(follow_symlinks=False).st_ctime > since - _CLOCK_S:
                        yield place if in_programs else path
        if place and _is_git_directory(names):
            yield from _git_files(top, place, since, is_protected=False)


def _is_git_directory(names: Container[str]) -> bool:
    """Return whether a directory with these names may be one of git: of a repository, or of a worktree."""
    is_shared = "objects" in names and "refs" in names and ("HEAD" in names or "config" in names)
    return is_shared or ("HEAD" in names and "commondir" in names)


def _entries(top: int, place: str) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a directory, which stays open meanwhile."""
    with (
        suppress(OSError),
        closing(safe_open(place, LISTED_FOLDER, base=top)) as here,
        os.scandir(here) as found,
    ):
        yield from found


def _git_files(top: int, git: str, since: float, *, is_protected: bool) -> Iterator[str]:
    """Yield the changed files of a git directory that git acts on, and an open rebase that runs commands.

    Those that make git run programs cannot have changed in a repository that `is_protected`. Of a new one, as
    its configuration is new, only they are of interest.
    """
    steering = [f"{git}/{name}" for name in GIT_STEERING]
    if not is_protected:
        with suppress(OSError):
            hooks = names_in(top, f"{git}/hooks")
            steering += [f"{git}/hooks/{name}" for name in hooks if not name.endswith(".sample")]
        yield from _changed(top, steering, since)
    for place in (git, *_parts_of(top, git)):
        if _EXECUTED.search(_beginning(top, f"{place}/{_TODO}") or b""):
            yield from _changed(top, [f"{place}/{_TODO}"], since)
        if any(_changed(top, [f"{place}/config"], since)):
            continue
        yield from _changed(top, [f"{place}/{name}" for name in _READ_BY_GIT], since)
        for folder in (f"{place}/{name}" for name in _FOLDERS_READ_BY_GIT):
            with suppress(OSError):
                for _ in _changed(top, [f"{folder}/{name}" for name in names_in(top, folder)], since):
                    yield folder


def _parts_of(top: int, git: str) -> Iterator[str]:
    """Yield the git directories of a repository's worktrees, and of submodules without a nested name."""
    for folder in (f"{git}/worktrees", f"{git}/modules"):
        with suppress(OSError):
            yield from (f"{folder}/{name}" for name in islice(names_in(top, folder), _MAX_PARTS))


def _changed(top: int, paths: Iterable[str], since: float) -> Iterator[str]:
    """Yield the paths of files that have changed since a time."""
    for path in paths:
        above, name = os.path.split(path)
        with suppress(OSError), closing(safe_open(above, FOLDER_FLAGS, base=top)) as here:
            state = os.stat(name, dir_fd=here, follow_symlinks=False)
            if state.st_ctime > since - _CLOCK_S and not stat.S_ISDIR(state.st_mode):
                yield path


def _put_settings_aside(top: int, path: str) -> str:
    """Rename a changed configuration of git that runs programs; return its new path, else "".

    What remains of it without these settings takes its place, if it can be read.
    """
    left = None
    if path.rpartition("/")[2] in ("config", "config.worktree"):
        text = _beginning(top, path)
        if text is not None and (left := _without_programs(text)) == text:
            return ""
    elif not path.endswith("/hooks/post-index-change"):  # which `git status` runs, too
        return ""
    above, name = os.path.split(path)
    with suppress(OSError), closing(safe_open(above, FOLDER_FLAGS, base=top)) as here:
        aside = rename_aside(here, name, "put-aside")
        if left is not None:
            write_new(here, name, (left,))
        return f"{above}/{aside}"
    return ""


def _without_programs(text: bytes) -> bytes | None:
    """Return a configuration of git without settings that make `git status` run programs.

    None if it cannot be read for certain.
    """
    kept = []
    section = b""
    for line in re.findall(rb"(?:[^\\\n]|\\.|\\\n)*\n?", text):
        rest = line.strip()
        if b"\\\n" in line and re.search(rb"[#;]", line):
            return None  # in a comment, a backslash does not continue the line
        if found := _SECTION.match(rest):
            section = found[1].lower()
            rest = rest[found.end() :]
        setting = _SETTING.fullmatch(rest)
        if setting is None:
            return None
        name = (setting[1] or b"").lower()
        value = setting[2] or b""
        runs = section == b"pager" or name in _RUN_BY_STATUS.get(section, ())
        is_plain = value.startswith(b"git-lfs ") if section == b"filter" else _SWITCH.fullmatch(value)
        if name and runs and not is_plain:
            kept += [found[0] + b"\n"] if found else []
        else:
            kept.append(line)
    return b"".join(kept)


def _configured_scripts(top: int) -> frozenset[str]:
    """Return the words of commands in the project's git configuration, some of which are its scripts."""
    found = b" ".join(_CONFIGURED_SCRIPT.findall(_beginning(top, ".git/config") or b""))
    words = re.split(rb"[\s\"'!]+", found)
    return frozenset(os.path.normpath(os.fsdecode(word)) for word in words if word)


def _beginning(top: int, path: str) -> bytes | None:
    """Return the content of a regular file below a megabyte, None for others."""
    with (
        suppress(OSError),
        closing(safe_open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, base=top)) as file,
    ):
        state = os.fstat(file)
        if stat.S_ISREG(state.st_mode) and state.st_size < 1 << 20:
            return os.read(file, 1 << 20)
    return None
