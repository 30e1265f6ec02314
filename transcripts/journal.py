"""A journal: the file of one session as its only writer sees it. Whole records or nothing, and no trust
in a disk that failed.

Every method but `release` raises OSError, and leaves a state from which the same call may be tried again.
What was written but not synced when a sync failed is doubtful: the kernel may have thrown the pages away
and forgotten about it. Then the file is copied as far as the last good sync, the lines since are written
again from memory, and the copy takes the file's place.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from .disk import Disk, append_whole, sync_folders
from .record_errors import RecordUnreadable
from .session_lock import ensure_private_folder, held, lock, unlock

_CHUNK = 1 << 20


class Journal:
    """An append-only file and its lock.

    good      the end of the good part in bytes; what stands behind it is torn
    size      the size of the file when it was read: another size means that somebody else wrote to it
    synced    as far as the file is known to be on the disk
    ended     whether the good part ends with a newline
    unsynced  what was written since, in memory
    doubtful  a sync failed: `unsynced` may be lost
    broken    a write failed: what stands behind `good` is ours and may be cut off
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self.disk = disk
        self.good = self.synced = self.size = 0
        self.ended = True
        self.unsynced: list[bytes] = []
        self.doubtful = self.broken = False
        self._fd: int | None = None
        self._lock: int | None = None

    def enter(self) -> None:
        """Take the folder and the lock. Raises also Refused and SessionInUse."""
        ensure_private_folder(self.path.parent, self.disk)
        self._lock = lock(self.path, self.disk)

    def release(self) -> None:
        """Close the file and give the lock back."""
        if self._fd is not None:
            os.close(self._fd)
        if self._lock is not None:
            unlock(self.path, self._lock)
        self._fd = self._lock = None

    def ready(self) -> None:
        """Have the file open, whole and in its place. Raises also Refused and SessionInUse."""
        if self._lock is None:
            self.enter()
        if self._fd is None:
            self._fd = self._attach()
        if self.doubtful or self.disk.stat(self._fd).st_nlink == 0:
            self._fd = self._rebuild(self._fd)

    def write(self, line: bytes) -> None:
        """Append one line with one write. Raises also Refused, where somebody else wrote to the file."""
        assert self._fd is not None, "ready() comes first"
        if not self.broken and self.disk.stat(self._fd).st_size != self.good:
            raise RecordUnreadable(f"something else writes to {self.path}: nothing of that is cut off")
        self.broken = True
        piece = line if self.ended else b"\n" + line
        self.good = append_whole(self.disk, self._fd, piece, self.good)
        self.ended, self.broken = True, False
        self.unsynced.append(piece)

    def settle(self) -> None:
        """Put what was written on the disk. When that fails, `doubtful` is set and ready() must mend it."""
        assert self._fd is not None, "ready() comes first"
        try:
            self.disk.sync(self._fd)
        except OSError:
            self.doubtful = True
            raise
        self.unsynced.clear()
        self.synced = self.good

    def _attach(self) -> int:
        """Open the file for appending. A torn tail is kept aside and cut off."""
        made = 0 if self.size else os.O_CREAT  # one that was there and is gone must not begin in its middle
        fd = self.disk.open(str(self.path), os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | made, 0o600)
        try:
            found = self.disk.stat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise RecordUnreadable(f"{self.path} is no regular file: nothing is written there")
            with suppress(PermissionError):  # some file systems have no modes
                os.fchmod(fd, 0o600)
            if found.st_size != self.size:
                raise RecordUnreadable(
                    f"{self.path} was written to since it was read: resume the session once more"
                )
            if self.size > self.good:
                _keep_aside(self.disk, fd, self.good, self.path.with_suffix(".torn"))
                self.size = self.good
            if self.good == 0:
                sync_folders(self.disk, *_folders(self.path))
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _rebuild(self, old: int) -> int:
        """Put a new file in the place of one that cannot be trusted, or that somebody removed."""
        disk, temporary = self.disk, f"{self.path}.new"
        ensure_private_folder(self.path.parent, disk)
        if not held(self.path, self._lock):
            again = lock(self.path, disk)
            if self._lock is not None:
                os.close(self._lock)
            self._lock = again
        again_written = self.unsynced if self.doubtful else []
        fd = disk.open(temporary, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            size = _copy(disk, old, fd, self.synced if self.doubtful else self.good)
            for piece in again_written:
                size = append_whole(disk, fd, piece, size)
            disk.sync(fd)
            disk.rename(temporary, str(self.path))
            sync_folders(disk, *_folders(self.path))
        except BaseException:
            os.close(fd)
            raise
        os.close(old)
        self.good = self.synced = size
        self.unsynced.clear()
        self.doubtful = self.broken = False
        return fd


def _folders(path: Path) -> tuple[Path, Path]:
    """Where the name of the record stands, and where the name of that folder stands."""
    return path.parent, path.parent.parent.resolve()


def _keep_aside(disk: Disk, fd: int, good: int, name: Path) -> None:
    """Save what stands behind `good` in a file of its own, then cut it off."""
    aside = disk.open(str(name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        at, size = good, disk.stat(fd).st_size
        while at < size and (piece := disk.read(fd, min(_CHUNK, size - at), at)):
            append_whole(disk, aside, piece, disk.stat(aside).st_size)
            at += len(piece)
        disk.sync(aside)
        sync_folders(disk, name.parent)
    finally:
        os.close(aside)
    disk.truncate(fd, good)


def _copy(disk: Disk, source: int, target: int, size: int) -> int:
    at = 0
    while at < size:
        piece = disk.read(source, min(_CHUNK, size - at), at)
        if not piece:
            raise OSError("the record became shorter while it was copied")
        at = append_whole(disk, target, piece, at)
    return at
