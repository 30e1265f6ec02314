"""The journal: the transcript file of one session, appended to and kept intact by its only writer."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from .codec import holds_record
from .errors import Unreadable
from .session_lock import acquire_lock, ensure_private_folder, holds_lock, release_lock
from .storage.disk import (
    Disk,
    append_whole,
    has_same_start,
    opened_fd,
    opened_unread,
    read_pieces,
    replace_and_open,
    sync_folders,
)


class SpareRecord:
    """A second copy of a transcript, used to detect and undo changes to the transcript.

    changed_ns  the mtime of the transcript after our last write
    """

    def __init__(self, fd: int, changed_ns: int) -> None:
        self.fd = fd
        self.changed_ns = changed_ns

    def is_damaged(self, disk: Disk, record: int, size: int, may_end_torn: bool) -> bool:
        """Return whether another process changed the first `size` bytes of a transcript or appended data.

        Appended facts do not count: on a file system without locks another makeroom may add them. With
        `may_end_torn` the data after `size` is ours. Raises OSError.
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
        """Append a line that was added to the transcript. If that fails, close the copy and return False."""
        self.changed_ns = disk.stat(record).st_mtime_ns
        with suppress(OSError):
            if disk.write(self.fd, line) == len(line):
                return True
        os.close(self.fd)  # a copy with a gap is useless
        return False


