"""Contents of large files, each stored once under its SHA-256 hash, uncompressed and never held in memory.

A copy is a clone on Linux file systems that can share blocks (Btrfs, XFS). Otherwise it is made in pieces. It
is hashed while it is made, so a file that changes during copying is stored as it was read.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from tools.files import closing, safe_open

from .store_folder import make_store_folder, prune

PIECE_BYTES = 1 << 20


class LargeContents(Struct):
    """Copies of large files below `folder`, at most `max_bytes` and a tenth of the free disk in total.

    `full` is True if something could not be stored. The methods block on the disk; only `opened` raises
    OSError.
    """

    folder: Path
    max_bytes: int
    full: bool = False
    _left_bytes: int | None = None  # None until the directory has been made and measured

    def put(self, fd: int, size: int, is_late: Callable[[], bool]) -> str:
        """Store the contents of an open file.

        Returns their hash, "" if they do not fit, the disk fails or there was no time to finish.
        """
        self.measure()
        if self._left_bytes is None or size > self._left_bytes:
            return self._stored_already(fd, is_late)
        temporary = self.folder / f".{os.getpid()}-{threading.get_ident()}"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with closing(os.open(temporary, flags, 0o600)) as copy:
                digest, copied = _copy(fd, copy, max_bytes=self._left_bytes, is_late=is_late)
            if digest:
                self._keep(temporary, digest, copied)
        except OSError:
            self.full = True
            digest = ""
        if not digest:
            with suppress(OSError):
                temporary.unlink()
        return digest

    def _stored_already(self, fd: int, is_late: Callable[[], bool]) -> str:
        """Return the hash of a file that does not fit; "" unless the same contents are stored already."""
        with suppress(OSError):
            digest = _digest_of(fd, is_late)
            with self.opened(digest) as stored:
                os.utime(stored)
            return digest
        self.full = self.full or not is_late()
        return ""

    def _keep(self, temporary: Path, digest: str, size: int) -> None:
        """Give a finished copy its name. Raises OSError.

        It replaces a file of this name, which may have other contents: a checkout may contain a store.
        """
        path = self.path(digest)
        assert self._left_bytes is not None
        with suppress(FileNotFoundError):
            self._left_bytes += path.lstat().st_size
        path.parent.mkdir(mode=0o700, exist_ok=True)
        temporary.replace(path)
        self._left_bytes -= size

    def measure(self) -> None:
        """Make the directory, and remove unneeded copies if it is too large. Done once, unless it fails."""
        if self._left_bytes is None and make_store_folder(self.folder):
            with suppress(OSError):
                used = prune(self.folder, self.max_bytes // 2)
                free = shutil.disk_usage(self.folder).free
                self._left_bytes = min(self.max_bytes - used, free // 10)

    @contextmanager
    def opened(self, digest: str) -> Iterator[int]:
        """Open stored contents for reading, checked. Raises OSError if they are missing or damaged."""
        if digest not in self:
            raise FileNotFoundError(errno.ENOENT, "its stored contents are missing")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with closing(os.open(self.path(digest), flags)) as stored:
            if _digest_of(stored) != digest:
                raise OSError(errno.EIO, "its stored contents are damaged")
            yield stored

    def read(self, digest: str) -> bytes | None:
        """Return stored contents of at most 4 MB; None if they are larger, missing or damaged."""
        with suppress(OSError):
            if digest in self and self.path(digest).stat().st_size <= 4 << 20:
                with self.opened(digest) as fd:
                    return os.pread(fd, 4 << 20, 0)
        return None

    def __contains__(self, digest: str) -> bool:
        return len(digest) == 64 and digest.isalnum() and self.path(digest).exists()

    def path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest[2:]


def digest_of_file(path: str) -> str:
    """Return the hash of a regular file, reading it in pieces; "" if that fails or its path has a link."""
    with suppress(OSError), closing(safe_open(path, os.O_RDONLY | os.O_NONBLOCK)) as fd:
        return _digest_of(fd)
    return ""


def _digest_of(fd: int, is_late: Callable[[], bool] = lambda: False) -> str:
    """Return the hash of an open file, "" if time ran out. Raises OSError."""
    found = hashlib.sha256()
    while piece := os.read(fd, PIECE_BYTES):
        if is_late():
            return ""
        found.update(piece)
    return found.hexdigest()


def _copy(source: int, target: int, max_bytes: int, is_late: Callable[[], bool]) -> tuple[str, int]:
    """Copy an open file; return (hash, bytes), with "" for the hash if time ran out. Raises OSError."""
    is_clone = clone(source, target)
    reading = target if is_clone else source
    os.lseek(reading, 0, os.SEEK_SET)
    found = hashlib.sha256()
    copied = 0
    while piece := os.read(reading, PIECE_BYTES):
        copied += len(piece)
        if copied > max_bytes:
            raise OSError(errno.EFBIG, "it grew while being copied")
        if is_late():
            return "", copied
        found.update(piece)
        if not is_clone:
            write_all(piece, target)
    return found.hexdigest(), copied


def copy_file(source: int, target: int) -> None:
    """Copy an open file to an empty one. Raises OSError."""
    os.lseek(source, 0, os.SEEK_SET)
    if not clone(source, target):
        while piece := os.read(source, PIECE_BYTES):
            write_all(piece, target)


def write_all(content: bytes, target: int) -> None:
    """Write bytes to an open file. Raises OSError."""
    left = memoryview(content)
    while left:
        left = left[os.write(target, left) :]


def clone(source: int, target: int) -> bool:
    """Let an empty file share the blocks of another, without time and space; return False if it cannot."""
    if sys.platform == "linux":
        ficlone = 0x40049409  # linux/fs.h
        with suppress(OSError):
            fcntl.ioctl(target, ficlone, source)
            return True
    return False
