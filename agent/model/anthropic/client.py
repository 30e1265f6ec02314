"""The Messages API through the official SDK, which is imported late: see sdk_import.py.

It posts bytes that are already encoded and reads the raw events of the stream. Retries, waiting and all
policy belong to the caller; the SDK's own are off.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from agent.errors import AuthenticationError, BlockRejected, ModelError, ModelNotFound, TransientError
from agent.events import BlockFinished, Emit, Event, Notice, RawStreamEvent
from agent.model.answer_reader import (
    LOCAL_STALL_TIMEOUT_S,
    SILENCE_TIMEOUT_S,
    STALL_TIMEOUT_S,
    AnswerRefused,
    EventStream,
    beginning,
    bounded,
    drain,
    no_cookies,
    no_reply,
    parse_event,
    proxies_of,
    proxy_for,
    refuse_failures,
    whole_json,
)
from agent.model.error_mapping import (
    CONNECT_TIMEOUT_S,
    map_connection_error,
    map_error,
    map_transport_error,
    no_connection,
    summarize_error,
    unreadable,
)
from agent.model.server_windows import checked_by_list, listed_models, with_window
from agent.model.tls import tls_context
from agent.model_port import IncomingReply, ModelCatalog, ModelFacts, ModelRequest
from transcripts import Block, UnknownBlock
from transcripts.secrets import mask

from .accumulator import MessageAccumulator, message_events
from .catalog import CATALOG, facts_from_catalog, facts_from_endpoint
from .clouds import Cloud, bedrock_events, cloud_body
from .messages import FORMAT, locate_in_view
from .request import COMPACTION_BETA, NAMES, beta_header, beta_names, encode_request
from .sdk_import import import_sdk

log = logging.getLogger(__name__)
OFFICIAL_URL = "https://api.anthropic.com"
_HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream"}


class AnthropicModel(Struct):
    """One client and its connections; implements model_port.Model.

    It may be made and connected on any thread, and is used and closed on one event loop.

    base_url         None: the Anthropic API
    stall            time limit for a byte in seconds; None: chosen by the server's address
    silence          time limit for content in seconds, at least `stall`
    assume_official  the server supports every field, whatever its URL
    cloud            takes the requests instead of `base_url`
    passes_events    the events of the stream are emitted unchanged, too
    """

    base_url: str | None = None
    key: str | None = None
    token: str | None = None
    stall: float | None = None
    silence: float = SILENCE_TIMEOUT_S
    headers: Mapping[str, str] = field(default_factory=dict)
    assume_official: bool = False
    cloud: Cloud | None = None
    passes_events: bool = False
    catalog: ModelCatalog = CATALOG
    cache_dir: Path | None = None  # None: failures of the slim import are not stored
    encoding: ClassVar[str] = FORMAT
    encode = staticmethod(encode_request)
    client: Any = None
    sdk: Any = None
    http: Any = None

    @property
    def server(self) -> str:
        return self.cloud.place if self.cloud else self.base_url or OFFICIAL_URL

    @property
    def official(self) -> bool:
        return self.assume_official or self.cloud is not None or self.server.rstrip("/") == OFFICIAL_URL

    def connect(self) -> None:
        """Import the SDK and create the client (0.3 to 1 s the first time).

        Raises AuthenticationError, and RequestRejected for an unusable proxy.
        """
        if self.client is not None:
            return
        import httpx2  # 150 ms, and the SDK takes twice as long: not before the prompt is painted

        anthropic = import_sdk(whole=self.cloud is not None, failures=self.cache_dir)
        self.sdk = anthropic
        self.http = httpx2
        local = "api.anthropic.com" not in self.server and self.cloud is None
        self.silence = max(self.silence, self.stall or 0.0)
        self.stall = self.stall or (LOCAL_STALL_TIMEOUT_S if local else STALL_TIMEOUT_S)
        self.client = _make_client(self, anthropic)

    async def close(self) -> None:
        if self.client is not None:
            await self.client.close()

    async def stream(self, request: ModelRequest, reply: IncomingReply, emit: Emit) -> None:
        """See model_port.Model."""
        if self.client is None:
            self.connect()
        wanted = (COMPACTION_BETA,) if request.compacts else ()
        extra = beta_header(self.headers, wanted) if wanted else {}
        if "betas" in request.settings.rejected:
            extra = {name: ",".join(wanted) or self.sdk.Omit() for name in beta_names(self.headers)}
        try:
            with _errors_mapped(self):
                await self._post(self.encode(request), extra, reply, emit)
        except BlockRejected as error:
            locate_in_view(error, request.messages, request.settings)
            raise

    def known_facts(self, model: str) -> ModelFacts:
        known = facts_from_catalog(model, self.official)
        return replace(known, diagnoses=False) if self.cloud is not None else known

    async def describe(self, model: str) -> ModelFacts:
        """See model_port.Model; asks the models endpoint."""
        self.connect()
        known = self.known_facts(model)
        if self.cloud is not None:
            return known  # clouds have no list of models
        try:
            answer = await self._get(f"/v1/models/{model}")
        except ModelNotFound:
            if self.official and not known.known:
                raise
            answer = {}
            known = await checked_by_list(known, self._get_optional)
        if not isinstance(answer, dict):
            raise TransientError(f"cannot get facts about {model}: the response is not a JSON object")
        facts = facts_from_endpoint(known, answer, self.official)
        return facts if self.official or facts.window_source else await with_window(facts, self._get_optional)

    async def list_models(self) -> Sequence[str]:
        """See model_port.Model."""
        self.connect()
        entries = () if self.official else listed_models(await self._get_optional("/v1/models"))
        return [str(entry["id"]) for entry in entries]

    async def count_tokens(self, model: str, blocks: Sequence[Block]) -> int | None:
        """See model_port.Model."""
        return await _count(self, model, blocks)

    async def _get(self, path: str) -> Any:
        with _errors_mapped(self):
            response = await self.client.get(path, cast_to=self.http.Response, stream=True)
            return json.loads(await beginning(response, self.http.HTTPError))

    async def _get_optional(self, path: str) -> Any:
        """Return the content of a path that only some servers have, or None."""
        with suppress(ModelError):
            return await self._get(path)
        return None

    async def _post(self, body: bytes, headers: Mapping[str, Any], reply: IncomingReply, emit: Emit) -> None:
        async with asyncio.timeout(self.silence) as limit:
            given = {"body": cloud_body(self.cloud, body)} if self.cloud else {"content": body}
            response = await self.client.post(
                "/v1/messages",
                **given,
                cast_to=self.http.Response,
                stream=True,
                options={"headers": {**_HEADERS, **headers}},
            )
            reply.request_id = response.headers.get("request-id", "")
            try:
                await self._read(response, reply, emit, limit)
            finally:
                await response.aclose()

    async def _read(self, response: Any, reply: IncomingReply, emit: Emit, limit: asyncio.Timeout) -> None:
        """Fill the reply until it is complete. Only content extends the time limit, other bytes do not."""
        now = asyncio.get_running_loop().time
        accumulator = MessageAccumulator(reply, not self.official)
        stream = EventStream(response.aiter_bytes())
        content = response.headers.get("content-type", "no content type").rpartition(", ")[2]
        events = whole_json(stream) if content.startswith("application/json") else stream.events()
        if self.cloud is not None and content.startswith("application/vnd.amazon.eventstream"):
            events = bedrock_events(bounded(stream.pieces))
        async for name, data in events:
            event = parse_event(name, data)
            if event["type"] == "ping":
                continue
            if event["type"] == "error":
                raise map_error(200, data, {}, time.time(), replace(NAMES, place=mask(self.server)))
            limit.reschedule(now() + self.silence)
            for delta in _fed(accumulator, event, data):
                emit(delta)
            if event["type"] == "content_block_stop":
                block = reply.blocks[-1]
                emit(BlockFinished(block, message=reply.ident, model=reply.model, usage=reply.usage))
                if isinstance(block, UnknownBlock) and (notice := _server_tool_notice(block)) is not None:
                    emit(notice)
            if self.passes_events:
                emit(RawStreamEvent(event))
            if reply.complete:
                await drain(events, (self.http.HTTPError, self.http.StreamError, OSError))
                return
        if not reply.started:
            raise no_reply(stream, content)


def _make_client(model: AnthropicModel, anthropic: Any) -> Any:
    """Return the SDK's client for the API, a compatible server or a cloud.

    Raises AuthenticationError, and RequestRejected for an unusable proxy.
    """
    made = anthropic.AsyncAnthropic
    place: Mapping[str, str | None] = {"base_url": model.base_url}
    credentials: dict[str, Any] = {"api_key": model.key} if model.key else {}
    if model.token and not model.key:
        credentials["auth_token"] = model.token
    if model.cloud is not None:
        made = getattr(anthropic, model.cloud.client)
        place = model.cloud.arguments
        credentials = {}
    timeout = model.http.Timeout(model.stall, connect=CONNECT_TIMEOUT_S)
    hooks = {"response": [partial(refuse_failures, model.http)]}
    trust = tls_context(model.server)
    with proxies_of(model.http):
        http_client = anthropic.DefaultAsyncHttpxClient(
            timeout=timeout,
            follow_redirects=False,
            event_hooks=hooks,
            verify=trust,
            cookies=no_cookies(),
        )
    try:
        return made(
            **place,
            max_retries=0,
            timeout=timeout,
            default_headers=dict(model.headers) or None,
            http_client=http_client,
            **credentials,
        )
    except (anthropic.AnthropicError, ValueError) as error:
        raise AuthenticationError(f"no usable credentials: {summarize_error(error)}") from error


async def _count(model: AnthropicModel, name: str, blocks: Sequence[Block]) -> int | None:
    """Get the token count from the free endpoint; None on clouds, most of which do not have it."""
    if model.client is None or model.cloud is not None:
        return None
    message = {"role": "user", "content": [block.to_json() for block in blocks]}
    path = "/v1/messages/count_tokens"
    body = {"model": name, "messages": [message]}
    try:
        with _errors_mapped(model):
            async with asyncio.timeout(2.0):  # a prompt waits for it
                response = await model.client.post(path, body=body, cast_to=model.http.Response, stream=True)
                answer = json.loads(await beginning(response, model.http.HTTPError))
    except ModelError:
        return None
    counted = answer.get("input_tokens") if isinstance(answer, dict) else None
    return counted if isinstance(counted, int) and counted > 0 else None


@contextmanager
def _errors_mapped(model: AnthropicModel) -> Iterator[None]:
    """Turn any exception of the client into a ModelError: each means that there is no response."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        log.info("no response: %r", error, exc_info=True)
        raise _map_exception(model, error) from error


