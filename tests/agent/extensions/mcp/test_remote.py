"""Servers that are reached by HTTP: headers, refusals, logging in by OAuth on the loopback address."""

import asyncio
import gzip
import json
import socket
import urllib.request
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agent.extensions.mcp.entries import read_entry
from agent.extensions.mcp.failures import ServerFailed
from agent.extensions.mcp.files import ServerFiles
from agent.extensions.mcp.oauth import BrowserAnswer, log_in, token_file
from agent.extensions.mcp.remote import MAX_ERROR_CHARS, why_no_request
from agent.extensions.mcp.server import McpServer, ServerLimits
from agent.extensions.mcp.source import McpServers, McpSetup
from tests.tables import each_row

from .oauth_server import oauth_server

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the library is an extra")


def source_in(folder: Path) -> McpServers:
    return McpServers(McpSetup(ServerFiles(folder, folder, strict=True), folder / "state"))


def remote(source: McpServers, **raw: Any) -> McpServer:
    entry = read_entry("maps", raw, "user", {})
    server = McpServer(entry, "maps", source.opener(entry, "maps"), ServerLimits(20.0, 20.0))
    source.servers.append(server)
    return server


async def call(server: McpServer) -> str:
    answer = await server.request("tools/call", {"name": "echo", "arguments": {}})
    return str(answer["content"][0]["text"])


async def browse(address: str, take: Callable[[str], bool]) -> None:
    """A browser that follows the redirection."""
    asyncio.get_running_loop().run_in_executor(None, lambda: urllib.request.urlopen(address).read())


def test_a_login_is_kept_privately_used_and_refreshed(tmp_path: Path) -> None:
    async def run() -> None:
        source = source_in(tmp_path)
        await source.open(tmp_path, {})
        with oauth_server() as http:
            server = remote(source, url=f"{http.base}/mcp")
            await server.begin()
            assert (server.state, server.failure) == (
                "needs-auth",
                "it requires a login: makeroom mcp login maps",
            )
            store = token_file(tmp_path / "state", server.entry)
            http.expires_in = 0
            await log_in(tmp_path / "state", server.entry, browse)
            assert store.path.stat().st_mode & 0o777 == 0o600
            assert json.loads(store.path.read_text())["client"]["client_id"] == "client-1"
            http.expires_in = 3600
            await server.reconnect()
            assert server.state == "connected" and await call(server) == "hello"
            assert json.loads(store.path.read_text())["tokens"]["access_token"] == "access-2", "refreshed"
            http.tokens.clear()
            assert "requires a login" in str((await asyncio.gather(call(server), return_exceptions=True))[0])
            assert store.forget() and not store.forget()
        await source.close()

    asyncio.run(run())


def test_the_reason_why_a_login_failed_is_told_in_one_short_line(tmp_path: Path) -> None:
    async def run() -> None:
        source = source_in(tmp_path)
        await source.open(tmp_path, {})
        with oauth_server() as http:
            server = remote(source, url=f"{http.base}/mcp")
            http.refusal = "not today " * 100
            with pytest.raises(ServerFailed, match=r"the login was refused: not today .*…$") as failed:
                await log_in(tmp_path / "state", server.entry, browse)
            assert len(str(failed.value)) <= MAX_ERROR_CHARS
        await source.close()

    asyncio.run(run())


def test_only_the_answer_to_the_login_is_taken() -> None:
    async def run() -> None:
        answer = BrowserAnswer()
        answer.expect("https://a.example/authorize?client_id=c&state=s1")
        others = ["code=x&state=s2", "code=x", "error=denied", "state=s1", "code=x&state=s1&state=s2"]
        assert not any(answer.take(f"/callback?{each}") for each in others)
        assert not answer.take("http://[127.0.0.1/callback?code=x&state=s1")
        assert answer.take("http://127.0.0.1:9/callback?code=x&state=s1")

    asyncio.run(run())


