"""The HTTP side of the adapters for OpenAI's protocols: one client, one streamed POST, one list of models.

It posts bytes that are already encoded and passes the events of the stream to a protocol's reader. Retries,
waiting and all policy belong to the caller.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from agent.errors import AuthenticationError, ModelError, ModelNotFound
from agent.events import Emit, Event
from agent.model_port import IncomingReply, ModelCatalog, ModelFacts, ModelRequest
from transcripts import Block
from transcripts.secrets import mask

from .answer_reader import (
    LOCAL_STALL_TIMEOUT_S,
    SILENCE_TIMEOUT_S,
    STALL_TIMEOUT_S,
    AnswerRefused,
    EventStream,
    drain,
    no_cookies,
    no_reply,
    parse_event,
    proxies_of,
    proxy_for,
    refuse_failures,
    whole_json,
)
from .error_mapping import (
    CONNECT_TIMEOUT_S,
    ServerNames,
    map_connection_error,
    map_error,
    map_transport_error,
    no_connection,
    unreadable,
)
from .openai_models import openai_facts
from .server_windows import facts_from_list, listed_models, with_window
from .tls import tls_context

log = logging.getLogger(__name__)
OPENAI_URL = "https://api.openai.com/v1"
_JSON_HEADERS = {"content-type": "application/json", "accept": "text/event-stream"}
_NONSENSE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class ReplyReader(Protocol):
    """Fills a reply from the events of one protocol. `done`: no further event belongs to the reply."""

    @property
    def done(self) -> bool: ...

    def feed(self, event: Mapping[str, Any]) -> Iterator[Event]:
        """Add one event, or a complete response, and yield the events to show for it.

        Raises KeyError, TypeError, ValueError or AttributeError for an invalid event, and RequestRejected for
        a reply that is too large.
        """

    def end(self, announced: bool) -> None:
        """End the reply after the last event. `announced`: the server sent [DONE]."""


class OpenAIModel(Struct):
    """One client and its connections; a subclass adds a protocol, and so implements model_port.Model.

    base_url  the URL to which `path` is appended; a URL without a path gets "/v1"
    stall     time limit for a byte in seconds; None: chosen by the server's address
    silence   time limit for content in seconds, at least `stall`
    path      the endpoint of the protocol
    names     how its servers word errors
    """

    path: ClassVar[str]
    names: ClassVar[ServerNames]
    encoding: ClassVar[str]
    base_url: str = OPENAI_URL
    key: str | None = None
    stall: float | None = None
    silence: float = SILENCE_TIMEOUT_S
    headers: Mapping[str, str] = field(default_factory=dict)
    catalog: ModelCatalog = field(default_factory=lambda: ModelCatalog(""))
    client: Any = None
    http: Any = None

    @property
    def server(self) -> str:
        url = self.base_url.rstrip("/")
        return url if urlsplit(url).path else f"{url}/v1"

    @property
    def official(self) -> bool:
        return self.server == OPENAI_URL

    def encode(self, request: ModelRequest) -> bytes:
        """See model_port.Model."""
        raise NotImplementedError

    def reader(self, reply: IncomingReply) -> ReplyReader:
        """Return a reader that fills this reply."""
        raise NotImplementedError

    def error_in(self, event: Mapping[str, Any], data: str) -> str | None:
        """Return the error that an event reports, in the form of an error response; None for other events.

        `data` is the text of the event.
        """
        return data if event["type"] == "error" else None

    def connect(self) -> None:
        """Import the HTTP client and create one (150 ms the first time).

        Raises AuthenticationError, and RequestRejected for an unusable proxy.
        """
        if self.client is not None:
            return
        if self.official and not self.key:
            raise AuthenticationError("no credentials: set OPENAI_API_KEY, or try --offline")
        import httpx2  # 150 ms: not before the prompt is painted

        self.http = httpx2
        self.silence = max(self.silence, self.stall or 0.0)
        self.stall = self.stall or (STALL_TIMEOUT_S if self.official else LOCAL_STALL_TIMEOUT_S)
        bearer = {"authorization": f"Bearer {self.key}"} if self.key else {}
        trust = tls_context(self.server)
        with proxies_of(httpx2):
            self.client = httpx2.AsyncClient(
                headers={**bearer, **self.headers},
                timeout=httpx2.Timeout(self.stall, connect=CONNECT_TIMEOUT_S),
                follow_redirects=False,
                verify=trust,
                event_hooks={"response": [partial(refuse_failures, httpx2)]},
                cookies=no_cookies(),
            )

    async def close(self) -> None:
        if self.client is not None:
            await self.client.aclose()

    async def stream(self, request: ModelRequest, reply: IncomingReply, emit: Emit) -> None:
        """See model_port.Model."""
        self.connect()
        body = request.encoded.get(self.encoding) or self.encode(request)
        with _failures_mapped(self):
            try:
                await self._post(body, reply, emit)
            except (self.http.HTTPError, self.http.StreamError, OSError):
                if reply.stop is None:
                    raise
                reply.complete = not reply.pending  # only the end of the connection is missing
                log.info("the connection did not end properly", exc_info=True)

    async def _post(self, body: bytes, reply: IncomingReply, emit: Emit) -> None:
        url = f"{self.server}{self.path}"
        async with asyncio.timeout(self.silence) as limit:
            async with self.client.stream("POST", url, content=body, headers=_JSON_HEADERS) as response:
                reply.request_id = response.headers.get("x-request-id", "")
                await self._read(response, reply, emit, limit)

    def known_facts(self, model: str) -> ModelFacts:
        """Return the facts about OpenAI's models by name; for others, that thinking is not bound."""
        return openai_facts(model) or ModelFacts(model, binds=False, effort=True, known=False)

    async def count_tokens(self, model: str, blocks: Sequence[Block]) -> int | None:
        """See model_port.Model; compatible servers have no request for it."""
        return None

    async def describe(self, model: str) -> ModelFacts:
        """See model_port.Model; requests the list of models. "" means the only one."""
        self.connect()
        try:
            answer = await self._get(f"{self.server}/models")
        except ModelNotFound:
            if not model or self.official:
                raise
            answer = {}  # a server without a list
        named = listed_models(answer)
        facts = facts_from_list(self.known_facts(model), named)
        return facts if self.official else await with_window(facts, self._get_optional, named)

    async def list_models(self) -> Sequence[str]:
        """See model_port.Model; OpenAI itself lists many models that cannot be used here."""
        self.connect()
        entries = () if self.official else listed_models(await self._get(f"{self.server}/models"))
        return [str(entry["id"]) for entry in entries]

    async def _get(self, url: str) -> Any:
        with _failures_mapped(self):
            async with self.client.stream("GET", url) as response:
                answer = [data async for _, data in whole_json(EventStream(response.aiter_bytes()))]
            return json.loads(answer[0])

    async def _get_optional(self, path: str) -> Any:
        """Return the content of a path of the host that only some servers have, or None."""
        try:
            return await self._get(f"{self.server.removesuffix('/v1')}{path}")
        except ModelError:
            return None

    async def _read(self, response: Any, reply: IncomingReply, emit: Emit, limit: asyncio.Timeout) -> None:
        """Fill the reply until the stream is over. Only content extends the time limit."""
        now = asyncio.get_running_loop().time
        reader = self.reader(reply)
        stream = EventStream(response.aiter_bytes())
        content = response.headers.get("content-type", "no content type")
        events = whole_json(stream) if content.startswith("application/json") else stream.events()
        async for name, data in events:
            if data.strip() != "[DONE]":
                event = parse_event(name, data)
                if (body := self.error_in(event, data)) is not None:
                    names = replace(self.names, place=mask(self.server))
                    raise map_error(200, body, {}, time.time(), names)
                if event["type"] in ("ping", "keepalive"):
                    continue
                limit.reschedule(now() + self.silence)
                for shown in _fed(reader, event, data):
                    emit(shown)
                if not reader.done:
                    continue
            reader.end(announced=data.strip() == "[DONE]")
            await drain(events, (self.http.HTTPError, self.http.StreamError, OSError))
            return
        if not reply.started:
            raise no_reply(stream, content)
        reader.end(announced=False)


def _fed(reader: ReplyReader, event: Mapping[str, Any], data: str) -> list[Event]:
    try:
        return list(reader.feed(event))
    except _NONSENSE as error:
        raise unreadable(error, data) from error


@contextmanager
def _failures_mapped(model: OpenAIModel) -> Iterator[None]:
    """Turn what the client raises into a ModelError."""
    http = model.http
    place = mask(model.server)
    try:
        yield
    except ModelError:
        raise
    except AnswerRefused as refused:
        raise map_error(refused.status, refused.body, refused.headers, time.time(), model.names) from refused
    except TimeoutError as error:
        text = f"the server kept the connection open but sent no content for {model.silence:.0f} s"
        raise no_connection(text) from error
    except (http.ConnectError, http.ProxyError, http.UnsupportedProtocol, http.InvalidURL) as error:
        host = urlsplit(model.server).hostname or ""
        raise map_connection_error(place, host, error, proxy_for(place)) from error
    except (http.HTTPError, http.StreamError, OSError, *_NONSENSE) as error:
        log.info("no response: %r", error, exc_info=True)
        raise map_transport_error(error, http, place, model.stall, proxy_for(place)) from error