def _body_of(error: Any) -> str:
    try:
        return str(error.response.text)
    except RuntimeError:  # the body of a streamed response was not read
        return json.dumps(error.body)


def _server_tool_notice(block: UnknownBlock) -> Notice | None:
    """Return the notice about a server-side tool: each search, each page and each failure."""
    kind = str(block.raw.get("type"))
    content = block.raw.get("content")
    if kind == "server_tool_use":
        given = block.raw.get("input")
        found = (given.get(name) for name in ("query", "url")) if isinstance(given, Mapping) else ()
        shown = str(next(filter(None, found), given))[:200]
        return Notice(f"{block.raw.get('name')}: {shown}")
    if kind.endswith("_tool_result") and isinstance(content, Mapping) and "error_code" in content:
        return Notice(f"{kind.removesuffix('_tool_result')} failed: {content['error_code']}", "warning")
    return None


def _fed(accumulator: MessageAccumulator, event: Mapping[str, Any], data: str) -> list[Event]:
    """Return the events to show for an event, or for a complete message instead of a stream."""
    if not event["type"]:
        raise unreadable(ValueError("event without a type"), data)
    try:
        parts = message_events(event) if event["type"] == "message" else (event,)
        return [shown for part in parts if (shown := accumulator.feed(part)) is not None]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise unreadable(error, data) from error


