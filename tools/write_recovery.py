"""The journal of a write in place: old and new content side by side until the file is whole again.

One file for each write, named *.undo: a line of JSON (path, sizes), the old bytes, the new bytes. Its lock
tells that its writer is alive. A journal whose writer died is settled by the next write, or at a start.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .base import ToolError
from .safe_open import load_file, read_at_most, safe_open

_MOST = 512 * 1024 * 1024  # bytes: more than two files of the largest size that is written in place


@contextmanager
def journal(folder: int, path: str, old: bytes, new: bytes) -> Iterator[None]:
    """Keep both contents durably in the folder (a descriptor) until the block is left."""
    name = f"{os.urandom(8).hex()}.undo"
    descriptor = fresh(folder, name, 0o600)
    try:
        head = json.dumps({"path": path, "old": len(old), "new": len(new)}).encode() + b"\n"
        for piece in (head, old, new):
            view = memoryview(piece)
            while view:
                view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
        yield
    finally:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        os.close(descriptor)


def fresh(folder: int, name: str, mode: int) -> int:
    """A new file in the folder, locked: its lock is what tells others that its maker is alive.

    Raises FileExistsError. Where somebody's clearing up comes between making and locking, it is made again.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        descriptor = os.open(name, flags, mode, dir_fd=folder)
        if lock(descriptor) and os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def lock(descriptor: int) -> bool:
    """Lock the file for this process, without waiting; False where another one has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL):
            raise
    return True  # also where the file system knows no locks: comparing the content is what is left


def recover(folder: Path) -> list[str]:
    """Settle the journals of writers that died; returns the paths that got their old content back.

    A file that is neither whole nor torn between the two was changed by somebody since: it is left alone.
    """
    restored = []
    try:
        found = [each for each in folder.iterdir() if each.suffix == ".undo"]
    except OSError:
        return []
    for each in found:
        with suppress(OSError):
            path = _settle(each)
            if path is not None:
                restored.append(path)
    return restored


def _settle(file: Path) -> str | None:
    descriptor = safe_open(str(file), os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not lock(descriptor):
            return None  # its writer is at work
        entry = _entry(read_at_most(descriptor, _MOST))
        restored = entry is not None and _restore(*entry)
        file.unlink()
        return entry[0] if entry is not None and restored else None
    finally:
        os.close(descriptor)


def _entry(data: bytes) -> tuple[str, bytes, bytes] | None:
    """Path, old and new; None for a journal that was never finished, so the file was never touched."""
    head, _, rest = data.partition(b"\n")
    try:
        said = json.loads(head)
        path, old, new = str(said["path"]), int(said["old"]), int(said["new"])
    except (ValueError, KeyError, TypeError):
        return None
    return (path, rest[:old], rest[old:]) if len(rest) == old + new else None


def _restore(path: str, old: bytes, new: bytes) -> bool:
    try:
        current = load_file(path, _MOST).data
    except (OSError, ToolError):
        return False
    if current in (old, new) or not _torn(current, old, new):
        return False
    descriptor = safe_open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        view = memoryview(old)
        done = 0
        while done < len(view):
            done += os.pwrite(descriptor, view[done:], done)
        os.ftruncate(descriptor, len(old))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return True


def _torn(current: bytes, old: bytes, new: bytes) -> bool:
    """Whether the bytes can be what an interrupted overwriting leaves: new, then old, then what was added."""
    if not len(old) <= len(current) <= max(len(old), len(new)):
        return False
    added = len(old)
    if current[added:] != new[added : len(current)]:
        return False
    low, high = 0, min(added, len(new))
    while low < high:  # the longest beginning that is new
        middle = (low + high + 1) // 2
        low, high = (middle, high) if current[:middle] == new[:middle] else (low, middle - 1)
    return current[low:added] == old[low:]
