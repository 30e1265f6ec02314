"""One HTTP connection of the strict server: from bytes to a validated request, from a message to bytes."""

import contextlib
import json
import os
import re
import socket
import socketserver
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock
from typing import Any, NoReturn, Protocol

from .endpoint import AdmittedRequest, Endpoint
from .errors import ApiError, error_body
from .event_stream import events, whole
from .faults import (
    COUNTING,
    MESSAGES,
    MODELS,
    Fault,
    Faults,
    Hangup,
    alter_reply,
    distort_stream,
    error_answer,
)
from .models import MODELS as TABLE
from .models import describe_model
from .reply import Body, Reply, Responder
from .request_checks import MAX_BODY_BYTES, header_violations

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class ConnectionOwner(Protocol):
    """The server as its connections see it."""

    endpoint: Endpoint
    faults: Faults
    responder: Responder
    closing: Event
    delay: float
    other_betas: frozenset[str]

    def record(self, body: Any, headers: dict[str, str]) -> None:
        """Record that a request for a message has arrived."""

    def refuse(self, message: str) -> None:
        """Record that a request was rejected for what it is."""


class Listener(ThreadingHTTPServer):
    """Accepts without polling, and keeps its open connections so that it can end them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int, connection: type["Connection"], owner: ConnectionOwner) -> None:
        self.owner = owner
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        super().__init__(("127.0.0.1", port), connection)

    def server_bind(self) -> None:
        """Bind without the look-up of the host name that HTTPServer makes."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]

    def serve(self) -> None:
        """Accept until the owner closes."""
        while not self.owner.closing.is_set():
            self.handle_request()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may leave at any time; that is not an error."""

    def stop(self) -> None:
        """Wake the accepting thread, then shut the connections down; their threads close the sockets."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.server_port), 1):
            pass
        self.server_close()
        with self._lock:
            for request in self._open:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)