def lacks_credentials(error: Exception) -> bool:
    """Return whether a cloud's library found no credentials.

    botocore and google.auth have their own errors; the SDK's clients for clouds raise RuntimeError.
    """
    if type(error).__module__.startswith(("botocore", "google.auth")):
        return True
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    raised_in = str(frames[-1].f_globals.get("__name__")) if frames else ""
    return isinstance(error, RuntimeError) and raised_in.startswith("anthropic.lib.")


def _map_exception(model: AnthropicModel, error: Exception) -> ModelError:  # noqa: PLR0911  one case for each kind
    """Return the ModelError for an exception of the model's client."""
    sdk = model.sdk
    http = model.http
    client = model.client
    server = mask(str(client.base_url)).rstrip("/")
    match error:
        case sdk.APIConnectionError() if isinstance(refused := error.__cause__, AnswerRefused):
            return map_error(refused.status, refused.body, refused.headers, time.time(), NAMES)
        case sdk.APIConnectionError() if isinstance(refused := error.__cause__, ModelError):
            return refused
        case sdk.APIStatusError():
            return map_error(error.status_code, _body_of(error), error.response.headers, time.time(), NAMES)
        case sdk.APITimeoutError() | sdk.APIConnectionError() if isinstance(
            error.__cause__, http.ConnectTimeout
        ):
            return map_transport_error(error.__cause__, http, server, model.stall, proxy_for(server))
        case sdk.APITimeoutError():
            return no_connection(f"no data from {server} for {model.stall:.0f} s")
        case sdk.APIConnectionError():
            return map_connection_error(server, client.base_url.host, error, proxy_for(server))
        case sdk.CredentialsError():
            return AuthenticationError(f"no usable credentials: {summarize_error(error)}")
        case _ if model.cloud is not None and lacks_credentials(error):
            why = f"{model.cloud.name}: no usable credentials: {summarize_error(error)}"
            return AuthenticationError(why)
        case TypeError() if "authentication" in str(error):
            return AuthenticationError("no credentials: set ANTHROPIC_API_KEY, or try --offline")
        case TimeoutError():
            text = f"the server kept the connection open but sent no content for {model.silence:.0f} s"
            return no_connection(text)
    return map_transport_error(error, http, server, model.stall, proxy_for(server))
