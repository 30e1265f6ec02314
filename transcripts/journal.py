"""The journal: the file of one record on disk, as its only writer appends to it and keeps it whole."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from .codec import holds_record
from .errors import Unreadable
from .session_lock import acquire_lock, ensure_private_folder, holds_lock, release_lock
from .storage.disk import (
    Disk,
    append_whole,
    has_same_start,
    opened_fd,
    read_pieces,
    replace_and_open,
    sync_folders,
)


class SpareRecord:
    """A second copy of a record in another file, by which a change of the record is noticed and undone.

    changed_ns  the record's time of change when it was written to last
    """

    def __init__(self, fd: int, changed_ns: int) -> None:
        self.fd = fd
        self.changed_ns = changed_ns

    def is_damaged(self, disk: Disk, record: int, size: int, may_end_torn: bool) -> bool:
        """Return whether something else changed the first `size` bytes of a record, or wrote anything behind
        them.

        Records are not anything: where the file system has no locks, another process may add them. With
        `may_end_torn` what stands behind is ours. Raises OSError.
        """
        found = disk.stat(record)
        if (found.st_size, found.st_mtime_ns) == (size, self.changed_ns):
            return False
        if not has_same_start(disk, record, self.fd, size):
            return True
        if found.st_size > size and not may_end_torn:
            return not holds_record(b"".join(read_pieces(record, size, found.st_size, disk)))
        self.changed_ns = found.st_mtime_ns
        return False

    def add(self, disk: Disk, record: int, line: bytes) -> bool:
        """Append a line that the record got; False where that failed, and the copy is given up."""
        self.changed_ns = disk.stat(record).st_mtime_ns
        with suppress(OSError):
            if disk.write(self.fd, line) == len(line):
                return True
        os.close(self.fd)  # a copy with a gap is of no use
        return False


def copy_record(path: Path, disk: Disk, record: int, size: int) -> SpareRecord:
    """A spare copy in `path` of the first `size` bytes of a record. Raises OSError."""
    path.unlink(missing_ok=True)  # it may be a hard link of the record
    spare = disk.open(str(path), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        end = 0
        for piece in read_pieces(record, 0, size, disk):
            end = append_whole(disk, spare, piece, end)
    except BaseException:
        os.close(spare)
        raise
    return SpareRecord(spare, disk.stat(record).st_mtime_ns)


class Journal:
    """The file of a record and its lock, as its only writer sees them. Whole lines are written, or none.

    When a sync fails, the kernel may have dropped what was written since the last one. Then the file is
    copied as far as that, the lines since are written again from memory, and the copy takes its place. So it
    does where the path names another file or none, as a command in the project may bring about, where the
    lock was lost, and from the spare copy, where one is kept, if something else changed the file itself.

    whole_size         the end of the last whole line in bytes; what stands behind it is torn
    synced_size        as far as the file is known to be on the disk
    read_size          the size when it was read: another size means that something else wrote to it
    ends_with_newline  whether the last whole line does
    unsynced           the lines behind `synced_size`
    sync_failed        `unsynced` may be lost
    write_failed       what stands behind `whole_size` is ours and may be cut off
    lock_lost          the lock file was removed, see `look_for_lock`
    times_put_back     because something else changed or removed the file
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self.disk = disk
        self.whole_size = self.synced_size = self.read_size = 0
        self.ends_with_newline = True
        self.unsynced: list[bytes] = []
        self.sync_failed = self.write_failed = self.lock_lost = False
        self.times_put_back = 0
        self._fd: int | None = None
        self._lock: int | None = None
        self._spare: SpareRecord | None = None

    @property
    def is_open(self) -> bool:
        return self._fd is not None

    def lock(self) -> None:
        """Make the folder and take the lock, unless it is held. Raises OSError and any StoreError."""
        ensure_private_folder(self.path.parent, self.disk)
        old = self._lock
        if old is None or not holds_lock(self.path, old):
            self._lock = acquire_lock(self.path, self.disk)
            if old is not None:
                os.close(old)

    def look_for_lock(self) -> None:
        """Take the lock again with the next write if its file was removed. Raises OSError.

        Meant for when a command may have done so. Whoever locks the session meanwhile also writes to the
        record, and that is noticed by its size.
        """
        self.lock_lost = self._lock is not None and not holds_lock(self.path, self._lock)

    def release(self) -> None:
        """Close the file and give the lock back."""
        if self._fd is not None:
            os.close(self._fd)
        if self._spare is not None:
            os.close(self._spare.fd)
        if self._lock is not None:
            release_lock(self.path, self._lock)
        self._fd = self._lock = self._spare = None

    def keep_spare(self, path: Path) -> None:
        """Copy the file as far as it is whole to `path`, and every line from now on. Raises OSError.

        Nothing is done while there is no file, or where a spare copy is kept already.
        """
        if self._fd is not None and self._spare is None:
            self._spare = copy_record(path, self.disk, self._fd, self.whole_size)

    def write(self, lines: list[bytes], durable: bool) -> None:
        """Append lines, each with one write and taken off the list behind it; with `durable`, sync them.

        Raises OSError, Unreadable (something else wrote to the file) and SessionInUse. The same call
        may be tried again.
        """
        fd = self._fd
        if fd is None:
            fd = self._fd = self._opened()
        elif self.sync_failed or self.lock_lost or not self._is_whole(fd):
            fd = self._fd = self._rebuild(fd)
        while lines:
            size = self.disk.stat(fd).st_size
            if size != self.whole_size and not self.write_failed:
                raise Unreadable(f"something else writes to {self.path}: nothing of that is cut off")
            if size > self.whole_size:
                self.disk.truncate(fd, self.whole_size)
            line = lines[0] if self.ends_with_newline else b"\n" + lines[0]
            self.whole_size = min(size, self.whole_size)
            self.write_failed = True
            self.whole_size = append_whole(self.disk, fd, line, self.whole_size)
            self.ends_with_newline = True
            self.write_failed = False
            self.unsynced.append(line)
            if self._spare is not None and not self._spare.add(self.disk, fd, line):
                self._spare = None
            del lines[0]
        if durable and self.unsynced:
            self.sync_failed = True
            self.disk.sync(fd)
            self.sync_failed = False
            self.unsynced.clear()
            self.synced_size = self.whole_size

    def lost_start(self) -> Iterator[bytes] | None:
        """All that was written before what is left, where no path leads to it; else None. Raises OSError."""
        fd = self._fd
        with suppress(OSError):
            if fd is None or _is_in_place(self.path, self.disk, fd):
                return None
        assert fd is not None
        return read_pieces(fd, 0, self.synced_size if self.sync_failed else self.whole_size, self.disk)

    def _opened(self) -> int:
        """The descriptor of the record, opened or made; so is its folder, if that was removed meanwhile."""
        if self._lock is None:
            self.lock()
        try:
            return open_record(self.path, self.disk, self.whole_size, self.read_size)
        except FileNotFoundError:
            if self.read_size or self.path.parent.is_dir():
                raise
        self.lock()
        return open_record(self.path, self.disk, self.whole_size, self.read_size)

    def _is_whole(self, fd: int) -> bool:
        """Return whether the path still names the file that is written to, unchanged as far as a copy can
        tell.
        """
        in_place = _is_in_place(self.path, self.disk, fd)
        spare = self._spare
        return in_place and (spare is None or not self._is_damaged(spare, fd))

    def _is_damaged(self, spare: SpareRecord, fd: int) -> bool:
        return spare.is_damaged(self.disk, fd, self.whole_size, self.write_failed)

    def _rebuild(self, old: int) -> int:
        """Put a new file in the place of one that cannot be trusted, or that was changed or removed."""
        self.lock()
        trusted, lines = (self.synced_size, self.unsynced) if self.sync_failed else (self.whole_size, [])
        spare = self._spare
        source = spare.fd if spare is not None and self._is_damaged(spare, old) else old
        copied = read_pieces(source, 0, trusted, self.disk)
        fd, size = replace_and_open(self.path, chain(copied, lines), self.disk, *record_folders(self.path))
        os.close(old)
        self.times_put_back += not self.sync_failed
        self.whole_size = self.synced_size = size
        self.unsynced.clear()
        self.sync_failed = self.write_failed = self.lock_lost = False
        if spare is not None:
            spare.changed_ns = self.disk.stat(fd).st_mtime_ns
        return fd


