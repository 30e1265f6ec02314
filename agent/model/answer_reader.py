"""Read an answer of the server in bounded memory and time, whatever it sends: a stream of events, or a page.

All limits are on what an answer unpacks to. The SDK's own reader joins an event's lines again at each line
and keeps comments, which a hostile server can use to fill time and memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from agent.errors import RequestRejected

log = logging.getLogger(__name__)
MAX_REPLY_BYTES = 64 * 1024 * 1024  # of a stream; each word of a long reply comes with 100 bytes around it
MAX_EVENT_BYTES = 6 * 1024 * 1024  # of one event: the largest tool input, escaped once more
MAX_ANSWER_BYTES = 64 * 1024  # of what is no stream: error pages, facts about a model
ANSWER_TIMEOUT_S = 5.0  # for reading that, once it has begun
_SLICE_BYTES = 64 * 1024  # that are taken apart before other work, such as a signal, has its turn
_BEGINNING_BYTES = 1_000  # kept to quote from an answer that is no stream of events


class AnswerRefused(Exception):
    """An answer with a status that is no success. `body` is the beginning of what came with it."""

    def __init__(self, status: int, body: str, headers: Any) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body
        self.headers = headers


async def refuse_failures(faults: type[Exception], response: Any) -> None:
    """Raise AnswerRefused for an answer that is no success: a hook on each answer of the HTTP client.

    Redirects are among them: they would take the key, other secret headers and the prompt along. `faults`
    are the exceptions of that client.
    """
    if not response.is_success:
        raise AnswerRefused(response.status_code, await beginning(response, faults), response.headers)


async def beginning(response: Any, faults: type[Exception]) -> str:
    """The first MAX_ANSWER_BYTES of an answer as text, or what came of them. The answer is closed."""
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            async for piece in response.aiter_bytes():
                pieces.append(piece)
                size += len(piece)
                if size >= MAX_ANSWER_BYTES:
                    break
    except (TimeoutError, faults):  # what came by then says enough
        log.info("an answer was not read to its end", exc_info=True)
    finally:
        await response.aclose()
    return b"".join(pieces)[:MAX_ANSWER_BYTES].decode("utf-8", "replace")


@dataclass(slots=True)
class EventStream:
    """The server-sent events in the pieces of an answer. `beginning` is how the answer began."""

    pieces: AsyncIterator[bytes]
    beginning: bytes = b""
    _line: list[bytes] = field(default_factory=list)  # the pieces of a line that has not ended
    _name: str = ""
    _data: list[str] = field(default_factory=list)
    _held: int = 0  # bytes of the event that has not ended
    _after_return: bool = False

    async def events(self) -> AsyncIterator[tuple[str, str]]:
        """(name, data) of each event. Raises RequestRejected for too large ones, UnicodeDecodeError."""
        total = 0
        async for piece in self.pieces:
            total += len(piece)
            if total > MAX_REPLY_BYTES:
                raise RequestRejected(_too_much("its answer", MAX_REPLY_BYTES))
            if len(self.beginning) < _BEGINNING_BYTES:
                self.beginning += piece[:_BEGINNING_BYTES]
            for at in range(0, len(piece), _SLICE_BYTES):
                for event in self._take(piece[at : at + _SLICE_BYTES]):
                    yield event
                await asyncio.sleep(0)
        for event in self._take(b"\n\n"):  # an event that the end of the answer ends
            yield event

    def _take(self, piece: bytes) -> Iterator[tuple[str, str]]:
        """The events that a piece completes."""
        self._held += len(piece)
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_return = piece.endswith(b"\r")
        for part in piece.splitlines(keepends=True):
            self._line.append(part)
            if part.endswith((b"\n", b"\r")):
                line = b"".join(self._line).rstrip(b"\r\n")
                self._line.clear()
                if line:
                    self._take_line(line)
                    continue
                self._held = 0
                if self._data or self._name:
                    yield self._name, "\n".join(self._data)
                    self._name, self._data = "", []
        if self._held > MAX_EVENT_BYTES:
            raise RequestRejected(_too_much("an event of it", MAX_EVENT_BYTES))

    def _take_line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8"))
        elif name == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8")
        elif line.startswith(b"{"):  # a gateway that has an error to tell when the stream has begun
            self._data.append(line.decode("utf-8"))


async def whole_json(stream: EventStream) -> AsyncIterator[tuple[str, str]]:
    """One event ("", data) of an answer that is one JSON text. Raises like `EventStream.events`."""
    pieces, size = [], 0
    async for piece in stream.pieces:
        pieces.append(piece)
        size += len(piece)
        if size > MAX_EVENT_BYTES:
            raise RequestRejected(_too_much("its answer", MAX_EVENT_BYTES))
    stream.beginning = b"".join(pieces)
    yield "", stream.beginning.decode("utf-8")


def _too_much(what: str, limit: int) -> str:
    size = f"{limit // (1024 * 1024)} MB"
    return f"the server sends more than any model writes: {what} is over {size}; check ANTHROPIC_BASE_URL"