@each_row(
    ("server", "address", "why"),
    [
        ("https://a.example/mcp", "https://a.example/token", ""),
        ("https://a.example/mcp", "https://login.example/token", ""),
        ("http://127.0.0.1:8000/mcp", "http://127.0.0.1:9000/token", ""),
        ("http://localhost:8000/mcp", "http://login.example/token", ""),
        ("https://10.1.2.3/mcp", "https://10.1.2.4/token", ""),
        ("http://a.example/mcp", "http://a.example/token", ""),
        ("https://a.example/mcp", "http://login.example/token", "an address without TLS: login.example"),
        ("https://a.example/mcp", "http://169.254.169.254/latest", "a private address: 169.254.169.254"),
        ("https://a.example/mcp", "https://127.0.0.1:8443/register", "a private address: 127.0.0.1"),
        ("https://a.example/mcp", "https://[::1]/x", "a private address: ::1"),
        ("https://a.example/mcp", "https://[fec0::1]/x", "a private address: fec0::1"),
        ("https://a.example/mcp", "https://168.63.129.16/x", "a private address: 168.63.129.16"),
        ("https://a.example/mcp", "http://localhost:2375/x", "a private address: localhost"),
    ],
)
def test_a_server_names_no_address_that_only_this_machine_reaches(
    server: str, address: str, why: str
) -> None:
    assert why_no_request(address, server) == (f"the server names {why}" if why else "")


@pytest.mark.sweep
def test_headers_are_sent_and_refusals_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name not known")

    async def run() -> None:
        source = source_in(tmp_path)
        await source.open(tmp_path, {})
        with oauth_server(asks=False) as http:
            server = remote(source, url=f"{http.base}/mcp", headers={"X-Team": "blue"})
            assert await call(server) == "blue"
            http.asks = True
            await server.reconnect()
            assert server.state == "needs-auth"
            refused = remote(source, url=f"{http.base}/mcp", headers={"Authorization": "Bearer wrong"})
            await refused.begin()
            assert refused.failure == "it rejects the Authorization header (HTTP 401)"
            with pytest.raises(ServerFailed, match="does not require a login"):
                http.asks = False
                await log_in(tmp_path, server.entry, browse)
        gone = remote(source, url="http://127.0.0.1:9/mcp")
        await gone.begin()
        assert gone.failure == "All connection attempts failed"
        monkeypatch.setattr("socket.getaddrinfo", unknown)
        nowhere = remote(source, url="http://host.invalid/mcp")
        await nowhere.begin()
        assert nowhere.failure == "Name not known"
        await source.close()

    asyncio.run(run())


def test_a_body_is_read_only_up_to_a_limit(tmp_path: Path) -> None:
    """The limit holds for what it is decompressed to; an answer within the limit is read."""
    answer = {"content": [{"type": "text", "text": "packed"}]}
    answers = [
        (json.dumps({"jsonrpc": "2.0", "id": 3, "result": answer}).encode(), 200, "packed"),
        (large := b" " * (65 << 20), 200, "its answer is larger than 64 MB"),
        (large, 500, "error response (HTTP 500)"),
    ]
    pack = cache(lambda body: gzip.compress(body[:40], 1) + gzip.compress(body[40:], 1))

    async def run() -> None:
        source = source_in(tmp_path)
        await source.open(tmp_path, {})
        with oauth_server(asks=False) as http:
            for body, status, expected in answers:
                http.packed, http.status = pack(body), status
                server = remote(source, url=f"{http.base}/mcp")
                (told,) = await asyncio.gather(call(server), return_exceptions=True)
                assert expected in str(told)
        await source.close()

    asyncio.run(run())


@pytest.mark.sweep
def test_a_server_that_comes_back_is_connected_again(tmp_path: Path) -> None:
    async def run() -> None:
        source = source_in(tmp_path)
        await source.open(tmp_path, {})
        with oauth_server(asks=False) as http:
            server = remote(source, url=f"{http.base}/mcp")
            assert await call(server) == "hello"
        with pytest.raises(ServerFailed):
            await call(server)
        with oauth_server(asks=False) as http:
            server.entry = read_entry("maps", {"url": f"{http.base}/mcp"}, "user", {})
            server.open = source.opener(server.entry, "maps")
            assert await call(server) == "hello"
        await source.close()

    asyncio.run(run())
