"""The Messages API through the official SDK: the only importer of `anthropic`, and it imports late.

Posts bytes that are already encoded and reads the raw events of the stream; retries, waiting and all
policy belong to the caller (the SDK's own are off).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from .draft import Draft
from .errors import AuthError, Transient
from .events import Emit
from .refusals import refusal

log = logging.getLogger(__name__)
CONNECT = 10.0  # seconds to a connection
STALL = 90.0  # seconds without a byte: the API sends pings, so the link is dead
LOCAL_STALL = 600.0  # a model on this machine may think that long before its first byte
SILENT = 600.0  # seconds of pings without content: omitted thinking is silent for minutes, not longer


@dataclass(slots=True)
class Api:
    """One client and its connections. Make it on any thread; use and close it on one event loop."""

    base_url: str | None = None
    key: str | None = None
    token: str | None = None
    stall: float | None = None
    silent: float = SILENT
    headers: Mapping[str, str] = field(default_factory=dict)
    _client: Any = None
    _sdk: ModuleType | None = None

    def warm(self) -> None:
        """Import the SDK and make the client (1.6 to 4 s the first time). Raises AuthError."""
        if self._client is not None:
            return
        import anthropic
        import httpx2

        self._sdk = anthropic
        local = self.base_url is not None and "api.anthropic.com" not in self.base_url
        stall = self.stall or (LOCAL_STALL if local else STALL)
        options: dict[str, Any] = {"api_key": self.key} if self.key else {}
        if self.token and not self.key:
            options["auth_token"] = self.token
        try:
            self._client = anthropic.AsyncAnthropic(
                base_url=self.base_url,
                max_retries=0,
                timeout=httpx2.Timeout(stall, connect=CONNECT),
                default_headers=dict(self.headers) or None,
                **options,
            )
        except anthropic.AnthropicError as error:
            raise AuthError(f"no usable credentials: {error}") from error

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def stream(self, body: bytes, draft: Draft, emit: Emit) -> None:
        """See ports.Model."""
        import httpx2

        self.warm()
        assert self._sdk is not None
        try:
            await self._stream(body, draft, emit)
        except self._sdk.APIStatusError as error:
            raise refusal(error.status_code, _body(error), error.response.headers, time.time()) from error
        except self._sdk.APIConnectionError as error:
            raise _unreachable(self._client.base_url, error) from error
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            raise Transient(f"the connection broke: {error or type(error).__name__}") from error
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, TypeError) and "authentication" in str(error):
                raise AuthError("no credentials: set ANTHROPIC_API_KEY, or try --offline") from error
            raise Transient(f"the stream made no sense: {error!r}") from error

    async def _stream(self, body: bytes, draft: Draft, emit: Emit) -> None:
        import httpx2

        assert self._sdk is not None
        response = await self._client.post(
            "/v1/messages",
            content=body,
            cast_to=httpx2.Response,
            stream=True,
            options={"headers": {"Content-Type": "application/json", "Accept": "text/event-stream"}},
        )
        draft.request_id = response.headers.get("request-id", "")
        try:
            await self._read(response, draft, emit)
        finally:
            await response.aclose()

    async def _read(self, response: Any, draft: Draft, emit: Emit) -> None:
        assert self._sdk is not None
        last = time.monotonic()
        async for sse in self._sdk.AsyncStream.raw_events(response):
            if sse.event == "ping" or not sse.data:
                if time.monotonic() - last > self.silent:
                    raise Transient(f"only pings for {self.silent:.0f} s")
                continue
            if sse.event == "error":
                raise refusal(200, sse.data, {}, time.time())
            last = time.monotonic()
            event = draft.feed(json.loads(sse.data))
            if event is not None:
                emit(event)
        if not draft.begun:
            kind = response.headers.get("content-type", "no content type")
            raise Transient(f"an empty answer ({kind}): a captive portal or a proxy?")

    async def model_facts(self, model: str) -> dict[str, Any]:
        """What the models endpoint says of a model, as plain JSON. Raises ModelError."""
        import httpx2

        self.warm()
        assert self._sdk is not None
        try:
            response = await self._client.get(f"/v1/models/{model}", cast_to=httpx2.Response)
            facts: dict[str, Any] = json.loads(response.content)
        except self._sdk.APIStatusError as error:
            raise refusal(error.status_code, _body(error), error.response.headers, time.time()) from error
        except (self._sdk.APIError, httpx2.HTTPError, ValueError) as error:
            raise Transient(f"no model facts: {error!r}") from error
        return facts


def _unreachable(url: Any, error: Exception) -> Transient:
    """Names the server; a machine of one's own that refuses is not going to come up by itself."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ConnectionRefusedError):
        cause = cause.__cause__ or cause.__context__
    host = str(getattr(url, "host", ""))
    local = host in ("localhost", "127.0.0.1", "::1")
    why = "nothing listens there" if cause is not None else str(error.__cause__ or error)
    return Transient(f"no connection to {str(url).rstrip('/')}: {why}", tries=3 if local else None)


def _body(error: Any) -> str:
    try:
        return str(error.response.text)
    except RuntimeError:  # the body of a streamed answer was not read
        return json.dumps(error.body)
