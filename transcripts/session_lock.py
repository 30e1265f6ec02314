"""The directory of transcripts, `.transcripts`, and the lock of each session in it.

The directory is private (mode 0700, with a .gitignore). A symbolic link or a directory of another user is
rejected, since others could read or replace its contents. The lock is a file next to the transcript, so that
the transcript can be replaced while the lock is held. It is released when the process that holds it ends.
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
from .storage.disk import DISK, Disk, opened_fd, set_own_mode, write_ignore_files

RECORDS_FOLDER = ".transcripts"
_SESSION_ID = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


def new_sid() -> str:
    """Return the id of a new session, a random UUID, which is the only form that clients accept."""
    return str(uuid.uuid4())


def short_sid(sid: str) -> str:
    """Return a session's id in the short form for users: the first eight characters of a UUID."""
    return sid[:8] if len(sid) == 36 else sid


def is_session_id(sid: str) -> bool:
    """Return whether a text may be the id of a session, and thus the name of its transcript."""
    return _SESSION_ID.match(sid) is not None


def path_of(project: Path, sid: str) -> Path:
    """Return the path of a session's transcript. Raises Unreadable for an invalid id."""
    if not is_session_id(sid):
        raise Unreadable(
            f"invalid session id {sid!r}: use only letters, digits, dots, dashes and underscores"
        )
    return project / RECORDS_FOLDER / f"{sid}.jsonl"


def ensure_private_folder(folder: Path, disk: Disk = DISK) -> None:
    """Create the directory, or check that the existing one is ours. Raises Unreadable and OSError."""
    with suppress(FileExistsError):
        disk.mkdir(str(folder), 0o700)
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise Unreadable(f"cannot store files in {folder}: it is a symbolic link; remove it")
    if not stat.S_ISDIR(found.st_mode):
        raise Unreadable(f"cannot store files in {folder}: it is not a directory; move it away")
    if found.st_uid != os.geteuid():
        raise Unreadable(
            f"cannot store files in {folder}: it belongs to another user (uid {found.st_uid}); change its"
            " owner, or move it away"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        with suppress(PermissionError):  # some file systems have no modes
            set_own_mode(folder, 0o700)
    write_ignore_files(folder, disk)


def acquire_lock(record: Path, disk: Disk = DISK) -> int:
    """Acquire the lock of a session. Returns the descriptor that holds it.

    Raises SessionInUse if this or another process already holds it, and OSError.
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
        os.close(fd)  # its holder released the lock and removed the file in the meantime: try again


def release_lock(record: Path, fd: int) -> None:
    """Release the lock. Its file is removed first, so that no other process locks a removed file."""
    with suppress(OSError):  # a lock file that is left behind blocks no one
        if holds_lock(record, fd):
            record.with_suffix(".lock").unlink()
    os.close(fd)


def holds_lock(record: Path, fd: int) -> bool:
    """Return whether `fd` is the current lock file, which may have been removed or replaced meanwhile."""
    try:
        current = record.with_suffix(".lock").lstat()
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (current.st_dev, current.st_ino)


def lock_holder(record: Path) -> int | None:
    """Return the pid of the process that has the session open, 0 if unknown; None if it is not open."""
    # OSError means that there is no lock file, or that the file system has no locks.
    with suppress(OSError), opened_fd(record.with_suffix(".lock"), os.O_RDONLY) as fd:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _pid_in(fd) or 0
    return None


def _lock_without_waiting(fd: int, disk: Disk) -> None:
    """Lock a file. If the file system has no locks, the journal detects another writer by the file's size."""
    try:
        disk.lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
            raise


def _pid_in(fd: int) -> int | None:
    digits = os.pread(fd, 32, 0).strip()
    return int(digits) if digits.isdigit() else None
