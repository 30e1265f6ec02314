"""The network proxy lets sandboxed commands reach the allowed hosts and nothing else, whatever they send."""

import asyncio
import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tables import each_row
from tools.sandbox.proxy.client_hello import NotAClientHello, server_name
from tools.sandbox.proxy.host_connection import (
    HostConnection,
    HostNotPublic,
    HostUnreachable,
    connect_to_host,
    is_public_address,
    proxy_for,
)
from tools.sandbox.proxy.hosts import host_name, is_package_index
from tools.sandbox.proxy.server import NetworkProxy, ProxyLimits, start_proxy
from tools.text.words import word_set

ALLOWED = "registry.example"
GET = b"GET http://registry.example/ HTTP/1.1\r\nHost: registry.example\r\n"
POST = b"POST http://registry.example/ HTTP/1.1\r\nHost: registry.example\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate and its key."""
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the certificate")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    out = ["-keyout", str(path), "-out", str(path.with_name("cert.pem"))]
    subprocess.run(
        ["openssl", "req", "-x509", *key, "-subj", f"/CN={ALLOWED}", "-days", "2", *out],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + path.with_name("cert.pem").read_text())
    return path


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on a port of this machine."""
    tasks = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def once() -> None:
            try:
                await serve(reader, writer)
            finally:
                writer.close()

        task = asyncio.ensure_future(once())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def proxying(
    folder: Path, port: int, *hosts: str, absolute: bool = False, **limits: Any
) -> AsyncIterator[NetworkProxy]:
    """A proxy for the hosts, all of which are the server on that port."""

    async def connect(host: str, _: int) -> HostConnection:
        return HostConnection(*await asyncio.open_connection("127.0.0.1", port), absolute=absolute)

    proxy = await start_proxy(
        folder / "proxy", hosts or (ALLOWED,), connect=connect, limits=ProxyLimits(**limits)
    )
    try:
        yield proxy
    finally:
        await proxy.close()


async def ask(proxy: NetworkProxy, *sent: bytes) -> bytes:
    """Return the answer to these bytes, until the proxy closes the connection."""
    reader, writer = await asyncio.open_unix_connection(proxy.path)
    writer.write(b"".join(sent))
    try:
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


async def connected(
    proxy: NetworkProxy, target: str
) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    """A tunnel, and the first line of the answer."""
    reader, writer = await asyncio.open_unix_connection(proxy.path)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    status = await reader.readline()
    if b" 200 " in status:
        await reader.readuntil(b"\r\n")
    return status, reader, writer


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def refused_by_origin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    raise AssertionError("nothing may be connected to")


class Echo:
    """An HTTP server that answers with what it was sent; `seen` has every byte."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") -> None:
        self.seen, self.answer = b"", answer

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen += await reader.readuntil(b"\r\n\r\n")
        while True:  # a body, for as long as there is one
            try:
                more = await asyncio.wait_for(reader.read(65536), 0.05)
            except TimeoutError:
                break
            if not more:
                break
            self.seen += more
        writer.write(self.answer)
        await writer.drain()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


REFUSED_TARGETS = [
    "other.example:443",
    "registry.example.evil.x:443",
    "evil.registry.example:443",
    "registry.example@evil.x:443",
    "evil.x:443@registry.example:443",
    "registry.example.:443",
    "registry.example:22",
    "registry.example:8443",
    "registry.example:0443",
    "registry.example",
    "registry.example:",
    "169.254.169.254:80",
    "127.0.0.1:443",
    "2130706433:443",
    "0x7f.1:443",
    "127.1:443",
    "0177.0.0.1:443",
    "[::1]:443",
    "[::ffff:169.254.169.254]:80",
    "::1:443",
    "localhost:443",
    "r\xe9gistry.example:443",
    "xn--rgistry-bya.example:443",
    "registry.example%00.evil.x:443",
    "*.example:443",
    ".example:443",
    "registry..example:443",
    "-registry.example:443",
    "registry.example/../evil.x:443",
]