class Connection(BaseHTTPRequestHandler):
    """Answers the requests of one client, one after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Listener

    def do_GET(self) -> None:
        self._guarded(self._get)

    def do_POST(self) -> None:
        self._guarded(self._post)

    def do_HEAD(self) -> None:
        self._send(200, {}, b"")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def _guarded(self, answer: Any) -> None:
        try:
            answer()
        except ApiError as refused:
            body = error_body(refused.kind, refused.message, "req_offline")
            self._send(refused.status, {}, body)
        except Hangup as hangup:
            self._hang_up(hangup.reset)
        except OSError:
            self.close_connection = True

    def _get(self) -> None:
        path = self.path.partition("?")[0]
        self._authorized()
        if not path.startswith(MODELS):
            raise ApiError(404, f"Not found: {path}")
        if self._struck(self.server.owner.faults.take(path, {})):
            return
        endpoint = self.server.owner.endpoint
        if path == MODELS:
            found = [describe_model(endpoint.model(name)) for name in TABLE]
            page = {"data": found, "has_more": False, "first_id": found[0]["id"], "last_id": found[-1]["id"]}
            self._send(200, {}, page)
        else:
            self._send(200, {}, describe_model(endpoint.model(path.removeprefix(f"{MODELS}/"))))

    def _post(self) -> None:
        path = self.path.partition("?")[0]
        raw = self._received()
        if path not in (MESSAGES, COUNTING):
            raise ApiError(404, f"Not found: {path}")
        owner, counting = self.server.owner, path == COUNTING
        try:
            body, admitted = self._admitted(raw, counting)
        except ApiError as refused:
            owner.refuse(refused.message)
            raise
        fault = owner.faults.take(path, body)
        if self._struck(fault):
            return
        if counting:
            self._send(200, {}, {"input_tokens": admitted.prefix.tokens})
            return
        reply = self._asked(body)
        message = owner.endpoint.message(admitted, alter_reply(reply, fault) if fault else reply)
        self._answer(_usage_faulted(message, fault), fault, bool(body.get("stream")))

    def _admitted(self, raw: bytes, counting: bool) -> tuple[Body, AdmittedRequest]:
        """The validated body; recorded in any case. Raises ApiError."""
        body: Any = None
        try:
            self._authorized()
            body = _decoded(raw)
        finally:
            if not counting:
                headers = {name.lower(): value for name, value in self.headers.items()}
                self.server.owner.record(body, headers)
        return body, self.server.owner.endpoint.admit(body, self._betas(), counting)

    def _asked(self, body: Body) -> Reply:
        """The responder's reply. What it raises reaches the client as an error 500, and ends this thread."""
        reply = None
        try:
            reply = self.server.owner.responder(body)
            return reply
        finally:
            if reply is None:
                error = sys.exception()
                said = f"the responder failed: {type(error).__name__}: {error}"
                self.server.owner.refuse(said)
                self._send(500, {}, error_body("api_error", said, "req_offline"))

    def _answer(self, message: Mapping[str, Any], fault: Fault | None, streamed: bool) -> None:
        chunks: Iterable[bytes] = events(message) if streamed else [whole(message)]
        if fault is not None:
            if fault.at is None and fault.kind in ("reset", "drop"):
                raise Hangup(reset=fault.kind == "reset")
            if fault.at is None and fault.kind == "stall":
                fault.release.wait()
            else:
                chunks = distort_stream(chunks, fault)
        self.send_response(200)
        self.send_header(
            "content-type", "text/event-stream; charset=utf-8" if streamed else "application/json"
        )
        self.send_header("request-id", "req_offline")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in self._paced(chunks):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def _paced(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        owner = self.server.owner
        for chunk in chunks:
            if owner.delay and chunk.startswith(b"event: content_block_delta"):
                owner.closing.wait(owner.delay)
            yield chunk

    def _struck(self, fault: Fault | None) -> bool:
        """Return whether the fault is an error answer, which is then sent."""
        answer = error_answer(fault) if fault is not None else None
        if answer is None:
            return False
        self._send(*answer)
        return True

    def _send(self, status: int, headers: Mapping[str, str], body: bytes | Mapping[str, Any]) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode("ascii")
        self.send_response(status)
        for name, value in {
            "content-type": "application/json",
            "request-id": "req_offline",
            **headers,
        }.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _received(self) -> bytes:
        """The request's body. Raises ApiError, or ConnectionError where the client left before its end."""
        length = int(self.headers.get("content-length") or -1)
        if length < 0:
            self.close_connection = True
            raise ApiError(411, "content-length is required")
        if length > MAX_BODY_BYTES:
            for _ in range(length >> 16):
                self.rfile.read(1 << 16)
            self.rfile.read(length & 0xFFFF)
            self.server.owner.refuse("Request exceeds the maximum size")
            raise ApiError(413, "Request exceeds the maximum size")
        raw = self.rfile.read(length)
        if len(raw) < length:  # not a whole request, so nothing to reject
            raise ConnectionError(f"the client left after {len(raw)} of {length} bytes")
        return raw

    def _authorized(self) -> None:
        bearer = (self.headers.get("authorization") or "").removeprefix("Bearer").strip()
        if not bearer and not (self.headers.get("x-api-key") or "").strip():
            raise ApiError(401, "x-api-key header is required")
        betas = self._betas() - self.server.owner.other_betas
        for fault in header_violations(self.headers.get("anthropic-version") or "", betas):
            raise ApiError(400, fault)

    def _betas(self) -> frozenset[str]:
        values = self.headers.get_all("anthropic-beta") or []
        return frozenset(beta.strip() for value in values for beta in value.split(",") if beta.strip())

    def _hang_up(self, reset: bool) -> None:
        self.close_connection = True
        if reset:  # closing without lingering sends RST, if it is not preceded by a shutdown
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())


def _decoded(raw: bytes) -> Any:
    """The body of a request. Raises ApiError (400) for anything but strict JSON in UTF-8."""
    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
        if _SURROGATE.search(raw):
            json.dumps(body, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"The request body is not valid JSON: {error}") from error
    return body


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _usage_faulted(message: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
    kind = fault.kind if fault is not None else ""
    if kind == "no_usage":
        return {name: value for name, value in message.items() if name != "usage"}
    if kind == "bare_usage":
        return {
            **message,
            "usage": {name: message["usage"][name] for name in ("input_tokens", "output_tokens")},
        }
    return message
