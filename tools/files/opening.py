"""Open and read regular files without following links, opening devices, or waiting without a limit.

The paths are canonical (see paths.py). Exactly the file that was judged is opened: a link that appears in the
path afterwards is an error.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TypeVar

from msgspec import Struct

from .daemon_threads import MAX_LIMITS, FileSystemSilent, WorkTooLong, in_daemon_thread
from .errors import FileError
from .paths import one_line_path

FILE_TIMEOUT_S = 10.0  # after which a file system counts as unresponsive
MAX_WHOLE_BYTES = 64 * 1024 * 1024  # of a file that is completely read, hashed and edited
# Flags for traversing a directory, which need not be readable with O_PATH.
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
LISTED_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
T = TypeVar("T")

_FILE_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link that has just been changed",
}


class FileChanged(Exception):
    """The file has changed since the change was computed."""


class FileContent(Struct, frozen=True):
    """All bytes of a file at one moment."""

    path: str
    data: bytes
    sha256: str


async def in_thread(work: Callable[[threading.Event], T], timeout_s: float = FILE_TIMEOUT_S) -> T:
    """Run the work as `in_daemon_thread` does, but raise FileError if it takes too long."""
    try:
        return await in_daemon_thread(timeout_s, work)
    except FileSystemSilent:
        raise FileError(
            f"The file system did not respond in time: this waited {timeout_s:g} s for it.\n"
            "It may be slow, a dead network mount, or an endless file. Tell the user, or continue without it."
        ) from None
    except WorkTooLong:
        raise FileError(
            f"This did not finish within {MAX_LIMITS * timeout_s:g} s, although the file system responds.\n"
            "Use a smaller directory or file."
        ) from None


def safe_open(path: str, flags: int, *, base: int | None = None) -> int:
    """Return a descriptor of the canonical path. Raises OSError, also if any part of the path is a link.

    With `base`, the path is relative to the directory that is open as that descriptor.
    """
    *folders, name = [part for part in path.split("/") if part] or ["."]
    here = os.open("/", FOLDER_FLAGS) if base is None else os.dup(base)
    try:
        for part in folders:
            inner = os.open(part, FOLDER_FLAGS, dir_fd=here)
            os.close(here)
            here = inner
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=here)
    finally:
        os.close(here)


def make_folders(base: int, parts: Iterable[str]) -> int:
    """Return a descriptor of a directory below an open one; missing ones are made. Follows no link.

    Raises OSError, also if one of them is a link or a file.
    """
    here = os.dup(base)
    try:
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=here)
            inner = os.open(part, FOLDER_FLAGS, dir_fd=here)
            os.close(here)
            here = inner
    except BaseException:
        os.close(here)
        raise
    return here


def write_new(folder: int, name: str, pieces: Iterable[bytes], mode: int = 0o644) -> None:
    """Write a new file into an open directory, all of it or none. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb") as file:
        try:
            file.writelines(pieces)
            file.flush()
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise


def replace_in(folder: int, name: str, data: bytes, temporary: str, mode: int = 0o644) -> None:
    """Write a file of an open directory under a temporary name, and rename it. Raises OSError."""
    write_new(folder, temporary, (data,), mode)
    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Yield the descriptor, and close it at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def opened_path(path: str, flags: int) -> AbstractContextManager[int]:
    """Open a path as `safe_open` does, and close the descriptor at the end of the block."""
    return closing(safe_open(path, flags))


@contextmanager
def opened_file(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """Yield a regular file, open for reading, and its state. Other kinds are rejected without waiting.

    Raises FileError for directories, pipes, devices and sockets, OSError for other failures.
    """
    _check_kind(path, os.stat(path, follow_symlinks=False).st_mode)  # noqa: PTH116 - a text, not a Path
    with opened_path(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) as descriptor:
        state = os.fstat(descriptor)
        _check_kind(path, state.st_mode)
        yield descriptor, state


def load_file(path: str, max_bytes: int = MAX_WHOLE_BYTES) -> FileContent:
    """Return the whole file. Raises FileError if it is not a regular file or too large, OSError otherwise."""
    with opened_file(path) as (descriptor, state):
        if state.st_size > max_bytes:
            raise _too_large(path, state.st_size, max_bytes)
        data = read_at_most(descriptor, max_bytes)
    return FileContent(path, data=data, sha256=hashlib.sha256(data).hexdigest())


def read_at_most(descriptor: int, max_bytes: int) -> bytes:
    """Return all bytes up to the end of the file. Raises FileError if there are more than `max_bytes`.

    The size that the system reports is only a hint; below /proc it is 0.
    """
    data = os.read(descriptor, min(max(os.fstat(descriptor).st_size + 1, 4096), max_bytes + 1))
    pieces = [data]
    total = len(data)
    while pieces[-1] and total <= max_bytes:
        pieces.append(os.read(descriptor, 1024 * 1024))
        total += len(pieces[-1])
    if total > max_bytes:
        raise _too_large("the file", total, max_bytes)
    return data if len(pieces) == 2 else b"".join(pieces)


def _too_large(path: str, size: int, max_bytes: int) -> FileError:
    return FileError(
        f"{one_line_path(path)} is too large: {size:,} bytes, at most {max_bytes:,}.",
        remedy="Use bash (sed, awk, head, tail, python) to read or change it.",
        tools="bash",
    )


def _check_kind(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _FILE_KINDS.get(stat.S_IFMT(mode), "a special file")
        raise FileError(
            f"{one_line_path(path)} is {kind}, not a regular file.",
            remedy="Use bash if you need it.",
            tools="bash",
        )
