"""Relay traffic through the network proxy: a tunnel whose TLS is for the right host, or one plain request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import h11
from msgspec import Struct

from .client_hello import (
    HANDSHAKE_RECORD,
    RECORD_HEADER_BYTES,
    NotAClientHello,
    hello_length,
    record_length,
    server_name,
)
from .host_connection import HostConnection
from .hosts import shown_host

_RELAY_BYTES = 65_536
# Headers of one connection (RFC 9110, 7.6.1), and those that are written again.
_HOP_HEADERS = frozenset(b"connection keep-alive te trailer upgrade host".split())

Read = Callable[[int], Awaitable[bytes]]


class TunnelRefused(Exception):
    """A tunnel whose content is not for the host that it named; `host` is the requested one."""

    def __init__(self, why: str, host: str = "") -> None:
        super().__init__(why)
        self.host = host


class ClientEnd(Struct):
    """A client's connection. `early` was read, and is read again. `port` is the client's; 0 if unknown."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    early: bytes = b""
    port: int = 0

    async def read(self, count: int = _RELAY_BYTES) -> bytes:
        """Read at least one byte, none at the end."""
        if not self.early:
            return await self.reader.read(count)
        taken = self.early[:count]
        self.early = self.early[count:]
        return taken

    async def read_exactly(self, count: int) -> bytes:
        """Read that many bytes. Raises ConnectionResetError at the end."""
        data = b""
        while len(data) < count:
            more = await self.read(count - len(data))
            if not more:
                raise ConnectionResetError("the client closed the connection")
            data += more
        return data

    async def begins_as_tls(self) -> bool:
        first = await self.read_exactly(1)
        self.early = first + self.early
        return first[0] == HANDSHAKE_RECORD


async def check_hello(client: ClientEnd, host: str) -> None:
    """Check the first TLS message, which is read again. Raises TunnelRefused if it is not for `host`."""
    records = handshake = b""
    try:
        while len(handshake) < hello_length(handshake):
            header = await client.read_exactly(RECORD_HEADER_BYTES)
            content = await client.read_exactly(record_length(header))
            records = records + header + content
            handshake = handshake + content
        named = server_name(handshake[: hello_length(handshake)])
    except NotAClientHello as error:
        raise TunnelRefused(f"the tunnel does not begin with a valid TLS message: {error}") from error
    if named.lower() != host:
        raise TunnelRefused("TLS requests another host", shown_host(named))
    client.early = records + client.early


async def pass_on(client: ClientEnd, route: HostConnection, idle_s: float | None) -> None:
    """Relay bytes both ways until both ends are done. Raises OSError, TimeoutError after `idle_s`."""
    async with _idle_limit(idle_s) as touch:
        pumps = (
            asyncio.ensure_future(_pump(client.read, route.writer, touch)),
            asyncio.ensure_future(_pump(route.reader.read, client.writer, touch)),
        )
        try:
            await asyncio.gather(*pumps)
        finally:
            await _cancelled(*pumps)


async def exchange(
    conn: h11.Connection, request: h11.Request, client: ClientEnd, route: HostConnection, idle_s: float
) -> None:
    """Send one request, whose body `conn` continues to read, and relay its response.

    The request has the headers of `outgoing_request`. Raises OSError, TimeoutError after `idle_s`.
    """
    async with _idle_limit(idle_s) as touch:
        sending = asyncio.ensure_future(_send_request(conn, request, client, route, touch))
        try:
            await _pump(route.reader.read, client.writer, touch)
        finally:
            await _cancelled(sending)


def outgoing_request(request: h11.Request, host: str, path: str, route: HostConnection) -> h11.Request:
    """Return the request to send: to this host only, with unambiguous framing, the last of its connection."""
    named = {name.strip().lower() for key, value in request.headers if key == b"connection"
             for name in value.split(b",")}  # fmt: skip
    chunked = any(name == b"transfer-encoding" for name, _ in request.headers)
    left_out = named | _HOP_HEADERS | ({b"content-length"} if chunked else set())
    kept = [
        (name, value)
        for name, value in request.headers.raw_items()
        if not (name.lower() in left_out or name.lower().startswith(b"proxy-"))
    ]
    if route.authorization:
        kept.append((b"Proxy-Authorization", route.authorization))
    target = f"http://{host}{path}" if route.absolute else path
    headers = [(b"Host", host.encode()), *kept, (b"Connection", b"close")]
    return h11.Request(method=request.method, target=target, headers=headers)


async def _send_request(
    conn: h11.Connection,
    request: h11.Request,
    client: ClientEnd,
    route: HostConnection,
    touch: Callable[[], None],
) -> None:
    """Send the request and its body with our own framing, so that the client cannot obscure where it ends."""
    out = h11.Connection(h11.CLIENT)
    event: h11.Event = request
    try:
        while True:
            route.writer.write(out.send(event) or b"")
            await route.writer.drain()
            touch()
            if isinstance(event, h11.EndOfMessage):
                return
            event = await next_event(conn, client)
            if isinstance(event, h11.EndOfMessage):
                event = h11.EndOfMessage()  # without trailers
    except (h11.ProtocolError, OSError):
        route.writer.close()  # which ends the response


async def next_event(conn: h11.Connection, client: ClientEnd) -> h11.Event:
    """Return the next event of the client. Raises h11.RemoteProtocolError."""
    while (event := conn.next_event()) is h11.NEED_DATA:
        conn.receive_data(await client.read())
    if isinstance(event, type):
        raise h11.RemoteProtocolError("the client sends more than one request")
    return event


async def send_last(client: ClientEnd, answer: bytes) -> None:
    """Send the last answer of a connection. Raises OSError, TimeoutError.

    Remaining data of the client is read, since closing a socket with unread bytes would lose the answer.
    """
    client.writer.write(answer)
    client.writer.write_eof()
    async with asyncio.timeout(2.0):  # for a refused client to close its end
        while await client.read():
            pass


async def _pump(read: Read, writer: asyncio.StreamWriter, touch: Callable[[], None]) -> None:
    while data := await read(_RELAY_BYTES):
        touch()
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


@asynccontextmanager
async def _idle_limit(idle_s: float | None) -> AsyncIterator[Callable[[], None]]:
    """Limit the time between calls of the yielded function; None for no limit. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(idle_s) as limit:
        yield lambda: limit.reschedule(None if idle_s is None else loop.time() + idle_s)


async def _cancelled(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def close_writer(writer: asyncio.StreamWriter) -> None:
    """Close a connection once the written data is sent or rejected."""
    writer.close()
    try:
        async with asyncio.timeout(10.0):  # for the last bytes to a peer that may have stopped reading
            await writer.wait_closed()
    except (OSError, TimeoutError):
        pass  # it is lost already
    finally:
        writer.transport.abort()
