"""A server that judges nothing: reads each request to its end and answers one small call, as often as asked.

Prints its port; writes the time of every request to BENCH_TIMES. What is measured against it is the agent.
"""

import json
import os
import socket
import time
from pathlib import Path
from typing import Any


def reply(number: int, last: bool) -> bytes:
    use = {"type": "tool_use", "id": f"toolu_sink_{number}", "name": "bash", "input": {}}
    text = {"type": "text", "text": ""}
    command = json.dumps({"command": f"true {number}"})  # equal calls would end the turn
    delta = {"type": "input_json_delta", "partial_json": command}
    words = {"type": "text_delta", "text": "done"}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": text if last else use},
        {"type": "content_block_delta", "index": 0, "delta": words if last else delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn" if last else "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]
    body = b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def request(connection: socket.socket, buffer: bytearray) -> bool:
    """Read one request to its end; False when the other side is gone."""
    while (at := buffer.find(b"\r\n\r\n")) < 0:
        if not receive(connection, buffer):
            return False
    lines = bytes(buffer[:at]).lower().split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
    while len(buffer) < at + 4 + length:
        if not receive(connection, buffer):
            return False
    del buffer[: at + 4 + length]
    return True


def receive(connection: socket.socket, buffer: bytearray) -> bool:
    piece = connection.recv(1 << 20)
    buffer += piece
    return bool(piece)


def main() -> None:
    calls = int(os.environ["BENCH_CALLS"])
    times: list[float] = []
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    missing = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"
    while len(times) <= calls:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = bytearray()
        while receive(connection, buffer):
            get = buffer.startswith(b"GET")
            if not request(connection, buffer):
                break
            if get:
                connection.sendall(missing)
                continue
            times.append(time.monotonic())
            connection.sendall(reply(len(times), len(times) > calls))
            if len(times) > calls:
                Path(os.environ["BENCH_TIMES"]).write_text("\n".join(map(str, times)))
                break


main()
