"""The channel to the client: lines out, our requests and their answers, and the state of the session."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from agent.ui import PipeWriter

from .client_frames import CancelRequest, ControlResponse
from .message_frames import fitting_line


class ClientRefused(Exception):
    """The client answered with an error, or has closed the connection."""


class ClientAnswer(NamedTuple):
    """An answer of the client, and the request as it saw it: masked, and with long texts shortened."""

    body: Mapping[str, Any]
    seen: Mapping[str, Any]


class ClientChannel:
    """One client. With `tells_state` it is sent the state of the session: running, waiting for it, or idle.

    Our requests wait for their answers without a time limit; the client is notified if a wait is cancelled.
    """

    def __init__(self, out: PipeWriter, tells_state: bool) -> None:
        self._out = out
        self._tells_state = tells_state
        self._waiting: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._state = ""
        self._asking = 0  # open questions to the user
        self.session = ""  # the session id in lines about the session
        self.closed = False  # the client sends nothing more

    def write(self, frame: Mapping[str, Any]) -> str:
        """Write a line immediately, and return it as written."""
        return self._out.line(fitting_line(frame))

    async def ask(self, request: Mapping[str, Any]) -> ClientAnswer:
        """Send a request and return the client's answer. Raises ClientRefused."""
        if self.closed:
            raise ClientRefused("the client has closed the connection")
        ident = str(uuid.uuid4())
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[ident] = answer
        line = self.write({"type": "control_request", "request_id": ident, "request": request})
        try:
            return ClientAnswer(await answer, seen=json.loads(line)["request"])
        except asyncio.CancelledError:
            self.write({"type": "control_cancel_request", "request_id": ident})
            raise
        finally:
            del self._waiting[ident]

    def settle(self, response: ControlResponse) -> None:
        """Deliver an answer; one without a waiting request is ignored."""
        waiting = self._waiting.get(response.ident)
        if waiting is None or waiting.done():
            return
        if response.error is None:
            waiting.set_result(response.body)
        else:
            waiting.set_exception(ClientRefused(response.error))

    def withdraw(self, request: CancelRequest) -> None:
        """Cancel one of our requests, as the client asks."""
        self.settle(ControlResponse(request.ident, error="the client cancelled the request"))

    def close(self) -> None:
        """Fail all waiting requests, as the client sends nothing more."""
        self.closed = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ClientRefused("the client has closed the connection"))

    def send_state(self, state: str) -> None:
        """Send the client the state of the session: "running", "idle" or "requires_action"."""
        if self._tells_state and state != self._state:
            self._state = state
            frame = {"type": "system", "subtype": "session_state_changed", "state": state}
            source = {"session_id": self.session, "uuid": str(uuid.uuid4()), "sdk_host_only": True}
            self.write({**frame, **source})

    @contextmanager
    def action_required(self) -> Iterator[None]:
        """Report that the client has to act, for as long as the context lasts."""
        self._asking += 1
        self.send_state("requires_action")
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self.send_state("running")


def start_reading(descriptor: int, deliver: Callable[[bytes | None], None]) -> None:
    """Deliver each line of a descriptor to the running loop, in order; None at the end.

    A daemon thread reads, which works for pipes, files and terminals, and does not delay the exit.
    """
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in read_lines(descriptor):
            if not loop.is_closed():
                loop.call_soon_threadsafe(deliver, line)
        if not loop.is_closed():
            loop.call_soon_threadsafe(deliver, None)

    threading.Thread(target=read, name="makeroom-client", daemon=True).start()


def read_lines(descriptor: int) -> Iterator[bytes]:
    """Yield the lines of a descriptor; one that is too long is cut, which makes it invalid JSON."""
    pieces: list[bytes] = []
    size = 0
    while True:
        try:
            data = os.read(descriptor, 1 << 20)
        except OSError:  # closed or invalid
            data = b""
        *ended, rest = data.split(b"\n")
        for line in ended:
            yield b"".join((*pieces, line))
            pieces = []
            size = 0
        if rest and size <= 256 * 1024 * 1024:  # images are part of a line
            pieces.append(rest)
            size += len(rest)
        if not data:
            break
    if pieces:
        yield b"".join(pieces)
