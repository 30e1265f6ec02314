"""Read the state of one path of a project, and store its contents."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tools.files import FileError, closing, read_at_most, safe_open

from .content_store import ContentStore
from .file_attributes import read_attributes
from .held_files import stamp_of
from .large_contents import digest_of_file
from .listings import list_directory
from .snapshot import NOTHING, PathState, parents

MAX_ANNOUNCED_FILE_BYTES = 16 << 20  # of a file that write or edit is about to change


class PathStates(Struct, frozen=True):
    """The states of the paths below `root`, a real path.

    Contents go to `store`, except those of files of more than `max_large_bytes`.
    """

    root: Path
    store: ContentStore
    max_large_bytes: int

    def differ(self, name: str, old: PathState, new: PathState) -> bool:
        """Return whether a path has changed. Storing its contents in the meantime is not a change."""
        if old.stamp and new.value and old.mode == new.mode:
            new = self.state(name, max_bytes=-1)
        return old != (new if old.attrs else replace(new, attrs=""))

    def state(self, name: str, max_bytes: int = MAX_ANNOUNCED_FILE_BYTES) -> PathState:
        """Return the state of one path and store its contents; those above `max_bytes` in the large store.

        Nothing is stored if `max_bytes` is negative.
        """
        path = self.root / name
        try:
            if any((self.root / folder).is_symlink() for folder in parents(name)):
                return NOTHING  # files reached through a link are not part of the project
            return self.stored_state(str(path), path.lstat(), max_bytes)
        except (FileNotFoundError, NotADirectoryError):
            return NOTHING
        except OSError:
            return PathState("other")

    def other_names(self, path: Path) -> list[str]:
        """Return the other names of a file in the project (hard links) that are found in time."""
        try:
            state = path.lstat()
        except OSError:
            return []
        found: list[str] = []
        waiting = [""]
        end = time.monotonic() + 0.5  # of a write
        while waiting and len(found) < state.st_nlink - 1 and time.monotonic() < end:
            listing = list_directory(self.root, waiting.pop())
            waiting += listing.folders
            found += (name for name in listing.files if _is_link_to(self.root / name, state, path))
        return found

    def with_digest(self, name: str, state: PathState) -> PathState:
        """Return the state of a file with the hash of its contents, although these are not stored."""
        if state.kind != "file" or state.value:
            return state
        path = str(self.root / name)
        digest = digest_of_file(path)
        attrs = ""
        with suppress(OSError, FileError), closing(safe_open(path, os.O_RDONLY | os.O_NONBLOCK)) as fd:
            attrs = read_attributes(fd)
        return PathState("file", mode=state.mode, value=digest, attrs=attrs) if digest else state

    def stored_state(
        self,
        path: str,
        found: os.stat_result,
        max_bytes: int,
        is_abandoned: Callable[[], bool] = lambda: False,
    ) -> PathState:
        """Return the state of a path that `os.lstat` described as `found`, as `state` does.

        A large file is read until `is_abandoned`. No link is followed on the way to it.
        """
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISLNK(found.st_mode):
            return _link_state(path)
        if stat.S_ISDIR(found.st_mode):
            return folder_state(mode, read_attributes(path))
        if not stat.S_ISREG(found.st_mode):
            return PathState("other")
        unstored = PathState("file", mode, stamp=stamp_of(found))
        if max_bytes < 0 or found.st_size > max(max_bytes, self.max_large_bytes):
            return unstored
        try:
            with closing(safe_open(path, os.O_RDONLY | os.O_NONBLOCK)) as fd:
                if found.st_size > max_bytes:
                    digest = self.store.large.put(fd, found.st_size, is_abandoned)
                else:
                    content = read_at_most(fd, max_bytes)
                    digest = self.store.put(content)
                attrs = read_attributes(fd)
        except (OSError, FileError):
            return unstored
        return PathState("file", mode=mode, value=digest, attrs=attrs) if digest else unstored


def is_blob(path: str, size: int, ident: str) -> bool:
    """Return whether a regular file has the contents of a blob."""
    found = hashlib.sha1(usedforsecurity=False) if len(ident) == 40 else hashlib.sha256()
    found.update(b"blob %d\0" % size)
    with suppress(OSError, FileError), closing(safe_open(path, os.O_RDONLY | os.O_NONBLOCK)) as fd:
        while piece := os.read(fd, 1 << 20):
            found.update(piece)
        return found.hexdigest() == ident
    return False


def _is_link_to(other: Path, state: os.stat_result, path: Path) -> bool:
    try:
        return other != path and os.path.samestat(other.lstat(), state)
    except OSError:
        return False


@lru_cache(maxsize=64)
def folder_state(mode: int, attrs: str) -> PathState:
    """Return the state of a directory."""
    return PathState("dir", mode, attrs=attrs)


def _link_state(path: str) -> PathState:
    """Return the state of a link. Raises FileNotFoundError."""
    try:
        return PathState("link", mode=0, value=os.readlink(path))  # noqa: PTH115 - paths of many files
    except FileNotFoundError:
        raise
    except OSError:  # it has just been exchanged for something else, which the next scan records
        return PathState("file", stamp="exchanged")
