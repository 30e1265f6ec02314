"""A server of raw bytes, for answers that no server of ours would give."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from threading import Thread

Answer = bytes | Callable[..., None]  # of the connection, and of the request's body if it takes that
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def sse(*events: tuple[str, str]) -> bytes:
    """An answer that is a stream of (event, data)."""
    return HEAD + b"".join(f"event: {name}\ndata: {data}\n\n".encode() for name, data in events)


@contextmanager
def raw(*answers: Answer, pem: Path | None = None, asked: list[bytes] | None = None) -> Iterator[str]:
    """The base URL of a server that gives one answer a connection, the last one for ever after.

    `asked` gets the heads of the requests.
    """
    heads = [] if asked is None else asked
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=_serve, args=(listener, list(answers), pem, heads), daemon=True).start()
        scheme = "https" if pem else "http"
        yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, answers: list[Answer], pem: Path | None, asked: list[bytes]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        Thread(target=_answer, args=(connection, answer, pem, asked), daemon=True).start()


def _answer(connection: socket.socket, answer: Answer, pem: Path | None, asked: list[bytes]) -> None:
    with contextlib.suppress(OSError), connection:
        if pem is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pem)
            connection = context.wrap_socket(connection, server_side=True)
        head, body = received(connection)
        asked.append(head)
        if callable(answer):
            answer(connection, body) if len(signature(answer).parameters) > 1 else answer(connection)
        else:
            connection.sendall(answer)


def received(connection: socket.socket) -> tuple[bytes, bytes]:
    """Read one request to its end; its head and its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: *(\d+)", head, re.I)
    length = int(found[1]) if found else 0
    while len(body) < length and (more := connection.recv(1 << 16)):
        body += more
    return head, body
