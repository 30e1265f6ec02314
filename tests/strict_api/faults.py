"""Inject faults: what a network, a gateway or a model can do wrong, for the next requests of a server.

Three sorts: error answers (`error_answer`), unusual replies (`alter_reply`), and broken streams
(`distort_stream`). Every wait ends when the fault's `release` is set, so no test has to sleep.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Event, Lock
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from .errors import TYPES, error_body
from .event_stream import PING, event
from .reply import RAW_JSON, Block, Body, Reply, calls, says

MESSAGES = "/v1/messages"
COUNTING = "/v1/messages/count_tokens"
MODELS = "/v1/models"


class Fault(Struct, frozen=True, eq=False):
    """One fault.

    at      bytes of the body before it takes effect (events, for sse_error and garbage); None: at once
    times   how many requests it hits; None: all
    when    hits only requests whose body it accepts
    body    of a status: the whole answer, as another server words it
    text    the message, the field (rejects), the type of the error (sse_error) or the raw tool input
    """

    kind: str
    at: int | None = None
    times: int | None = 1
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    html: bool = False
    body: bytes | None = None
    when: Callable[[Body], bool] | None = None
    path: str | None = None
    release: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no fault {self.kind!r}; there are: {', '.join(sorted(KINDS))}")


class Hangup(Exception):
    """End the connection: reset it, or close it before the end of the body."""

    def __init__(self, reset: bool) -> None:
        super().__init__("reset" if reset else "closed")
        self.reset = reset


class Faults:
    """The queued faults; each request takes the first that fits it."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Fault, int | None]] = []
        self._added: list[Fault] = []
        self._lock = Lock()

    def add(self, *faults: Fault) -> None:
        """Queue faults behind those that are queued."""
        with self._lock:
            self._added.extend(faults)
            self._waiting.extend((fault, fault.times) for fault in faults)

    def clear(self) -> None:
        """Drop all queued faults, and release requests that are held."""
        self.release()
        with self._lock:
            self._waiting.clear()

    def release(self) -> None:
        """End every present and future stall of the faults added so far."""
        for fault in self._added:
            fault.release.set()

    def take(self, path: str, body: Body) -> Fault | None:
        """The fault for this request, if any; one use of it is consumed."""
        with self._lock:
            for place, (fault, left) in enumerate(self._waiting):
                if not _fits(fault, path, body):
                    continue
                if left is not None and left <= 1:
                    del self._waiting[place]
                else:
                    self._waiting[place] = (fault, None if left is None else left - 1)
                return fault
        return None


def _fits(fault: Fault, path: str, body: Body) -> bool:
    wanted = fault.path or {"no_models": MODELS, "no_count_tokens": COUNTING}.get(fault.kind, MESSAGES)
    if path != wanted and not (wanted == MODELS and path.startswith(MODELS)):
        return False
    if fault.kind == "rejects" and not _mentions(body, fault.text or "thinking"):
        return False
    return fault.when is None or fault.when(body)


def _mentions(value: Any, name: str) -> bool:
    """Return whether the request has a field of that name, outside of tool inputs."""
    if isinstance(value, list):
        return any(_mentions(part, name) for part in value)
    if not isinstance(value, dict):
        return False
    return name in value or any(_mentions(part, name) for key, part in value.items() if key != "input")


def error_answer(fault: Fault) -> tuple[int, Mapping[str, str], bytes | dict[str, Any]] | None:
    """Status, headers and body of a fault that is an error answer; None for the other sorts."""
    if fault.kind == "rejects":
        name = fault.text or "thinking"
        return 400, {}, error_body(TYPES[400], f"{name}: Extra inputs are not permitted", None)
    if fault.kind in ("no_models", "no_count_tokens"):
        return 404, {}, error_body(TYPES[404], "Not Found", None)
    if fault.kind == "html":
        return 200, {"content-type": "text/html"}, _PAGE.replace(b"Bad gateway", b"Sign in to this network")
    if fault.kind == "empty":
        return 200, {"content-type": "text/event-stream"}, b""
    if fault.kind != "status":
        return None
    if fault.body is not None:
        return fault.status, fault.headers, fault.body
    if fault.html:
        return fault.status, {"content-type": "text/html", **fault.headers}, _PAGE
    kind = TYPES.get(fault.status, "api_error")
    return fault.status, fault.headers, error_body(kind, fault.text or _WORDS.get(fault.status, kind), None)