def _is_in_place(path: Path, disk: Disk, fd: int) -> bool:
    """Return whether the path of a record still names the file `fd`. Raises OSError."""
    try:
        there = path.lstat()
    except FileNotFoundError:  # gone; or the whole project was moved, and the file with it
        return disk.stat(fd).st_nlink > 0 and not path.parent.parent.is_dir()
    except NotADirectoryError:
        return False
    found = disk.stat(fd)
    return (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino)


def open_record(path: Path, disk: Disk, whole_size: int, read_size: int) -> int:
    """Open a record, or create it if `read_size` is 0. Returns its descriptor.

    `read_size` is the size that the file had when it was read. What stands behind `whole_size` is torn: it is
    saved in `<sid>.torn` and cut off. Raises also Unreadable for no regular file, and for one that
    something else has written to since.
    """
    create = 0 if read_size else os.O_CREAT  # one that was removed meanwhile must not begin in its middle
    fd = disk.open(str(path), os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | create, 0o600)
    try:
        found = disk.stat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(f"{path} is no regular file: nothing is written there")
        with suppress(PermissionError):  # some file systems have no modes
            os.fchmod(fd, 0o600)
        if found.st_size != read_size:
            raise Unreadable(f"{path} was written to since it was read: resume the session once more")
        if whole_size == 0:
            sync_folders(disk, *record_folders(path))
        if read_size > whole_size:  # last, for then the file has another size
            _set_tail_aside(disk, fd, whole_size, path.with_suffix(".torn"))
    except BaseException:
        os.close(fd)
        raise
    return fd


def record_folders(path: Path) -> tuple[Path, Path]:
    """The folders in which the name of a record stands, and the name of its folder."""
    return path.parent, path.parent.parent.resolve()


def _set_tail_aside(disk: Disk, fd: int, whole_size: int, target: Path) -> None:
    """Append what stands behind `whole_size` to another file, then cut it off."""
    with opened_fd(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, disk) as aside:
        for piece in read_pieces(fd, whole_size, disk.stat(fd).st_size, disk):
            append_whole(disk, aside, piece, disk.stat(aside).st_size)
        disk.sync(aside)
        sync_folders(disk, target.parent)
    disk.truncate(fd, whole_size)
