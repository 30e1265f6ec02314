"""A faulty line between a client and its server: one fault an attempt, chosen before it, then none.

It works on bytes, so that it serves every provider and breaks a response anywhere: in its head, in a chunk's
size, in an event.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from .raw_server import received

# 127.0.0.2 is this machine, too, but nothing that the program takes for a local address.
HOSTS = ("127.0.0.1", "127.0.0.2") if sys.platform == "linux" else ("127.0.0.1",)
Kind = Literal["cut", "reset", "refused", "status", "empty", "garbage", "corrupt", "trickle", "no answer"]


class LineFault(Struct, frozen=True):
    """One fault.

    cut        the response ends in order after `at` bytes of its body
    reset      the connection is reset after `at` bytes of the response, its head included
    refused    nothing listens
    status     an error response with `status`, and the header retry-after if `wait` is set
    empty      a response with status 200 and an empty body
    garbage    `noise` instead of a response
    corrupt    `noise`, which contains an invalid event, in the body behind `at` bytes, and the rest
    trickle    the response in pieces of `at` bytes
    no answer  the connection is closed before a response
    """

    kind: Kind
    at: int = 0
    status: int = 500
    wait: str = ""
    noise: bytes = b""


def random_faults(chance: random.Random, most: int) -> list[LineFault]:
    """Return up to `most` faults of any kind."""
    kinds: tuple[Kind, ...] = (
        "cut", "cut", "reset", "refused", "status", "status", "empty", "garbage", "corrupt", "trickle",
        "no answer",
    )  # fmt: skip
    return [
        LineFault(
            kind,
            at=chance.choice((chance.randrange(1, 60), chance.randrange(1, 3_000))),
            status=chance.choice((429, 500, 502, 503, 529)),
            wait=chance.choice(("", "", "1", "30", "120")),
            noise=b"%b\ndata: %x\n\n" % (chance.randbytes(chance.randrange(40)), chance.getrandbits(99)),
        )
        for kind in (chance.choice(kinds) for _ in range(chance.randrange(most + 1)))
    ]


class FaultyLine:
    """Listens at `url` for the server at `target`. `begin` sets the fault of the next attempt."""

    def __init__(self, target: str, host: str) -> None:
        self.target = (urlsplit(target).hostname, urlsplit(target).port)
        self.host = host
        self._faults: list[LineFault] = []
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server((host, 0))
        self.port = self._listener.getsockname()[1]
        self.used: list[LineFault] = []
        self._serve()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def break_next(self, faults: list[LineFault]) -> None:
        """Apply these faults to the next attempts, one to each."""
        self._faults = list(faults)
        self.advance()

    def advance(self) -> None:
        """Let the next attempt begin: take the listener away for one that is refused, and bring it back."""
        refuses = bool(self._faults) and self._faults[0].kind == "refused"
        if refuses:
            self.used.append(self._faults.pop(0))
            self._stop()
        elif self._listener.fileno() < 0:
            self._listener = socket.create_server((self.host, self.port))
            self._serve()

    def close(self) -> None:
        self._stop()

    def _stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)
        with contextlib.suppress(OSError), connection:
            while self._answer(connection):
                pass
        with self._lock:
            self._open.discard(connection)

    def _answer(self, connection: socket.socket) -> bool:
        """Answer one request; return whether the connection stays open."""
        head, body = received(connection)
        if not head:
            return False
        fault = self._faults.pop(0) if self._faults else None
        if fault is None:
            for piece in self._asked(head, body):
                connection.sendall(piece)
            return False
        self.used.append(fault)
        for piece in distorted(self._asked(head, body), fault):
            connection.sendall(piece)
        if fault.kind == "reset":  # closing without lingering sends RST
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(connection.detach())
        return False

    def _asked(self, head: bytes, body: bytes) -> Iterator[bytes]:
        """Yield the server's response in pieces."""
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        with socket.create_connection(self.target) as upstream:
            upstream.sendall(b"\r\n".join([*lines, b"connection: close", b"", b""]) + body)
            while piece := upstream.recv(1 << 16):
                yield piece


def distorted(answer: Iterator[bytes], fault: LineFault) -> Iterator[bytes]:
    """Yield a response with a fault in it. One that the server never sees is not asked for."""
    match fault.kind:
        case "no answer":
            return
        case "garbage":
            yield fault.noise
        case "empty":
            yield page("200 OK", b"")
        case "status":
            wait = [f"retry-after: {fault.wait}"] if fault.wait else []
            yield page(f"{fault.status} No", b'{"error":{"message":"not now"}}', *wait)
        case "reset":
            yield b"".join(answer)[: fault.at]
        case "trickle":
            whole = b"".join(answer)
            yield from (whole[at : at + fault.at] for at in range(0, len(whole), fault.at))
        case "cut":
            yield page("200 OK", unchunked(b"".join(answer))[: fault.at])
        case "corrupt":
            body = unchunked(b"".join(answer))
            yield page("200 OK", body[: fault.at] + fault.noise + body[fault.at :])


def page(status: str, body: bytes, *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", "content-type: text/event-stream", "connection: close", *headers, "", "")
    return "\r\n".join(lines).encode() + body


def unchunked(answer: bytes) -> bytes:
    """Return the body of a response with chunks."""
    rest = answer.partition(b"\r\n\r\n")[2]
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return body


@contextmanager
def faulty_line(target: str, host: str = "127.0.0.1") -> Iterator[FaultyLine]:
    """A line to the server at the URL `target`."""
    line = FaultyLine(target, host)
    try:
        yield line
    finally:
        line.close()
