"""Read a server's response, a stream of events or a page, in bounded memory and time.

All limits apply to the decompressed response. The SDK's own reader joins an event's lines again at each line
and keeps comments, with which a hostile server could use up time and memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from agent.errors import RequestRejected, TransientError
from tools.web import CODINGS, Unpacker
from transcripts import ToolUseBlock, Usage, check_shape, replace_surrogates
from transcripts.secrets import mask

from .error_mapping import ended_early, invalid_response, quote, unreadable

if TYPE_CHECKING:
    from http.cookiejar import CookieJar

    from agent.model_port import IncomingReply

log = logging.getLogger(__name__)
MAX_REPLY_BYTES = 64 * 1024 * 1024  # of a stream; each word of a long reply has 100 bytes around it
MAX_EVENT_BYTES = 6 * 1024 * 1024  # of one event: the largest tool input, escaped twice
MAX_ANSWER_BYTES = 64 * 1024  # of a response without a stream: error pages, facts about a model
STALL_TIMEOUT_S = 90.0  # without a byte: the API sends pings, so the connection is dead
LOCAL_STALL_TIMEOUT_S = 600.0  # a model on this machine may think that long before its first byte
SILENCE_TIMEOUT_S = 600.0  # pings without content: thinking that is not sent takes minutes at most
# More than any model writes: 128,000 tokens are half a million characters. These limits bound the work of
# every later step (transcript, token count, screen).
MAX_BLOCKS = 2_000  # of a reply
MAX_REPLY_CHARS = 4 * 1024 * 1024  # of all its blocks, with unparsed inputs of tool calls
MAX_CALL_NAME_CHARS = 200  # of a tool's name or id; the API takes 128 and 64
MAX_USAGE_TOKENS = 10**9  # of one figure of usage
_SLICE_BYTES = 64 * 1024  # parsed at once, before other work such as a signal
_BEGINNING_BYTES = 1_000  # kept to quote from a response that is not a stream of events


class AnswerRefused(Exception):
    """A response with an error status. `body` is the beginning of its body."""

    def __init__(self, status: int, body: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body
        self.headers = headers


def proxy_for(url: str) -> str:
    """Return the URL of the HTTP client's proxy for a URL, without its password; "" for none."""
    from urllib.request import getproxies, proxy_bypass  # 10 ms; the client has loaded it

    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return ""
    named = getproxies()
    proxy = mask(named.get(parts.scheme) or named.get("all") or "")
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


@contextmanager
def proxies_of(http: Any) -> Iterator[None]:
    """Turn the error of an HTTP client that is made with an unusable proxy into a RequestRejected.

    `http` is the client's module, which reads the proxies from the environment.
    """
    try:
        yield
    except (http.InvalidURL, ValueError, ImportError) as error:
        is_socks = isinstance(error, ImportError)
        why = "a SOCKS proxy requires the package socksio" if is_socks else mask(str(error)).rstrip(".")
        raise RequestRejected(
            f"cannot use the proxy of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY: {why} (correct the variable)"
        ) from error


async def refuse_failures(http: Any, response: Any) -> None:
    """Raise AnswerRefused for a response with an error status. A hook on each response of the HTTP client.

    This includes redirects, which would send the key, other secret headers and the prompt elsewhere. `http`
    is the client's module. Raises TransientError for a response with a compression that was not requested.
    If it is compressed more than once, decompressing some kilobytes could take hours, during which no signal
    is handled.
    """
    coding = response.headers.get("content-encoding", "").strip().lower()
    if "," in coding:
        raise invalid_response("the response is compressed more than once, which was not requested")
    if coding in ("br", "zstd", "compress"):  # other words, such as utf-8, come with plain text
        odd = f"the response is compressed with {coding!r}, which was not requested"
        if response.is_success:
            raise invalid_response(odd)
        raise AnswerRefused(response.status_code, odd, response.headers)
    if coding in CODINGS:
        del response.headers["content-encoding"]  # otherwise the client decompresses it, too
        response.stream = _unpacked(http, response.stream, Unpacker(coding))
    if not response.is_success:
        raise AnswerRefused(response.status_code, await beginning(response, http.HTTPError), response.headers)