_PAGE = b"<html>\n<head><title>Bad gateway</title></head>\n<body><h1>Bad gateway</h1></body>\n</html>\n"
_WORDS = {
    400: "invalid request",
    401: "invalid x-api-key",
    402: "Your credit balance is too low",
    429: "This request would exceed your account's rate limit. Please try again later.",
    529: "Overloaded",
}


def alter_reply(reply: Reply, fault: Fault) -> Reply:
    """The reply as a misbehaving model would give it; unchanged for faults of another sort."""
    change = _ODDITIES.get(fault.kind)
    return reply if change is None else change(reply, fault)


def _with_call(reply: Reply, make: Callable[[Block], list[Block]]) -> Reply:
    """The reply with its first call replaced; one is added where there is none."""
    blocks = list(reply.blocks)
    place = next((at for at, block in enumerate(blocks) if block.get("type") == "tool_use"), None)
    if place is None:
        place = len(blocks)
        blocks.append(calls("bash", command="true"))
    return replace(reply, blocks=[*blocks[:place], *make(dict(blocks[place])), *blocks[place + 1 :]])


def _raw(reply: Reply, raw: str, stop: str | None = None) -> Reply:
    found = _with_call(reply, lambda call: [{**call, RAW_JSON: raw}])
    return replace(found, stop_reason=stop or found.stop_reason)


def _twice(call: Block) -> list[Block]:
    call["id"] = "toolu_twice"
    return [call, dict(call)]


def _ends(stop: str, *blocks: Block) -> Callable[[Reply, Fault], Reply]:
    return lambda reply, fault: replace(reply, blocks=list(blocks), stop_reason=stop)


def _refuse(reply: Reply, fault: Fault) -> Reply:
    details = {"type": "refusal", "category": "cyber", "explanation": fault.text}
    return replace(reply, blocks=[says("I cannot")], stop_reason="refusal", stop_details=details)


_PART = '{"file_path": "a.txt", "content": "hel'
_ODDITIES: dict[str, Callable[[Reply, Fault], Reply]] = {
    "bad_tool_json": lambda reply, fault: _raw(reply, fault.text or '{"command": ls'),
    "tool_input_not_object": lambda reply, fault: _raw(reply, fault.text or '["ls"]'),
    "max_tokens_tool": lambda reply, fault: _raw(reply, fault.text or _PART, "max_tokens"),
    "duplicate_tool_ids": lambda reply, fault: _with_call(reply, _twice),
    "tool_use_end_turn": lambda reply, fault: replace(
        _with_call(reply, lambda call: [call]), stop_reason="end_turn"
    ),
    "bad_tool_name": lambda reply, fault: _with_call(reply, lambda call: [{**call, "name": "no such/tool"}]),
    "bad_tool_id": lambda reply, fault: _with_call(reply, lambda call: [{**call, "id": "call:1.a/b"}]),
    "empty_content": _ends("end_turn"),
    "whitespace_text": _ends("end_turn", says(" \n")),
    "tool_use_without_block": _ends("tool_use", says("I will call a tool.")),
    "max_tokens_text": _ends("max_tokens", says("This sentence is cut in the")),
    "window_exceeded": _ends("model_context_window_exceeded", says("This sentence is cut in the")),
    "pause_turn": _ends("pause_turn", says("I pause here.")),
    "lone_surrogate": _ends("end_turn", says("half of a pair: \ud83d.")),
    "unknown_block": lambda reply, fault: replace(
        reply, blocks=[{"type": "mystery", "content": "?"}, *reply.blocks]
    ),
    "refusal": _refuse,
}