def test_what_is_not_exactly_an_allowed_host_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(refused_by_origin) as port, proxying(tmp_path, port) as proxy:
            answers = [
                await ask(proxy, b"CONNECT ", target.encode("latin-1"), b" HTTP/1.1\r\nHost: x\r\n\r\n")
                for target in REFUSED_TARGETS
            ]
            told = [status_of(answer) for answer in answers]
            ascii_only = [403 if target.isascii() else 400 for target in REFUSED_TARGETS]
            assert told == ascii_only, list(zip(REFUSED_TARGETS, told, strict=True))
            assert answers[0].endswith(
                b"blocked: reach other.example: other.example is not an allowed host\n"
            )

    run(main())


@each_row(
    ("request_line", "host", "status"),
    [
        ("GET http://other.example/", ALLOWED, 403),
        ("GET http://registry.example/", "other.example", 403),
        ("GET http://registry.example/", "registry.example:8080", 403),
        ("GET http://registry.example/", "registry.example.", 403),
        ("GET http://registry.example:8080/", ALLOWED, 403),
        ("GET http://registry.example:443/", ALLOWED, 403),
        ("GET http://registry.example@other.example/", ALLOWED, 403),
        ("GET http://x:y@registry.example/", ALLOWED, 403),
        ("GET http://other.example\\@registry.example/", ALLOWED, 403),
        ("GET http://other.example#@registry.example/", ALLOWED, 403),
        ("GET http://other.example?@registry.example/", ALLOWED, 403),
        ("GET http://169.254.169.254/latest/meta-data/", "169.254.169.254", 403),
        ("GET https://registry.example/", ALLOWED, 400),
        ("GET ftp://registry.example/", ALLOWED, 400),
        ("GET /", ALLOWED, 400),
        ("OPTIONS *", ALLOWED, 400),
    ],
)
def test_a_plain_request_is_for_the_allowed_host_alone(
    tmp_path: Path, request_line: str, host: str, status: int
) -> None:
    async def main() -> None:
        async with serving(refused_by_origin) as port, proxying(tmp_path, port) as proxy:
            answer = await ask(proxy, f"{request_line} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert status_of(answer) == status

    run(main())


@each_row(
    "head",
    [
        b"GET http://registry.example/ HTTP/1.1\r\nHost: registry.example\r\nHost: other.example\r\n\r\n",
        b"GET http://registry.example/ HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        POST + b"Transfer-Encoding: gzip\r\n\r\n",
        b"CONNECT registry.example\x00:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello\r\n\r\n",
        b"GET http://registry.example/ HTTP/1.1\r\nX: " + b"x" * 40_000,
    ],
)
def test_what_two_programs_could_read_differently_is_refused(tmp_path: Path, head: bytes) -> None:
    async def main() -> None:
        async with serving(refused_by_origin) as port, proxying(tmp_path, port) as proxy:
            assert status_of(await ask(proxy, head)) in (400, 431, 501)

    run(main())


def test_a_plain_request_reaches_its_host_with_our_own_headers(tmp_path: Path) -> None:
    async def main() -> None:
        origin = Echo()
        async with serving(origin) as port, proxying(tmp_path, port) as proxy:
            answer = await ask(
                proxy,
                b"GET HTTP://Registry.Example:80?q=1#f HTTP/1.1\r\nHost: REGISTRY.example:80\r\n",
                b"Proxy-Authorization: Basic eDp5\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n",
                b"X-End: 2\r\nUpgrade: websocket\r\n\r\n",
            )
            assert answer.endswith(b"\r\n\r\nok")
            assert origin.seen == (
                b"GET /?q=1 HTTP/1.1\r\nHost: registry.example\r\nX-End: 2\r\nConnection: close\r\n\r\n"
            )
            assert proxy.refused_since(0) == ()

    run(main())


def test_a_body_is_passed_on_and_a_second_request_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        second = b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n"
        bodies = {
            b"Content-Length: 4\r\n\r\nbody": b"\r\n\r\nbody",
            b"Transfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\nT: 1\r\n\r\n": b"\nbody\r\n0\r\n\r\n",
            b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": b"0\r\n\r\n",
        }
        for sent, arrives in bodies.items():
            origin = Echo()
            async with serving(origin) as port, proxying(tmp_path, port) as proxy:
                answer = await ask(proxy, POST, sent, second)
                assert answer.endswith(b"ok")
                assert origin.seen.endswith(arrives)
                assert b"other.example" not in origin.seen
                assert (b"Content-Length" in origin.seen) == (b"chunked" not in sent)

    run(main())


def test_a_tunnel_to_port_80_takes_one_plain_request_for_its_host(tmp_path: Path) -> None:
    async def main() -> None:
        for host, reached in ((ALLOWED, True), ("other.example", False)):
            origin = Echo()
            async with serving(origin) as port, proxying(tmp_path, port, ALLOWED, "other.example") as proxy:
                _, reader, writer = await connected(proxy, f"{ALLOWED}:80")
                writer.write(f"GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                answer = await asyncio.wait_for(reader.read(), 20)
                writer.close()
                assert status_of(answer) == (200 if reached else 403)
                assert (b"GET /x" in origin.seen) == reached

    run(main())


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize(
    ("named", "works"),
    [
        (ALLOWED, True),
        ("REGISTRY.example", True),
        ("other.example", False),
        (None, False),
        ("10.1.2.3", False),
    ],
)
@pytest.mark.parametrize("port", [443, 80])
def test_tls_in_a_tunnel_must_ask_for_the_same_host(
    tmp_path: Path, certificate: Path, named: str | None, works: bool, port: int
) -> None:
    async def main() -> None:
        origin = Echo(b"served")
        async with (
            serving(origin, server_context(certificate)) as there,
            proxying(tmp_path, there, ALLOWED, "other.example") as proxy,
        ):
            status, reader, writer = await connected(proxy, f"Registry.Example:{port}")
            assert status_of(status) == 200
            try:
                await writer.start_tls(client_context(), server_hostname=named)
                writer.write(b"hello\r\n\r\n")
                answer = await asyncio.wait_for(reader.read(), 20)
            except OSError:
                answer = b""
            finally:
                writer.transport.abort()
            assert answer == (b"served" if works else b"")
            assert origin.seen == (b"hello\r\n\r\n" if works else b"")
            assert proxy.refused_since(0) == (("other.example",) if named == "other.example" else ())

    run(main())


def test_a_tunnel_that_is_not_tls_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        origin = Echo()
        openings = [
            b"SSH-2.0-x\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\xff\xff",
            b"\x16\x03\x01\0\4\2\0\0\0",
        ]
        async with serving(origin) as port, proxying(tmp_path, port) as proxy:
            for opening in openings:
                _, reader, writer = await connected(proxy, f"{ALLOWED}:443")
                writer.write(opening)
                assert await asyncio.wait_for(reader.read(), 20) == b""
                writer.close()
        assert origin.seen == b""

    run(main())


def hello_for(name: str) -> bytes:
    """The ClientHello that a TLS client sends, without its records."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context().wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()[5:]


def with_extension(hello: bytes, kind: int, content: bytes) -> bytes:
    """The same hello with one extension more."""
    at = 4 + 34
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at : at + 2])
    at += 1 + hello[at]
    extensions = hello[at + 2 :] + kind.to_bytes(2) + len(content).to_bytes(2) + content
    body = hello[4:at] + len(extensions).to_bytes(2) + extensions
    return hello[:1] + len(body).to_bytes(3) + body


def test_the_name_in_a_hello_is_read_and_what_hides_it_is_refused() -> None:
    hello = hello_for(ALLOWED)
    name = b"other.example"
    entry = b"\0" + len(name).to_bytes(2) + name
    assert server_name(hello) == ALLOWED
    assert server_name(with_extension(hello, 0x1234, b"x")) == ALLOWED
    twice = with_extension(hello, 0, len(entry).to_bytes(2) + entry)
    hidden = with_extension(hello, 0xFE0D, b"\0" * 40)
    for bad in (twice, hidden, hello.replace(ALLOWED.encode(), b"registry.e\xe4ample")):
        with pytest.raises(NotAClientHello):
            server_name(bad)
    for end in range(len(hello)):
        with pytest.raises(NotAClientHello):
            server_name(hello[:end])


def test_a_hello_in_many_records_and_pieces_is_put_together(tmp_path: Path) -> None:
    async def main() -> None:
        seen: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def origin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.set_result(await reader.readexactly(len(records)))

        hello = hello_for(ALLOWED)
        pieces = [hello[at : at + 100] for at in range(0, len(hello), 100)]
        records = b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2) + piece for piece in pieces)
        async with serving(origin) as port, proxying(tmp_path, port) as proxy:
            _, _, writer = await connected(proxy, f"{ALLOWED}:443")
            for at in range(0, len(records), 7):
                writer.write(records[at : at + 7])
                await asyncio.sleep(0)
            assert await asyncio.wait_for(seen, 20) == records
            writer.close()

    run(main())


def test_a_redirect_to_a_new_host_is_a_new_request_that_is_refused_and_remembered(tmp_path: Path) -> None:
    async def main() -> None:
        moved = b"HTTP/1.1 302 Found\r\nLocation: http://files.example/x\r\nContent-Length: 0\r\n\r\n"
        async with serving(Echo(moved)) as port, proxying(tmp_path, port) as proxy:
            mark = time.monotonic()
            request = "GET http://{0}/x HTTP/1.1\r\nHost: {0}\r\n\r\n"
            assert status_of(await ask(proxy, request.format(ALLOWED).encode())) == 302
            assert proxy.refused_since(mark) == ()
            for _ in range(2):
                assert status_of(await ask(proxy, request.format("files.example").encode())) == 403
            assert proxy.refused_since(mark) == ("files.example",)
            assert proxy.refused_since(time.monotonic()) == ()
            proxy.allow("Files.Example")
            assert status_of(await ask(proxy, request.format("files.example").encode())) == 302

    run(main())


def test_a_refused_host_is_remembered_without_what_a_terminal_acts_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(refused_by_origin) as port, proxying(tmp_path, port) as proxy:
            await ask(proxy, b"GET http://a/ HTTP/1.1\r\nHost: \xc2\x9b31m\xe2\x80\xae\r\n\r\n")
            (host,) = proxy.refused_since(0)
            assert host.isascii()
            assert host.isprintable()

    run(main())


def test_slow_idle_and_too_many_clients_are_let_go(tmp_path: Path) -> None:
    async def main() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()

        limits: dict[str, Any] = {"head_s": 0.1, "idle_s": 0.1, "connections": 3}
        connect = b"CONNECT registry.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"
        async with serving(silent) as port, proxying(tmp_path, port, **limits) as proxy:
            assert status_of(await ask(proxy, b"GET ")) == 408
            assert await ask(proxy, GET, b"\r\n") == b""
            assert (await ask(proxy, connect)).endswith(b"established\r\n\r\n")
            answers = await asyncio.gather(*(ask(proxy, GET) for _ in range(6)))
            assert sorted(map(status_of, answers)) == [408, 408, 408, 503, 503, 503]

    run(main())


def test_closing_ends_every_connection_and_removes_the_socket(tmp_path: Path) -> None:
    async def main() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()

        async with serving(silent) as port, proxying(tmp_path, port) as proxy:
            _, reader, writer = await connected(proxy, f"{ALLOWED}:443")
            await asyncio.wait_for(proxy.close(), 5)
            assert await reader.read() == b""
            writer.close()
            assert not proxy.path.exists()
            assert len(asyncio.all_tasks()) <= 2  # this one, and the server's

    run(main())


def test_a_download_of_any_size_comes_through_and_waits_for_a_slow_reader(tmp_path: Path) -> None:
    async def main() -> None:
        size = 20_000_000

        async def large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            for _ in range(size // 100_000):
                writer.write(b"x" * 100_000)
                await writer.drain()

        async with serving(large) as port, proxying(tmp_path, port) as proxy:
            answer = await ask(proxy, GET, b"\r\n")
            assert len(answer) == size + len(b"HTTP/1.1 200 OK\r\n\r\n")

    run(main())


# Where names lead.

PRIVATE = sorted(
    word_set(
        " 127.0.0.1 127.255.0.9 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1"
        " 100.100.100.200 192.0.0.192 198.18.0.1 224.0.0.1 255.255.255.255 240.0.0.1 168.63.129.16 ::1 ::"
        " fe80::1 fe80::1%eth0 fd00:ec2::254 ff02::1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1"
        " 64:ff9b::a9fe:a9fe 2002:7f00:1:: 2002:a9fe:a9fe:: 2001:0:4136:e378:8000:63bf:80ff:fffe ::127.0.0.1"
        " 2001:db8::1 fec0::1 feff:ffff::1 x"
    )
)
PUBLIC = [
    "1.1.1.1",
    "151.101.0.223",
    "2606:4700::1111",
    "2a04:4e42::223",
    "64:ff9b::101:101",
    "::ffff:1.1.1.1",
]


def test_addresses_of_this_machine_its_network_and_its_host_are_not_public() -> None:
    assert [address for address in PRIVATE if is_public_address(address)] == []
    assert [address for address in PUBLIC if not is_public_address(address)] == []


def test_an_allowed_name_that_leads_to_this_machine_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        proxy = await start_proxy(tmp_path / "proxy", ["localhost"], {})
        try:
            answer = await ask(proxy, b"CONNECT localhost:443 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert status_of(answer) == 403
            assert b"resolves to a private address" in answer
            assert proxy.refused_since(0) == ("localhost",)
        finally:
            await proxy.close()

    run(main())


def test_a_name_is_resolved_once_and_the_judged_address_is_connected_to() -> None:
    async def main() -> None:
        asked = []

        def rebinding(host: str, port: int) -> list[str]:
            asked.append(host)
            return ["127.0.0.2", "127.0.0.1"] if len(asked) == 1 else ["127.0.0.3"]

        async with serving(Echo()) as port:
            there = await connect_to_host(
                ALLOWED, port, {}, lookup=rebinding, reachable=lambda address: address == "127.0.0.1"
            )
            assert there.writer.get_extra_info("peername")[0] == "127.0.0.1"
            there.writer.close()
        assert asked == [ALLOWED]

    run(main())


def test_a_host_that_cannot_be_resolved_or_reached_is_said_so(tmp_path: Path) -> None:
    async def main() -> None:
        def unknown(host: str, port: int) -> list[str]:
            raise OSError("no such name")

        with pytest.raises(HostUnreachable, match="cannot be resolved"):
            await connect_to_host(ALLOWED, 443, {}, lookup=unknown)
        with pytest.raises(HostUnreachable, match=r"cannot be reached: Connection refused\Z"):
            await connect_to_host(
                ALLOWED, 9, {}, lookup=lambda *_: ["127.0.0.1"], reachable=lambda address: True
            )
        with pytest.raises(HostNotPublic):
            await connect_to_host(ALLOWED, 443, {}, lookup=lambda *_: ["10.0.0.1", "::1"])

    run(main())


# The user's own proxy.


def test_the_proxy_of_the_environment_is_chosen_as_other_programs_choose_it() -> None:
    environ = {
        "HTTPS_PROXY": "http://one:3128",
        "http_proxy": "two:8080",
        "NO_PROXY": ".corp.example,direct.example",
    }

    def chosen(host: str, port: int) -> str | None:
        url = proxy_for(host, port, environ)
        return url and f"{url.hostname}:{url.port}"

    assert chosen(ALLOWED, 443) == "one:3128"
    assert chosen(ALLOWED, 80) == "two:8080"
    assert chosen("direct.example", 443) is chosen("git.corp.example", 80) is None
    assert proxy_for(ALLOWED, 443, {"all_proxy": "http://three"}) is not None
    for unusable in ("socks5://four", "http://four:x", "http://four:99999", "http://[::1", "http://"):
        with pytest.raises(HostUnreachable, match="HTTPS_PROXY is not an http"):
            proxy_for(ALLOWED, 443, {"HTTPS_PROXY": unusable})


def test_tunnels_and_requests_go_through_the_users_own_proxy(tmp_path: Path, certificate: Path) -> None:
    """The proxy behind ours is one of ours too; it knows the name, which this machine cannot resolve."""

    async def main() -> None:
        def unknown(host: str, port: int) -> list[str]:
            raise OSError("no such name")

        seen = []
        origin = Echo(b"served")
        async with serving(origin, server_context(certificate)) as there, proxying(tmp_path, there) as outer:

            async def noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                seen.append(await reader.readuntil(b"\r\n\r\n"))
                inner, out = await asyncio.open_unix_connection(outer.path)
                out.write(seen[-1])

                async def back() -> None:
                    while data := await inner.read(65536):
                        writer.write(data)

                answering = asyncio.ensure_future(back())
                while data := await reader.read(65536):
                    out.write(data)
                answering.cancel()
                out.close()

            async with serving(noted) as port:
                environ = {"https_proxy": f"http://me:p%40ss@127.0.0.1:{port}"}

                async def connect(host: str, to: int) -> HostConnection:
                    return await connect_to_host(host, to, environ, lookup=unknown)

                ours = await start_proxy(tmp_path / "ours", [ALLOWED, "other.example"], connect=connect)
                _, reader, writer = await connected(ours, f"{ALLOWED}:443")
                await writer.start_tls(client_context(), server_hostname=ALLOWED)
                writer.write(b"hello\r\n\r\n")
                assert await asyncio.wait_for(reader.read(), 20) == b"served"
                writer.transport.abort()
                status, _, writer = await connected(ours, "other.example:443")
                assert status_of(status) == 502
                assert ours.refused_since(0) == () and "refused other.example" in ours.unreached_since(0)[0]
                assert ours.unreached_since(time.monotonic()) == ()
                writer.close()
                await ours.close()
        assert b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in seen[0].replace(b"proxy-auth", b"Proxy-Auth")

    run(main())


def test_a_plain_request_to_the_users_proxy_has_the_whole_url(tmp_path: Path) -> None:
    async def main() -> None:
        origin = Echo()
        async with serving(origin) as port, proxying(tmp_path, port, absolute=True) as proxy:
            await ask(proxy, b"GET http://registry.example/x HTTP/1.1\r\nHost: registry.example\r\n\r\n")
        assert origin.seen.startswith(b"GET http://registry.example/x HTTP/1.1\r\nHost: registry.example\r\n")

    run(main())


@each_row(
    ("reason", "refused"),
    [
        ("it is not a host name", ["", "a b", "a/b", "a" * 64, "*.a"]),
        ("addresses are not allowed", ["a:80", "1.2.3.4", "[::1]"]),
        ("a host with a user name is not allowed", ["x@y"]),
        ("a name that ends with a dot is not allowed", ["a."]),
        ("internationalized names are not allowed", ["xn--a.example", "ä.example"]),
    ],
)
def test_only_a_whole_host_name_can_be_allowed(reason: str, refused: list[str]) -> None:
    for name in refused:
        with pytest.raises(ValueError, match=reason):
            host_name(name)
    assert host_name("Registry.NPMjs.org") == "registry.npmjs.org"


@each_row(
    ("host", "address", "asked"),
    [
        ("pypi.org", "10.1.2.3", [("pypi.org", "10.1.2.3")]),
        ("registry.npmjs.org", "fd12::5", [("registry.npmjs.org", "fd12::5")]),
        ("pypi.org", "93.184.215.14", [("pypi.org", "")]),
        ("pypi.org", "127.0.0.1", [("pypi.org", ""), ("pypi.org", "127.0.0.1")]),
        ("pypi.org", "169.254.169.254", [("pypi.org", ""), ("pypi.org", "169.254.169.254")]),
        ("pypi.org", "100.100.100.200", [("pypi.org", ""), ("pypi.org", "100.100.100.200")]),
        ("pypi.org", "::ffff:127.0.0.1", [("pypi.org", ""), ("pypi.org", "::ffff:127.0.0.1")]),
        ("mirror.example", "10.1.2.3", [("mirror.example", ""), ("mirror.example", "10.1.2.3")]),
    ],
)
def test_a_mirror_of_a_package_index_takes_one_question(
    tmp_path: Path, host: str, address: str, asked: list[tuple[str, str]]
) -> None:
    """No command chooses the address of an index. Any other name is looked up only after the question."""
    seen: list[tuple[str, str]] = []
    looked_up: list[str] = []

    def lookup(name: str, _: int) -> list[str]:
        looked_up.append(name)
        return [address]

    async def allow(host: str, address: str, _: int) -> bool:
        seen.append((host, address))
        assert looked_up or not is_package_index(host)
        return True

    async def main() -> None:
        async with serving(Echo(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as port:

            async def connect(
                name: str, _: int, reachable: Callable[[str], bool] = is_public_address
            ) -> HostConnection:
                if not reachable(address):
                    raise HostNotPublic(name, address)
                return HostConnection(*await asyncio.open_connection("127.0.0.1", port))

            proxy = await start_proxy(tmp_path / "proxy", [], connect=connect, lookup=lookup)
            request = f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
            assert status_of(await ask(proxy, request)) == 403 and looked_up == []  # nobody can be asked
            proxy.use_asker(allow)
            assert status_of(await ask(proxy, request)) == 200
            assert seen == asked and set(looked_up) <= {host}
            proxy.allow(host)  # by a rule, which is about a mirror as well
            assert status_of(await ask(proxy, request)) == 200
            assert seen == asked
            await proxy.close()

    run(main())


def test_a_rule_about_a_package_index_reaches_its_mirror_without_a_question(tmp_path: Path) -> None:
    """But not an address of this machine."""

    async def main() -> None:
        async with serving(Echo(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as port:
            address = "192.168.7.7"

            async def connect(
                name: str, _: int, reachable: Callable[[str], bool] = is_public_address
            ) -> HostConnection:
                if not reachable(address):
                    raise HostNotPublic(name, address)
                return HostConnection(*await asyncio.open_connection("127.0.0.1", port))

            proxy = await start_proxy(tmp_path / "proxy", ["pypi.org", "a.example"], connect=connect)
            for host, status in (("pypi.org", 200), ("a.example", 403)):
                request = f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
                assert status_of(await ask(proxy, request)) == status
            address = "127.0.0.1"
            request = b"GET http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n"
            assert status_of(await ask(proxy, request)) == 403
            await proxy.close()

    run(main())


@pytest.mark.parametrize("address", ["127.0.0.1", "93.184.215.14"])
def test_localhost_takes_one_question(tmp_path: Path, address: str) -> None:
    """No name server learns of the name, so the question can be about its address at once."""
    asked: list[tuple[str, str]] = []
    tried: list[str] = []

    async def allow(host: str, address: str, _: int) -> bool:
        asked.append((host, address))
        return len(asked) == 2

    async def main() -> None:
        async def connect(host: str, _: int, **more: Any) -> HostConnection:
            reached = await connect_to_host(host, port, {}, lookup=lambda *_: [address], **more)
            tried.append(host)
            return reached

        async with serving(Echo(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as port:
            proxy = await start_proxy(tmp_path / "proxy", [], connect=connect)
            request = b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n"
            assert status_of(await ask(proxy, request)) == 403
            proxy.use_asker(allow)
            assert status_of(await ask(proxy, request)) == 403
            assert asked == [("localhost", address)] and tried == []
            if address.startswith("127."):
                assert status_of(await ask(proxy, request)) == 200
                assert status_of(await ask(proxy, request)) == 200
                assert asked == [("localhost", address)] * 2
            await proxy.close()

    run(main())


def test_a_private_address_is_connected_to_once_the_user_allows_it(tmp_path: Path) -> None:
    """Company mirrors have such addresses. The answer holds for the session, and for that address."""
    asked: list[tuple[str, str]] = []

    async def allow(host: str, address: str, _: int) -> bool:
        asked.append((host, address))
        return host != "evil.example"

    async def main() -> None:
        addresses = ["127.0.0.1"]
        async with serving(Echo(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as port:

            async def connect(host: str, _: int, **more: Any) -> HostConnection:
                return await connect_to_host(host, port, {}, lookup=lambda *_: list(addresses), **more)

            proxy = await start_proxy(tmp_path / "proxy", ["mirror.example"], connect=connect)
            request = b"GET http://mirror.example/ HTTP/1.1\r\nHost: mirror.example\r\n\r\n"
            other = request.replace(b"mirror", b"evil")
            assert status_of(await ask(proxy, request)) == 403  # nobody can be asked
            assert proxy.use_asker(allow) is None
            for each, status in ((request, 200), (request, 200), (other, 403)):
                assert status_of(await ask(proxy, each)) == status
            addresses[0] = "127.0.0.2"
            assert status_of(await ask(proxy, request)) == 502  # asked and tried, but nothing listens there
            assert proxy.use_asker(None) is allow
            addresses[0] = "127.0.0.3"
            assert status_of(await ask(proxy, request)) == 403
            await proxy.close()

    run(main())
    assert asked == [
        ("mirror.example", "127.0.0.1"),
        ("evil.example", ""),
        ("mirror.example", "127.0.0.2"),
    ]
