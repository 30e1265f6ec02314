"""The proxy through which sandboxed commands reach the hosts that the user allowed, and no others.

It is an HTTP proxy in the agent's process, on a Unix socket in a private directory. A tunnel (`CONNECT`) must
begin with TLS for the same host. A plain request must have that host in its `Host` header, and is the only
one of its connection. The data sent to an allowed host is not inspected, so it can receive anything.

While a command runs for which the user can be asked, a request to another host waits for the answer. So does
one to a private address, even of an allowed host. The only question about a package index names the private
address of its mirror.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import h11
from msgspec import Struct

from tools.sandbox.blocked_access import BLOCKED_MARK, AskHost

from .host_connection import (
    HostConnection,
    HostNotPublic,
    HostUnreachable,
    Resolver,
    connect_to_host,
    mirror_address,
    resolve,
)
from .hosts import host_name, is_mirror, shown_host
from .relaying import (
    ClientEnd,
    TunnelRefused,
    check_hello,
    close_writer,
    exchange,
    next_event,
    outgoing_request,
    pass_on,
    send_last,
)

_HTTP_PORT = 80
_TLS_PORT = 443
_OWN_HOST = "localhost"  # resolved without a question, since no name server is asked about it
_UNREACHED = 502  # the status for an allowed host without a connection

Connect = Callable[..., Awaitable[HostConnection]]
FindMirror = Callable[[str, int], Awaitable[str]]  # host, port -> its private address or ""


class ProxyLimits(Struct, frozen=True):
    """The limits of the proxy's clients."""

    connections: int = 128  # at once; more are answered 503
    head_bytes: int = 32_768  # of a request's line and headers
    head_s: float = 20.0  # for a request's head, and for a tunnel's first message
    idle_s: float = 300.0  # without a byte in either direction


class RequestRefused(Exception):
    """A request is answered with `status` and the text as the reason. `host` is the requested one."""

    def __init__(self, status: int, why: str, host: str = "") -> None:
        super().__init__(why)
        self.status = status
        self.host = host


