"""MCP servers that are reached by HTTP, through the transports of the library `mcp`: one task owns each.

The library takes 1.3 s to import, in a thread and only where such a server is configured.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from .entries import ServerEntry
from .server import NeedsLogin
from .session import ConnectionLost, Message, ServerFailed
from .stdio import MAX_MESSAGE_BYTES

HTTP_CONNECT_TIMEOUT_S = 30.0
HTTP_READ_TIMEOUT_S = 3_600.0  # between two pieces of an answer; the limit of a call is kept elsewhere
MISSING_LIBRARY = "it needs the extra mcp: pip install 'makeroom[mcp]'"
_VERSION_HEADER = "mcp-protocol-version"


class RemoteConnection:
    """A connection by HTTP. `auth` is what signs its requests, None where the headers do.

    `status` is the newest status of an answer that was an error.
    """

    def __init__(
        self,
        entry: ServerEntry,
        library: Mapping[str, Any],
        auth: Any,
        deliver: Callable[[Any], None],
        lost: Callable[[str], None],
    ) -> None:
        self._entry, self._library, self._auth = entry, library, auth
        self._deliver, self._lost = deliver, lost
        self._write: Any = None
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
        """Hold the connection: its transport is entered and left here."""
        async with self._transport() as (read, write):
            self._write = write
            self._ready.set()
            async for item in read:
                if isinstance(item, Exception):
                    self._why = told_error(item)
                else:
                    self._take(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True))

    def _transport(self) -> Any:
        if self._entry.kind == "sse":
            sse: Any = self._library["mcp.client.sse"]
            return sse.sse_client(self._entry.url, httpx_client_factory=self._client, auth=self._auth)
        return self._over_http()

    @asynccontextmanager
    async def _over_http(self) -> AsyncIterator[Any]:
        streams: Any = self._library["mcp.client.streamable_http"]
        async with (
            self._client(auth=self._auth) as client,
            streams.streamable_http_client(
                self._entry.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
            ) as ends,
        ):
            yield ends

    def _client(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        """An HTTP client with the headers of the entry, that notes errors."""
        httpx2: Any = self._library["httpx2"]

        async def note(response: Any) -> None:
            self.status = response.status_code if response.status_code >= 400 else self.status

        limits = httpx2.Timeout(HTTP_CONNECT_TIMEOUT_S, read=HTTP_READ_TIMEOUT_S)
        own = dict(self._entry.headers)
        return httpx2.AsyncClient(headers=own, timeout=limits, auth=auth, event_hooks={"response": [note]})

    def _take(self, message: dict[str, Any]) -> None:
        result = message.get("result")
        self.status = self.status if result is None else 0
        if not self._version and isinstance(result, dict) and "protocolVersion" in result:
            self._version = str(result["protocolVersion"])
        self._deliver(message)
        if result is None and self.status == 404 and self._version:  # the server has forgotten the session
            self._why = "the server has ended the session"
            self._owner.cancel()

    async def send(self, message: Message) -> None:
        """Send a message. Raises ServerFailed."""
        types: Any = self._library["mcp_types"]
        made: Any = self._library["mcp.shared.message"]
        headers = {_VERSION_HEADER: self._version} if self._version else None
        metadata = made.ClientMessageMetadata(headers=headers) if headers else None
        item = made.SessionMessage(
            types.jsonrpc_message_adapter.validate_python(dict(message)), metadata=metadata
        )
        if self._owner.done():
            raise self.failure(self._why or "the connection was closed")
        sending = asyncio.ensure_future(self._write.send(item))
        try:
            await asyncio.wait({sending, self._owner}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not sending.done():
                sending.cancel()
        if not sending.done() or sending.cancelled() or sending.exception() is not None:
            raise ConnectionLost(self._why or "the connection was closed")

    def _over(self, owner: asyncio.Task[None]) -> None:
        """The connection has ended."""
        error = None if owner.cancelled() else owner.exception()
        if error is not None:
            self._why = told_error(error)
        if not self._closing:
            self.status = 0 if self.status == 404 else self.status
            failure = self.failure(self._why or "the connection ended")
            self._lost(str(failure))

    def failure(self, reason: str) -> ServerFailed:
        """The error for a reason, with what the status of the last answer tells."""
        if self.status in (401, 403):
            if any(name.lower() == "authorization" for name in self._entry.headers):
                return ServerFailed(f"it does not take the Authorization header (HTTP {self.status})")
            return NeedsLogin(f"it wants a login: makeroom mcp login {self._entry.name}")
        return ServerFailed(f"{reason} (HTTP {self.status})" if self.status else reason)

    @property
    def hint(self) -> str:
        return f" (HTTP {self.status})" if self.status else ""

    def close(self) -> None:
        """End the connection, without waiting."""
        self._closing = True
        self._owner.cancel()


def told_error(error: BaseException) -> str:
    """An error of the library in one line: the first that happened, out of its groups."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    text = str(error).strip().partition("\n")[0]
    return text or type(error).__name__


def load_library() -> dict[str, Any]:
    """The modules of the library that are needed. Raises ServerFailed where it is not installed."""
    names = ("mcp.client.streamable_http", "mcp.client.sse", "mcp.shared.message", "mcp_types")
    try:
        return {name: import_module(name) for name in (*names, "httpx2")}
    except ImportError as error:
        raise ServerFailed(MISSING_LIBRARY) from error


async def open_remote(
    entry: ServerEntry, auth: Any, deliver: Callable[[Any], None], lost: Callable[[str], None]
) -> RemoteConnection:
    """Open a connection by HTTP. Raises ServerFailed."""
    library = await asyncio.to_thread(load_library)
    connection = RemoteConnection(entry, library, auth, deliver, lost)
    try:
        await connection.opened()
    except BaseException:
        connection.close()
        raise
    return connection
