"""Carry JSON messages, and descriptors with them, over a socket to another process without ever blocking."""

from __future__ import annotations

import array
import asyncio
import json
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any


class JsonSocket:
    """One end of a socket pair within an event loop. `hear` gets every message, `ended` is told once.

    A message is JSON after four bytes of its length, big-endian.
    """

    def __init__(self, end: socket.socket, hear: Callable[[Any], None], ended: Callable[[], None]) -> None:
        self._socket, self._hear, self._ended = end, hear, ended
        self._loop = asyncio.get_running_loop()
        self._outbox: deque[tuple[bytes, int | None]] = deque()
        self._inbox = bytearray()
        end.setblocking(False)
        self._loop.add_reader(end, self._receive)

    @property
    def open(self) -> bool:
        return self._socket.fileno() >= 0

    def tell(self, message: Mapping[str, Any], fd: int | None = None) -> None:
        """Send a message as soon as the socket takes it; `fd` goes with it and is closed here."""
        data = json.dumps(message).encode()
        self._outbox.append((len(data).to_bytes(4, "big") + data, fd))
        self._send()

    def close(self) -> None:
        """Hang up; what was not sent is not sent."""
        if not self.open:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, fd in self._outbox:
            if fd is not None:
                os.close(fd)
        self._outbox.clear()
        self._ended()

    def _send(self) -> None:
        """Send what can be sent now; the rest when the socket takes more."""
        try:
            while self._outbox:
                data, fd = self._outbox[0]
                rights = (
                    [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
                )
                sent = self._socket.sendmsg([data], rights)
                if fd is not None:
                    os.close(fd)
                self._outbox[0] = (data[sent:], None)
                if sent == len(data):
                    self._outbox.popleft()
            self._loop.remove_writer(self._socket)
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._send)
        except OSError:
            self.close()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
        self._inbox += data
        while len(self._inbox) >= 4:
            size = int.from_bytes(self._inbox[:4], "big")
            if len(self._inbox) < 4 + size:
                return
            message = json.loads(self._inbox[4 : 4 + size])
            del self._inbox[: 4 + size]
            self._hear(message)