class NetworkProxy:
    """A running proxy, made by `start_proxy`. Belongs to one event loop; `path` is its socket."""

    def __init__(
        self,
        path: Path,
        hosts: Iterable[str],
        connect: Connect,
        find_mirror: FindMirror,
        limits: ProxyLimits,
    ) -> None:
        self.path = path
        self._find_mirror = find_mirror
        self._hosts = {host_name(host) for host in hosts}
        self._connect = connect
        self._limits = limits
        self._refused: deque[tuple[float, str]] = deque(maxlen=1_000)
        self._unreached: deque[tuple[float, str]] = deque(maxlen=1_000)
        self._ask: AskHost | None = None
        self._private: dict[str, str] = {}  # private addresses that the user allowed, by host
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def hosts(self) -> frozenset[str]:
        """The allowed hosts."""
        return frozenset(self._hosts)

    def allow(self, host: str) -> None:
        """Allow requests to a host. Raises ValueError if it is not a valid host name."""
        self._hosts.add(host_name(host))

    def use_hosts(self, hosts: Iterable[str]) -> None:
        """Allow requests to these hosts only. Invalid names are ignored."""
        self._hosts = set()
        for host in hosts:
            with suppress(ValueError):
                self.allow(host)

    def use_asker(self, ask: AskHost | None) -> AskHost | None:
        """Ask about hosts that are not allowed, or refuse them at once (None); returns the asker before."""
        before = self._ask
        self._ask = ask
        return before

    def refused_since(self, mark: float) -> tuple[str, ...]:
        """Return the hosts refused since `mark`, a value of time.monotonic(); each once, oldest first.

        They are as clients wrote them, without control characters. An allowed host is included if its name
        resolved to a private address.
        """
        return tuple(dict.fromkeys(host for at, host in self._refused if at >= mark))

    def unreached_since(self, mark: float) -> tuple[str, ...]:
        """Return why allowed hosts could not be reached since `mark`, a sentence each, oldest first."""
        return tuple(dict.fromkeys(why for at, why in self._unreached if at >= mark))

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self.path)

    async def close(self) -> None:
        """End every connection and remove the socket. May be called again."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        full = len(self._tasks) >= self._limits.connections
        task = asyncio.get_running_loop().create_task(self._serve(ClientEnd(reader, writer), full))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: ClientEnd, full: bool) -> None:
        """Serve one connection. Errors of a client or host only affect this connection."""
        try:
            if full:
                raise RequestRefused(503, "too many connections")
            client.port = await self._port_of(client)
            await self._answer(client)
        except RequestRefused as refusal:
            self._remember(refusal.host)
            with suppress(OSError, TimeoutError):
                await send_last(client, _refusal_bytes(refusal))
        except TunnelRefused as refusal:
            self._remember(refusal.host)
        except (OSError, TimeoutError):
            pass  # the connection is lost, which the client notices
        finally:
            await close_writer(client.writer)

    async def _port_of(self, client: ClientEnd) -> int:
        """Return the client's port, which the relay sends before its data; 0 if it does not."""
        async with asyncio.timeout(self._limits.head_s):
            first = await client.read_exactly(1)
            if first != b"\0":
                client.early = first + client.early
                return 0
            port = b""
            while (byte := await client.read_exactly(1)) != b"\n" and len(port) < 5:
                port += byte
        return int(port) if port.isdigit() else 0

    def _remember(self, host: str) -> None:
        if host:
            self._refused.append((time.monotonic(), host))

    async def _answer(self, client: ClientEnd) -> None:
        conn = h11.Connection(h11.SERVER, self._limits.head_bytes)
        request = await self._request(conn, client)
        if request.method == b"CONNECT":
            host, port = _connect_target(request)
            route = await self._route(host, port, client)
        else:
            host, path = _plain_target(request)
            route = await self._route(host, _HTTP_PORT, client)
        try:
            if request.method == b"CONNECT":
                client.early = conn.trailing_data[0]
                client.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await self._tunnel(client, route, host, port)
            else:
                outgoing = outgoing_request(request, host, path, route)
                await exchange(conn, outgoing, client, route, self._limits.idle_s)
        finally:
            await close_writer(route.writer)

    async def _request(self, conn: h11.Connection, client: ClientEnd) -> h11.Request:
        """Return the head of the next request. Raises RequestRefused."""
        try:
            async with asyncio.timeout(self._limits.head_s):
                event = await next_event(conn, client)
        except h11.RemoteProtocolError as error:
            raise RequestRefused(error.error_status_hint, "not a valid HTTP request") from error
        except TimeoutError:
            raise RequestRefused(408, "the request was not completed in time") from None
        if not isinstance(event, h11.Request):
            raise ConnectionResetError("the client closed the connection")
        return event

    async def _route(self, host: str, port: int, client: ClientEnd) -> HostConnection:
        """Return a connection to the host, if it is allowed. Raises RequestRefused."""
        is_known = host in self._hosts
        is_own = host == _OWN_HOST and self._ask is not None
        if not is_known and not is_own:
            mirror = await self._find_mirror(host, port) if self._ask is not None else ""
            if not await self._is_allowed(host, mirror, client):
                raise RequestRefused(403, f"{host} is not an allowed host", host)
        try:
            return await self._connected(host, port, client, asks=is_own and not is_known)
        except HostNotPublic as error:
            raise RequestRefused(403, str(error), host) from error
        except HostUnreachable as error:
            self._unreached.append((time.monotonic(), str(error)))
            raise RequestRefused(_UNREACHED, str(error)) from error

    async def _is_allowed(self, host: str, address: str, client: ClientEnd) -> bool:
        return self._ask is not None and await self._ask(host, address, client.port)

    async def _connected(
        self, host: str, port: int, client: ClientEnd, *, asks: bool = False
    ) -> HostConnection:
        """Return a connection to an allowed host. Raises HostUnreachable.

        Its private address is asked about; with `asks`, so is any other.
        """
        try:
            return await self._connect(host, port, **({"reachable": lambda _: False} if asks else {}))
        except HostNotPublic as error:
            address = error.address
            is_known = self._private.get(host) == address or is_mirror(host, address)
            if not is_known and not await self._is_allowed(host, address, client):
                raise
        self._private[host] = address
        return await self._connect(host, port, reachable=address.__eq__)

    async def _tunnel(self, client: ClientEnd, route: HostConnection, host: str, port: int) -> None:
        """Serve a tunnel: TLS for that host, or one plain request on port 80. Raises TunnelRefused."""
        async with asyncio.timeout(self._limits.head_s):
            tls = await client.begins_as_tls()
            if tls:
                await check_hello(client, host)
        if tls and not route.absolute:
            return await pass_on(client, route, self._limits.idle_s)
        if tls or port == _TLS_PORT:
            raise TunnelRefused("a tunnel may only carry TLS to port 443 or plain HTTP to port 80")
        conn = h11.Connection(h11.SERVER, self._limits.head_bytes)
        request = await self._request(conn, client)
        named, path = _plain_target(request, host)
        if named != host:
            raise RequestRefused(403, "a tunnel is for one host", named)
        outgoing = outgoing_request(request, host, path, route)
        return await exchange(conn, outgoing, client, route, self._limits.idle_s)


