"""Snapshots of a project's files, with their contents stored: small files first, then large ones.

A file is only read again if its times, size or inode have changed, or if it changed so shortly before the
last scan that its timestamp could hide another change. Links are recorded, never followed. The states of all
files are taken before any contents are read, so in a large project it takes several scans to store all
contents. Files whose contents are not stored are listed: nothing can bring those back.
"""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Literal

from msgspec import Struct, field

from tools.files import FileError, closing, one_line_path, read_at_most, safe_open

from .content_store import ContentStore
from .large_contents import digest_of_file

SKIPPED_FOLDERS = {
    *(".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".cache", ".gradle", ".terraform"),
    *(".transcripts", ".task_outputs", ".makeroom"),
}
_PYTHON_MANIFESTS = ("pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "Pipfile", "uv.lock")
_MANIFESTS = {  # files beside a directory of dependencies that can rebuild it
    "node_modules": ("package.json",),
    ".venv": _PYTHON_MANIFESTS,
    "venv": _PYTHON_MANIFESTS,
    ".terraform": (".terraform.lock.hcl",),
}
FILE_CLOCK_NS = 50_000_000  # five times the coarsest resolution of file times
MANY_FILES = 2_000  # from this number listing the store is faster than looking up each file
_name_of = attrgetter("name")
MAX_ANNOUNCED_FILE_BYTES = 16 << 20  # of a file that write or edit is about to change


class SnapshotLimits(Struct, frozen=True):
    """The limits of one scan for reading and storing, per file and in total.

    `max_reading_seconds` limits the reading of contents that are not stored yet, `max_seconds` everything
    else. Files above `max_file_bytes` are large: they are stored uncompressed, and with limits of their own.
    """

    max_files: int = 120_000
    max_seconds: float = 4.0
    max_reading_seconds: float = 2.0
    max_file_bytes: int = 1 << 20
    max_store_bytes: int = 256 << 20
    max_large_file_bytes: int = 512 << 20
    max_large_store_bytes: int = 2 << 30


class PathState(Struct, frozen=True):
    """The state of a path. `value` is the hash of a file's contents, or the target of a link.

    The kind "none" is a missing path, "other" a pipe, socket or device, "unseen" a path that no scan reached.
    A file whose contents are not stored has no `value` but a `stamp` of size and time, to detect changes.
    """

    kind: Literal["none", "file", "link", "dir", "other", "unseen"]
    mode: int = 0
    value: str = ""
    stamp: str = ""

    @property
    def restorable(self) -> bool:
        return self.kind in ("none", "link", "dir") or (self.kind == "file" and bool(self.value))


Stamps = dict[str, tuple[tuple[int, ...], PathState]]  # path -> (fields of os.stat, state)
NOTHING = PathState("none")
UNSEEN = PathState("unseen")
THEIRS = PathState("unseen", value="theirs")  # left by another session during a command of this one


class ProjectSnapshot(Struct):
    """The states of a project's paths; `complete` unless a scan had to stop early.

    `read` is the number of files that had to be read (`read_bytes` in total), `unread` the number of files
    with only a stamp, since there was no time to store their contents. `skipped` lists directories whose
    contents are not recorded.
    """

    states: dict[str, PathState] = field(default_factory=dict)
    complete: bool = True
    skipped: list[str] = field(default_factory=list)
    read: int = 0
    read_bytes: int = 0
    unread: int = 0

    @property
    def unkept(self) -> list[str]:
        """Return the paths of files whose contents are not stored."""
        return [name for name, state in self.states.items() if state.kind == "file" and not state.value]

    @property
    def repositories(self) -> list[str]:
        """Return the working trees of git repositories below the project's own directory."""
        found = [*self.skipped, *self.states]
        return [name.removesuffix("/.git") for name in found if name.endswith("/.git")]

    @property
    def rebuildable(self) -> list[str]:
        """Return the directories of dependencies that a manifest beside them can rebuild."""
        found = []
        for name in self.skipped:
            above, slash, base = name.rpartition("/")
            if any(f"{above}{slash}{manifest}" in self.states for manifest in _MANIFESTS.get(base, ())):
                found.append(name)
        return found

    def at(self, path: str) -> PathState:
        """Return the state of a path; unseen if the scan did not reach it."""
        return self.states.get(path, NOTHING if self.complete else UNSEEN)


class ProjectScanner(Struct):
    """Reads the states of the paths below `root`, a real path, and stores the contents of its files.

    `clock` (in seconds) limits a scan, `wall` is the clock of the file system. `stamps` contains the last
    state of each file that `os.stat` alone can prove unchanged.
    """

    root: Path
    store: ContentStore
    limits: SnapshotLimits
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    stamps: Stamps = field(default_factory=dict)

    def scan(self, reading_share: float = 1.0) -> ProjectSnapshot:
        """Return the state of the whole project, except directories without work. Blocks on the disk.

        It uses `reading_share` of the time for contents.
        """
        began_ns = int(self.wall() * 1e9)
        end = self.clock() + self.limits.max_seconds
        snapshot = ProjectSnapshot()
        stamps: Stamps = {}
        new: list[tuple[str, str, os.stat_result]] = []
        large: list[tuple[str, str, os.stat_result]] = []
        stored = self.store.digests() if len(self.stamps) > MANY_FILES else self.store
        for name, entry in _walk(self.root, snapshot.skipped):
            if len(snapshot.states) >= self.limits.max_files or self.clock() > end:
                snapshot.complete = False
                break
            try:
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    snapshot.states[name] = _folder_state(stat.S_IMODE(found.st_mode))
                elif (known := self._unchanged(name, found, stored)) is not None:
                    stamps[name] = known
                    snapshot.states[name] = known[1]
                elif stat.S_ISREG(found.st_mode) and found.st_size <= self.limits.max_large_file_bytes:
                    small = found.st_size <= self.limits.max_file_bytes
                    (new if small else large).append((name, entry.path, found))
                    snapshot.states[name] = NOTHING  # preserves the order
                else:
                    snapshot.states[name] = self._noted(stamps, name, entry.path, found, began_ns)
            except FileNotFoundError:
                continue
        # Newest first: old files are rarely the only copy.
        new.sort(key=lambda one: one[2].st_mtime_ns, reverse=True)
        new += sorted(large, key=lambda one: one[2].st_size)
        end = self.clock() + self.limits.max_reading_seconds * reading_share
        give_up = end + self.limits.max_reading_seconds  # for a file that was begun in time
        for name, path, found in new:
            if self.clock() <= end:
                snapshot.states[name] = self._noted(stamps, name, path, found, began_ns, give_up)
                snapshot.read += 1
                snapshot.read_bytes += found.st_size
            else:
                snapshot.states[name] = self.stored_state(path, found, max_bytes=-1)
                snapshot.unread += 1
        self.stamps = stamps
        return snapshot

    def _noted(
        self,
        stamps: Stamps,
        name: str,
        path: str,
        found: os.stat_result,
        began_ns: int,
        give_up: float = math.inf,
    ) -> PathState:
        """Read a state, and note it in `stamps` if its timestamp cannot hide another change."""
        state = self.stored_state(path, found, self.limits.max_file_bytes, give_up)
        newest_ns = max(found.st_mtime_ns, found.st_ctime_ns)
        if newest_ns < began_ns - FILE_CLOCK_NS and stat.S_ISREG(found.st_mode):
            stamps[name] = (_stamp(found), state)
        return state

    def differ(self, name: str, old: PathState, new: PathState) -> bool:
        """Return whether a path has changed. Storing its contents in the meantime is not a change."""
        if old.stamp and new.value and old.mode == new.mode:
            new = self.state(name, max_bytes=-1)
        return old != new

    def state(self, name: str, max_bytes: int = MAX_ANNOUNCED_FILE_BYTES) -> PathState:
        """Return the state of one path and store its contents; those above `max_bytes` in the large store.

        Nothing is stored if `max_bytes` is negative.
        """
        if any((self.root / folder).is_symlink() for folder in parents(name)):
            return NOTHING  # files behind a link are not part of the project
        path = self.root / name
        try:
            return self.stored_state(str(path), path.lstat(), max_bytes)
        except (FileNotFoundError, NotADirectoryError):
            return NOTHING
        except OSError:
            return PathState("other")

    def with_digest(self, name: str, state: PathState) -> PathState:
        """Return the state of a file with the hash of its contents, although these are not stored."""
        if state.kind != "file" or state.value:
            return state
        digest = digest_of_file(str(self.root / name))
        return PathState("file", mode=state.mode, value=digest) if digest else state

    def stored_state(
        self, path: str, found: os.stat_result, max_bytes: int, give_up: float = math.inf
    ) -> PathState:
        """Return the state of a path that `os.lstat` described as `found`, as `state` does.

        A large file is given up when the clock reads `give_up`. No link is followed on the way to it.
        """
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISLNK(found.st_mode):
            return PathState("link", mode=0, value=os.readlink(path))  # noqa: PTH115 - paths of many files
        if stat.S_ISDIR(found.st_mode):
            return _folder_state(mode)
        if not stat.S_ISREG(found.st_mode):
            return PathState("other")
        unstored = PathState("file", mode, stamp=f"{found.st_size} {found.st_mtime_ns}")
        if max_bytes < 0 or found.st_size > max(max_bytes, self.limits.max_large_file_bytes):
            return unstored
        try:
            with closing(safe_open(path, os.O_RDONLY | os.O_NONBLOCK)) as fd:
                if found.st_size > max_bytes:
                    digest = self.store.large.put(fd, found.st_size, lambda: self.clock() > give_up)
                else:
                    content = read_at_most(fd, max_bytes)
                    digest = self.store.put(content)
        except (OSError, FileError):
            return unstored
        return PathState("file", mode=mode, value=digest) if digest else unstored

    def _unchanged(
        self, name: str, found: os.stat_result, stored: set[str] | ContentStore
    ) -> tuple[tuple[int, ...], PathState] | None:
        """Return the state seen by the last scan, if it is still valid and its contents are `stored`."""
        known = self.stamps.get(name)
        if known is None or known[0] != _stamp(found):
            return None
        return known if known[1].value == "" or known[1].value in stored else None


def parents(name: str) -> list[str]:
    """Return the directories that contain a relative path, outermost first."""
    return [str(folder) for folder in reversed(PurePosixPath(name).parents[:-1])]


def shown_paths(paths: Sequence[str], most: int) -> str:
    """Return some of the paths, with the number of those that are left out."""
    more = f" and {len(paths) - most:,} more" if len(paths) > most else ""
    return ", ".join(map(one_line_path, paths[:most])) + more


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode)


@lru_cache(maxsize=64)
def _folder_state(mode: int) -> PathState:
    return PathState("dir", mode)


def _walk(root: Path, skipped: list[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield every relative path below `root` and its entry, each directory before its contents, in order.

    Directories that cannot be listed are treated as empty; the names of those that are skipped are added to
    `skipped`.
    """
    waiting = [("", str(root))]
    while waiting:
        above, folder = waiting.pop()
        entries: list[os.DirEntry[str]] = []
        with suppress(OSError), os.scandir(folder) as listed:
            entries.extend(listed)
        folders = []
        for entry in sorted(entries, key=_name_of):
            name = above + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name in SKIPPED_FOLDERS:
                    skipped.append(name)
                    continue
                folders.append((f"{name}/", entry.path))
            yield name, entry
        waiting += reversed(folders)
