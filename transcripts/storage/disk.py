"""Private and durable files: the system calls that can fail, and the file operations made of them.

The calls are the fields of a `Disk`, so that a test can pass one whose n-th call fails. Every function here
raises OSError.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

_PIECE_BYTES = 1 << 20
# Darwin has no fdatasync.
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def _open(path: str, flags: int, mode: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)


class Disk(Struct, frozen=True):
    """System calls by descriptor and path; each raises OSError.

    `open` never follows a link; `write` may write less than it was given.
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


DISK = Disk()


class FileEndsEarly(OSError):
    """A file is shorter than it was."""


@contextmanager
def opened_fd(path: Path, flags: int, disk: Disk = DISK) -> Iterator[int]:
    """A descriptor of a file or folder for the block; a file that is made is private. Raises OSError."""
    fd = disk.open(str(path), flags, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def opened_unread(path: Path) -> Iterator[int]:
    """A file for reading that does not change its time of reading, by which others notice what commands read.

    Raises OSError.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK
    try:
        fd = DISK.open(str(path), flags | getattr(os, "O_NOATIME", 0), 0)
    except PermissionError:
        fd = DISK.open(str(path), flags, 0)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def opened_regular(path: Path) -> Iterator[BinaryIO]:
    """A regular file, open for reading; links are followed, and nothing is waited for.

    Raises OSError, also for whatever else stands there: a pipe or a device could block, or never end.
    """
    _check_regular(path.stat().st_mode, path)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        _check_regular(os.fstat(file.fileno()).st_mode, path)
        yield file


def read_regular(path: Path, max_bytes: int, start: int = 0) -> bytes:
    """A regular file from byte `start` on. Raises OSError as `opened_regular`, and where that is more."""
    with opened_regular(path) as file:
        file.seek(start)
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes:,} bytes", str(path))
    return data


def _check_regular(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe, a device or a socket, not a regular file", str(path))


def trusted_owners(folder: Path) -> frozenset[int]:
    """The user ids whose files we follow in a project folder: ours and root's.

    Root, who works in the folders of others, follows the owner of the folder too, unless that was moved away.
    Raises OSError.
    """
    ours = os.geteuid()
    with suppress(FileNotFoundError):
        return frozenset((0, ours, folder.stat().st_uid) if ours == 0 else (0, ours))
    return frozenset((0, ours))


def append_whole(disk: Disk, fd: int, data: bytes, end: int) -> int:
    """Append `data` to a file of `end` bytes with one write. Returns the new end; raises OSError.

    A short write is not continued, since another writer could come between; it is cut off again and counts
    as a failure.
    """
    if disk.write(fd, data) < len(data):
        disk.truncate(fd, end)
        raise OSError(errno.ENOSPC, "no space left on the disk, it took only a part of the record")
    return end + len(data)


def append_line(path: Path, line: bytes, follow_links: bool = False) -> None:
    """Append a line to a private file, on a new line even if its last one was torn. Raises OSError.

    Nothing is synced or cut off: for files that several processes write to, or that may lose their end.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    fd = os.open(path, flags, 0o600)
    try:
        size = os.fstat(fd).st_size
        is_torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        data = b"\n" * is_torn + line + b"\n"
        if os.write(fd, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(fd)


def make_private_folders(folder: Path, disk: Disk = DISK) -> None:
    """Make a folder and those above it where they are missing, each with mode 0700. Raises OSError."""
    for each in [*reversed(folder.parents), folder]:
        try:
            if not each.is_dir():
                disk.mkdir(str(each), 0o700)
        except FileExistsError:
            if not each.is_dir():  # another process may make it at the same time
                raise


def write_ignore_files(folder: Path, disk: Disk = DISK) -> None:
    """Exclude everything in a directory from git and from the searches of rg, fd and ag. Raises OSError.

    An empty file counts as missing: a full disk may have left one.
    """
    for path in (folder / ".gitignore", folder / ".ignore"):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with suppress(FileNotFoundError):
            if path.lstat().st_size:
                continue
            flags = os.O_WRONLY
        with suppress(FileExistsError), opened_fd(path, flags, disk) as fd:
            disk.write(fd, b"*\n")


def replace_file(path: Path, data: bytes, disk: Disk = DISK) -> None:
    """Make `data` the content of a private file: in whole or not at all, durably. Raises OSError."""
    fd, _ = replace_and_open(path, [data], disk, path.parent.resolve())
    os.close(fd)


def replace_and_open(path: Path, pieces: Iterable[bytes], disk: Disk, *folders: Path) -> tuple[int, int]:
    """Make `pieces`, one after the other, the content of a private file: in whole or not at all, durably.

    `folders` are those whose names must last too. Returns the descriptor of the file, for reading and
    appending, and its size. Raises OSError.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    fd = disk.open(temporary, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        size = 0
        for piece in pieces:
            size = append_whole(disk, fd, piece, size)
        disk.sync(fd)
        disk.rename(temporary, str(path))
        sync_folders(disk, *folders)
    except BaseException:
        os.close(fd)
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    return fd, size


def read_pieces(fd: int, start: int, end: int, disk: Disk = DISK) -> Iterator[bytes]:
    """Yield the bytes between two offsets, 1 MB at a time. Raises OSError where the file is shorter."""
    while start < end:
        piece = disk.read(fd, min(_PIECE_BYTES, end - start), start)
        if not piece:
            raise FileEndsEarly("the record became shorter while it was copied")
        yield piece
        start += len(piece)


def has_same_start(disk: Disk, one: int, other: int, size: int) -> bool:
    """Return whether two files have the same first `size` bytes. Raises OSError."""
    try:
        pairs = zip(read_pieces(one, 0, size, disk), read_pieces(other, 0, size, disk), strict=True)
        return all(a == b for a, b in pairs)
    except FileEndsEarly:
        return False


def sync_folders(disk: Disk, *folders: Path) -> None:
    """Make the names in each folder durable, where we may open it and its file system can. Raises OSError."""
    for folder in folders:
        with suppress(PermissionError), opened_fd(folder, os.O_RDONLY | os.O_DIRECTORY, disk) as fd:
            try:
                disk.sync(fd)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                    raise


def is_foreign(path: Path, folder: Path) -> bool:
    """Return whether somebody else put the file into a project, or the link or the folder that leads
    to it.
    """
    with suppress(OSError):
        owners = {found.st_uid for found in (path.stat(), path.lstat(), path.parent.lstat())}
        return not owners <= trusted_owners(folder)
    return False
