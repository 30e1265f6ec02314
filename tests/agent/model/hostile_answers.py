"""The parts of a hostile server's answers: events, heads, pages, and endless streams.

An answer is bytes, or a function that talks to the client until that hangs up: nothing is large in memory.
"""

from __future__ import annotations

import json
import select
import socket
import zlib
from collections.abc import Callable
from typing import Any

from .raw_server import HEAD, Answer

PIECE = 1 << 20  # bytes that an endless answer sends at once
MEGABYTE = 1 << 20
# What a terminal obeys or hides: clipboard, title, colours, 8-bit introducers, questions that the terminal
# answers as if it were the keyboard, an order of letters that no one sees, a link, tags, NUL, erased lines.
ESCAPES = (
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]0;owned\x1b\\",
    "\x1b[2J\x1b[31m",
    "\x9b6n\x9d52;c;ZXZpbA==\x9c",
    "\x1bP$qm\x1b\\",
    "\x1b[6n\x1bc",
    "\u202egnp\u202c",
    "\u2066x\u2069",
    "\x1b]8;;http://evil.example\x1b\\x",
    "\U000e0041",
    "\x00\x08\x7f",
    "\rerased",
    "\u2028\u0085",
)
EVIL = "evil" + "".join(ESCAPES)


def event(kind: str, **fields: Any) -> bytes:
    """One event of a stream."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def start(**message: Any) -> bytes:
    return event("message_start", message={"model": "m", "usage": {"input_tokens": 1}, **message})


def begin(index: Any, **block: Any) -> bytes:
    """The beginning of a block, which is text unless `block` says something else."""
    return event("content_block_start", index=index, content_block=block or {"type": "text", "text": ""})


def delta(index: Any, kind: str, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def stop(index: Any) -> bytes:
    return event("content_block_stop", index=index)


def end(reason: Any = "end_turn", **usage: Any) -> bytes:
    told = event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 1, **usage})
    return told + event("message_stop")


def text(words: str = "hello") -> bytes:
    """A whole block of text."""
    return begin(0) + delta(0, "text_delta", text=words) + stop(0)


def call(ident: Any, name: Any, given: str, index: int = 0) -> bytes:
    """A whole call of a tool; `given` is its input as it comes."""
    pieces = (given[at : at + PIECE] for at in range(0, len(given), PIECE))
    deltas = b"".join(delta(index, "input_json_delta", partial_json=piece) for piece in pieces)
    return begin(index, type="tool_use", id=ident, name=name, input={}) + deltas + stop(index)


def whole(*events: bytes, head: bytes = HEAD, reason: Any = "end_turn") -> bytes:
    """A reply that ends as it should around these events."""
    return head + start() + b"".join(events) + end(reason)


def calling(*events: bytes) -> bytes:
    """A reply with calls."""
    return whole(*events, reason="tool_use")


def headed(*lines: str, status: str = "200 OK", kind: str = "text/event-stream") -> bytes:
    """The head of an answer, with more lines."""
    first = (f"HTTP/1.1 {status}", f"content-type: {kind}", "connection: close")
    return "\r\n".join([*first, *lines, "", ""]).encode("latin-1")


def page(status: str, body: bytes, *lines: str) -> bytes:
    """Return an answer that is not a stream."""
    return headed(*lines, status=status, kind="application/json") + body


def refusal(status: str, message: Any, *lines: str, kind: Any = "invalid_request_error") -> bytes:
    """An error of the service."""
    error = {"type": "error", "error": {"type": kind, "message": message}}
    return page(status, json.dumps(error).encode(), *lines)


def forever(begun: bytes, piece: bytes | Callable[[int], bytes]) -> Answer:
    """Sends `begun`, and then the piece (of its number) again and again until the client hangs up."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(begun)
        number = 0
        while callable(piece):
            connection.sendall(piece(number))
            number += 1
        many = piece * max(1, PIECE // len(piece))
        while True:
            connection.sendall(many)

    return answer


def drip(begun: bytes, piece: bytes) -> Answer:
    """Sends `begun`, and then the piece every 50 ms until the client hangs up."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(begun)
        while not select.select([connection], [], [], 0.05)[0]:
            connection.sendall(piece)

    return answer


def reset(begun: bytes) -> Answer:
    """Sends `begun` and resets the connection."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(begun)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")

    return answer


def packed(body: bytes, times: int = 1) -> bytes:
    """So many copies of the body, as gzip; made in bounded memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join([*(packer.compress(body) for _ in range(times)), packer.flush()])


def packed_nothing(layers: int) -> tuple[bytes, bytes]:
    """The beginning of a packed answer, and a piece to repeat: kilobytes that unpack to terabytes of nothing.

    The innermost layer is empty blocks of deflate, each layer around it packs one block, over and over.
    """
    prefix, block = _GZIP_START, b"\x00\x00\x00\xff\xff" * 4096
    for _ in range(layers - 1):
        packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        prefix = _GZIP_START + packer.compress(prefix) + packer.flush(zlib.Z_FULL_FLUSH)
        block = packer.compress(block * 64) + packer.flush(zlib.Z_FULL_FLUSH)
    return prefix, block


def empty_bomb(layers: int) -> Answer:
    """An endless answer of `packed_nothing`."""
    prefix, block = packed_nothing(layers)
    return forever(headed("content-encoding: " + ", ".join(["gzip"] * layers)) + prefix, block)


_GZIP_START = bytes.fromhex("1f8b08000000000000ff")
