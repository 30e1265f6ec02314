"""The Messages API through the official SDK: the only importer of `anthropic`, and it imports late.

Posts bytes that are already encoded and reads the raw events of the stream; retries, waiting and all
policy belong to the caller (the SDK's own are off).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from agent.errors import AuthenticationError, ModelError, TransientError
from agent.events import Emit
from transcripts.masking import mask

from .accumulator import MessageAccumulator
from .error_mapping import map_error
from .error_summary import map_connection_error, summarize_error

log = logging.getLogger(__name__)
CONNECT = 10.0  # seconds to a connection
STALL = 90.0  # seconds without a byte: the API sends pings, so the link is dead
LOCAL_STALL = 600.0  # a model on this machine may think that long before its first byte
SILENT = 600.0  # seconds of pings without content: omitted thinking is silent for minutes, not longer
ENDING = 0.2  # seconds that a connection may take to end after the whole reply


@dataclass(slots=True)
class AnthropicModel:
    """One client and its connections. Make it on any thread; use and close it on one event loop.

    stall   seconds without a byte before an attempt is given up; None chooses by the server
    silent  seconds without content, whatever bytes come; at least `stall`
    """

    base_url: str | None = None
    key: str | None = None
    token: str | None = None
    stall: float | None = None
    silent: float = SILENT
    headers: Mapping[str, str] = field(default_factory=dict)
    _client: Any = None
    _stall: float = STALL
    _sdk: ModuleType | None = None

    def warm(self) -> None:
        """Import the SDK and make the client (1.6 to 4 s the first time). Raises AuthenticationError."""
        if self._client is not None:
            return
        import anthropic
        import httpx2

        self._sdk = anthropic
        local = self.base_url is not None and "api.anthropic.com" not in self.base_url
        self._stall = self.stall or (LOCAL_STALL if local else STALL)
        self.silent = max(self.silent, self.stall or 0.0)
        options: dict[str, Any] = {"api_key": self.key} if self.key else {}
        if self.token and not self.key:
            options["auth_token"] = self.token
        try:
            self._client = anthropic.AsyncAnthropic(
                base_url=self.base_url,
                max_retries=0,
                timeout=httpx2.Timeout(self._stall, connect=CONNECT),
                default_headers=dict(self.headers) or None,
                **options,
            )
        except anthropic.AnthropicError as error:
            raise AuthenticationError(f"no usable credentials: {summarize_error(error)}") from error

    @property
    def _place(self) -> str:
        return mask(str(self._client.base_url)).rstrip("/")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def stream(self, body: bytes, draft: MessageAccumulator, emit: Emit) -> None:
        """See ports.Model."""
        self.warm()
        try:
            await self._stream(body, draft, emit)
        except ModelError:
            raise
        except Exception as error:  # the border of the stream: whatever it is, there is no reply
            log.info("no reply: %r", error, exc_info=True)
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> ModelError:
        """What an exception of the client means."""
        import httpx2

        assert self._sdk is not None
        match error:
            case self._sdk.APIStatusError():
                return map_error(error.status_code, _body(error), error.response.headers, time.time())
            case self._sdk.APITimeoutError() if isinstance(error.__cause__, httpx2.ConnectTimeout):
                return TransientError(f"no connection to {self._place} within {CONNECT:.0f} s")
            case self._sdk.APITimeoutError() | httpx2.TimeoutException():
                return TransientError(f"nothing came from {self._place} for {self._stall:.0f} s")
            case self._sdk.APIConnectionError():
                return map_connection_error(self._place, self._client.base_url.host, error)
            case self._sdk.CredentialsError():
                return AuthenticationError(f"no usable credentials: {summarize_error(error)}")
            case TypeError() if "authentication" in str(error):
                return AuthenticationError("no credentials: set ANTHROPIC_API_KEY, or try --offline")
            case TimeoutError():
                return TransientError(
                    f"the server sent signs of life, but no content for {self.silent:.0f} s"
                )
            case httpx2.HTTPError() | httpx2.StreamError() | OSError():
                return TransientError(f"the connection broke: {summarize_error(error)}")
        return TransientError(f"the stream made no sense: {type(error).__name__}: {summarize_error(error)}")

    async def _stream(self, body: bytes, draft: MessageAccumulator, emit: Emit) -> None:
        import httpx2

        async with asyncio.timeout(self.silent) as limit:
            response = await self._client.post(
                "/v1/messages",
                content=body,
                cast_to=httpx2.Response,
                stream=True,
                options={"headers": {"Content-Type": "application/json", "Accept": "text/event-stream"}},
            )
            draft.request_id = response.headers.get("request-id", "")
            try:
                await self._read(response, draft, emit, limit)
            finally:
                await response.aclose()

    async def _read(
        self, response: Any, draft: MessageAccumulator, emit: Emit, limit: asyncio.Timeout
    ) -> None:
        """Feed the draft until the reply is whole. Only content moves the limit, whatever bytes come."""
        assert self._sdk is not None
        now = asyncio.get_running_loop().time
        events = self._sdk.AsyncStream.raw_events(response)
        async for sse in events:
            raw = json.loads(sse.data) if sse.data else {"type": "ping"}
            kind = "ping" if sse.event == "ping" else raw["type"]
            if kind == "ping":
                continue
            if kind == "error":
                raise map_error(200, sse.data, {}, time.time())
            limit.reschedule(now() + self.silent)
            event = draft.feed(raw)
            if event is not None:
                emit(event)
            if draft.complete:
                await _rest(events)
                return
        if not draft.begun:
            content = response.headers.get("content-type", "no content type")
            raise TransientError(f"an empty answer ({content}): a captive portal or a proxy?")

    async def model_facts(self, model: str) -> dict[str, Any]:
        """What the models endpoint says of a model, as plain JSON. Raises ModelError."""
        import httpx2

        self.warm()
        assert self._sdk is not None
        try:
            response = await self._client.get(f"/v1/models/{model}", cast_to=httpx2.Response)
            facts = json.loads(response.content)
        except Exception as error:  # the border of the client, as in `stream`
            raise self._failure(error) from error
        if not isinstance(facts, dict):
            raise TransientError(f"no facts about {model}: the answer is no JSON object")
        return facts


async def _rest(events: AsyncIterator[Any]) -> None:
    """Read to the end, which leaves the connection fit for the next request; the reply is whole anyway."""
    try:
        async with asyncio.timeout(ENDING):
            async for _ in events:
                pass
    except Exception:  # of the stream's border too, but nothing is lost any more
        log.info("the connection did not end well", exc_info=True)


def _body(error: Any) -> str:
    try:
        return str(error.response.text)
    except RuntimeError:  # the body of a streamed answer was not read
        return json.dumps(error.body)
