"""Answers of a server are parsed in bounded memory and time, and no redirect is followed."""

import asyncio
import gzip
import json
import select
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agent.errors import AuthenticationError, ModelError, ModelNotFound, RequestRejected, TransientError
from agent.model.answer_reader import MAX_ANSWER_BYTES, MAX_EVENT_BYTES, EventStream, whole_json
from agent.model.anthropic.client import AnthropicModel
from agent.model_port import IncomingReply, ModelRequest, RequestSettings
from tests.tables import each_row
from transcripts.messages import TextBlock, ToolUseBlock, Usage

from .raw_server import HEAD, raw
from .test_attempts import BLOCK, START, failure

MEGABYTE = 1 << 20


def events(text: bytes, size: int) -> list[tuple[str, str]]:
    """The events of an answer that comes in pieces of one size."""

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(text), size):
            yield text[at : at + size]

    async def collect() -> list[tuple[str, str]]:
        return [event async for event in EventStream(pieces()).events()]

    return asyncio.run(collect())


@each_row("end", [b"\n", b"\r\n", b"\r"])
@each_row("size", [1, 2, 3, 1000])
def test_events_are_the_same_with_any_line_ends_in_any_pieces(end: bytes, size: int) -> None:
    text = ': hello|event: one|data: {|data:}|id: 3|||data||event:x||data: "é"'
    found = events(text.encode().replace(b"|", end), size)
    assert found == [("one", "{\n}"), ("", ""), ("x", ""), ("", '"é"')]


@each_row(
    ("end", "counts"),
    [
        ('data: {"a":1}', True),
        ('data: {"a":1}\n', True),
        ("data: [DONE]", True),
        ('data: {\ndata: "a":1}', True),
        ('data: {"a":1', False),
        ('data: {"a":1}\ndata: {', False),
        ("data: [DONE", False),
        ("data: not JSON", False),
        ("data", False),
        ("event: error", False),
    ],
)
def test_an_event_that_ends_with_the_response_counts_only_if_it_is_complete(end: str, counts: bool) -> None:
    assert len(events(b"data: whole\n\n" + end.encode(), 5)) == 1 + counts


def test_a_response_that_ends_within_a_character_is_not_an_error() -> None:
    assert events("data: whole\n\ndata: ü".encode()[:-1], 5) == [("", "whole")]


def test_a_reply_may_be_larger_than_its_largest_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.model.answer_reader.MAX_EVENT_BYTES", 100)
    assert len(events(b"data: x\n\n" * 1_000, 7)) == 1_000
    assert len(events(b"data: " + b"x" * 93 + b"\n\n", 3)) == 1
    with pytest.raises(RequestRejected):
        events(b"data: " + b"x" * 95 + b"\n\n", 3)


def test_other_work_goes_on_while_a_large_piece_is_parsed() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"data: x\n\n" * 100_000

    async def ticks() -> int:
        count = 0
        done = asyncio.Event()

        async def tick() -> None:
            nonlocal count
            while not done.is_set():
                count += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        async for _ in EventStream(pieces()).events():
            pass
        done.set()
        await ticking
        return count

    assert asyncio.run(ticks()) > 10


@pytest.mark.parametrize("text", ['{"a": "é', '{"a": 1'])
def test_a_response_of_one_json_text_that_is_cut_off_is_a_lost_connection(text: str) -> None:
    async def read(whole: bytes) -> list[tuple[str, str]]:
        async def pieces() -> AsyncIterator[bytes]:
            yield whole

        return [event async for event in whole_json(EventStream(pieces()))]

    with pytest.raises(TransientError) as found:
        asyncio.run(read(text.encode()[:-1]))
    assert found.value.cause == "connection"
    assert asyncio.run(read(b'\xef\xbb\xbf{"a": 1}\n')) == [("", '{"a": 1}\n')]


