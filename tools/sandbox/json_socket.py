"""JSON messages over a socket pair, and descriptors with them, within the event loop."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

_CLOSE_ON_EXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)  # Darwin has no such flag


class JsonSocket:
    """One end of a socket pair: JSON messages, and descriptors with them, without ever blocking.

    `received` is called with every message, `closed` once. Belongs to the running event loop. `fds` contains
    the descriptors received with messages until they are taken.
    """

    def __init__(
        self, end: socket.socket, received: Callable[[Any], None], closed: Callable[[], None]
    ) -> None:
        self._socket = end
        self._received = received
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._outbox: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._inbox = b""
        self.fds: deque[int] = deque()
        end.setblocking(False)
        self._loop.add_reader(end, self._receive)

    @property
    def open(self) -> bool:
        return self._socket.fileno() >= 0

    def send(self, message: Mapping[str, Any], *fds: int) -> None:
        """Send a message as soon as the socket accepts it. `fds` are sent with it, and closed here."""
        self._outbox.append((json.dumps(message).encode() + b"\n", fds))
        self._send_outbox()

    def close(self) -> None:
        """Close the socket. Unsent messages are dropped."""
        if not self.open:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for fd in (*(fd for _, fds in self._outbox for fd in fds), *self.fds):
            os.close(fd)
        self._outbox.clear()
        self.fds.clear()
        self._closed()

    def _send_outbox(self) -> None:
        try:
            while self._outbox:
                data, fds = self._outbox[0]
                sent = socket.send_fds(self._socket, [data], fds) if fds else self._socket.send(data)
                for fd in fds:
                    os.close(fd)
                self._outbox[0] = (data[sent:], ())
                if sent == len(data):
                    self._outbox.popleft()
            self._loop.remove_writer(self._socket)
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._send_outbox)
        except OSError:
            self.close()

    def _receive(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, 1 << 16, 16, _CLOSE_ON_EXEC)
            self.fds += fds
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
        *lines, rest = (self._inbox + data).split(b"\n")
        self._inbox = rest
        for line in lines:
            self._received(json.loads(line))
