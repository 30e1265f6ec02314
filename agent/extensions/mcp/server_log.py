"""A log of a server's standard error, of bounded size."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from transcripts.secrets import SecretMasks, StreamRedactor
from transcripts.storage import make_private_folders

MAX_SERVER_LOG_BYTES = 1024 * 1024
MAX_TOLD_LINE_CHARS = 300
_NPM_ERROR = ("npm error ", "npm ERR! ")


class ServerLog:
    """The newest part of a server's standard error, in a file.

    `masks` are its own secrets, which may be split between the pieces that it writes; `mask` hides others.

    last  the newest line; of npm's report of an error, the one with the address that failed
    """

    def __init__(self, path: Path, masks: SecretMasks, mask: Callable[[str], str]) -> None:
        self.path = path
        self._redactor = StreamRedactor(masks)
        self._mask = mask
        self.last = ""

    def take(self, data: bytes) -> None:
        """Append to the log. Errors such as a full disk are ignored."""
        self._write(self._redactor.feed(data))

    def end(self) -> None:
        """Append the end of a line that is not complete."""
        self._write(self._redactor.flush())

    def _write(self, data: bytes) -> None:
        text = self._mask(data.decode("utf-8", "replace"))
        for line in filter(None, map(str.strip, text.splitlines())):
            if not (line.startswith(_NPM_ERROR) and (_is_npm_reason(self.last) or "complete log" in line)):
                self.last = line[:MAX_TOLD_LINE_CHARS]
        with suppress(OSError):
            make_private_folders(self.path.parent)
            self._append(text.encode()[-MAX_SERVER_LOG_BYTES:])

    def _append(self, data: bytes) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self.path, flags, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size + len(data) > MAX_SERVER_LOG_BYTES:
                keep = max(0, MAX_SERVER_LOG_BYTES // 2 - len(data))
                data = (os.pread(fd, keep, max(0, size - keep)) if keep else b"") + data
                os.ftruncate(fd, 0)
            os.write(fd, data)
        finally:
            os.close(fd)


def _is_npm_reason(line: str) -> bool:
    """Return whether a line gives npm's reason; general advice and the path of a log follow it."""
    return line.startswith(_NPM_ERROR) and "://" in line
