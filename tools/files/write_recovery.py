"""The journal of a write in place, which contains old and new content until the file is complete again.

There is one file per write, named *.undo: a line of JSON (path, sizes), the old bytes, the new bytes. It is
locked while its writer runs. The journal of a killed writer is processed by the next write, or when a session
starts.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import FileError
from .opening import closing, load_file, opened_path, read_at_most

_MAX_JOURNAL_BYTES = 512 * 1024 * 1024  # more than two files of the largest size that is written in place


@contextmanager
def journal(folder: int, path: str, old: bytes, new: bytes) -> Iterator[None]:
    """Store both contents durably in the directory (a descriptor) until the end of the block."""
    name = f"{os.urandom(8).hex()}.undo"
    head = json.dumps({"path": path, "old": len(old), "new": len(new)}).encode() + b"\n"
    with closing(create_locked(folder, name, 0o600)) as descriptor:
        try:
            write_all(descriptor, head, 0)
            write_all(descriptor, old, len(head))
            write_all(descriptor, new, len(head) + len(old))
            os.fsync(descriptor)
            yield
        finally:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)


def create_locked(folder: int, name: str, mode: int) -> int:
    """Make a new file in the directory, locked to show other processes that its writer is running.

    Raises FileExistsError. If another process removes the file before it is locked, it is made again.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        descriptor = os.open(name, flags, mode, dir_fd=folder)
        if try_lock(descriptor) and os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock the file for this process, without waiting. Returns False if another process has the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL):
            raise
    return True  # also on a file system without locks, where only comparing contents protects


_WRITE_BYTES = 1024 * 1024


def write_all(descriptor: int, data: bytes, at: int, written: Callable[[], None] = lambda: None) -> None:
    """Write all bytes from the offset `at`; `written` is called after each chunk. Raises OSError.

    On a full disk a write is incomplete first, and only the next one fails.
    """
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done : done + _WRITE_BYTES], at + done)
        written()


def recover(folder: Path) -> list[str]:
    """Process the journals of killed writers; return the paths whose old content was restored.

    A file that is neither complete nor partly overwritten was changed by another program, and is not touched.
    The journal of a file that cannot be read or written for now is kept.
    """
    restored: list[str] = []
    journals: list[Path] = []
    with suppress(OSError):  # a directory that does not exist, or is another user's
        journals = [path for path in folder.iterdir() if path.suffix == ".undo"]
    for file in journals:
        with suppress(OSError), opened_path(str(file), os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            if not try_lock(descriptor):
                continue  # its writer is running
            entry = _parsed(read_at_most(descriptor, _MAX_JOURNAL_BYTES))
            if entry is not None and _restore(*entry):
                restored.append(entry[0])
            file.unlink()
    return restored


def _parsed(data: bytes) -> tuple[str, bytes, bytes] | None:
    """Return path, old and new content; None for an incomplete journal, whose file has not been changed."""
    head, _, rest = data.partition(b"\n")
    try:
        entry = json.loads(head)
        path = str(entry["path"])
        old = int(entry["old"])
        new = int(entry["new"])
    except (ValueError, KeyError, TypeError):
        return None
    return (path, rest[:old], rest[old:]) if len(rest) == old + new else None


def _restore(path: str, old: bytes, new: bytes) -> bool:
    try:
        current = load_file(path, _MAX_JOURNAL_BYTES).data
    except (FileNotFoundError, NotADirectoryError, FileError):
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:  # another program has put a link in its place
            return False
        raise
    if current in (old, new) or not _is_partly_overwritten(current, old, new):
        return False
    with opened_path(path, os.O_WRONLY | os.O_NONBLOCK) as descriptor:
        write_all(descriptor, old, 0)
        os.ftruncate(descriptor, len(old))
        os.fsync(descriptor)
    return True


def _is_partly_overwritten(current: bytes, old: bytes, new: bytes) -> bool:
    """Return whether interrupted overwriting can leave these bytes: new ones, old ones, then added ones."""
    added = len(old)
    if current[added:] != new[added : len(current)]:
        return False
    low = 0
    high = min(added, len(new))
    while low < high:  # the length of the longest common prefix with `new`
        middle = (low + high + 1) // 2
        low, high = (middle, high) if current[:middle] == new[:middle] else (low, middle - 1)
    return current[low:added] == old[low:]