def copy_record(path: Path, disk: Disk, record: int, size: int) -> SpareRecord:
    """Copy the first `size` bytes of a transcript to `path`. Raises OSError."""
    path.unlink(missing_ok=True)  # it may be a hard link to the transcript
    spare = disk.open(str(path), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        end = 0
        for piece in read_pieces(record, 0, size, disk):
            end = append_whole(disk, spare, piece, end)
    except BaseException:
        os.close(spare)
        raise
    return SpareRecord(spare, disk.stat(record).st_mtime_ns)


class RunningSync(NamedTuple):
    """A sync in a thread, of the first `lines` of the unsynced lines, up to `size` bytes of the file."""

    done: Future[None]
    lines: int
    size: int


class Journal:
    """The transcript file of a session and its lock, as seen by its only writer.

    Only whole lines are written. A sync may run in a thread while lines are appended; everything else waits
    for it.

    When a sync fails, the kernel may have dropped everything written since the last one. The journal then
    copies the file up to that point, writes the later lines again from memory, and replaces the file with the
    copy. It does the same if the path no longer names the file, which a command in the project may cause, if
    the lock was lost, or (from the spare copy, if there is one) if another process changed the file itself.

    whole_size         the end of the last whole line in bytes; data after it is torn
    synced_size        the size in bytes that is known to be on the disk
    read_size          the size when it was read: another size means that another process wrote to it
    ends_with_newline  the last whole line ends with a newline
    unsynced           the lines after `synced_size`
    sync_failed        `unsynced` may be lost
    write_failed       the data after `whole_size` is ours and may be truncated
    lock_lost          the lock file was removed, see `look_for_lock`
    times_put_back     how often the file was restored since another process changed or removed it
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
        self._syncing: RunningSync | None = None
        self._sync_thread: ThreadPoolExecutor | None = None

    @property
    def is_open(self) -> bool:
        return self._fd is not None

    def lock(self) -> None:
        """Create the directory and acquire the lock, unless it is held. Raises OSError and any StoreError."""
        ensure_private_folder(self.path.parent, self.disk)
        old = self._lock
        if old is None or not holds_lock(self.path, old):
            self._lock = acquire_lock(self.path, self.disk)
            if old is not None:
                os.close(old)

    def look_for_lock(self) -> None:
        """Acquire the lock again with the next write if its file was removed. Raises OSError.

        Call this when a command may have removed it. A process that locks the session meanwhile also writes
        to the transcript, which its size reveals.
        """
        self.lock_lost = self._lock is not None and not holds_lock(self.path, self._lock)

    def release(self) -> None:
        """Close the file and release the lock."""
        self._settle_sync()
        if self._sync_thread is not None:
            self._sync_thread.shutdown()
        if self._fd is not None:
            os.close(self._fd)
        if self._spare is not None:
            os.close(self._spare.fd)
        if self._lock is not None:
            release_lock(self.path, self._lock)
        self._fd = self._lock = self._spare = self._sync_thread = None

    def keep_spare(self, path: Path) -> None:
        """Copy the whole lines of the file to `path`, and every line from now on. Raises OSError.

        Does nothing if there is no file yet or a spare copy exists.
        """
        if self._fd is not None and self._spare is None:
            self._spare = copy_record(path, self.disk, self._fd, self.whole_size)

    def begin_with(self, original: Path, size: int, line: bytes) -> None:
        """Create the file with the first `size` bytes of another transcript and a line. Raises OSError."""
        with opened_unread(original) as record:
            self._fd, self.whole_size = replace_and_open(
                self.path, (line,), self.disk, *record_folders(self.path), start=(record, size)
            )
        self.synced_size = self.whole_size

    def begin_behind(self, head: bytes, original: Path, start: int, end: int, line: bytes) -> None:
        """Create the file with `head`, bytes of another transcript, and a line. Raises OSError."""
        with opened_unread(original) as record:
            pieces = chain((head,), read_pieces(record, start, end), (line,))
            folders = record_folders(self.path)
            self._fd, self.whole_size = replace_and_open(self.path, pieces, self.disk, *folders)
        self.synced_size = self.whole_size

    def write(self, lines: list[bytes], durable: bool) -> None:
        """Append lines, each with one write that removes it from the list; with `durable`, sync them.

        Raises OSError, Unreadable (another process wrote to the file) and SessionInUse. The call may be
        repeated.
        """
        if durable or (self._syncing is not None and self._syncing.done.done()):
            self._finish_sync()
        fd = self._fd
        if fd is None:
            fd = self._fd = self._opened()
        elif self.sync_failed or self.lock_lost or not self._is_whole(fd):
            fd = self._fd = self._rebuild(fd)
        while lines:
            size = self.disk.stat(fd).st_size
            if size != self.whole_size and not self.write_failed:
                raise Unreadable(f"another process is writing to {self.path}: its data is left in place")
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

    def is_shortened(self) -> bool:
        """Return whether another process has truncated a file without a spare copy. Raises OSError."""
        found = self.path.lstat() if self._fd is None else self.disk.stat(self._fd)
        is_ours = self._spare is None and not self.write_failed and stat.S_ISREG(found.st_mode)
        return is_ours and found.st_size < self.whole_size

    def write_again(self, lines: Iterable[bytes]) -> None:
        """Replace a file that another process has truncated by one with these lines. Raises OSError.

        What they do not begin with is appended to `<sid>.torn`.
        """
        self._settle_sync()
        self.lock()
        old = self._fd
        if old is None:
            old = self.disk.open(str(self.path), os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW, 0o600)
        self._fd, size = replace_and_open(self.path, lines, self.disk, *record_folders(self.path))
        left = self.disk.stat(old).st_size
        if not has_same_start(self.disk, self._fd, old, left):
            _set_tail_aside(self.disk, old, 0, self.path.with_suffix(".torn"))
        os.close(old)
        self.times_put_back += 1
        self.whole_size = self.synced_size = size
        self.unsynced.clear()
        self.sync_failed = self.lock_lost = False

    def begin_sync(self) -> Future[None] | None:
        """Start to sync the written lines in a thread, unless a sync is running. Returns the running sync.

        The next call of `write` after its end, or any with `durable`, raises its OSError.
        """
        if self._syncing is None and self._fd is not None and self.unsynced and not self.sync_failed:
            if self._sync_thread is None:  # not shared: a forked process lacks the threads of its parent
                self._sync_thread = ThreadPoolExecutor(1, "makeroom-sync")
            done = self._sync_thread.submit(self.disk.sync, self._fd)
            self._syncing = RunningSync(done, lines=len(self.unsynced), size=self.whole_size)
        return self._syncing.done if self._syncing is not None else None

    def _finish_sync(self) -> None:
        """Wait for the sync in the thread, if there is one. Raises OSError if it failed."""
        running = self._syncing
        if running is None:
            return
        self._syncing = None
        self.sync_failed = True
        running.done.result()
        self.sync_failed = False
        del self.unsynced[: running.lines]
        self.synced_size = running.size

    def _settle_sync(self) -> None:
        """Wait for the sync in the thread; if it failed, `sync_failed` is set."""
        with suppress(OSError):
            self._finish_sync()

    def lost_start(self) -> Iterator[bytes] | None:
        """Return the written bytes of a file that its path no longer names, or None. Raises OSError."""
        fd = self._fd
        with suppress(OSError):
            if fd is None or _is_in_place(self.path, self.disk, fd):
                return None
        assert fd is not None
        return read_pieces(fd, 0, self.synced_size if self.sync_failed else self.whole_size, self.disk)

    def _opened(self) -> int:
        """Open or create the transcript, and its directory if that was removed. Returns the descriptor."""
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
        """Return whether the path still names our file, and the file still matches the spare copy, if any."""
        in_place = _is_in_place(self.path, self.disk, fd)
        spare = self._spare
        return in_place and (spare is None or not self._is_damaged(spare, fd))

    def _is_damaged(self, spare: SpareRecord, fd: int) -> bool:
        return spare.is_damaged(self.disk, fd, self.whole_size, self.write_failed)

    def _rebuild(self, old: int) -> int:
        """Replace a file that was changed, removed or cannot be trusted. Returns the new descriptor."""
        self._settle_sync()
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
    """Return whether the path of a transcript still names the file `fd`. Raises OSError."""
    try:
        current = path.lstat()
    except FileNotFoundError:  # removed, or moved together with the whole project
        return disk.stat(fd).st_nlink > 0 and not path.parent.parent.is_dir()
    except NotADirectoryError:
        return False
    found = disk.stat(fd)
    return (found.st_dev, found.st_ino) == (current.st_dev, current.st_ino)


def open_record(path: Path, disk: Disk, whole_size: int, read_size: int) -> int:
    """Open a transcript, or create it if `read_size` is 0. Returns its descriptor.

    `read_size` is the size of the file when it was read. Data after `whole_size` is torn: it is saved in
    `<sid>.torn` and truncated. Raises OSError, and Unreadable if it is not a regular file or has been written
    to since.
    """
    create = 0 if read_size else os.O_CREAT  # a transcript that was removed must not restart in the middle
    fd = disk.open(str(path), os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | create, 0o600)
    try:
        found = disk.stat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(f"cannot write to {path}: it is not a regular file")
        with suppress(PermissionError):  # some file systems have no modes
            os.fchmod(fd, 0o600)
        if found.st_size != read_size:
            raise Unreadable(f"cannot append to {path}: another process changed it; resume the session again")
        if whole_size == 0:
            sync_folders(disk, *record_folders(path))
        if read_size > whole_size:  # last, since it changes the size of the file
            _set_tail_aside(disk, fd, whole_size, path.with_suffix(".torn"))
    except BaseException:
        os.close(fd)
        raise
    return fd


def record_folders(path: Path) -> tuple[Path, Path]:
    """Return the directory of a transcript and its parent: syncing both makes the file's name durable."""
    return path.parent, path.parent.parent.resolve()


def _set_tail_aside(disk: Disk, fd: int, whole_size: int, target: Path) -> None:
    """Append the data after `whole_size` to the file `target`, then truncate it."""
    with opened_fd(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, disk) as aside:
        for piece in read_pieces(fd, whole_size, disk.stat(fd).st_size, disk):
            append_whole(disk, aside, piece, disk.stat(aside).st_size)
        disk.sync(aside)
        sync_folders(disk, target.parent)
    disk.truncate(fd, whole_size)
