"""The folder of the records, `.transcripts`, and the lock of each session: who may be in there.

The folder is ours alone (0700, with a .gitignore of its own). A link, or a folder of somebody else, is
refused: what is written there could be read or replaced. The lock is a file of its own beside the record,
so that the record may be replaced while it is held; it goes with the process that holds it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from .disk import DISK, Disk
from .record_errors import RecordUnreadable, SessionInUse

RECORDS_FOLDER = ".transcripts"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


def new_sid(now: float, token: str) -> str:
    """An id that sorts by time (UTC) and can be read aloud: 20261121-093012-4f2a."""
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{token}"


def path_of(project: Path, sid: str) -> Path:
    """The file of a session. Raises Refused for an id that could lead elsewhere."""
    if not _SAFE.match(sid):
        raise RecordUnreadable(f"{sid!r} is no session id: letters, digits, dots and dashes only")
    return project / RECORDS_FOLDER / f"{sid}.jsonl"


def ensure_private_folder(folder: Path, disk: Disk = DISK) -> None:
    """Make the folder, or make sure that the one that stands there is ours. Raises Refused, OSError."""
    with suppress(FileExistsError):
        disk.mkdir(str(folder), 0o700)
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise RecordUnreadable(f"{folder} is a link: remove it, sessions are kept in a folder of their own")
    if not stat.S_ISDIR(found.st_mode):
        raise RecordUnreadable(f"{folder} is no folder: move it away, sessions are kept there")
    if found.st_uid != os.geteuid():
        raise RecordUnreadable(
            f"{folder} belongs to another user (uid {found.st_uid}): sessions are not kept there"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        with suppress(PermissionError):  # some file systems have no modes
            folder.chmod(0o700)
    ignore(folder, disk)


def ignore(folder: Path, disk: Disk = DISK) -> None:
    """Have git pass a folder of ours over. Raises OSError."""
    path = folder / ".gitignore"
    if path.exists():
        return
    with suppress(FileExistsError):
        fd = disk.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            disk.write(fd, b"*\n")
        finally:
            os.close(fd)


def lock(path: Path, disk: Disk = DISK) -> int:
    """Take the lock of the session whose record is at `path`: the descriptor that holds it.

    Raises SessionInUse where another process (or another part of this one) has it, OSError.
    """
    name = str(path.with_suffix(".lock"))
    while True:
        fd = disk.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _take(fd, disk)
            if _same(fd, name):
                disk.truncate(fd, 0)
                disk.write(fd, b"%d\n" % os.getpid())
                return fd
        except BlockingIOError as error:
            pid = _pid(fd)
            os.close(fd)
            raise SessionInUse(path.stem, pid) from error
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # its holder left and took the file along while we waited: once more


def _take(fd: int, disk: Disk) -> None:
    """Lock a file without waiting. A file system that knows no locks does without; the journal looks out."""
    try:
        disk.lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
            raise


def unlock(path: Path, fd: int) -> None:
    """Give the lock back. The file goes first, while it is still held, so that nobody locks a dead one."""
    name = path.with_suffix(".lock")
    with suppress(OSError):  # a lock file that stays behind locks nobody out
        if _same(fd, str(name)):
            name.unlink()
    os.close(fd)


def holder(path: Path, disk: Disk = DISK) -> int | None:
    """The pid of the process that has the session open (0 if it cannot be told), or None."""
    try:
        fd = disk.open(str(path.with_suffix(".lock")), os.O_RDONLY, 0)
    except OSError:
        return None
    try:
        disk.lock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid(fd) or 0
    except OSError:
        return None
    finally:
        os.close(fd)
    return None


def held(path: Path, fd: int | None) -> bool:
    """Whether `fd` is still the lock of the session (somebody may have removed the folder)."""
    return fd is not None and _same(fd, str(path.with_suffix(".lock")))


def _same(fd: int, name: str) -> bool:
    try:
        there = Path(name).lstat()
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _pid(fd: int) -> int | None:
    digits = os.pread(fd, 32, 0).strip()
    return int(digits) if digits.isdigit() else None
