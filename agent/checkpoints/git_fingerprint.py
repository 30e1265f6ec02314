"""Recognize by times and inodes whether a git repository has changed.

git replaces refs by renaming, so the times of a few files and directories show it. No link is followed below
the git directory, and nothing is read but names and times.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from tools.files import LISTED_FOLDER, closing, safe_open
from tools.search import FILE_CLOCK_NS, Checkout

from .git_operation import OPERATION_FILES, OPERATION_FOLDERS
from .git_state import KEPT_REFS

_MAX_ENTRIES = 20_000  # looked at to see whether a repository has changed
_Stamp = tuple[str, int, int, int]  # a path in the git directory: time, inode number, size
_Object = tuple[str, int, int]  # a path in the git directory: inode number, size


class Fingerprint(Struct, frozen=True):
    """The times of what changes with the state of a repository.

    complete  False if there are too many refs or reflogs to look at all of them
    special   a pipe, device or socket among them, where git would wait forever; "" for none
    """

    stamps: tuple[_Stamp, ...]
    complete: bool
    special: str = ""

    @property
    def newest_ns(self) -> int:
        """The last of the times."""
        return max(time_ns for _, time_ns, _, _ in self.stamps)

    def hides_changes(self, now_ns: int) -> bool:
        """Return whether there may be another change since, which it or the file system's clock hides."""
        return not self.complete or self.newest_ns > now_ns - FILE_CLOCK_NS


def fingerprint(top: Path) -> Fingerprint | None:
    """Return the fingerprint of a repository, None if there is none."""
    checkout = Checkout(top)
    found: list[Fingerprint] = []
    for folder in dict.fromkeys((checkout.git_folder, checkout.shared_folder)):
        with suppress(OSError), closing(safe_open(os.path.realpath(folder), LISTED_FOLDER)) as fd:
            found.append(_fingerprint_of(fd))
    stamps = tuple(chain.from_iterable(one.stamps for one in found))
    special = next((one.special for one in found if one.special), "")
    return Fingerprint(stamps, all(one.complete for one in found), special) if stamps else None


def _fingerprint_of(git: int) -> Fingerprint:
    """Return the fingerprint of a git directory, which is incomplete if it has too many entries."""
    found: list[_Stamp] = []
    special: list[str] = []
    for name in ("HEAD", "ORIG_HEAD", "packed-refs", "index", *OPERATION_FILES):
        with suppress(OSError):
            state = os.stat(name, dir_fd=git, follow_symlinks=False)
            found.append(_stamp(name, state))
            special += [] if stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode) else [name]
    left = _MAX_ENTRIES
    waiting = ["logs", "worktrees", *OPERATION_FOLDERS, "reftable", "refs"]  # the last one first
    while waiting and left > 0:
        name = waiting.pop()
        with suppress(OSError), closing(safe_open(name, LISTED_FOLDER, base=git)) as fd:
            found.append(_stamp(name, os.fstat(fd)))
            with os.scandir(fd) as entries:
                for entry in entries:
                    left -= 1
                    if f"{name}/{entry.name}/" == KEPT_REFS:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{name}/{entry.name}")
                    elif not (entry.is_symlink() or entry.is_file(follow_symlinks=False)):
                        special.append(f"{name}/{entry.name}")
                    elif name.startswith(OPERATION_FOLDERS) or (
                        name.startswith("worktrees/") and entry.name in ("HEAD", "index")
                    ):
                        found.append(_stamp(f"{name}/{entry.name}", entry.stat(follow_symlinks=False)))
    return Fingerprint(tuple(found), complete=not waiting, special="".join(special[:1]))


class CheckedState(NamedTuple):
    """The state of a repository's objects, and of the names that lead to them, when git checked them."""

    refs: Fingerprint
    objects: frozenset[_Object]


def checked_state(top: Path) -> CheckedState | None:
    """Return what the completeness of a repository depends on; None if that is too much to look at.

    git never writes to the file of an object again, but sets its time when it would store the object anew.
    """
    refs = fingerprint(top)
    if refs is None or refs.special or refs.hides_changes(time.time_ns()):
        return None
    try:
        objects = _objects(top)
    except OSError:
        return None
    return None if objects is None else CheckedState(refs, objects)


def _objects(top: Path) -> frozenset[_Object] | None:
    """Return the files with objects; None if they are too many, or if another repository has some of them."""
    found = set[_Object]()
    waiting = ["objects"]
    with closing(safe_open(os.path.realpath(Checkout(top).shared_folder), LISTED_FOLDER)) as git:
        while waiting:
            name = waiting.pop()
            with closing(safe_open(name, LISTED_FOLDER, base=git)) as fd, os.scandir(fd) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{name}/{entry.name}")
                    else:
                        about = entry.stat(follow_symlinks=False)
                        found.add((f"{name}/{entry.name}", about.st_ino, about.st_size))
            if len(found) > _MAX_ENTRIES or any(each[0] == "objects/info/alternates" for each in found):
                return None
    return frozenset(found)


def _stamp(name: str, found: os.stat_result) -> _Stamp:
    return (name, found.st_mtime_ns, found.st_ino, found.st_size)
