"""A loopback server of the Responses API that plays prepared replies and is strict about what it accepts.

Its events have the names and fields of openai-python's types. It stores nothing: reasoning has to come back
as it was sent, before the item that it led to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, takewhile
from threading import Thread
from typing import Any

from msgspec import Struct, field

MODEL = "gpt-6.2-sol"
TOO_LONG = "Your input exceeds the context window of this model. Please adjust your input and try again."
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FIELDS = {
    "model", "stream", "store", "include", "prompt_cache_key", "max_output_tokens", "reasoning",
    "instructions", "tools", "input",
}  # fmt: skip
_EFFORTS = {"low", "medium", "high", "xhigh", "max"}
_ITEM_FIELDS = {
    "reasoning": {"type", "id", "summary", "encrypted_content"},
    "function_call": {"type", "call_id", "name", "arguments"},
    "function_call_output": {"type", "call_id", "output"},
}


class Said(Struct, frozen=True):
    """The words of the model; the arguments of a call are the raw text that is streamed.

    summary  the parts of the summary of its reasoning, shown if the request asks for it
    reasons  there is reasoning even without a summary
    stop     "", "max_output_tokens" or "content_filter"; the last call is then cut off
    refusal  the text refuses
    failure  (code, message) of the error with which the response fails
    """

    text: str = ""
    summary: tuple[str, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    reasons: bool = False
    stop: str = ""
    refusal: bool = False
    failure: tuple[str, str] | None = None


class Refusal(Struct, frozen=True):
    """An error answer instead of the next reply."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None
    kind: str = "invalid_request_error"


