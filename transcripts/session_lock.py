"""The folder of the records, `.transcripts`, and the lock of each session in it.

The folder is private (mode 0700, with a .gitignore). A link, or a folder of another user, is refused: what is
written there could be read or replaced. The lock is a file beside the record, so that the record can be
replaced while the lock is held; it ends with the process that holds it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import uuid
from contextlib import suppress
from pathlib import Path

from transcripts.patterns import lazy_pattern

from .errors import SessionInUse, Unreadable
from .storage.disk import DISK, Disk, opened_fd, write_ignore_files

RECORDS_FOLDER = ".transcripts"
_SESSION_ID = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


def new_sid() -> str:
    """The id of a new session, a random UUID: clients take nothing else for one."""
    return str(uuid.uuid4())


def path_of(project: Path, sid: str) -> Path:
    """The file of a session. Raises Unreadable for an id that could name a file elsewhere."""
    if not _SESSION_ID.match(sid):
        raise Unreadable(f"{sid!r} is no session id: letters, digits, dots and dashes only")
    return project / RECORDS_FOLDER / f"{sid}.jsonl"


def ensure_private_folder(folder: Path, disk: Disk = DISK) -> None:
    """Make the folder, or check that the one there is ours. Raises Unreadable and OSError."""
    with suppress(FileExistsError):
        disk.mkdir(str(folder), 0o700)
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise Unreadable(f"{folder} is a link: remove it, sessions are kept in a folder of their own")
    if not stat.S_ISDIR(found.st_mode):
        raise Unreadable(f"{folder} is no folder: move it away, sessions are kept there")
    if found.st_uid != os.geteuid():
        raise Unreadable(
            f"{folder} belongs to another user (uid {found.st_uid}): sessions are not kept there"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        with suppress(PermissionError):  # some file systems have no modes
            folder.chmod(0o700)
    write_ignore_files(folder, disk)


def acquire_lock(record: Path, disk: Disk = DISK) -> int:
    """Take the lock of a session. Returns the descriptor that holds it.

    Raises SessionInUse where it is held already, by another process or in this one, and OSError.
    """
    name = str(record.with_suffix(".lock"))
    while True:
        fd = disk.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock_without_waiting(fd, disk)
            if holds_lock(record, fd):
                disk.truncate(fd, 0)
                disk.write(fd, b"%d\n" % os.getpid())
                return fd
        except BlockingIOError as error:
            pid = _pid_in(fd)
            os.close(fd)
            raise SessionInUse(record.stem, pid) from error
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # its holder released the lock and removed the file in between: try again


def release_lock(record: Path, fd: int) -> None:
    """Give the lock back. Its file is removed while it is still held, so that no one locks a removed file."""
    with suppress(OSError):  # a lock file that stays behind keeps no one out
        if holds_lock(record, fd):
            record.with_suffix(".lock").unlink()
    os.close(fd)


def holds_lock(record: Path, fd: int) -> bool:
    """Return whether `fd` is of the lock file that is there now: it may have been removed, even with its
    folder.
    """
    try:
        there = record.with_suffix(".lock").lstat()
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def lock_holder(record: Path) -> int | None:
    """The pid of the process that has the session open, 0 if it cannot be told; None if it is not open."""
    # An OSError: there is no lock file, or the file system has no locks.
    with suppress(OSError), opened_fd(record.with_suffix(".lock"), os.O_RDONLY) as fd:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _pid_in(fd) or 0
    return None


def _lock_without_waiting(fd: int, disk: Disk) -> None:
    """Lock a file. Where the file system has no locks, the journal notices another writer by the size."""
    try:
        disk.lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
            raise


def _pid_in(fd: int) -> int | None:
    digits = os.pread(fd, 32, 0).strip()
    return int(digits) if digits.isdigit() else None