def distort_stream(chunks: Iterable[bytes], fault: Fault) -> Iterator[bytes]:
    """The stream with the fault in it. Raises Hangup where the connection is to break."""
    change = _DISTORTIONS.get(fault.kind)
    return iter(chunks) if change is None else change(iter(chunks), fault)


def _cut_at(chunks: Iterator[bytes], fault: Fault) -> Iterator[bytes]:
    """The stream up to byte `at`, then what the kind says. A shorter stream stays whole."""
    left = fault.at or 0
    for chunk in chunks:
        if len(chunk) < left:
            left -= len(chunk)
            yield chunk
            continue
        if left:
            yield chunk[:left]
        if fault.kind == "truncate":
            return
        if fault.kind != "stall":
            raise Hangup(reset=fault.kind == "reset")
        fault.release.wait()
        if len(chunk) > left:
            yield chunk[left:]
        yield from chunks
        return


def _pings(chunks: Iterator[bytes], fault: Fault) -> Iterator[bytes]:
    yield next(chunks)
    while not fault.release.wait(0.01):
        yield PING
    yield from chunks


def _bytewise(chunks: Iterator[bytes], fault: Fault) -> Iterator[bytes]:
    for chunk in chunks:
        for at in range(len(chunk)):
            yield chunk[at : at + 1]


def _split_utf8(chunks: Iterator[bytes], fault: Fault) -> Iterator[bytes]:
    for chunk in chunks:
        yield from re.findall(rb"[\x00-\x7f]+|[\x80-\xff]", chunk)


def _inserted(chunks: Iterator[bytes], fault: Fault) -> Iterator[bytes]:
    """Insert foreign bytes after event number `at`; an `error` event ends the stream."""
    for number, chunk in enumerate(chunks, 1):
        yield chunk
        if number != (fault.at or 3):
            continue
        if fault.kind == "garbage":
            yield b"event: content_block_delta\ndata: {not json\n\n"
        elif fault.kind == "unknown_event":
            yield event("mystery", {"type": "mystery", "content": "?"})
        else:
            kind = fault.text or "overloaded_error"
            yield event("error", error_body(kind, "Overloaded", None))
            return


def _without_stop(chunks: Iterator[bytes], fault: Fault) -> Iterator[bytes]:
    return (chunk for chunk in chunks if not chunk.startswith(b"event: message_stop"))


_DISTORTIONS: dict[str, Callable[[Iterator[bytes], Fault], Iterator[bytes]]] = {
    "reset": _cut_at,
    "drop": _cut_at,
    "truncate": _cut_at,
    "stall": _cut_at,
    "pings": _pings,
    "bytewise": _bytewise,
    "split_utf8": _split_utf8,
    "garbage": _inserted,
    "unknown_event": _inserted,
    "sse_error": _inserted,
    "no_message_stop": _without_stop,
}

KINDS = frozenset(
    {"status", "rejects", "no_models", "no_count_tokens", "html", "empty", "no_usage", "bare_usage"}
    | _ODDITIES.keys()
    | _DISTORTIONS.keys()
)


def parse_fault(text: str) -> Fault:
    """A fault from the command line: KIND[:N[:ARG]], where KIND may be a status (`429`, `502html`).

    N is how often, 0 for always. ARG is a retry-after for a status, a text for `rejects`, else the byte `at`.
    """
    kind, times, arg = [*text.split(":", 2), "", ""][:3]
    count = None if times == "0" else int(times or 1)
    digits = re.fullmatch(r"(\d{3})(html)?", kind)
    if digits:
        headers = {"retry-after": arg} if arg else {}
        return Fault("status", times=count, status=int(digits[1]), html=bool(digits[2]), headers=headers)
    if arg.isdigit():
        return Fault(kind, times=count, at=int(arg))
    return Fault(kind, times=count, text=arg or None)
