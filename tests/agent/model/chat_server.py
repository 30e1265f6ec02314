"""A loopback chat-completions server that plays prepared replies and is strict about what it accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from threading import Thread
from typing import Any

from msgspec import Struct, field

MODEL = "chat-test"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FIELDS = {
    "model",
    "messages",
    "max_completion_tokens",
    "max_tokens",
    "stream",
    "stream_options",
    "tools",
    "reasoning_effort",
}
_MESSAGE_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "reasoning_content", "reasoning"},
    "tool": {"role", "content", "tool_call_id"},
}


class ChatReply(Struct, frozen=True):
    """The words of the model; arguments of a call are the raw text that is streamed."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish: str = ""
    reasoning_field: str = "reasoning_content"


class Failure(Struct, frozen=True):
    """An error answer instead of the next reply; `body` is one in the words of another server."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


class ChatServer:
    """A context manager. Every body stands in `bodies`, what was rejected for what it is in `refused`.

    rejected_fields  fields that are refused by name, as by servers that do not know them
    responder        answers instead of `replies`, from the request's body
    wants_reasoning  as some models do: each call has to come back with its reasoning
    about            what the list of models says of the one that there is, beside its id
    other_models     ids that the list has, too
    answers          bodies of other paths that are asked for
    """

    def __init__(self) -> None:
        self.replies: list[ChatReply | Failure] = []
        self.responder: Callable[[Mapping[str, Any]], ChatReply] | None = None
        self.rejected_fields: set[str] = set()
        self.window = 128_000
        self.wants_reasoning = False
        self.about: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        self.other_models: list[str] = []
        self.said: set[str] = set()  # reasoning that was given
        self.bodies: list[bytes] = []
        self.refused: list[str] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Connection)
        self._http.daemon_threads = True
        self._http.chat = self  # type: ignore[attr-defined]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> ChatServer:
        Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def cached_tokens(self, body: bytes) -> int:
        """Return the part of a prompt that the newest one before it also had."""
        before = self.bodies[-1] if self.bodies else b""
        return (
            sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, body, strict=False))) // 4
        )


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def chat(self) -> ChatServer:
        found: ChatServer = self.server.chat  # type: ignore[attr-defined]
        return found

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            listed = [{"id": MODEL, "object": "model", **self.chat.about}]
            listed += [{"id": id, "object": "model"} for id in self.chat.other_models]
            self._send(200, {"object": "list", "data": listed})
        elif self.path in self.chat.answers:
            self._send(200, self.chat.answers[self.path])
        else:
            self._error(404, f"The model `{self.path.rsplit('/', 1)[-1]}` does not exist")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        body, cached = json.loads(raw), self.chat.cached_tokens(raw)
        self.chat.bodies.append(raw)
        if not (self.headers["authorization"] or "").startswith("Bearer "):
            self._error(401, "You didn't provide an API key")
            return
        if fault := next(_violations(body), "") or next(self._reasoning_violations(body), ""):
            self.chat.refused.append(fault)
            self._error(400, fault)
            return
        if self.chat.wants_reasoning and (at := _first_without_reasoning(body)) is not None:
            told = (
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index"
            )
            self._error(400, f"{told} {at}")
            return
        for name in self.chat.rejected_fields & body.keys():
            self._error(400, f"Unrecognized request argument supplied: {name}")
            return
        if len(raw) // 4 > self.chat.window:
            told = f"maximum context length is {self.chat.window} tokens. However, your messages resulted in"
            self._error(400, f"This model's {told} {len(raw) // 4} tokens.")
            return
        reply = self.chat.responder(body) if self.chat.responder else self.chat.replies.pop(0)
        if isinstance(reply, Failure) and reply.body:
            self._send(reply.status, json.loads(reply.body), reply.headers)
            return
        if isinstance(reply, Failure):
            self._error(reply.status, reply.message, reply.headers)
            return
        self.chat.said.add(reply.reasoning)
        usage = {"prompt_tokens": len(raw) // 4, "completion_tokens": 7}
        self._stream(chunks(reply, {**usage, "prompt_tokens_details": {"cached_tokens": cached}}))

    def _reasoning_violations(self, body: Mapping[str, Any]) -> Iterator[str]:
        """Reasoning comes back unchanged, or blank."""
        for number, message in enumerate(body.get("messages") or ()):
            for name in ("reasoning_content", "reasoning"):
                if name in message and message[name] not in (*self.chat.said, " "):
                    yield f"messages.{number}: {name} was never given"

    def _stream(self, pieces: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _error(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, {"error": {"message": message, "type": "error"}}, headers or {})

    def _send(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def chunks(reply: ChatReply, usage: Mapping[str, Any]) -> Iterator[bytes]:
    """The events of a streamed reply: texts in pieces, each call by index, the usage at the end."""
    for piece in _pieces(reply.reasoning):
        yield _chunk({reply.reasoning_field: piece})
    for piece in _pieces(reply.text):
        yield _chunk({"content": piece})
    for index, (name, arguments) in enumerate(reply.calls):
        first = {
            "id": f"call_{name}_{index}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        yield _chunk({"tool_calls": [{"index": index, **first}]})
        for piece in _pieces(arguments):
            yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk({}, reply.finish or ("tool_calls" if reply.calls else "stop"))
    yield _event({"id": "chat_1", "model": MODEL, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _first_without_reasoning(body: Mapping[str, Any]) -> int | None:
    calling = (at for at, message in enumerate(body["messages"]) if message.get("tool_calls"))
    return next((at for at in calling if not body["messages"][at].get("reasoning_content")), None)


def _pieces(text: str) -> list[str]:
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def _chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event({"id": "chat_1", "model": MODEL, "choices": [choice], "usage": None})


def _event(payload: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def _violations(body: Mapping[str, Any]) -> Iterator[str]:
    """Everything that is wrong with a body, the first reason first."""
    for name in body.keys() - _FIELDS:
        yield f"Unrecognized request argument supplied: {name}"
    if body.get("model") != MODEL or body.get("stream") is not True:
        yield "model and stream are required"
    if len({"max_tokens", "max_completion_tokens"} & body.keys()) != 1:
        yield "one of max_tokens and max_completion_tokens is required"
    for tool in body.get("tools", []):
        function = tool.get("function", {})
        if tool.keys() != {"type", "function"} or function.keys() != {"name", "description", "parameters"}:
            yield f"Invalid tool: {tool}"
        elif not _NAME.fullmatch(function["name"]) or function["parameters"].get("type") != "object":
            yield f"Invalid function: {function}"
    messages = body.get("messages") or [{"role": "assistant"}]
    if messages[-1]["role"] not in ("user", "tool"):
        yield "the last message must be the user's or a result"
    for number, message in enumerate(messages):
        yield from (f"messages.{number}: {fault}" for fault in _message_violations(message))
    yield from _pairing_violations(messages)


def _message_violations(message: Mapping[str, Any]) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    if role not in _MESSAGE_FIELDS:
        yield f"'{role}' is not one of {sorted(_MESSAGE_FIELDS)}"
        return
    for name in message.keys() - _MESSAGE_FIELDS[role]:
        yield f"unknown field {name}"
    if role == "user" and isinstance(content, list) and content:
        yield from (f"invalid part {part}" for part in content if not _is_part(part))
    elif not (isinstance(content, str) and (content or role == "tool")) and not message.get("tool_calls"):
        yield "content must be a text that is not empty"
    for call in message.get("tool_calls", []):
        function = call.get("function", {})
        if call.keys() != {"id", "type", "function"} or call["type"] != "function":
            yield f"invalid call {call}"
        elif function.keys() != {"name", "arguments"} or not isinstance(function["arguments"], str):
            yield f"invalid function {function}"


def _is_part(part: Mapping[str, Any]) -> bool:
    if part.get("type") == "text":
        return part.keys() == {"type", "text"} and bool(part["text"].strip())
    url = part.get("image_url", {}).get("url", "")
    return (
        part.get("type") == "image_url" and part.keys() == {"type", "image_url"} and url.startswith("data:")
    )


def _pairing_violations(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Each call has exactly one result, before anything else is said; ids are used once."""
    open_calls: set[str] = set()
    seen: set[str] = set()
    for number, message in enumerate(messages):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_calls:
                yield f"messages.{number}: no call before it has the id {message.get('tool_call_id')}"
            open_calls.discard(message.get("tool_call_id", ""))
            continue
        if open_calls:
            yield f"messages.{number}: calls without a result: {sorted(open_calls)}"
        if message.get("role") == "system" and number and messages[number - 1].get("role") != "system":
            yield f"messages.{number}: a system message must come first"
        calls = [call["id"] for call in message.get("tool_calls", [])]
        if len({*calls}) < len(calls) or seen & {*calls}:
            yield f"messages.{number}: ids of calls must be unique"
        open_calls = {*calls}
        seen |= open_calls
