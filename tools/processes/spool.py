"""Store the output of a command: bounded in memory, complete on disk up to a limit, without our credentials.

The beginning and the end stay in memory. Output that is too long for a result also goes to a file.
tools/bash_result.py formats it for the model and the screen.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from transcripts import OutputsFolder, StoredOutput
from transcripts.secrets import SecretMasks, StreamRedactor
from transcripts.storage import read_pieces
from transcripts.wording import cause_of

MAX_OUTPUT_BYTES = 50 * 1024 * 1024  # of one command, which is ended if it writes more
MAX_UNFILED_BYTES = 128 * 1024  # without a file before the end
_HEAD_BYTES = 64 * 1024  # of the beginning, of which 4,000 characters (at most 16,000 bytes) are shown
_TAIL_BYTES = 256 * 1024  # of the end, temporarily up to twice as many: 25,000 characters and their colours


class Spool:
    """The output of one command: `total` bytes with `lines` newlines, `written` of them to the file `path`.

    `error` is the reason why there is no file, or why writing stopped. A number is added to the file's name
    if it is in use.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = MAX_OUTPUT_BYTES, masks: SecretMasks | None = None
    ) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.total = self.lines = self.written = 0
        self.error: str | None = None
        self._redactor = StreamRedactor(masks) if masks is not None else None
        self._head = bytearray()
        self._tail = bytearray()
        self._file: BinaryIO | None = None
        self._filed = False  # a file was made or is not wanted
        self._hash = hashlib.sha256()

    def feed(self, data: bytes) -> bool:
        """Take more output. Returns False at the limit, after which nothing is kept."""
        return self._take(self._redactor.feed(data) if self._redactor else data)

    def flush(self) -> None:
        """Take output that was held back since a secret may have begun in it, as nothing follows for now."""
        if self._redactor:
            self._take(self._redactor.flush())

    def _take(self, data: bytes) -> bool:
        data = data[: self.max_bytes - self.total]
        self.total += len(data)
        self.lines += data.count(b"\n")
        if len(self._head) < _HEAD_BYTES:
            self._head += data[: _HEAD_BYTES - len(self._head)]
        self._tail += data
        if self._file is not None:
            self._write(data)
        elif self.total > MAX_UNFILED_BYTES:
            self.keep()  # the tail still contains all of it
        if len(self._tail) > 2 * _TAIL_BYTES:
            del self._tail[:-_TAIL_BYTES]
        return self.total < self.max_bytes

    @property
    def whole(self) -> bool:
        """Return whether `tail()` is the whole output."""
        return self.total == len(self._tail)

    def head(self) -> bytes:
        return bytes(self._head)

    def tail(self, size: int | None = None) -> bytes:
        """Return the last bytes that are still in memory, at most `size`."""
        return bytes(self._tail if size is None else self._tail[max(0, len(self._tail) - size) :])

    def since(self, position: int) -> tuple[bytes, int]:
        """Return the output in memory after the byte at `position`, and the number of missing bytes."""
        wanted = self.total - position
        data = self.tail(wanted)
        return data, wanted - len(data)

    def keep(self) -> None:
        """Store the output in a file from now on, including all output so far, which is still in memory."""
        if self._filed:
            return
        self._filed = True
        try:
            self._file = self._create_file()
        except OSError as error:
            self.error = cause_of(error)
            return
        self._write(bytes(self._tail))

    def _create_file(self) -> BinaryIO:
        wanted = self.path
        number = 1
        with OutputsFolder(self.path.parent).opened() as folder:
            while True:
                try:
                    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                    return os.fdopen(os.open(folder / self.path.name, flags, 0o600), "wb", buffering=0)
                except FileExistsError:
                    number += 1
                    self.path = wanted.with_stem(f"{wanted.stem}-{number}")

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            while data:
                count = self._file.write(data)
                self._hash.update(data[:count])
                self.written += count
                data = data[count:]
        except OSError as error:
            self.error = cause_of(error)
            self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def stored(self, folder: Path) -> StoredOutput | None:
        """The file, named relative to the project's directory if it is below; None without a file."""
        if not self.written:
            return None
        path = self.path.relative_to(folder) if self.path.is_relative_to(folder) else self.path
        return StoredOutput(str(path), sha256=self._hash.hexdigest(), size=self.written)

    def close(self) -> None:
        """Take held back output and close the file. Later output is only kept in memory."""
        self._filed = True
        self.flush()
        with suppress(OSError):
            self._put_back()
        self._close_file()

    def _put_back(self) -> None:
        """Write the file again if the command removed or replaced it. Raises OSError."""
        removed = self._file
        if removed is None or self._is_in_place(removed):
            return
        self._file = self._create_file()
        size = self.written
        self.written = 0
        self._hash = hashlib.sha256()
        for piece in read_pieces(removed.fileno(), 0, size):
            self._write(piece)
        removed.close()

    def _is_in_place(self, file: BinaryIO) -> bool:
        with suppress(FileNotFoundError, NotADirectoryError):
            return os.path.samestat(self.path.lstat(), os.fstat(file.fileno()))
        return False

    def drop(self) -> None:
        """Remove the file, since the result contains all of it."""
        self.close()
        if self.written:
            with suppress(OSError):
                self.path.unlink()
        self.written = 0
