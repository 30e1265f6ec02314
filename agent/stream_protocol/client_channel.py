"""The channel to the client: lines out, our requests and their answers, the state that it is told."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agent.ui import PipeWriter

from .client_frames import CancelRequest, ControlResponse
from .message_frames import fitting_line

MAX_INPUT_LINE_BYTES = 256 * 1024 * 1024  # images come within a line


class ClientRefused(Exception):
    """The client answered with an error, or is no longer there to answer."""


class ClientChannel:
    """One client. `tells_state` has it told when we run, wait for it, or are idle.

    Our requests wait until they are answered, however long that takes; it is told of a wait that ends early.
    """

    def __init__(self, out: PipeWriter, tells_state: bool) -> None:
        self._out = out
        self._tells_state = tells_state
        self._waiting: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._state = ""
        self._asking = 0  # questions to the person that are open
        self.session = ""  # the id that lines about the session carry
        self.closed = False  # the client will send nothing more

    def write(self, frame: Mapping[str, Any]) -> str:
        """Write a line at once; returns it as it was written."""
        return self._out.line(fitting_line(frame))

    async def ask(self, request: Mapping[str, Any], sent: list[str] | None = None) -> Mapping[str, Any]:
        """The client's answer to a request. Raises ClientRefused. The line that was sent goes into `sent`."""
        if self.closed:
            raise ClientRefused("the client has closed its side")
        ident = str(uuid.uuid4())
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[ident] = answer
        line = self.write({"type": "control_request", "request_id": ident, "request": request})
        if sent is not None:
            sent.append(line)
        try:
            return await answer
        except asyncio.CancelledError:
            self.write({"type": "control_cancel_request", "request_id": ident})
            raise
        finally:
            del self._waiting[ident]

    def settle(self, response: ControlResponse) -> None:
        """Take in an answer; one that nobody waits for is left out."""
        waiting = self._waiting.get(response.ident)
        if waiting is None or waiting.done():
            return
        if response.error is None:
            waiting.set_result(response.body)
        else:
            waiting.set_exception(ClientRefused(response.error))

    def withdraw(self, request: CancelRequest) -> None:
        """The client takes back what it was to answer."""
        self.settle(ControlResponse(request.ident, error="the client took it back"))

    def close(self) -> None:
        """The client sends nothing more: what waits for it fails."""
        self.closed = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ClientRefused("the client has closed its side"))

    def tell_state(self, state: str) -> None:
        """Tell the client that we are "running", "idle", or that it "requires_action"."""
        if self._tells_state and state != self._state:
            self._state = state
            told = {"type": "system", "subtype": "session_state_changed", "state": state}
            source = {"session_id": self.session, "uuid": str(uuid.uuid4()), "sdk_host_only": True}
            self.write({**told, **source})

    @contextmanager
    def action_required(self) -> Iterator[None]:
        """The client has to act for as long as this lasts."""
        self._asking += 1
        self.tell_state("requires_action")
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self.tell_state("running")


def start_reading(descriptor: int, deliver: Callable[[bytes | None], None]) -> None:
    """Deliver each line of a descriptor to the running loop, in order; None at the end.

    A thread of its own reads, which works for pipes, files and terminals, and holds up nothing at the end.
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
    """The lines of a descriptor; one that is too long is cut, which makes it invalid JSON."""
    pieces: list[bytes] = []
    size = 0
    while True:
        try:
            data = os.read(descriptor, 1 << 20)
        except OSError:  # it is closed, or no descriptor
            data = b""
        *ended, rest = data.split(b"\n")
        for line in ended:
            yield b"".join((*pieces, line))
            pieces = []
            size = 0
        if rest and size <= MAX_INPUT_LINE_BYTES:
            pieces.append(rest)
            size += len(rest)
        if not data:
            break
    if pieces:
        yield b"".join(pieces)
