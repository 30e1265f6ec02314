"""The files of a project at one moment: what stands where, with the contents of small files put aside.

Contents are kept once by their hash. A file is read again only when its times, size or inode changed, or
when it changed so shortly before the last look that its clock could hide another change. Links are noted,
never followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from transcripts.record_errors import StoreError
from transcripts.session_lock import ensure_private_folder

from .pruning import prune

SKIPPED = {
    *(".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".cache", ".gradle", ".terraform"),
    *(".transcripts", ".task_outputs", ".makeroom"),
}
TICK = 50_000_000  # nanoseconds: five times the coarsest clock of a file's times


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """How much is looked at and kept: files, seconds for one look, bytes of one file, bytes in all."""

    files: int = 20_000
    seconds: float = 2.0
    each: int = 1 << 20
    total: int = 256 << 20


@dataclass(frozen=True, slots=True)
class PathState:
    """What stands at a path. `value` is the hash of a file's contents, or the target of a link.

    kind "none" is nothing, "other" a pipe, socket or device, "unseen" what was not looked at. A file whose
    contents were not kept has no `value` but a `stamp`, by which a change is noticed.
    """

    kind: Literal["none", "file", "link", "dir", "other", "unseen"]
    mode: int = 0
    value: str = ""
    stamp: str = ""

    @property
    def known(self) -> bool:
        """Whether it can be brought back."""
        return self.kind in ("none", "link", "dir") or (self.kind == "file" and bool(self.value))


NOTHING, UNSEEN = PathState("none"), PathState("unseen")


@dataclass(slots=True)
class ProjectSnapshot:
    """One look at the project: the state of each path, and whether everything was seen."""

    states: dict[str, PathState] = field(default_factory=dict)
    complete: bool = True

    def at(self, path: str) -> PathState:
        """The state of a path; unseen where the look did not get that far."""
        return self.states.get(path, NOTHING if self.complete else UNSEEN)


@dataclass(slots=True)
class ContentStore:
    """The contents put aside, under `folder`, and the stamps by which unchanged files are known."""

    folder: Path
    limits: SnapshotLimits = field(default_factory=SnapshotLimits)
    stamps: dict[str, tuple[tuple[int, ...], PathState]] = field(default_factory=dict)
    size: int = -1
    full: bool = False  # the store is

    def look(self, root: Path, now: Callable[[], float], wall: Callable[[], float]) -> ProjectSnapshot:
        """Look at the whole project. `now` is a clock for the limit in seconds, `wall` that of the files."""
        began, end = int(wall() * 1e9), now() + self.limits.seconds
        found, stamps = ProjectSnapshot(), {}
        for name, entry in _walk(root):
            if len(found.states) >= self.limits.files or now() > end:
                found.complete = False
                break
            with suppress(FileNotFoundError):
                about = entry.stat(follow_symlinks=False)
                state = self._known(name, about) or self.keep(Path(entry.path), about, self.limits.each)
                found.states[name] = state
                if max(about.st_mtime_ns, about.st_ctime_ns) < began - TICK and stat.S_ISREG(about.st_mode):
                    stamps[name] = (_stamp(about), state)
        self.stamps = stamps
        return found

    def keep(self, path: Path, about: os.stat_result, most: int) -> PathState:
        """The state of one path, the contents of a file put aside if it has at most `most` bytes."""
        mode = stat.S_IMODE(about.st_mode)
        if stat.S_ISLNK(about.st_mode):
            return PathState("link", 0, str(path.readlink()))
        if stat.S_ISDIR(about.st_mode):
            return PathState("dir", mode)
        if not stat.S_ISREG(about.st_mode):
            return PathState("other")
        unkept = PathState("file", mode, stamp=f"{about.st_size} {about.st_mtime_ns}")
        if about.st_size > most:
            return unkept
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(fd, "rb") as file:
                content = file.read(most + 1)
        except OSError:
            return unkept
        kept = self.put(content) if len(content) <= most else ""
        return PathState("file", mode, kept) if kept else unkept

    def put(self, content: bytes) -> str:
        """Put contents aside. Returns their hash, or "" when there is no more room."""
        name = hashlib.sha256(content).hexdigest()
        path = self._path(name)
        with suppress(OSError):
            os.utime(path)  # it is there, and in use
            return name
        packed = zlib.compress(content, 1)
        if self.size < 0:
            if not self._made():
                return ""
            self.size = prune(self.folder, self.limits.total // 2)
        if self.size + len(packed) > self.limits.total:
            self.full = True
            return ""
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fresh = path.with_suffix(f".{os.getpid()}")
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(packed)
            fresh.replace(path)
        except OSError:  # a full disk: the state then says that the contents were not kept
            self.full = True
            return ""
        self.size += len(packed)
        return name

    def _made(self) -> bool:
        """Make the folders, all of them private. False where that cannot be."""
        try:
            ensure_private_folder(self.folder.parents[1])
            ensure_private_folder(self.folder.parent)
            self.folder.mkdir(mode=0o700, exist_ok=True)
        except (OSError, StoreError):
            return False
        return not self.folder.is_symlink()

    def get(self, name: str) -> bytes | None:
        """Contents by their hash; None where they are gone or damaged."""
        try:
            content = zlib.decompress(self._path(name).read_bytes())
        except (OSError, zlib.error):
            return None
        return content if hashlib.sha256(content).hexdigest() == name else None

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / name[2:]

    def _known(self, name: str, about: os.stat_result) -> PathState | None:
        stamp, state = self.stamps.get(name, ((), NOTHING))
        return (
            state
            if stamp == _stamp(about) and (state.value == "" or self._path(state.value).exists())
            else None
        )


def _stamp(about: os.stat_result) -> tuple[int, ...]:
    return (about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino, about.st_mode)


def _walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every entry below `root` with its relative path, folders before what is in them, in a fixed order."""
    waiting = [(str(root), "")]
    while waiting:
        folder, prefix = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        below = []
        for entry in found:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name in SKIPPED:
                    continue
                below.append((entry.path, name + "/"))
            yield name, entry
        waiting.extend(reversed(below))