def _unpacked(http: Any, body: Any, unpacker: Unpacker) -> Any:
    """Return a decompressed stream of the body. The client itself reads only one member of gzip."""

    class UnpackedBody(http.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for data in body:
                try:
                    for piece in unpacker.pieces(data):
                        yield piece
                except zlib.error as error:
                    raise http.DecodingError(str(error)) from error

        async def aclose(self) -> None:
            await body.aclose()

    return UnpackedBody()


ANSWER_TIMEOUT_S = 5.0  # for reading a response without a stream, once it has begun


async def beginning(response: Any, faults: type[Exception]) -> str:
    """Return up to the first MAX_ANSWER_BYTES of a response as text, and close it."""
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            async for piece in response.aiter_bytes():
                pieces.append(piece)
                size += len(piece)
                if size >= MAX_ANSWER_BYTES:
                    break
    except (TimeoutError, faults):  # the part received is enough
        log.info("a response was not read to its end", exc_info=True)
    finally:
        await response.aclose()
    return b"".join(pieces)[:MAX_ANSWER_BYTES].decode("utf-8", "replace")


class EventStream(Struct):
    """The server-sent events in the pieces of a response. `beginning` is its first part, for quoting."""

    pieces: AsyncIterator[bytes]
    beginning: bytes = b""
    _line: list[bytes] = field(default_factory=list)  # the pieces of a line that has not ended
    _name: str = ""
    _data: list[str] = field(default_factory=list)
    _held: int = 0  # bytes of the event that has not ended
    _after_return: bool = False

    async def events(self) -> AsyncIterator[tuple[str, str]]:
        """Yield (name, data) of each event. Raises RequestRejected if it is too large, UnicodeDecodeError."""
        taken = 0
        async for piece in bounded(self.pieces):
            taken += 1
            if len(self.beginning) < _BEGINNING_BYTES:
                self.beginning += piece[:_BEGINNING_BYTES]
            for at in range(0, len(piece), _SLICE_BYTES):
                for event in self._take(piece[at : at + _SLICE_BYTES]):
                    yield event
                if at or taken % 16 == 0:  # waiting for a piece lets other work run, also if all have arrived
                    await asyncio.sleep(0)
        for event in self._rest():
            yield event

    def _rest(self) -> Iterator[tuple[str, str]]:
        """Yield the event that ends with the response instead of a blank line, if it is complete.

        Some servers omit the last line, but an event is also cut off where a connection breaks.
        """
        try:
            rest = [*self._take(b"\n\n")]
        except UnicodeDecodeError:
            log.info("the response ended in the middle of a character")
            return
        for name, data in rest:
            if data.strip() == "[DONE]" or _is_json(data):
                yield name, data

    def _take(self, piece: bytes) -> Iterator[tuple[str, str]]:
        """Yield the events that a piece completes."""
        self._held += len(piece)
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_return = piece.endswith(b"\r")
        for part in piece.splitlines(keepends=True):
            self._line.append(part)
            if part.endswith((b"\n", b"\r")):
                line = b"".join(self._line).rstrip(b"\r\n")
                self._line.clear()
                if line:
                    self._take_line(line)
                    continue
                self._held = 0
                if self._data or self._name:
                    yield self._name, "\n".join(self._data)
                    self._name = ""
                    self._data = []
        if self._held > MAX_EVENT_BYTES:
            raise RequestRejected(_too_much("one event", MAX_EVENT_BYTES))

    def _take_line(self, line: bytes) -> None:
        line = line.removeprefix(BOM_UTF8)  # which some proxies put before any text
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8"))
        elif name == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8")
        elif line.startswith(b"{"):  # an error of a gateway after the stream has begun
            self._data.append(line.decode("utf-8"))


async def bounded(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a response. Raises RequestRejected if they exceed MAX_REPLY_BYTES."""
    total = 0
    async for piece in pieces:
        total += len(piece)
        if total > MAX_REPLY_BYTES:
            raise RequestRejected(_too_much("it", MAX_REPLY_BYTES))
        yield piece


async def whole_json(stream: EventStream) -> AsyncIterator[tuple[str, str]]:
    """Yield one event ("", data) for a response that is one JSON text. Raises like `EventStream.events`."""
    pieces = []
    size = 0
    async for piece in stream.pieces:
        pieces.append(piece)
        size += len(piece)
        if size > MAX_EVENT_BYTES:
            raise RequestRejected(_too_much("it", MAX_EVENT_BYTES))
    stream.beginning = b"".join(pieces)
    text = stream.beginning.decode("utf-8-sig", "ignore").strip()
    if text.startswith("{") and not text.endswith("}"):
        raise ended_early()
    yield "", stream.beginning.decode("utf-8-sig")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def no_reply(stream: EventStream, content: str) -> TransientError:
    """Return the error for a response with the content type `content` that ended before a reply began."""
    received = stream.beginning.decode("utf-8", "replace")
    if not received.strip() or content.startswith("text/event-stream"):
        return ended_early()
    return invalid_response(
        f"expected a reply, but got {quote(content, 60)} (captive portal or proxy?): {quote(received)}"
    )


def _too_much(what: str, limit: int) -> str:
    size = f"{limit // (1024 * 1024)} MB"
    return f"the response is too large for a reply: {what} exceeds {size}. Check ANTHROPIC_BASE_URL."


async def drain(events: AsyncIterator[Any], faults: tuple[type[Exception], ...]) -> None:
    """Read to the end after a complete reply, so that the connection can be used for the next request."""
    try:
        async with asyncio.timeout(0.2):
            async for _ in events:
                pass
    except faults:  # the reply is already complete
        log.info("the connection did not end properly", exc_info=True)


def parse_event(name: str, data: str) -> Mapping[str, Any]:
    """Return the object of an event, with type "" if it has none. Raises TransientError for anything else."""
    if name == "error":  # llama.cpp's data has neither this type nor a field "error"
        return {"type": "error"}
    if name == "ping" or not data:
        return {"type": "ping"}
    try:
        event = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise unreadable(error, data) from error
    if isinstance(event, dict) and event.get("error"):
        return {**event, "type": "error"}  # gateways and local servers send no type
    if not isinstance(event, dict) or not isinstance(event.setdefault("type", ""), str):
        raise unreadable(ValueError("event is not an object"), data)
    return event


def parsed_input(text: str, initial: Any = None) -> Mapping[str, Any]:
    """Return the input of a tool call; a text that is not a JSON object is under INVALID_JSON."""
    if not text.strip():
        return initial if isinstance(initial, dict) else {}
    try:
        value = json.loads(text)
        check_shape(value)
    except (ValueError, RecursionError):
        return {ToolUseBlock.INVALID_JSON: text}
    if value is None:
        return {}
    return value if isinstance(value, dict) else {ToolUseBlock.INVALID_JSON: text}


def reply_label(value: Any) -> str:
    """Return a label of a reply (its model, its stop reason), cut to 100 characters."""
    return replace_surrogates(str(value)[:100])


def name_reply(reply: IncomingReply, message: Mapping[str, Any]) -> None:
    """Set the model and the id that a message begins with.

    Raises ValueError if the reply already has blocks of another message: a proxy that lost its server has
    asked again, and a call that both messages make would run twice.
    """
    ident = reply_label(message.get("id") or "")
    if (reply.blocks or reply.pending) and ident != reply.ident:
        raise ValueError("another message begins within the reply")
    reply.model = reply_label(message.get("model") or "unknown")
    reply.ident = ident


def no_cookies() -> CookieJar:
    """Return a cookie jar that keeps nothing, since each response could make all later requests larger."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy  # 100 ms, which that client takes anyway

    return CookieJar(DefaultCookiePolicy(allowed_domains=()))


class ReplySize:
    """The characters of a reply so far. A reply that becomes too large is refused."""

    def __init__(self) -> None:
        self._chars = 0

    def add(self, chars: int) -> None:
        """Count characters. Raises RequestRejected."""
        self._chars += chars
        if self._chars > MAX_REPLY_CHARS:
            raise too_large(f"more than {MAX_REPLY_CHARS:,} characters")


def usage_figure(usage: Any, name: str) -> int:
    """Return a figure of a reply's usage; 0 if it is missing or not a plausible number."""
    count = usage.get(name) if isinstance(usage, dict) else None
    return int(count) if isinstance(count, int | float) and 0 <= count <= MAX_USAGE_TOKENS else 0


def openai_usage(given: Any, prompt_name: str, output_name: str) -> Usage:
    """Return the usage of a reply in one of OpenAI's protocols; missing and invalid figures count as 0."""
    given = given if isinstance(given, dict) else {}
    details = given.get(f"{prompt_name}_details")
    prompt = usage_figure(given, prompt_name)
    output = usage_figure(given, output_name)
    places = ((details, "cached_tokens"), (given, "prompt_cache_hit_tokens"), (given, "cached_tokens"))
    cached = min(prompt, next(filter(None, (usage_figure(*place) for place in places)), 0))
    written = min(prompt - cached, usage_figure(details, "cache_write_tokens"))
    thinking = usage_figure(given.get(f"{output_name}_details"), "reasoning_tokens")
    return Usage(
        input=prompt - cached - written,
        output=output,
        cache_read=cached,
        cache_written=written,
        thinking=min(output, thinking),
    )


def too_large(what: str) -> RequestRejected:
    """Return the error for a reply that exceeds a limit; `what` is "more than N ..."."""
    return RequestRejected(f"stopped reading the reply: it has {what}, which no model would write")
