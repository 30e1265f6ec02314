"""Private and durable files: the system calls that can fail, and the file operations built on them.

The calls are fields of `Disk`, so that a test can pass one whose n-th call fails. Every function here raises
OSError.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

# Darwin has no fdatasync.
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def _open(path: str, flags: int, mode: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)


class Disk(Struct, frozen=True):
    """System calls on descriptors and paths; each raises OSError.

    `open` never follows a symbolic link; `write` may write less than requested.
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
    """A file is shorter than expected, or its contents differ."""


def expand_home(path: str | Path) -> Path:
    """Return a path with its beginning `~` or `~NAME` replaced by the home directory, if there is one.

    Path.expanduser raises RuntimeError for an unknown user.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111


@contextmanager
def opened_fd(path: Path, flags: int, disk: Disk = DISK) -> Iterator[int]:
    """Open a file or directory for a block; a new file is private. Yields the descriptor. Raises OSError."""
    fd = disk.open(str(path), flags, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def held_folder(folder: Path, top: Path) -> Iterator[Path]:
    """Open a directory below `top`, on whose path from there no part may be a link. Raises OSError.

    Yields a path that on Linux remains that of this directory, even if a command exchanges it for a link.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    fd = os.open(top, flags)
    try:
        for name in folder.relative_to(top).parts:
            inner = os.open(name, flags | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield Path(f"/proc/self/fd/{fd}") if sys.platform == "linux" else folder
    finally:
        os.close(fd)


@contextmanager
def opened_unread(path: Path) -> Iterator[int]:
    """Open a file for reading without changing its atime, by which makeroom detects what commands read.

    Yields the descriptor. Raises OSError.
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
    """Open a regular file for reading, following symbolic links, without blocking.

    Raises OSError, also for anything but a regular file: a pipe or a device could block, or never end.
    """
    _check_regular(path.stat().st_mode, path)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        _check_regular(os.fstat(file.fileno()).st_mode, path)
        yield file


def read_regular(path: Path, max_bytes: int, start: int = 0) -> bytes:
    """Return a regular file from byte `start` on.

    Raises OSError like `opened_regular`, and if there are more than `max_bytes`.
    """
    with opened_regular(path) as file:
        file.seek(start)
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes:,} bytes", str(path))
    return data


def _check_regular(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory, not a file", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe, a device or a socket, not a regular file", str(path))


def trusted_owners(folder: Path) -> frozenset[int]:
    """Return the user ids whose files we trust in a project directory: ours and root's.

    Root, who works in other users' directories, also trusts the owner of the directory, if it still exists.
    Raises OSError.
    """
    ours = os.geteuid()
    with suppress(FileNotFoundError):
        return frozenset((0, ours, folder.stat().st_uid) if ours == 0 else (0, ours))
    return frozenset((0, ours))


def append_whole(disk: Disk, fd: int, data: bytes, end: int) -> int:
    """Append `data` to a file of `end` bytes with one write. Returns the new end; raises OSError.

    A short write is not continued, since another process could write in between; it is truncated again and
    counts as a failure.
    """
    if disk.write(fd, data) < len(data):
        disk.truncate(fd, end)
        raise _short_write(end + len(data))
    return end + len(data)


def _short_write(size: int) -> OSError:
    """Return why only the beginning was written of what would have made a file of this size."""
    import resource  # 0.3 ms

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    number = errno.EFBIG if limit != resource.RLIM_INFINITY and size > limit else errno.ENOSPC
    return OSError(number, f"{os.strerror(number)} (partial write)")


def append_line(path: Path, line: bytes, follow_links: bool = False) -> None:
    """Append a line to a private file, after a newline if its last line was torn. Raises OSError.

    Nothing is synced or truncated: use it for files that several processes write to or that may lose their
    end.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    fd = os.open(path, flags, 0o600)
    try:
        size = os.fstat(fd).st_size
        is_torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        data = b"\n" * is_torn + line + b"\n"
        if os.write(fd, data) < len(data):
            raise _short_write(size + len(data))
    finally:
        os.close(fd)


def project_key(folder: Path) -> str:
    """Return the name under which files about a project are kept outside of it."""
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]


def is_of_running_process(name: str) -> bool:
    """Return whether the name of a file, without its extensions, ends with the pid of a running process."""
    try:
        os.kill(int(name.rpartition("-")[2].partition(".")[0]), 0)
    except PermissionError:
        return True  # of another user
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    return True


def make_private_folders(folder: Path, disk: Disk = DISK) -> None:
    """Create a directory and its missing parents, each with mode 0700. Raises OSError."""
    if folder.is_dir():
        return  # without a look at its parents, which may be on a slow disk
    for each in [*reversed(folder.parents), folder]:
        try:
            if not each.is_dir():
                disk.mkdir(str(each), 0o700)
        except FileExistsError:
            if not each.is_dir():  # another process may create it at the same time
                raise