def test_a_response_of_one_json_text_has_a_size_that_it_may_not_exceed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent.model.answer_reader.MAX_EVENT_BYTES", 7)

    async def read(*parts: bytes) -> list[tuple[str, str]]:
        async def pieces() -> AsyncIterator[bytes]:
            for part in parts:
                yield part

        return [event async for event in whole_json(EventStream(pieces()))]

    assert asyncio.run(read(b'{"a":', b"1}")) == [("", '{"a":1}')]
    with pytest.raises(RequestRejected, match="too large"):
        asyncio.run(read(b'{"a":', b"1} "))


def test_time_grows_with_the_size_of_an_event_alone() -> None:
    def spent(text: bytes) -> float:
        began = time.process_time()
        events(text, 4_096)
        return time.process_time() - began

    for piece in (b"data:\n", b"x", b"data: " + b"x" * 1000 + b"\r", b":\n"):
        small, large = (max(spent(piece * (size // len(piece))), 0.01) for size in (100_000, 400_000))
        assert large / small < 12, piece  # the decoder of the SDK: 16 to 60 times as long


@each_row(
    "answer",
    [  # made when the test runs, since packing takes a quarter of a second and each worker imports this
        lambda: HEAD + b"data: " + b"x" * (MAX_EVENT_BYTES + MEGABYTE),
        lambda: HEAD + b": %b\n" % (b"alive " * 1_000) * (MAX_EVENT_BYTES // 5_000),
        lambda: (
            HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
            + gzip.compress(b"x" * 80 * MEGABYTE, 1)
        ),
    ],
)
def test_an_event_beyond_all_sense_ends_the_attempt_at_once(answer: Callable[[], bytes]) -> None:
    with raw(answer()) as url:
        found = failure(url)
    assert isinstance(found, RequestRejected) and "6 MB" in str(found) and "ANTHROPIC_BASE_URL" in str(found)


def page(status: str, body: bytes, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "connection: close", *(f"{n}: {v}" for n, v in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def test_an_error_page_is_read_only_as_far_as_it_is_useful() -> None:
    sent: list[int] = []

    def endless(connection: socket.socket) -> None:
        connection.sendall(page("400 Bad", b"<p>no such thing</p>"))
        while True:
            sent.append(connection.send(b"<" * MEGABYTE))

    with raw(endless) as url:
        began = time.process_time()
        found = failure(url)
    assert isinstance(found, RequestRejected) and str(found).startswith("400: no such thing <<<")
    assert sum(sent) < 200 * MAX_ANSWER_BYTES and time.process_time() - began < 2


@each_row(
    ("body", "words"),
    [
        (b"<" * 3 * MEGABYTE, "400: <<<<"),
        (json.dumps({"error": {"type": "x", "message": "<" * MEGABYTE}}).encode(), "400"),
        (b'{"error":' * 100_000, '400: {"error"'),
        (b'{"error":{"message":"prompt is too long: %b tokens > 5 maximum"}}' % (b"9" * 5_000), "too long"),
        (b"messages.%b.content.1: bad" % (b"1" * 5_000), "400: messages.1"),
        (b"\x1b]52;c;ZXZpbA==\x07no \x1b[31mway\x9b", "400: no way"),
        (b"\xff\xfe\x00", "400: "),
        (b"", "400: no text"),
    ],
)
def test_an_error_is_one_line_of_words_whatever_is_in_it(body: bytes, words: str) -> None:
    with raw(page("400 Bad", body)) as url:
        found = failure(url)
    assert words in str(found) and str(found).isprintable()


def test_an_error_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.model.answer_reader.ANSWER_TIMEOUT_S", 0.2)

    def drip(connection: socket.socket) -> None:
        connection.sendall(page("401 No", b"who are you?"))
        while not select.select([connection], [], [], 0.05)[0]:  # until it is closed
            connection.sendall(b".")

    with raw(drip) as url:
        found = failure(url)
    assert isinstance(found, AuthenticationError) and "who are you?" in str(found)


@each_row("status", [301, 302, 307, 308])
def test_a_redirect_takes_no_secret_along_and_says_where_it_leads(status: int) -> None:
    reached: list[bytes] = []

    def thief(connection: socket.socket) -> None:
        reached.append(b"")

    secrets = {"x-gateway-token": "s3cret", "Cookie": "c=1"}
    with (
        raw(thief) as elsewhere,
        raw(page(f"{status} Moved", b"", location=f"{elsewhere}/v1/messages")) as url,
    ):
        found = failure(url, headers=secrets)
    assert isinstance(found, RequestRejected)
    assert f"{status}: the server redirects to" in str(found) and elsewhere in str(found)
    assert reached == []


@each_row(
    ("answer", "words"),
    [
        (page("200 OK", b"<h1>Sign in to HotelNet</h1>", **{"content-type": "text/html"}), "HotelNet"),
        (page("200 OK", b'{"type":"message"}', **{"content-type": "application/json"}), '{"type":"message"}'),
        (HEAD + b"data: not json at all\n\n", "not json at all"),
        (HEAD + b'data: {"what":"ever"}\n\n', '{"what":"ever"}'),
        (HEAD + b"data: " + b"[" * 100_000 + b"\n\n", "[[[["),
        (HEAD + b"data: \xff\n\n", "UnicodeDecodeError"),
        (
            HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n") + b"nothing packed",
            "header check",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
            "does not respond with valid HTTP",
        ),
    ],
)
def test_what_makes_no_sense_is_reported_in_its_own_words_after_few_tries(answer: bytes, words: str) -> None:
    with raw(answer) as url:
        found = failure(url)
    assert isinstance(found, TransientError) and found.tries == 3
    assert words in str(found) and str(found).isprintable()


def describe(url: str) -> Any:
    async def ask() -> Any:
        api = AnthropicModel(url, "key", assume_official=True)
        try:
            return await api.describe("claude-sonnet-5-5")
        finally:
            await api.close()

    return asyncio.run(ask())


def test_facts_about_a_model_are_read_in_bounded_memory_too() -> None:
    with raw(page("200 OK", b'{"max_input_tokens": 123456}')) as url:
        assert describe(url).window == 123_456
    for body in (b" " * 3 * MEGABYTE, b"[" * MEGABYTE):
        with raw(page("200 OK", body)) as url, pytest.raises(ModelError):
            describe(url)
    with raw(page("404 No", b"")) as url:
        assert describe(url).known
    with raw(page("404 No", b"")) as url, pytest.raises(ModelNotFound):
        asyncio.run(AnthropicModel(url, "key", assume_official=True).describe("claude-unheard-of"))


def reply_to(answer: bytes) -> tuple[IncomingReply, ModelError | None]:
    async def ask() -> tuple[IncomingReply, ModelError | None]:
        api, reply = AnthropicModel(url, "key"), IncomingReply()
        try:
            await api.stream(ModelRequest(RequestSettings("m", 1), ()), reply, lambda event: None)
        except ModelError as error:
            return reply, error
        finally:
            await api.close()
        return reply, None

    with raw(answer) as url:
        return asyncio.run(ask())


def test_a_reply_that_is_not_streamed_is_read_whole() -> None:
    message = {
        "type": "message",
        "id": "msg_1",
        "model": "claude-x",
        "content": [
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "t1", "name": "read", "input": {"file_path": "a.py"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }
    answer = page("200 OK", json.dumps(message).encode(), **{"content-type": "application/json"})
    reply, error = reply_to(answer)
    assert error is None and reply.complete and reply.stop == "tool_use"
    assert (reply.model, reply.ident, reply.usage) == ("claude-x", "msg_1", Usage(input=7, output=3))
    assert reply.blocks == [TextBlock("Hello"), ToolUseBlock("t1", "read", {"file_path": "a.py"})]


def test_a_reply_that_grows_beyond_all_sense_is_given_up_with_what_came() -> None:
    start = b"".join(f"event: {name}\ndata: {data}\n\n".encode() for name, data in (START, BLOCK))
    delta = {"type": "text_delta", "text": "y" * 9_999}
    piece = json.dumps({"type": "content_block_delta", "index": 0, "delta": delta})
    reply, error = reply_to(HEAD + start + f"data: {piece}\n\n".encode() * 500)
    assert isinstance(error, RequestRejected) and "4,194,304 characters" in str(error)
    assert 4_000_000 < len(reply.text) <= 4_194_304
