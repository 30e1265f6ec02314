"""Connect to an allowed host, directly or through the proxy that the user's environment names.

A name is resolved once, and the checked address is the one to which it connects. So a name that resolves to
another address a moment later (DNS rebinding) has no effect.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import SplitResult, unquote, urlsplit

import h11
from msgspec import Struct

from tools.files import FileError, in_thread

from .hosts import is_mirror, is_package_index

_CONNECT_LIMIT_S = 15.0  # for all addresses of a host, and for the answer of a proxy
# Addresses that count as global but are local: of the host of a virtual machine (Azure's WireServer, Oracle's
# metadata), and of a site (RFC 3879; deprecated, but still routed in some networks).
_LOCAL_NETWORKS = tuple(map(ipaddress.ip_network, ("168.63.129.16/32", "192.0.0.0/24", "fec0::/10")))
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: an IPv4 address in its last 32 bits

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

Resolver = Callable[[str, int], Sequence[str]]


class HostUnreachable(Exception):
    """The host cannot be reached. The text is the reason."""


class HostNotPublic(HostUnreachable):
    """The name resolves to this machine or to its own network; `address` is the one to connect to."""

    def __init__(self, host: str, address: str) -> None:
        super().__init__(f"{host} resolves to a private address ({address})")
        self.address = address


class HostConnection(Struct, frozen=True):
    """A connection that carries the host's own bytes.

    With `absolute` it ends at a proxy, which requires absolute URLs and, if not empty, `authorization`.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    absolute: bool = False
    authorization: bytes = b""


def is_public_address(text: str) -> bool:
    """Return whether an address is public, and not that of this machine, its own network or its host."""
    try:
        address = _embedded(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return False
    local = address.is_multicast or address.is_unspecified or address.is_reserved or address.is_link_local
    return address.is_global and not local and not any(address in network for network in _LOCAL_NETWORKS)


def _embedded(address: Address) -> Address:
    """Return the IPv4 address that is embedded in an IPv6 address; other addresses unchanged."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
    if inner is None and address in _NAT64:
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, best first. Raises OSError. Blocks."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def mirror_address(host: str, port: int, *, lookup: Resolver = resolve) -> str:
    """Return the private address of a package index that is a mirror, "" for any other host.

    The names of others are not looked up, since a command could send data in them.
    """
    if not is_package_index(host):
        return ""
    try:
        addresses = await in_thread(lambda _: lookup(host, port))
    except (OSError, FileError, UnicodeError):
        return ""
    if any(map(is_public_address, addresses[:8])):
        return ""
    return next((each for each in addresses[:1] if is_mirror(host, each)), "")


def proxy_for(host: str, port: int, environ: Mapping[str, str]) -> SplitResult | None:
    """Return the URL of the environment's proxy for a host. Raises HostUnreachable for one of no use."""
    scheme = "https" if port == 443 else "http"
    lower = {name.lower(): value for name, value in environ.items() if value and name.lower() != name}
    lower |= {name: value for name, value in environ.items() if name.lower() == name}
    named = lower.get(f"{scheme}_proxy") or lower.get("all_proxy")
    if not named or _goes_direct(host, port, lower.get("no_proxy", "")):
        return None
    with suppress(ValueError):  # of brackets, or of a port
        url = urlsplit(named if "://" in named else f"http://{named}")
        if url.scheme in ("http", "https") and url.hostname and url.port != 0:
            return url
    raise HostUnreachable(f"{scheme.upper()}_PROXY is not an http:// or https:// URL")


def _goes_direct(host: str, port: int, no_proxy: str) -> bool:
    """Return whether NO_PROXY names the host, a parent domain, or all; an entry may have a port."""
    for entry in no_proxy.lower().split(","):
        name = entry.strip().removesuffix(f":{port}").removeprefix("*.").removeprefix(".")
        if name == "*" or host == name or (name and host.endswith(f".{name}")):
            return True
    return False


async def connect_to_host(
    host: str,
    port: int,
    environ: Mapping[str, str],
    *,
    lookup: Resolver = resolve,
    reachable: Callable[[str], bool] = is_public_address,
) -> HostConnection:
    """Connect to a host. Raises HostUnreachable, HostNotPublic if none of its addresses is `reachable`.

    For port 443 it always returns a tunnel to the host. A proxy resolves names itself, so it also gets names
    that cannot be resolved here.
    """
    proxy = proxy_for(host, port, environ)
    try:
        addresses = await in_thread(lambda _: lookup(host, port))
    except (OSError, FileError, UnicodeError) as error:
        if proxy is None:
            raise HostUnreachable(f"{host} cannot be resolved") from error
        addresses = ()
    public = [address for address in addresses[:8] if reachable(address)]
    if addresses and not public:
        raise HostNotPublic(host, addresses[0])
    try:
        async with asyncio.timeout(_CONNECT_LIMIT_S):
            if proxy is not None:
                return await _through_proxy(proxy, host, port)
            return HostConnection(*await _first_that_answers(public, port))
    except (OSError, TimeoutError) as error:
        raise HostUnreachable(f"{host} cannot be reached: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    """Return why a connection failed, without the address, which asyncio adds to the system's message."""
    is_of_system = type(error) is OSError or isinstance(error, ConnectionError)
    return os.strerror(error.errno) if is_of_system and error.errno else str(error) or "no answer"


async def _first_that_answers(
    addresses: Sequence[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    for address in addresses[:-1]:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CONNECT_LIMIT_S / 3):
                return await asyncio.open_connection(address, port)
    return await asyncio.open_connection(addresses[-1], port)


async def _through_proxy(proxy: SplitResult, host: str, port: int) -> HostConnection:
    secure = proxy.scheme == "https"
    end = await asyncio.open_connection(
        proxy.hostname, proxy.port or (443 if secure else 80), ssl=secure or None
    )
    authorization = b""
    if proxy.username is not None:
        words = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        authorization = b"Basic " + base64.b64encode(words.encode())
    connection = HostConnection(*end, absolute=port != 443, authorization=authorization)
    if not connection.absolute:
        try:
            await _open_tunnel(connection, f"{host}:{port}")
        except BaseException:
            connection.writer.close()
            raise
    return connection


async def _open_tunnel(connection: HostConnection, target: str) -> None:
    """Open a tunnel through the proxy. Raises HostUnreachable."""
    headers = [(b"Host", target.encode())]
    if connection.authorization:
        headers.append((b"Proxy-Authorization", connection.authorization))
    conn = h11.Connection(h11.CLIENT, 16_384)
    request = h11.Request(method="CONNECT", target=target, headers=headers)
    connection.writer.write(conn.send(request) or b"")
    try:
        while (event := conn.next_event()) is h11.NEED_DATA:
            # Byte by byte, since the bytes after the answer belong to the host.
            conn.receive_data(await connection.reader.read(1))
    except h11.RemoteProtocolError as error:
        raise HostUnreachable("the system's proxy sent an answer that is not valid HTTP") from error
    if not isinstance(event, h11.Response) or not 200 <= event.status_code < 300:
        status = event.status_code if isinstance(event, h11.Response) else "the connection was closed"
        raise HostUnreachable(f"the system's proxy refused {target}: {status}")