def _connect_target(request: h11.Request) -> tuple[str, int]:
    """Return host and port of a CONNECT request. Raises RequestRefused."""
    target = request.target.decode("latin-1")
    host, colon, port = target.rpartition(":")
    named = _allowable(host if colon else target)
    if port not in (str(_HTTP_PORT), str(_TLS_PORT)):
        raise RequestRefused(403, "only the ports 80 and 443 are allowed", named)
    return named, int(port)


def _plain_target(request: h11.Request, within: str = "") -> tuple[str, str]:
    """Return host and path of a plain request; `within` a tunnel a path is enough. Raises RequestRefused."""
    target = request.target.decode("latin-1")
    if target.startswith("/") and within:
        host = within
        path = target
    else:
        scheme, _, rest = target.partition("://")
        if scheme.lower() != "http":
            raise RequestRefused(400, "this is a proxy, which accepts CONNECT and http:// URLs")
        end = next((at for at, char in enumerate(rest) if char in "/?#\\"), len(rest))
        host = _without_port(rest[:end])
        path = rest[end:].partition("#")[0]
    if not path.startswith("/"):
        path = f"/{path}"
    for name, value in request.headers:
        authority = value.decode("latin-1")
        if name == b"host" and _without_port(authority) != host:
            raise RequestRefused(403, "the Host header names another host", shown_host(authority))
    return host, path


def _without_port(authority: str) -> str:
    """Return the host of an authority whose port is 80. Raises RequestRefused."""
    host, colon, port = authority.rpartition(":")
    if colon and port not in ("", str(_HTTP_PORT)) and port.isdecimal():
        raise RequestRefused(403, "only port 80 is allowed without TLS", shown_host(authority))
    return _allowable(host if colon else authority)


def _allowable(host: str) -> str:
    try:
        return host_name(host)
    except ValueError as error:
        raise RequestRefused(403, str(error), shown_host(host)) from error


def _refusal_bytes(refusal: RequestRefused) -> bytes:
    where = f"reach {refusal.host}: " if refusal.host else ""
    unreached = refusal.status == _UNREACHED
    text = f"{'no connection' if unreached else BLOCKED_MARK}: {where}{refusal}\n".encode()
    reason = "No connection" if unreached else "Blocked by the sandbox"
    head = f"HTTP/1.1 {refusal.status} {reason}\r\nContent-Type: text/plain\r\n"
    return f"{head}Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text


async def start_proxy(
    path: Path,
    hosts: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    *,
    connect: Connect | None = None,
    lookup: Resolver = resolve,
    limits: ProxyLimits | None = None,
) -> NetworkProxy:
    """Start a proxy for the allowed hosts on the socket `path`, in a directory that only the user can enter.

    `environ` may name a proxy for the user's own connections. Raises OSError if the socket cannot be made,
    ValueError if one of the hosts is not a valid host name.
    """
    given = os.environ if environ is None else environ
    proxy = NetworkProxy(
        path,
        hosts,
        connect=connect or partial(connect_to_host, environ=given, lookup=lookup),
        find_mirror=partial(mirror_address, lookup=lookup),
        limits=limits or ProxyLimits(),
    )
    await proxy.start()
    return proxy
