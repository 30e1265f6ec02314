"""The disk as the record uses it: the few calls that can fail, the clock, and the source of new ids.

Whoever wants to see them fail (tests: the n-th call, once or for good) passes another `Disk`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Darwin has no fdatasync.
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def _open(path: str, flags: int, mode: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)


def _token() -> str:
    return os.urandom(2).hex()


@dataclass(frozen=True, slots=True)
class Disk:
    """System calls by descriptor and path; each raises OSError. `open` never follows a link.

    `write` may write less than it was given; `now` is seconds since the epoch; `token` four hex digits.
    """

    open: Callable[[str, int, int], int] = _open
    write: Callable[[int, bytes], int] = os.write
    read: Callable[[int, int, int], bytes] = os.pread
    sync: Callable[[int], None] = _sync
    truncate: Callable[[int, int], None] = os.ftruncate
    rename: Callable[[str, str], None] = os.replace
    stat: Callable[[int], os.stat_result] = os.fstat
    mkdir: Callable[[str, int], None] = os.mkdir
    lock: Callable[[int, int], None] = fcntl.flock
    now: Callable[[], float] = time.time
    token: Callable[[], str] = _token


DISK = Disk()


def append_whole(disk: Disk, fd: int, piece: bytes, good: int) -> int:
    """Append `piece` behind offset `good` with one write. Returns the new end; raises OSError.

    Whatever stands behind `good` is cut off first: it is what an earlier failure left. A short write is
    not continued, since another writer could come between; it counts as a failure and is cut off again.
    """
    size = disk.stat(fd).st_size
    if size > good:
        disk.truncate(fd, good)
    good = min(size, good)
    written = disk.write(fd, piece)
    if written == len(piece):
        return good + written
    disk.truncate(fd, good)
    raise OSError(errno.ENOSPC, "no space left on the disk, it took only a part of the record")


def make_private(folder: Path, disk: Disk = DISK) -> None:
    """Make a folder and those above it where they are missing, each for us alone. Raises OSError."""
    for each in [*reversed(folder.parents), folder]:
        try:
            if not each.is_dir():
                disk.mkdir(str(each), 0o700)
        except FileExistsError:
            if not each.is_dir():  # somebody else may make it at the same time
                raise


def put(path: Path, data: bytes, disk: Disk = DISK) -> None:
    """Have a private file hold `data`: all of it or what it held before, durably. Raises OSError."""
    fresh = f"{path}.{os.getpid()}.tmp"
    fd = disk.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        append_whole(disk, fd, data, 0)
        disk.sync(fd)
        disk.rename(fresh, str(path))
    except BaseException:
        with suppress(OSError):
            Path(fresh).unlink()
        raise
    finally:
        os.close(fd)
    sync_folders(disk, path.parent.resolve())


def add_line(fd: int, line: bytes) -> None:
    """Append a line, never onto one that was torn. `fd` reads and appends; raises OSError.

    For files that are shared or may lose their end: nothing is synced, and nothing cut off.
    """
    size = os.fstat(fd).st_size
    torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
    piece = b"\n" * torn + line + b"\n"
    if os.write(fd, piece) < len(piece):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def sync_folders(disk: Disk, *folders: Path) -> None:
    """Make the names in each folder durable, where the file system can do that and we may open the folder."""
    for folder in folders:
        with suppress(PermissionError):
            _sync_folder(disk, folder)


def _sync_folder(disk: Disk, folder: Path) -> None:
    fd = disk.open(str(folder), os.O_RDONLY | os.O_DIRECTORY, 0)
    try:
        disk.sync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)