class ResponsesService:
    """The API without its transport: validate a body, charge the cache, make the items of a reply.

    account  the usage of each response, in the fields of the API
    given    encrypted reasoning by the id of its item
    """

    def __init__(self) -> None:
        self.account: list[dict[str, Any]] = []
        self.given: dict[str, str] = {}
        self._prompts: list[bytes] = []
        self._made = count(1)

    def violations(self, body: Mapping[str, Any]) -> Iterator[str]:
        """Yield everything that is wrong with a body, the first reason first."""
        for name in body.keys() - _FIELDS:
            yield f"Unknown parameter: '{name}'."
        yield from _head_violations(body)
        items = body.get("input") or [{"type": "reasoning"}]
        for number, item in enumerate(items):
            for fault in self._item_violations(item, items[number + 1 :]):
                yield f"input[{number}]: {fault}"
        yield from _pairing_violations(items)

    def _item_violations(self, item: Mapping[str, Any], later: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        kind = item.get("type", "message")
        if kind == "message":
            yield from _message_violations(item)
            return
        if set(item) != _ITEM_FIELDS.get(kind):
            yield f"invalid item {item}"
            return
        if kind == "function_call" and (
            not _NAME.fullmatch(item["name"]) or not json.loads(item["arguments"])
        ):
            yield "invalid function call"
        if kind == "function_call_output" and not _is_output(item["output"]):
            yield "invalid output"
        if kind == "reasoning":
            if self.given.get(item["id"]) != item["encrypted_content"]:
                yield f"The encrypted content {item['encrypted_content'][:9]}... could not be verified."
            led_to = next((each for each in later if each.get("type") != "reasoning"), {"role": "user"})
            if led_to.get("role") != "assistant" and led_to.get("type") != "function_call":
                yield f"Item '{item['id']}' of type 'reasoning' was provided without its required item."

    def usage(self, raw: bytes, output: int) -> dict[str, Any]:
        """Charge a prompt: its part that an earlier one had is read from the cache, the rest is written."""
        total = len(raw) // 4
        read = max((_shared(raw, earlier) // 4 for earlier in self._prompts), default=0)
        read = read // 128 * 128
        written = (total - read) // 128 * 128
        self._prompts.append(raw)
        usage = {
            "input_tokens": total,
            "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": total + output,
        }
        self.account.append(usage)
        return usage

    def items(self, reply: Said, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the finished items of a reply."""
        made = next(self._made)
        items: list[dict[str, Any]] = []
        if reply.summary or reply.reasons:
            parts = reply.summary if "summary" in body.get("reasoning", {}) else ()
            ident = f"rs_{made:04}"
            self.given[ident] = f"gAAAA{made:04}=="
            items.append(
                {
                    "id": ident,
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": text} for text in parts],
                    "encrypted_content": self.given[ident] if "include" in body else None,
                }
            )
        if reply.text:
            part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
            if reply.refusal:
                part = {"type": "refusal", "refusal": reply.text}
            phase = "commentary" if reply.calls else "final_answer"
            items.append(
                {
                    "id": f"msg_{made:04}",
                    "type": "message",
                    "status": "completed",
                    "content": [part],
                    "role": "assistant",
                    "phase": phase,
                }
            )
        for index, (name, arguments) in enumerate(reply.calls):
            items.append(
                {
                    "id": f"fc_{made:04}_{index}",
                    "type": "function_call",
                    "status": "completed",
                    "arguments": arguments,
                    "call_id": f"call_{name}_{made}_{index}",
                    "name": name,
                }
            )
        if reply.stop and items:
            items[-1] = {**items[-1], "status": "incomplete"}
        return items


class ResponsesServer(ResponsesService):
    """A context manager. Every body is in `bodies`; what was rejected for its form is in `refused`.

    rejected    fields that are refused, with a dot for nested ones, and the words for that
    responder   answers instead of `replies`, from the request's body
    """

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[Said | Refusal] = []
        self.responder: Callable[[Mapping[str, Any]], Said] | None = None
        self.rejected: dict[str, str] = {}
        self.window = 922_000
        self.bodies: list[bytes] = []
        self.refused: list[str] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Connection)
        self._http.daemon_threads = True
        self._http.owner = self  # type: ignore[attr-defined]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> ResponsesServer:
        Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def owner(self) -> ResponsesServer:
        found: ResponsesServer = self.server.owner  # type: ignore[attr-defined]
        return found

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            listed = [{"id": name, "object": "model", "owned_by": "system"} for name in (MODEL, "gpt-4.1")]
            self._send(200, {"object": "list", "data": listed})
        else:
            self._error(Refusal(404, f"Invalid URL (GET {self.path})"))

    def do_POST(self) -> None:
        owner = self.owner
        raw = self.rfile.read(int(self.headers["content-length"]))
        body = json.loads(raw)
        owner.bodies.append(raw)
        if self.path != "/v1/responses":
            self._error(Refusal(404, f"Invalid URL (POST {self.path})"))
        elif not (self.headers["authorization"] or "").startswith("Bearer "):
            self._error(Refusal(401, "You didn't provide an API key."))
        elif fault := next(owner.violations(body), ""):
            owner.refused.append(fault)
            code = "invalid_encrypted_content" if "could not be verified" in fault else None
            self._error(Refusal(400, fault, code=code))
        elif named := next((name for name in owner.rejected if _has(body, name)), ""):
            self._error(Refusal(400, owner.rejected[named]))
        elif len(raw) // 4 > owner.window:
            self._error(Refusal(400, TOO_LONG, code="context_length_exceeded"))
        else:
            reply = owner.responder(body) if owner.responder else owner.replies.pop(0)
            if isinstance(reply, Refusal):
                self._error(reply)
            else:
                self._stream(response_events(reply, owner.items(reply, body), owner.usage(raw, 7)))

    def _stream(self, pieces: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("x-request-id", "req_1")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _error(self, refusal: Refusal) -> None:
        error = {"message": refusal.message, "type": refusal.kind, "param": None, "code": refusal.code}
        self._send(refusal.status, {"error": error}, refusal.headers)

    def _send(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def response_events(
    reply: Said, items: Sequence[Mapping[str, Any]], usage: Mapping[str, Any]
) -> Iterator[bytes]:
    """Yield the events of a streamed response, with the service's names and fields."""
    numbers = count()

    def event(name: str, **fields: Any) -> bytes:
        payload = {"type": name, **fields, "sequence_number": next(numbers)}
        return b"event: %b\ndata: %b\n\n" % (name.encode(), json.dumps(payload).encode())

    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": MODEL,
        "output": [],
        "store": False,
        "usage": None,
    }
    yield event("response.created", response=response)
    yield event("response.in_progress", response=response)
    for index, item in enumerate(items):
        for name, fields in _item_events(item):
            yield event(name, **fields, output_index=index)
    if reply.failure is not None:
        code, message = reply.failure
        failed = {**response, "status": "failed", "error": {"code": code, "message": message}}
        yield event("response.failed", response=failed)
        return
    ended = {**response, "output": list(items), "usage": usage, "status": "completed"}
    if reply.stop:
        ended |= {"status": "incomplete", "incomplete_details": {"reason": reply.stop}}
        yield event("response.incomplete", response=ended)
        return
    yield event("response.completed", response=ended)


def spoken(reply: Said) -> Iterator[bytes]:
    """Yield the events of a reply to a request that nobody sent."""
    asked = {"include": [], "reasoning": {"summary": "auto"}}
    items = ResponsesService().items(reply, asked)
    return response_events(reply, items, {"input_tokens": 9, "output_tokens": 7})


def _item_events(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    ident = {"item_id": item["id"]}
    begun = {**item, "status": "in_progress"}
    match item["type"]:
        case "reasoning":
            yield "response.output_item.added", {"item": {**item, "summary": [], "encrypted_content": "gA"}}
            for number, part in enumerate(item["summary"]):
                where = {**ident, "summary_index": number}
                empty = {"type": "summary_text", "text": ""}
                yield "response.reasoning_summary_part.added", {**where, "part": empty}
                for piece in _pieces(part["text"]):
                    yield "response.reasoning_summary_text.delta", {**where, "delta": piece}
                yield "response.reasoning_summary_text.done", {**where, "text": part["text"]}
                yield "response.reasoning_summary_part.done", {**where, "part": part}
        case "message":
            (part,) = item["content"]
            kind = part["type"]
            text = part.get("text") or part["refusal"]
            where = {**ident, "content_index": 0}
            yield "response.output_item.added", {"item": {**begun, "content": []}}
            yield "response.content_part.added", {**where, "part": {**part, kind.removeprefix("output_"): ""}}
            for piece in _pieces(text):
                yield f"response.{kind}.delta", {**where, "delta": piece, "logprobs": []}
            yield f"response.{kind}.done", {**where, kind.removeprefix("output_"): text}
            yield "response.content_part.done", {**where, "part": part}
        case _:
            yield "response.output_item.added", {"item": {**begun, "arguments": ""}}
            for piece in _pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", {**ident, "delta": piece}
            yield "response.function_call_arguments.done", {**ident, "arguments": item["arguments"]}
    yield "response.output_item.done", {"item": item}


def _pieces(text: str) -> list[str]:
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def _shared(one: bytes, other: bytes) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _has(body: Mapping[str, Any], name: str) -> bool:
    outer, _, inner = name.partition(".")
    return outer in body and (not inner or inner in body[outer])


def _head_violations(body: Mapping[str, Any]) -> Iterator[str]:
    if body.get("stream") is not True or body.get("store") is not False:
        yield "stream and store must be set"
    if body.get("include", ["reasoning.encrypted_content"]) != ["reasoning.encrypted_content"]:
        yield "Invalid value: 'include'"
    if not isinstance(body.get("max_output_tokens"), int) or body["max_output_tokens"] < 16:
        yield "Invalid 'max_output_tokens'"
    if not isinstance(body.get("prompt_cache_key", ""), str) or len(body.get("prompt_cache_key", "")) > 64:
        yield "Invalid 'prompt_cache_key'"
    reasoning = body.get("reasoning", {"effort": "low"})
    if not reasoning or reasoning.keys() - {"effort", "summary"}:
        yield "Invalid 'reasoning'"
    elif reasoning.get("effort", "low") not in _EFFORTS or reasoning.get("summary", "auto") != "auto":
        yield "Invalid value in 'reasoning'"
    for tool in body.get("tools", []):
        if set(tool) != {"type", "name", "description", "parameters", "strict"}:
            yield f"Invalid tool: {tool}"
        elif tool["parameters"].get("type") != "object" or tool["strict"] is not False:
            yield f"Invalid schema for function '{tool['name']}'"


def _message_violations(item: Mapping[str, Any]) -> Iterator[str]:
    role = item.get("role")
    content = item.get("content")
    if role == "assistant":
        if item.keys() - {"role", "content", "phase"} or not isinstance(content, str) or not content:
            yield f"invalid message {item}"
        if item.get("phase", "commentary") not in ("commentary", "final_answer"):
            yield "Invalid value: 'phase'"
    elif role != "user" or item.keys() != {"role", "content"} or not _is_output(content) or not content:
        yield f"invalid message {item}"


def _is_output(content: Any) -> bool:
    if isinstance(content, str):
        return True
    return isinstance(content, list) and bool(content) and all(map(_is_part, content))


def _is_part(part: Mapping[str, Any]) -> bool:
    if part.get("type") == "input_text":
        return part.keys() == {"type", "text"} and bool(part["text"].strip())
    is_image = part.get("type") == "input_image" and part.keys() == {"type", "image_url"}
    return is_image and part["image_url"].startswith("data:image/")


def _pairing_violations(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each call has exactly one output, before the user says anything else; ids are used once."""
    open_calls: set[str] = set()
    seen: set[str] = set()
    for number, item in enumerate(items):
        match item.get("type"):
            case "function_call":
                if item["call_id"] in seen:
                    yield f"input[{number}]: the id of a call is used twice"
                open_calls.add(item["call_id"])
                seen.add(item["call_id"])
            case "function_call_output":
                if item["call_id"] not in open_calls:
                    yield f"No tool call found for function call output with call_id {item['call_id']}."
                open_calls.discard(item["call_id"])
            case None if item.get("role") == "user" and open_calls:
                yield f"No tool output found for function call {min(open_calls)}."
    if open_calls:
        yield f"No tool output found for function call {min(open_calls)}."
    if items[-1].get("type") != "function_call_output" and items[-1].get("role") != "user":
        yield "the last item must be the user's or an output"
