"""Fetch one document over HTTP, with limits on time, size and redirects, and without credentials.

Connections are made as for the sandbox's proxy: a name is resolved once, and the address that was checked is
the one to which we connect. No cookies, keys or referrers are sent.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping
from email.message import Message
from functools import partial
from ipaddress import ip_address
from urllib.parse import urljoin

import h11
from msgspec import Struct
from msgspec.structs import replace

from tools.sandbox import HostConnection, HostNotPublic, HostUnreachable, connect_to_host

from .unpacking import Unpacker
from .web_address import WebAddress, parse_address

FETCH_LIMIT_S = 30.0  # for all redirects of a document together
MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = (
    (b"User-Agent", b"makeroom (coding agent; fetches single pages for its user)"),
    (b"Accept", b"text/markdown, text/html, application/xhtml+xml, text/plain, application/json, */*;q=0.5"),
    (b"Accept-Encoding", b"gzip"),
    (b"Connection", b"close"),
)

Connect = Callable[[WebAddress], Awaitable[HostConnection]]


class WebError(Exception):
    """The document cannot be fetched. The first line is the reason, the second one the remedy."""


class Document(Struct, frozen=True):
    """A document: its final address, media type, charset ("" if unknown) and content.

    `cut` is set if the content is longer than was wanted.
    """

    address: WebAddress
    kind: str
    charset: str
    content: bytes
    cut: bool = False


async def fetch_document(
    address: WebAddress,
    environ: Mapping[str, str],
    limit_of: Callable[[str], int],
    *,
    connect: Connect | None = None,
    tls: ssl.SSLContext | None = None,
) -> Document:
    """Fetch a document, following redirects on its own host. Raises WebError.

    `limit_of` returns how many bytes of a media type are useful, after decompression.
    """
    to_host = connect or partial(_connect, environ=environ)
    try:
        async with asyncio.timeout(FETCH_LIMIT_S):
            for _ in range(MAX_REDIRECTS + 1):
                found = await _get(address, to_host, tls, limit_of)
                if isinstance(found, Document):
                    return found
                address = _redirected(address, found)
    except TimeoutError:
        problem = f"{address} did not respond completely within {FETCH_LIMIT_S:g} s."
        raise WebError(f"{problem}\nTry again later, or use another source.") from None
    raise WebError(f"{address} redirects more than {MAX_REDIRECTS} times.\nUse another source.")


def _redirected(address: WebAddress, location: str) -> WebAddress:
    """Return the address to continue with. Raises WebError for another host, which needs its own approval."""
    url = urljoin(str(address), location)
    try:
        following = parse_address(url)
    except ValueError as error:
        raise WebError(f"{address} redirects to {url[:500]!r}, which cannot be fetched: {error}.") from None
    if following.place != address.place:
        problem = f"{address} redirects to another host: {following}"
        raise WebError(f"{problem}\nTo continue there, call web_fetch with that URL.")
    if address.scheme == "https" and following.scheme == "http":
        raise WebError(f"{address} redirects to a connection without encryption: {following}")
    return following


async def _connect(address: WebAddress, environ: Mapping[str, str]) -> HostConnection:
    """Connect to a public address of a host, or to a port of this machine if that is what was named."""
    if not address.is_local:
        return await connect_to_host(address.host, address.port, environ)
    return await connect_to_host(address.host, address.port, {}, reachable=_is_loopback)


def _is_loopback(address: str) -> bool:
    return ip_address(address).is_loopback


async def _get(
    address: WebAddress, connect: Connect, tls: ssl.SSLContext | None, limit_of: Callable[[str], int]
) -> Document | str:
    """Request an address once: return its document, or the place to which it redirects. Raises WebError."""
    try:
        route = await connect(address)
    except HostNotPublic as error:
        raise WebError(f"{error}.\nOnly public addresses and ports of localhost can be fetched.") from error
    except HostUnreachable as error:
        raise WebError(f"{error}.\nCheck the URL, or use another source.") from error
    try:
        if address.scheme == "https":
            await route.writer.start_tls(tls or _trusted(), server_hostname=address.host)
        return await _answer(address, route, limit_of)
    except ssl.SSLCertVerificationError as error:
        problem = f"The certificate of {address.host} cannot be verified: {error.verify_message}."
        remedy = "Tell the user, who can add a certificate authority with SSL_CERT_FILE."
        raise WebError(f"{problem}\n{remedy}") from error
    except (OSError, h11.ProtocolError, zlib.error) as error:
        problem = f"The request to {address} failed: {error or type(error).__name__}."
        raise WebError(f"{problem}\nTry again, or use another source.") from error
    finally:
        route.writer.transport.abort()


def _trusted() -> ssl.SSLContext:
    """Return a context with the certificates that requests to the model trust."""
    import httpx2  # 100 ms, and most sessions fetch nothing

    return httpx2.create_ssl_context()


async def _answer(
    address: WebAddress, route: HostConnection, limit_of: Callable[[str], int]
) -> Document | str:
    """Send the request and read the answer. Raises WebError, OSError, h11.ProtocolError, zlib.error."""
    conn = h11.Connection(h11.CLIENT)
    headers = [(b"Host", address.authority.encode()), *_HEADERS]
    if route.authorization:
        headers.append((b"Proxy-Authorization", route.authorization))
    target = str(address) if route.absolute else address.target
    route.writer.write(conn.send(h11.Request(method="GET", target=target, headers=headers)) or b"")
    route.writer.write(conn.send(h11.EndOfMessage()) or b"")
    await route.writer.drain()
    while isinstance(response := await _next_event(conn, route), h11.InformationalResponse):
        pass
    if not isinstance(response, h11.Response):
        raise ConnectionError("the connection was closed")
    fields = Message()
    for name, value in response.headers:
        fields[name.decode("ascii")] = value.decode("latin-1")
    if response.status_code in _REDIRECTS and fields["location"]:
        return str(fields["location"])
    if not 200 <= response.status_code < 300:
        reason = response.reason.decode("latin-1")[:80]
        answered = f"{response.status_code} {reason}".strip()
        raise WebError(f"{address} responded with {answered}.\nCheck the URL, or use another source.")
    kind = fields.get_content_type() if fields["content-type"] else ""
    charset = str(fields.get_param("charset") or "")
    document = Document(address, kind=kind, charset=charset, content=b"")
    limit = limit_of(kind)
    if not limit:
        return document
    try:
        unpacker = Unpacker(fields["content-encoding"])
    except ValueError as error:
        raise WebError(f"The page cannot be read: {error}.") from error
    return await _with_content(document, conn, route, unpacker=unpacker, limit=limit)


async def _with_content(
    document: Document, conn: h11.Connection, route: HostConnection, *, unpacker: Unpacker, limit: int
) -> Document:
    """Read the body of the answer, up to a limit. Raises as `_answer` does."""
    content = bytearray()
    while isinstance(event := await _next_event(conn, route), h11.Data):
        for piece in unpacker.pieces(bytes(event.data)):
            content += piece
            if len(content) > limit:
                return replace(document, content=bytes(content[:limit]), cut=True)
    if not unpacker.is_complete:
        raise zlib.error("the compressed data is incomplete")
    return replace(document, content=bytes(content))


async def _next_event(conn: h11.Connection, route: HostConnection) -> object:
    """Return the next event of the answer. Raises OSError, h11.RemoteProtocolError."""
    while (event := conn.next_event()) is h11.NEED_DATA:
        conn.receive_data(await route.reader.read(65_536))
    return event
