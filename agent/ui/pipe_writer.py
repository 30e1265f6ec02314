"""Write whole lines to a pipe or a file: UTF-8 in any locale, at once, quiet when the reader is gone."""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable
from typing import TextIO

from transcripts.messages import replace_surrogates


class PipeWriter:
    """One stream. `gone` tells that its reader went away; `on_gone` is then called, once.

    Lines end in LF alone, and each goes out in one piece before `line` returns, however slow the reader.
    """

    def __init__(self, stream: TextIO, on_gone: Callable[[], None] = lambda: None) -> None:
        self._stream = stream
        self._on_gone = on_gone
        self._fd = _descriptor(stream)
        self.gone = False

    def line(self, text: str) -> None:
        """Write the text and a newline."""
        if self.gone:
            return
        try:
            self._push(replace_surrogates(text) + "\n")
        except (BrokenPipeError, ConnectionResetError):
            self.gone = True
            self._silence()
            self._on_gone()

    def _push(self, text: str) -> None:
        if self._fd is None:
            self._stream.write(text)
            self._stream.flush()
            return
        rest = memoryview(text.encode("utf-8"))
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # somebody made the shared descriptor non-blocking
                select.select([], [self._fd], [])

    def _silence(self) -> None:
        """Let what others still write there vanish, so that the interpreter's last flush says nothing."""
        if self._fd is not None:
            void = os.open(os.devnull, os.O_WRONLY)
            os.dup2(void, self._fd)
            os.close(void)


def _descriptor(stream: TextIO) -> int | None:
    try:
        stream.flush()
        return stream.fileno()
    except (OSError, ValueError, io.UnsupportedOperation):
        return None
