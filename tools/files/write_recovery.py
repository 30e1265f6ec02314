"""The journal of a write in place: old and new content side by side until the file is whole again.

One file for each write, named *.undo: a line of JSON (path, sizes), the old bytes, the new bytes. It is
locked while its writer lives. The journal of a writer that died is settled by the next write, or when a
session starts.
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
_WRITE_BYTES = 1024 * 1024


@contextmanager
def journal(folder: int, path: str, old: bytes, new: bytes) -> Iterator[None]:
    """Keep both contents durably in the folder (a descriptor) until the block is left."""
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
    """A new file in the folder, locked: the lock shows other processes that its writer lives.

    Raises FileExistsError. Where it is removed as litter between its making and its locking, it is made
    again.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        descriptor = os.open(name, flags, mode, dir_fd=folder)
        if try_lock(descriptor) and os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock the file for this process, without waiting. False where another process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL):
            raise
    return True  # also on a file system without locks: there only the comparison of contents protects


def write_all(descriptor: int, data: bytes, at: int, written: Callable[[], None] = lambda: None) -> None:
    """Write all bytes from the offset `at` on; `written` is called after each piece. Raises OSError.

    A full disk first takes less than it was given, and fails only at the next write.
    """
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done : done + _WRITE_BYTES], at + done)
        written()


def recover(folder: Path) -> list[str]:
    """Settle the journals of writers that died; returns the paths that got their old content back.

    A file that is neither whole nor partly overwritten was changed by another program: it is left alone.
    """
    restored: list[str] = []
    for file in list(folder.glob("*.undo")):
        with suppress(OSError), opened_path(str(file), os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            if not try_lock(descriptor):
                continue  # its writer is at work
            entry = _parsed(read_at_most(descriptor, _MAX_JOURNAL_BYTES))
            if entry is not None and _restore(*entry):
                restored.append(entry[0])
            file.unlink()
    return restored


def _parsed(data: bytes) -> tuple[str, bytes, bytes] | None:
    """Path, old and new content; None for an unfinished journal, whose file was not touched yet."""
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
    except (OSError, FileError):
        return False
    if current in (old, new) or not _is_partly_overwritten(current, old, new):
        return False
    with opened_path(path, os.O_WRONLY | os.O_NONBLOCK) as descriptor:
        write_all(descriptor, old, 0)
        os.ftruncate(descriptor, len(old))
        os.fsync(descriptor)
    return True


def _is_partly_overwritten(current: bytes, old: bytes, new: bytes) -> bool:
    """Return whether an interrupted overwriting can leave these bytes: new ones, then old ones, then
    those added.
    """
    added = len(old)
    if current[added:] != new[added : len(current)]:
        return False
    low = 0
    high = min(added, len(new))
    while low < high:  # the length of the longest common beginning with `new`
        middle = (low + high + 1) // 2
        low, high = (middle, high) if current[:middle] == new[:middle] else (low, middle - 1)
    return current[low:added] == old[low:]
