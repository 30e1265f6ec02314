"""Faults below a turn: servers that are not there, nonsense, silence. One attempt, and what it says."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from agent.errors import AuthenticationError, ModelError, RequestRejected, TransientError
from agent.model.anthropic.client import AnthropicModel
from agent.model.chat_completions.chat_client import ChatCompletionsModel
from agent.model_port import IncomingReply, ModelRequest, RequestSettings
from tests.tables import each_row

from .raw_server import HEAD, raw, sse

PEM = Path(__file__).with_name("untrusted.pem")

NO_SERVER = "nothing is listening there (start the server, or correct the base URL)"


def failure(url: str, key: str | None = "key", **more: Any) -> ModelError:
    """Return the outcome of asking that server."""

    async def whole() -> None:
        api = AnthropicModel(url, key, **more)
        try:
            await api.stream(ModelRequest(RequestSettings("m", 1), ()), IncomingReply(), lambda event: None)
        finally:
            await api.close()

    with pytest.raises(ModelError) as caught:
        asyncio.run(whole())
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    return caught.value


def test_a_server_that_is_not_there_is_named_and_given_a_minute_to_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = failure(f"http://127.0.0.1:{port}")
    assert isinstance(found, TransientError) and (found.cause, found.patience_s) == ("refused", 60.0)
    assert str(found) == f"cannot connect to http://127.0.0.1:{port}: {NO_SERVER}"


def test_a_missing_key_is_named_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # where the SDK looks for profiles
    found = failure("http://127.0.0.1:9", key=None)
    assert isinstance(found, AuthenticationError)
    assert str(found) == "no credentials: set ANTHROPIC_API_KEY, or try --offline"


def test_a_name_that_no_one_knows_is_named() -> None:
    found = failure("http://nowhere.invalid")
    assert isinstance(found, TransientError)
    assert str(found).startswith("cannot connect to http://nowhere.invalid: ") and len(str(found)) > 50


def test_a_certificate_that_no_one_vouches_for_is_not_a_passing_fault() -> None:
    with raw(b"", pem=PEM) as url:
        found = failure(url)
    assert isinstance(found, RequestRejected)
    assert "certificate" in str(found) and "SSL_CERT_FILE" in str(found)


def test_a_proxy_that_wants_credentials_is_not_a_passing_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    with raw(refusal) as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, proxy)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        for url in ("http://example.invalid", "https://example.invalid"):
            found = failure(url)
            assert isinstance(found, AuthenticationError) and found.code == 5
            assert "proxy" in str(found).lower() and "HTTPS_PROXY" in str(found)


@each_row("url", ["http://me:secret-word@four:x", "ftp://four", "http://[::1", "socks5://four:1"])
def test_a_proxy_of_no_use_is_named_before_any_request(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", url)
    monkeypatch.setenv("https_proxy", url)
    openai = ChatCompletionsModel(base_url="http://1.2.3.4", key="key")
    for connect in (AnthropicModel("http://1.2.3.4", "key").connect, openai.connect):
        with pytest.raises(RequestRejected, match=r"^cannot use the proxy of HTTPS_PROXY, ") as caught:
            connect()
        assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"), [("http_proxy", "http://127.0.0.1:1"), ("all_proxy", "127.0.0.1:1")]
)
def test_a_proxy_that_is_not_there_is_what_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    for each in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(each, raising=False)
        monkeypatch.delenv(each.upper(), raising=False)
    monkeypatch.setenv(name, said)
    what = "nothing is listening there (correct the proxy variable)"
    told = f"cannot connect to the proxy http://127.0.0.1:1 for http://1.2.3.4: {what}"
    found = failure("http://1.2.3.4")
    assert isinstance(found, TransientError) and (found.cause, found.patience_s) == ("refused", 60.0)
    assert str(found) == told
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert "proxy" not in str(failure("http://127.0.0.1:1"))


START = ("message_start", '{"type":"message_start","message":{"model":"m"}}')
BLOCK = (
    "content_block_start",
    '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
)
NONSENSE = [
    ("message_start", "[]"),
    ("message_start", "null"),
    ("message_start", '"words"'),
    ("message_start", "[DONE]"),
    ("message_start", "{}"),
    ("message_start", '{"type":"message_start","message":null}'),
    ("message_start", "[" * 100_000),
    ("content_block_start", '{"type":"content_block_start","index":"x","content_block":{}}'),
    ("content_block_start", '{"type":"content_block_start","index":0,"content_block":null}'),
    (
        "content_block_delta",
        '{"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"a"}}',
    ),
    ("content_block_delta", '{"type":"content_block_delta","index":0,"delta":null}'),
    ("message_delta", '{"type":"message_delta","delta":null}'),
]


@each_row("event", NONSENSE)
def test_nonsense_in_a_stream_is_a_failed_attempt(event: tuple[str, str]) -> None:
    with raw(sse(START, BLOCK, event)) as url:
        assert isinstance(failure(url), TransientError)


def test_bytes_that_are_not_text_and_no_gzip_are_a_failed_attempt() -> None:
    with raw(HEAD + b"event: message_start\ndata: \xff\xfe\n\n") as url:
        assert isinstance(failure(url), TransientError)
    with raw(HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n") + b"not gzip") as url:
        assert isinstance(failure(url), TransientError)


def test_an_error_within_the_stream_counts_with_and_without_its_name() -> None:
    error = '{"type":"error","error":{"type":"authentication_error","message":"no"}}'
    for name in ("error", "message"):
        with raw(sse(START, (name, error))) as url:
            assert isinstance(failure(url), AuthenticationError)


@each_row(
    ("data", "said"),
    [
        (
            '{"code":401,"message":"who is it?","type":"authentication_error"}',
            "401 authentication_error: who is it?",
        ),
        ('{"message":"who is it?","type":"authentication_error"}', "authentication_error: who is it?"),
        ('{"code":401,"message":"who is it?"}', "401: who is it?"),
        ("401: who is it?", "who is it?"),
        ("", "no text"),
    ],
)
def test_an_error_event_is_an_error_whatever_its_data_is(data: str, said: str) -> None:
    with raw(sse(START, ("error", data))) as url:
        assert said in str(failure(url))


def forever(piece: bytes) -> Any:
    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD)
        while True:
            connection.sendall(piece)

    return answer


@each_row(
    "piece",
    [b'event: ping\ndata: {"type":"ping"}\n\n', b'data: {"type":"ping"}\n\n', b": alive\n\n", b"data: x\n"],
)
def test_signs_of_life_without_content_do_not_keep_an_attempt_alive(piece: bytes) -> None:
    with raw(forever(piece)) as url:
        found = failure(url, silence=0.3)
    assert isinstance(found, TransientError) and "no content" in str(found)


@each_row("begun", [b"", HEAD, sse(START, BLOCK)])
def test_silence_is_a_failed_attempt(begun: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(begun)
        connection.recv(1)

    with raw(answer) as url:
        found = failure(url, stall=0.3)
    assert isinstance(found, TransientError) and "no data from" in str(found)
