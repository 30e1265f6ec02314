"""Read the files of a git directory that commands may change while it is being read.

Everything is opened from a descriptor of the git directory, and no part of a path may be a link. A command
that makes `.git/refs` a link to `~/.ssh` would otherwise have its keys copied out of the reach of the sandbox
and restored into the project later. The content of a reference must also look like one.
"""

# ruff: noqa: PTH208

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tools.files import FOLDER_FLAGS, LISTED_FOLDER, closing, make_folders, safe_open
from transcripts.patterns import lazy_pattern

from .guarded_state import rename_aside

ALTERNATES = "objects/info/alternates"
PACKED = "packed-refs"
WORKTREES = "worktrees"
Seen = tuple[int, int, int]  # of a copied file: inode, size, time of change

_STATE_FILES = ("HEAD", PACKED, "index", "shallow", "gitdir", "info/exclude", ALTERNATES)
_WORKTREE_FILES = ("HEAD", "index", "gitdir", "commondir")
_STATE_FOLDERS = ("refs", "reftable")
_MAX_FOLDERS = 5_000  # of loose references
_MAX_DEPTH = 16  # of directories of loose references
_MAX_REFERENCE_BYTES = 4096  # git's own limit for a symbolic reference is lower
_MAX_COPIED_BYTES = 256 << 20  # of one file, such as the index of a very large project
_OBJECT = lazy_pattern(r"[0-9a-f]{38}(?:[0-9a-f]{24})?|pack-[0-9a-f]{40,64}\.\w+|multi-pack-index")
_FORMS = {
    "HEAD": rb"(?:[0-9a-f]{40}|[0-9a-f]{64}|ref: refs/[^\n]+)\s*",
    "packed-refs": rb"(?:(?:# pack-refs with:[^\n]*|[0-9a-f]{40,64} refs/[^\n]+|\^[0-9a-f]{40,64})\n)*[^\n]*",
    "index": rb"DIRC.*",
    "shallow": rb"(?:[0-9a-f]{40,64}\n)*[^\n]*",
    "gitdir": rb"[^\n]+/\.git\n?",
    "commondir": rb"\.\./\.\.\n?",
    "exclude": rb"[^\0]*",
    "alternates": rb"(?:[^\n\0]*/objects\n?)*",
    "refs": rb"(?:[0-9a-f]{40}|[0-9a-f]{64}|ref: refs/[^\n]+)\s*",
    "reftable": rb"REF[T1].*|(?:[\w-]+\.ref\n?)*",
}  # of the first 4 KB, by the first part of the path, elsewhere by the name


def opened_git(git: Path) -> int:
    """Return a descriptor of a git directory. Raises OSError, also if any part of its path is a link."""
    return safe_open(str(git), LISTED_FOLDER)


def needed_folders(git: Path) -> tuple[str, ...]:
    """Return the necessary directories of a repository; a worktree's directory has none of its own."""
    return () if git.parent.name == "worktrees" else ("objects", "refs")


def make_folder(path: Path) -> None:
    """Make a directory and those above it that are missing, without following links. Raises OSError."""
    with closing(os.open("/", FOLDER_FLAGS)) as root:
        os.close(make_folders(root, path.parts[1:]))


def is_whole(git: Path) -> bool:
    """Return whether git accepts it as a repository, and its essential directories are not empty.

    Directories that are links do not count.
    """
    with suppress(OSError), closing(opened_git(git)) as top:
        head = os.stat("HEAD", dir_fd=top, follow_symlinks=False)
        filled = all(names_in(top, name) for name in needed_folders(git))
        return filled and (stat.S_ISREG(head.st_mode) or stat.S_ISLNK(head.st_mode))
    return False


def names_in(top: int, path: str) -> list[str]:
    """Return the names in a directory below an open one. Raises OSError."""
    with closing(safe_open(path, LISTED_FOLDER, base=top)) as folder:
        return os.listdir(folder)


def state_files(top: int) -> list[str]:
    """Return the paths of the files with the state of an open git directory, including references."""
    names = list(_STATE_FILES)
    with suppress(OSError):
        trees = islice(names_in(top, WORKTREES), 100)
        names += [f"{WORKTREES}/{tree}/{name}" for tree in trees for name in _WORKTREE_FILES]
    found = [name for name in names if _is_file(top, name)]
    loose = (path for name in _STATE_FOLDERS for path in _files_below(top, name))
    # More loose references are not copied.
    return [*found, *islice(loose, 5_000)]


