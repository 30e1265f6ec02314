"""Keep the output of a command: bounded in memory, whole on disk up to a cap.

The beginning and the end stay in memory; what is longer than a result may be goes to a file as well. How
a text is made fit for the model or the screen is for clip.py and for those who ask.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from transcripts.facts import StoredOutput
from transcripts.masking import SecretMasks
from transcripts.stored_outputs import make_outputs_folder

from .stream_redactor import StreamRedactor

HEAD = 64 * 1024  # bytes kept of the beginning; a head of 4,000 characters is at most 16,000 of them
TAIL = (
    256 * 1024
)  # bytes kept of the end, up to twice as many for a moment; 26,000 characters and their colours
CAP = 50 * 1024 * 1024  # bytes on disk
NONE = SecretMasks()
IN_MEMORY = 128 * 1024  # bytes up to which there is no file before the end


class Spool:
    """What one command wrote: `total` bytes with `lines` line ends; `error` says why the file stopped."""

    def __init__(self, path: Path, *, cap: int = CAP, masks: SecretMasks = NONE) -> None:
        self.path, self.cap = path, cap
        self._veil = StreamRedactor(masks) if masks.values else None
        self.total = self.lines = self.written = 0
        self.error: str | None = None
        self._head, self._tail = bytearray(), bytearray()
        self._file: BinaryIO | None = None
        self._hash = hashlib.sha256()

    def feed(self, data: bytes) -> bool:
        """Take more output. False when the cap is reached: nothing after it is kept."""
        return self._take(self._veil.feed(data) if self._veil else data)

    def flush(self) -> None:
        """Take what was held back because a secret may have begun with it: for now nothing follows."""
        if self._veil:
            self._take(self._veil.rest())

    def _take(self, data: bytes) -> bool:
        room = self.cap - self.total
        data = data[:room]
        self.total += len(data)
        self.lines += data.count(b"\n")
        if len(self._head) < HEAD:
            self._head += data[: HEAD - len(self._head)]
        self._tail += data
        if self._file is not None:
            self._write(data)
        elif self.total > IN_MEMORY:
            self.keep()  # the tail still holds all of it, this piece too
        if len(self._tail) > 2 * TAIL:
            del self._tail[:-TAIL]
        return self.total < self.cap

    @property
    def whole(self) -> bool:
        """Whether `tail()` is everything."""
        return self.total == len(self._tail)

    def head(self) -> bytes:
        return bytes(self._head)

    def tail(self, size: int | None = None) -> bytes:
        """The last bytes that are still in memory, at most `size` of them."""
        return bytes(self._tail if size is None else self._tail[max(0, len(self._tail) - size) :])

    def since(self, position: int) -> tuple[bytes, int]:
        """What came after the byte at `position`, as far as memory has it, and how many bytes it has not."""
        wanted = self.total - position
        data = self.tail(wanted) if wanted else b""
        return data, wanted - len(data)

    def keep(self) -> None:
        """Have a file from now on, with all that came so far (call it while that is in memory)."""
        if self._file is not None or self.error is not None or not self.whole:
            return
        try:
            make_outputs_folder(self.path.parent)
            self._file = self._new_file()
        except OSError as error:
            self.error = f"{error.strerror or error}"
            return
        self._write(bytes(self._tail))

    def _new_file(self) -> BinaryIO:
        """A file that was not there: under our name, or the name with a number."""
        wanted = self.path
        for number in range(2, 1000):
            try:
                fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                return os.fdopen(fd, "wb", buffering=0)
            except FileExistsError:
                self.path = wanted.with_stem(f"{wanted.stem}-{number}")
        raise FileExistsError(17, "too many files of that name", str(wanted))

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
            self.error = f"{error.strerror or error}"
            self._file.close()
            self._file = None

    def stored(self, folder: Path) -> StoredOutput | None:
        """The file, named relative to the project's folder where it is below; None when there is none."""
        if not self.written:
            return None
        place = self.path.relative_to(folder) if self.path.is_relative_to(folder) else self.path
        return StoredOutput(str(place), self._hash.hexdigest(), self.written)

    def close(self) -> None:
        """Keep what is left and close the file; what comes later is kept in memory only."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def drop(self) -> None:
        """Remove the file: the result holds all of it."""
        self.close()
        if self.written:
            with suppress(OSError):
                self.path.unlink()
        self.written = 0
