"""MCP servers over HTTP, with the transports of the library `mcp`. One task owns each connection.

The library takes 0.4 s to import, which is done in a thread, and only for a session with such a server. The
imports within functions then find it loaded.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tools.sandbox import is_public_address
from tools.web import Unpacker
from transcripts.wording import shorten

from .entries import ServerEntry
from .failures import ConnectionLost, NeedsLogin, ServerFailed
from .requirements import MISSING_LIBRARY
from .session import Message
from .stdio import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams, WriteStream
    from mcp.shared.message import SessionMessage


MAX_ERROR_CHARS = 300  # of an error of the library, which may repeat an answer of the server


class RemoteConnection:
    """A connection over HTTP. `auth` signs its requests, None if the headers are sufficient.

    status  of the newest error response
    """

    def __init__(
        self,
        entry: ServerEntry,
        auth: httpx2.Auth | None,
        deliver: Callable[[Any], None],
        lost: Callable[[str], None],
    ) -> None:
        self._entry = entry
        self._auth = auth
        self._deliver = deliver
        self._lost = lost
        self._write: WriteStream[SessionMessage] | None = None
        self._version = ""
        self._ready = asyncio.Event()
        self._closing = False
        self._why = ""
        self.status = 0
        self._owner = asyncio.ensure_future(self._own())
        self._owner.add_done_callback(self._over)

    async def opened(self) -> None:
        """Return when messages can be sent. Raises ServerFailed."""
        waiting = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait({waiting, self._owner}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not self._ready.is_set():
            raise self.failure(self._why or "it closed the connection")

    async def _own(self) -> None:
        """Own the connection: enter and exit its transport."""
        async with self._transport() as (read, write):
            self._write = write
            self._ready.set()
            async for item in read:
                if isinstance(item, Exception):
                    self._why = _error_line(item)
                else:
                    self._take(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True))

    def _transport(self) -> AbstractAsyncContextManager[TransportStreams]:
        if self._entry.kind == "sse":
            from mcp.client.sse import sse_client

            return sse_client(self._entry.url, httpx_client_factory=self._client, auth=self._auth)
        return self._over_http()

    @asynccontextmanager
    async def _over_http(self) -> AsyncIterator[TransportStreams]:
        from mcp.client.streamable_http import streamable_http_client

        async with (
            self._client(auth=self._auth) as client,
            streamable_http_client(
                self._entry.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
            ) as ends,
        ):
            yield ends

    def _client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """Return an HTTP client with the headers of the entry and our limits, which records errors."""
        import httpx2

        async def note(response: httpx2.Response) -> None:
            if response.status_code >= 400:
                self.status = response.status_code
            _limit_body(response)

        async def check(request: httpx2.Request) -> None:
            if why := why_no_request(str(request.url), self._entry.url):
                raise httpx2.UnsupportedProtocol(why)

        return httpx2.AsyncClient(
            headers={**self._entry.headers, "accept-encoding": "gzip, deflate"},
            # `read` limits the time between two chunks of an answer. The limit of a call is enforced
            # elsewhere.
            timeout=httpx2.Timeout(30.0, read=3_600.0),
            auth=auth,
            event_hooks={"request": [check], "response": [note]},
        )

    def _take(self, message: dict[str, Any]) -> None:
        result = message.get("result")
        if result is not None:
            self.status = 0
        if not self._version and isinstance(result, dict) and "protocolVersion" in result:
            self._version = str(result["protocolVersion"])
        self._deliver(message)
        if result is None and self.status == 404 and self._version:  # the server has forgotten the session
            self._why = "the server has ended the session"
            self._owner.cancel()

    async def send(self, message: Message) -> None:
        """Send a message. Raises ServerFailed."""
        from mcp.shared.message import ClientMessageMetadata, SessionMessage
        from mcp_types import jsonrpc_message_adapter

        if self._owner.done() or self._write is None:
            raise self.failure(self._why or "the connection was closed")
        metadata = None
        if self._version:
            metadata = ClientMessageMetadata(headers={"mcp-protocol-version": self._version})
        item = SessionMessage(jsonrpc_message_adapter.validate_python(dict(message)), metadata=metadata)
        sending = asyncio.ensure_future(self._write.send(item))
        try:
            await asyncio.wait({sending, self._owner}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not sending.done():
                sending.cancel()
        if not sending.done() or sending.cancelled() or sending.exception() is not None:
            raise ConnectionLost(self._why or "the connection was closed")

    def _over(self, owner: asyncio.Task[None]) -> None:
        """Report the end of the connection, unless it was closed here."""
        error = None if owner.cancelled() else owner.exception()
        if error is not None:
            self._why = _error_line(error)
            if _ends_login(error):
                self.status = 0  # of the request that needed the login
        if not self._closing:
            if self.status == 404:
                self.status = 0
            self._lost(str(self.failure(self._why or "the connection ended")))

    def failure(self, reason: str) -> ServerFailed:
        """Return the error for a reason, with the status of the last answer."""
        if self.status in (401, 403):
            if any(name.lower() == "authorization" for name in self._entry.headers):
                return ServerFailed(f"it rejects the Authorization header (HTTP {self.status})")
            return NeedsLogin(f"it requires a login: makeroom mcp login {self._entry.name}")
        return ServerFailed(f"{reason}{self.hint}")

    @property
    def hint(self) -> str:
        return f" (HTTP {self.status})" if self.status else ""

    def close(self) -> None:
        """End the connection, without waiting."""
        self._closing = True
        self._owner.cancel()


def why_no_request(address: str, server: str) -> str:
    """Return the reason why a URL that a server names, as for its login, is not requested, else "".

    A server could lead us to services of this machine or its network that it cannot reach itself.
    """
    own = urlsplit(server)
    other = urlsplit(address)
    if (other.scheme, other.netloc) == (own.scheme, own.netloc):
        return ""
    is_near = _is_near(own.hostname or "")
    if _is_near(other.hostname or "") and not is_near:
        return f"the server names a private address: {other.hostname}"
    if other.scheme != "https" and not is_near:
        return f"the server names an address without TLS: {other.hostname}"
    return ""


def _is_near(host: str) -> bool:
    """Return whether a host is this machine or an address of its network, by its name alone."""
    with suppress(ValueError):
        ip_address(host)
        return not is_public_address(host)
    return host == "localhost" or host.endswith(".localhost")


def _limit_body(response: httpx2.Response) -> None:
    """Let the body of a response be read only up to a limit, which holds for what it is decompressed to.

    The library reads bodies whole. It limits the events of a stream itself.
    """
    import httpx2

    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    limit = 1 << 20 if response.status_code >= 400 else MAX_MESSAGE_BYTES
    encoding = response.headers.pop("content-encoding", "")
    body = response.stream

    async def decompressed() -> AsyncIterator[bytes]:
        assert isinstance(body, httpx2.AsyncByteStream)
        try:
            unpacker = Unpacker(encoding)
            async for data in body:
                for piece in unpacker.pieces(data):
                    yield piece
        except ValueError as error:
            raise httpx2.StreamError(f"its answer cannot be read: {error}") from error
        except zlib.error as error:
            raise httpx2.StreamError(f"its answer is not {encoding}") from error

    class LimitedBody(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in decompressed():
                size += len(piece)
                if size > limit and not is_stream:
                    raise httpx2.StreamError(f"its answer is larger than {limit >> 20} MB")
                yield piece

        async def aclose(self) -> None:
            if isinstance(body, httpx2.AsyncByteStream):
                await body.aclose()

    response.stream = LimitedBody()


def _first_error(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _ends_login(error: BaseException) -> bool:
    """Return whether an error is the end of a login that has begun, and its text the reason."""
    import httpx2
    from mcp.client.auth import OAuthFlowError

    found = _first_error(error)
    is_ours = isinstance(found, ServerFailed) and not isinstance(found, NeedsLogin)
    return is_ours or isinstance(found, OAuthFlowError | httpx2.UnsupportedProtocol)


def _error_line(error: BaseException) -> str:
    """Return an error of the library in one line; the first one of a group."""
    error = _first_error(error)
    text = str(error).strip().partition("\n")[0]
    if text.startswith("[Errno "):  # a number that means nothing to the user
        text = text.partition("] ")[2]
    return shorten(text, MAX_ERROR_CHARS) or type(error).__name__


def load_library() -> None:
    """Load the modules of the library that are needed. Raises ServerFailed if it is not installed."""
    try:
        for name in ("mcp.client.streamable_http", "mcp.client.sse", "mcp.shared.message", "mcp_types"):
            import_module(name)
    except ImportError as error:
        raise ServerFailed(MISSING_LIBRARY) from error


async def open_remote(
    entry: ServerEntry,
    auth: httpx2.Auth | None,
    deliver: Callable[[Any], None],
    lost: Callable[[str], None],
) -> RemoteConnection:
    """Open a connection over HTTP. Raises ServerFailed."""
    await asyncio.to_thread(load_library)
    connection = RemoteConnection(entry, auth=auth, deliver=deliver, lost=lost)
    try:
        await connection.opened()
    except BaseException:
        connection.close()
        raise
    return connection