def _is_file(top: int, name: str) -> bool:
    with suppress(OSError):
        return stat.S_ISREG(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode)
    return False


def _files_below(top: int, name: str) -> Iterator[str]:
    """Yield the regular files below a directory, nearest first, without following links."""
    waiting = [name]
    for place in waiting:
        with suppress(OSError), closing(safe_open(place, LISTED_FOLDER, base=top)) as here:
            deeper = place.count("/") < _MAX_DEPTH
            with os.scandir(here) as entries:
                for entry in entries:
                    path = f"{place}/{entry.name}"
                    if entry.is_file(follow_symlinks=False):
                        yield path
                    elif deeper and len(waiting) < _MAX_FOLDERS and entry.is_dir(follow_symlinks=False):
                        waiting.append(path)


def copy_state_file(top: int, path: str, target: Path, known: Seen | None) -> Seen | None:
    """Copy a file of an open git directory, unless it is as `known`; return its stamp if it was copied.

    Returns None for files that are too large, of another kind, or do not look like what git writes there.
    Raises OSError, and leaves an earlier copy as it is then.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
    with os.fdopen(safe_open(path, flags, base=top), "rb") as file:
        state = os.fstat(file.fileno())
        seen = _seen(state)
        if not stat.S_ISREG(state.st_mode) or state.st_size > _MAX_COPIED_BYTES or seen == known:
            return None
        beginning = file.read(_MAX_REFERENCE_BYTES)
        if not _looks_right(path, beginning, more=file.read(1)):
            return None
        file.seek(len(beginning))
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = target.with_name(f"{target.name}.lock")  # no reference has such a name
        try:
            with new.open("wb") as copy:
                copy.write(beginning)
                left = state.st_size - len(beginning)  # so that a file that grows has an end
                while left > 0 and (piece := file.read(min(left, 1 << 20))):
                    copy.write(piece)
                    left -= len(piece)
            new.replace(target)
        finally:
            new.unlink(missing_ok=True)
    return seen


def _looks_right(path: str, beginning: bytes, more: bytes) -> bool:
    """Return whether the beginning of a file, and whether there is more, look like what git writes there."""
    kind = _kind(path)
    short = kind in ("HEAD", "refs", "gitdir", "commondir", "exclude", "alternates")
    return not (short and more) and re.fullmatch(_FORMS[kind], beginning, re.DOTALL) is not None


def _kind(path: str) -> str:
    parts = path.split("/")
    return parts[0] if parts[0] in _STATE_FOLDERS else parts[-1]


def is_damaged(top: int, path: str, known: Seen | None) -> bool:
    """Return whether a file with references or an index is not as `known`, and git could not read it."""
    if _kind(path) not in ("HEAD", PACKED, "index", "refs"):
        return False
    with suppress(OSError):
        state = os.stat(path, dir_fd=top, follow_symlinks=False)
        if stat.S_ISLNK(state.st_mode):  # git itself may make HEAD a link, and scripts packed-refs
            target = os.readlink(path, dir_fd=top)
            return _kind(path) != "HEAD" and not target.endswith(PACKED)
        if not stat.S_ISREG(state.st_mode):
            return not stat.S_ISDIR(state.st_mode)  # git waits for a pipe forever
        if _seen(state) == known:
            return False
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
        with os.fdopen(safe_open(path, flags, base=top), "rb") as file:
            return not _looks_right(path, file.read(_MAX_REFERENCE_BYTES), more=file.read(1))
    return False


def _seen(state: os.stat_result) -> Seen:
    return (state.st_ino, state.st_size, state.st_ctime_ns)


def object_names(folder: int) -> Iterator[str]:
    """Yield the names of objects in an open directory of loose ones or of packs."""
    yield from filter(_OBJECT.fullmatch, os.listdir(folder))


def link_objects(folder: int, names: Iterable[str], target: int) -> None:
    """Link objects of an open directory into another, except those that are not files. Raises OSError."""
    try:
        for name in names:
            os.link(name, name, src_dir_fd=folder, dst_dir_fd=target, follow_symlinks=False)
    finally:
        with os.scandir(target) as entries:  # faster than a call for each
            others = [entry.name for entry in entries if not entry.is_file(follow_symlinks=False)]
        for name in others:
            os.unlink(name, dir_fd=target)


def put_aside_if_replaced(top: int, name: str) -> None:
    """Rename an entry of an open directory that should be a directory and is not. Raises OSError."""
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
            rename_aside(top, name, "replaced")
