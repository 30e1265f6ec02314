"""File contents, each stored once under its SHA-256 hash, in a directory of limited size."""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from transcripts import StoreError, ensure_private_folder
from transcripts.patterns import lazy_bytes_pattern

FRESH_CONTENT_S = 3_600.0  # contents are stored before the log line that names them is written
RECENT_LOG_S = 30 * 86_400.0  # a session whose last change is older can no longer restore files
_HASH = lazy_bytes_pattern(rb'"([0-9a-f]{64})"')


class ContentStore(Struct):
    """Compressed contents below `folder`, at most `max_bytes` in total.

    `full` is True if something could not be stored. The methods block on the disk and raise no OSError.
    """

    folder: Path
    max_bytes: int
    full: bool = False
    _used_bytes: int | None = None  # None until the directory has been made and measured

    def put(self, content: bytes) -> str:
        """Store contents. Returns their hash, or "" if the store is full or the disk fails."""
        digest = hashlib.sha256(content).hexdigest()
        path = self._path(digest)
        with suppress(OSError):
            os.utime(path)  # already stored; the new time keeps it from being pruned
            return digest
        packed = zlib.compress(content, 1)
        self.measure()
        if self._used_bytes is None:
            return ""
        if self._used_bytes + len(packed) <= self.max_bytes:
            with suppress(OSError):
                path.parent.mkdir(mode=0o700, exist_ok=True)
                replace_private(path, packed)
                self._used_bytes += len(packed)
                return digest
        self.full = True
        return ""

    def measure(self) -> None:
        """Make the directory, and remove unneeded contents if it is too large. Done once, unless it fails."""
        if self._used_bytes is None and self._make_folder():
            self._used_bytes = prune(self.folder, self.max_bytes // 2)

    def get(self, digest: str) -> bytes | None:
        """Return contents by their hash; None if they are missing or damaged."""
        try:
            content = zlib.decompress(self._path(digest).read_bytes())
        except (OSError, zlib.error):
            return None
        return content if hashlib.sha256(content).hexdigest() == digest else None

    def __contains__(self, digest: str) -> bool:
        return self._path(digest).exists()

    def digests(self) -> set[str]:
        """Return the hashes of all stored contents."""
        found: set[str] = set()
        for folder, _, names in os.walk(self.folder):
            found.update(map((folder[-2:]).__add__, names))
        return found

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest[2:]

    def _make_folder(self) -> bool:
        """Make the directories, all private. Returns False if that fails, or if one of them is a link."""
        with suppress(OSError, StoreError):
            ensure_private_folder(self.folder.parents[1])
            ensure_private_folder(self.folder.parent)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            return not self.folder.is_symlink()
        return False


def prune(folder: Path, max_bytes: int) -> int:
    """Remove contents that no recent session needs if `folder` exceeds `max_bytes`; return the bytes left.

    Most contents were stored by a snapshot before a command that then did not change the files. No log names
    them, and they are stored again when needed. The logs and pending snapshots of the sessions are in the
    parent of `folder`.
    """
    now = time.time()
    found = [(path, path.stat()) for path in folder.rglob("*") if path.is_file()]
    size = sum(stat.st_size for _, stat in found)
    if size <= max_bytes:
        return size
    needed = _needed_hashes(folder.parent, now)
    for path, stat in found:
        if path.parent.name + path.name not in needed and now - stat.st_mtime > FRESH_CONTENT_S:
            with suppress(FileNotFoundError):  # another process in the project may be pruning too
                path.unlink()
            size -= stat.st_size
    return size


def _needed_hashes(folder: Path, now: float) -> set[str]:
    """Return the hashes in recent logs and in the snapshots before unfinished commands."""
    needed: set[str] = set()
    for path in folder.iterdir():
        is_recent = now - path.stat().st_mtime < RECENT_LOG_S
        if path.suffix == ".look" or (path.suffix == ".jsonl" and is_recent):
            needed.update(match.decode() for match in _HASH.findall(path.read_bytes()))
    return needed


def replace_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, atomically but not synced. Raises OSError."""
    temporary = path.with_suffix(f".{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)