def set_own_mode(path: Path, mode: int) -> None:
    """Set the mode of one of our files or directories, for which a command may have put something else.

    Raises OSError for a symbolic link, whose target keeps its mode, for a pipe and for a device.
    """
    if sys.platform == "linux":
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)  # needs no permission to read
        try:
            found = os.fstat(fd)
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                raise OSError(errno.EINVAL, "it is neither a file nor a directory", str(path))
            if stat.S_IMODE(found.st_mode) != mode:
                os.chmod(f"/proc/self/fd/{fd}", mode)  # noqa: PTH101
        finally:
            os.close(fd)
    else:
        path.chmod(mode, follow_symlinks=False)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing a file that they lock as well. Raises OSError."""
    make_private_folders(path.parent)
    with opened_fd(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield


def write_ignore_files(folder: Path, disk: Disk = DISK) -> None:
    """Exclude everything in a directory from git and from searches with rg, fd and ag. Raises OSError.

    An empty ignore file counts as missing, since a full disk may have left one.
    """
    for path in (folder / ".gitignore", folder / ".ignore"):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with suppress(FileNotFoundError):
            if path.lstat().st_size:
                continue
            flags = os.O_WRONLY
        with suppress(FileExistsError), opened_fd(path, flags, disk) as fd:
            disk.write(fd, b"*\n")


def replace_file(
    path: str | Path, data: bytes | Iterable[bytes], disk: Disk = DISK, *, durable: bool = True
) -> None:
    """Replace the content of a private file by `data` or its pieces, atomically and durably. Raises OSError.

    Without `durable` nothing is synced, as for a cache: a power loss may leave the old file or an empty one.
    """
    folders = (Path(path).parent.resolve(),) if durable else ()
    pieces = [data] if isinstance(data, bytes) else data
    fd, _ = replace_and_open(path, pieces, disk, *folders, durable=durable)
    os.close(fd)


def replace_and_open(
    path: str | Path,
    pieces: Iterable[bytes],
    disk: Disk,
    *folders: Path,
    durable: bool = True,
    start: tuple[int, int] | None = None,
) -> tuple[int, int]:
    """Replace the content of a private file by the concatenated `pieces`, atomically and durably.

    `start` is an open file and the number of its bytes that come before them. `folders` are directories to
    sync as well. Returns the descriptor of the file, open for reading and appending, and its size. Raises
    OSError.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    fd = disk.open(temporary, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        size = 0 if start is None else copy_start(start[0], fd, start[1], disk)
        for piece in pieces:
            size = append_whole(disk, fd, piece, size)
        if durable:
            disk.sync(fd)
        disk.rename(temporary, str(path))
        sync_folders(disk, *folders)
    except BaseException:
        os.close(fd)
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    return fd, size


def copy_start(source: int, target: int, size: int, disk: Disk = DISK) -> int:
    """Copy the first `size` bytes of an open file to an empty one; return `size`. Raises OSError.

    The system copies them. Some file systems share the blocks, which takes neither time nor space.
    """
    copied = 0
    if hasattr(os, "copy_file_range"):
        flags = fcntl.fcntl(target, fcntl.F_GETFL)
        fcntl.fcntl(target, fcntl.F_SETFL, flags & ~os.O_APPEND)  # a file for appending cannot share blocks
        with suppress(OSError):
            while copied < size and (count := os.copy_file_range(source, target, size - copied, copied)):
                copied += count
        fcntl.fcntl(target, fcntl.F_SETFL, flags)
    for piece in read_pieces(source, copied, size, disk):
        copied = append_whole(disk, target, piece, copied)
    return copied


def read_pieces(fd: int, start: int, end: int, disk: Disk = DISK) -> Iterator[bytes]:
    """Yield the bytes between two offsets, 1 MB at a time. Raises OSError if the file is shorter."""
    while start < end:
        piece = disk.read(fd, min(1 << 20, end - start), start)
        if not piece:
            raise FileEndsEarly("the file is shorter than expected")
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
    """Make the names in each directory durable, if permissions and the file system allow. Raises OSError."""
    for folder in folders:
        with suppress(PermissionError), opened_fd(folder, os.O_RDONLY | os.O_DIRECTORY, disk) as fd:
            try:
                disk.sync(fd)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                    raise


def is_foreign(path: Path, folder: Path) -> bool:
    """Return whether another user owns a file of a project, the link to it, or its directory."""
    with suppress(OSError):
        owners = {found.st_uid for found in (path.stat(), path.lstat(), path.parent.lstat())}
        return not owners <= trusted_owners(folder)
    return False
