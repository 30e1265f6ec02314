"""File contents, each stored once under its SHA-256 hash, in a directory of limited size."""

from __future__ import annotations

import hashlib
import os
import zlib
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from tools.files import FileError, load_file
from transcripts.storage import replace_file

from .held_files import HeldFiles
from .large_contents import LargeContents
from .store_folder import make_store_folder, prune


class ContentStore(Struct):
    """Compressed contents below `folder`, at most `max_bytes` in total; those of large files are beside it.

    `full` is True if something could not be stored. The methods block on the disk and raise no OSError.
    """

    folder: Path
    max_bytes: int
    max_large_bytes: int = 2 << 30
    full: bool = False
    _used_bytes: int | None = None  # None until the directory has been made and measured
    _large: LargeContents | None = None
    _held: HeldFiles | None = None

    @property
    def large(self) -> LargeContents:
        """The contents that are too large to be held in memory."""
        if self._large is None:
            self._large = LargeContents(self.folder.with_name("large"), max_bytes=self.max_large_bytes)
        return self._large

    @property
    def held(self) -> HeldFiles:
        """The links to files that are not stored."""
        if self._held is None:
            self._held = HeldFiles(self.folder.with_name("held"))
        return self._held

    def put(self, content: bytes) -> str:
        """Store contents. Returns their hash, or "" if the store is full or the disk fails."""
        digest = hashlib.sha256(content).hexdigest()
        path = self._path(digest)
        if os.access(path, os.F_OK) and self._read(path, len(content)) == content:
            with suppress(OSError):
                os.utime(path, follow_symlinks=False)  # the new time keeps it from being pruned
            return digest
        packed = zlib.compress(content, 1)
        self.measure()
        if self._used_bytes is None:
            return ""
        if self._used_bytes + len(packed) <= self.max_bytes:
            with suppress(OSError):
                _store(path, packed)
                self._used_bytes += len(packed)
                return digest
        self.full = True
        return ""

    def measure(self) -> None:
        """Make the directory, and remove unneeded contents if it is too large. Done once, unless it fails."""
        if self._used_bytes is None and make_store_folder(self.folder):
            with suppress(OSError):
                self._used_bytes = prune(self.folder, self.max_bytes // 2)
            self.large.measure()
            self.held.prune()

    def get(self, digest: str) -> bytes | None:
        """Return contents by their hash; None if they are missing, damaged or too large for memory."""
        content = self._read(self._path(digest), 128 << 20)  # a file of 16 MB, or a reflog
        if content is None or hashlib.sha256(content).hexdigest() != digest:
            return self.large.read(digest)
        return content

    def _read(self, path: str, max_bytes: int) -> bytes | None:
        """Return stored contents, whose hash may be wrong; None without at most `max_bytes` of them.

        A checkout may contain a store whose files are links, contents of other hashes, or expand endlessly.
        """
        try:
            packed = load_file(path).data
            reading = zlib.decompressobj()
            content = reading.decompress(packed, max_bytes + 1)
        except (OSError, FileError, zlib.error):
            return None
        return content if reading.eof and len(content) <= max_bytes else None

    def __contains__(self, digest: str) -> bool:
        return os.access(self._path(digest), os.F_OK) or digest in self.large

    def digests(self) -> set[str]:
        """Return the hashes of all stored contents."""
        found: set[str] = set()
        for store in (self.folder, self.large.folder):
            for folder, _, names in os.walk(store):
                found.update(map((folder[-2:]).__add__, names))
        return found

    def _path(self, digest: str) -> str:
        return f"{self.folder}/{digest[:2]}/{digest[2:]}"  # a Path would take a tenth of the time of a scan


def _store(path: str, data: bytes) -> None:
    """Write contents, and make their directory if it is missing. Raises OSError."""
    try:
        replace_file(path, data, durable=False)
    except FileNotFoundError:
        Path(path).parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(path, data, durable=False)
