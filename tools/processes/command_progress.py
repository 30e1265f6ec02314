"""Report the output of a running command: to the user at a readable pace, to the model as new lines."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable

from tools.text import printable
from transcripts import DataTag, TextBlock, quoted
from transcripts.wording import pluralize

from .inbox import Inbox
from .output_text import from_first_character

_MAX_PROGRESS_BYTES = 8_192  # of new output shown at once while a command runs
MAX_LINE_NEWS_CHARS = 1_000  # of new lines of a command in one request, as in Claude Code's monitor


class ProgressThrottle:
    """Reports new output while a command runs, at a readable pace and no more than can be shown."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._new = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._timer: asyncio.TimerHandle | None = None

    def take(self, data: bytes) -> None:
        self._new += data
        if len(self._new) > _MAX_PROGRESS_BYTES:
            self._decoder.reset()
            self._new = from_first_character(self._new[-_MAX_PROGRESS_BYTES:])
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(0.1, self._flush)

    def _flush(self) -> None:
        self._timer = None
        text = self._decoder.decode(self._new)
        self._new = b""
        if text:
            self._show(text)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class LineNews:
    """Posts the new lines of a command under one key: the newest unreported ones and their number."""

    def __init__(self, inbox: Inbox, job: str, since: int) -> None:
        self._inbox = inbox
        self._job = job
        self._since = since
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""
        self._unreported: list[str] = []
        self._count = 0  # of the lines since the last report
        self._number = 0  # of the pending note

    def take(self, data: bytes) -> None:
        """Take output as it arrives, with secrets masked."""
        *lines, rest = (self._unfinished + self._decoder.decode(data)).split("\n")
        self._unfinished = rest[-100_000:]  # of a line without an end
        self._post(lines)

    def end(self) -> None:
        """Post the last line, which may not end with a newline, since the command has ended."""
        last = self._unfinished
        self._unfinished = ""
        self._post([last])

    def _post(self, lines: list[str]) -> None:
        shown = [line for line in (printable(line).strip() for line in lines) if line]
        if not shown:
            return
        if self._key not in self._inbox.waiting:  # separate keys, so that each note can be repeated
            self._unreported = []
            self._count = 0
            self._number = self._number + 1
        self._count += len(shown)
        self._unreported += (line[:300] for line in shown[-MAX_LINE_NEWS_CHARS:])
        while sum(len(line) + 1 for line in self._unreported) > MAX_LINE_NEWS_CHARS - len(self._head()):
            del self._unreported[0]
        note = quoted("\n".join([self._head(), *self._unreported]), DataTag.BACKGROUND_OUTPUT)
        self._inbox.post(TextBlock(note), self._key, self._since)

    @property
    def _key(self) -> str:
        return f"monitor {self._job} {self._number}"

    def _head(self) -> str:
        left_out = self._count - len(self._unreported)
        note = f", the first {left_out:,} omitted here" if left_out else ""
        return f"[{self._job} wrote {pluralize(self._count, 'new line')}{note}]"
