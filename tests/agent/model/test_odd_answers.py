"""Answers that proxies, gateways and servers give on a bad day: each ends as it should, by both adapters."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.events import Retrying
from agent.model.anthropic.client import AnthropicModel
from agent.model.chat_completions.chat_client import ChatCompletionsModel
from agent.model.responses.client import ResponsesModel
from agent.model_port import Model
from tests.agent.loop.world import world
from tests.sampling import sampled_rows
from tests.strict_api.event_stream import events
from transcripts.facts import Reply
from transcripts.messages import TextBlock

from .chat_server import ChatReply, chunks
from .raw_server import raw
from .responses_server import Said, spoken

TEXT = "A whole answer, with ümläuts."
MESSAGE = {"model": "m", "content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn"}
USAGE = {"prompt_tokens": 5, "completion_tokens": 7}


@dataclass(frozen=True)
class Dialect:
    """An adapter, and the stream in which its servers say TEXT."""

    model: Callable[[str, str], Model]
    stream: bytes


DIALECTS = {
    "messages": Dialect(
        AnthropicModel, b"".join(events({**MESSAGE, "usage": {"input_tokens": 5, "output_tokens": 7}}))
    ),
    "chat": Dialect(ChatCompletionsModel, b"".join(chunks(ChatReply(TEXT), USAGE))),
    "responses": Dialect(ResponsesModel, b"".join(spoken(Said(TEXT)))),
}


def http(body: bytes, status: str = "200 OK", *headers: str, kind: str = "text/event-stream") -> bytes:
    lines = (f"HTTP/1.1 {status}", f"content-type: {kind}", "connection: close", *headers)
    return "\r\n".join((*lines, "", "")).encode() + body


def error(status: str, message: str = "no", *headers: str) -> bytes:
    return http(
        json.dumps({"error": {"message": message}}).encode(), status, *headers, kind="application/json"
    )


def chunked(body: bytes, size: bytes) -> bytes:
    return http(size + b"\r\n" + body + b"\r\n0\r\n\r\n", "200 OK", "transfer-encoding: chunked")


def in_chunks(body: bytes, extension: bytes, trailers: bytes = b"", *headers: str) -> bytes:
    pieces = (body[at : at + 33] for at in range(0, len(body), 33))
    parts = b"".join(b"%X%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces)
    return http(parts + b"0\r\n" + trailers + b"\r\n", "200 OK", "transfer-encoding: chunked", *headers)


def mixed_lines(text: bytes) -> bytes:
    """The text with each line end another one."""
    ends = itertools.cycle((b"\n", b"\r", b"\r\n"))  # CR LF is one end
    return b"".join(line + next(ends) for line in text.split(b"\n"))


# What comes first, from the whole stream -> (is it tried again, does the turn succeed, its exit code).
# A whole answer follows.
Case = tuple[Callable[[bytes], bytes], bool, int]
CASES: dict[str, Case] = {
    "408": (lambda whole: error("408 Request Timeout"), True, 0),
    "425": (lambda whole: error("425 Too Early"), True, 0),
    "520 page": (lambda whole: http(b"<html>unknown</html>", "520 Odd", kind="text/html"), True, 0),
    "503 empty": (lambda whole: http(b"", "503 Busy", "retry-after: 2"), True, 0),
    "204": (lambda whole: b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n", True, 0),
    "nothing": (lambda whole: http(b"", "200 OK", "content-length: 0"), True, 0),
    "418": (lambda whole: error("418 Teapot"), False, 1),
    "402": (lambda whole: error("402 Payment Required"), False, 5),
    "407": (lambda whole: error("407 Proxy Authentication Required"), False, 5),
    "302": (lambda whole: error("302 Found", "no", "location: http://127.0.0.1:1/x"), False, 1),
    "a broken pack": (
        lambda whole: http(gzip.compress(whole)[:-90], "200 OK", "content-encoding: gzip"),
        True,
        0,
    ),
    "no pack": (lambda whole: http(whole, "200 OK", "content-encoding: gzip"), True, 0),
    "a bad chunk": (lambda whole: chunked(whole, b"zz"), True, 0),
    "half of it": (lambda whole: http(whole[: len(whole) // 2]), True, 0),
    "packed": (lambda whole: http(gzip.compress(whole), "200 OK", "content-encoding: gzip"), False, 0),
    "in a chunk": (lambda whole: chunked(whole, b"%x" % len(whole)), False, 0),
    "old http": (lambda whole: http(whole).replace(b"HTTP/1.1", b"HTTP/1.0", 1), False, 0),
    "a mark": (lambda whole: http(b"\xef\xbb\xbf" + whole), False, 0),
    "lines of windows": (lambda whole: http(whole.replace(b"\n", b"\r\n")), False, 0),
    "said twice": (lambda whole: http(whole + whole[-60:]), False, 0),
    "to go on": (lambda whole: b"HTTP/1.1 100 Continue\r\n\r\n" + http(whole), False, 0),
    "extended chunks": (lambda whole: in_chunks(whole, b';a=1;b="x y"'), False, 0),
    "trailers": (lambda whole: in_chunks(whole, b"", b"x-checksum: 1\r\nx-more: 2\r\n"), False, 0),
    "packed chunks": (
        lambda whole: in_chunks(gzip.compress(whole), b"", b"", "content-encoding: gzip"),
        False,
        0,
    ),
    "packed in members": (
        lambda whole: http(
            gzip.compress(whole[:70]) + gzip.compress(whole[70:]), "200 OK", "content-encoding: gzip"
        ),
        False,
        0,
    ),
    "a coding that is none": (lambda whole: http(whole, "200 OK", "content-encoding: utf-8"), False, 0),
    "deflated bare": (
        lambda whole: http(zlib.compress(whole, wbits=-15), "200 OK", "content-encoding: deflate"),
        False,
        0,
    ),
    "deflated": (lambda whole: http(zlib.compress(whole), "200 OK", "content-encoding: deflate"), False, 0),
    "hints": (lambda whole: b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + http(whole), False, 0),
    "several promises": (lambda whole: b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + http(whole), False, 0),
    "old lines": (lambda whole: http(whole.replace(b"\n", b"\r")), False, 0),
    "mixed lines": (lambda whole: http(mixed_lines(whole)), False, 0),
    "comments": (lambda whole: http(b": on\n\n" + whole.replace(b"data:", b":\n: x\ndata:")), False, 0),
    "other fields": (lambda whole: http(whole.replace(b"data:", b"id: 1\nretry: 5\nx\ndata:")), False, 0),
    "no spaces": (lambda whole: http(whole.replace(b"data: ", b"data:")), False, 0),
    "data in lines": (lambda whole: http(whole.replace(b"data: {", b"data: {\ndata:  ")), False, 0),
    "names behind data": (lambda whole: http(re.sub(rb"(event:.*\n)(data:.*\n)", rb"\2\1", whole)), False, 0),
    "no blank line at the end": (lambda whole: http(whole.rstrip(b"\n")), False, 0),
    "many blank lines": (lambda whole: http(whole.replace(b"\n\n", b"\n\n\n\n")), False, 0),
    "capital headers": (lambda whole: http(whole).replace(b"content-type", b"CONTENT-TYPE", 1), False, 0),
    "a type with more": (lambda whole: http(whole, kind="text/event-stream;charset=UTF-8"), False, 0),
    "no kind": (lambda whole: http(whole).replace(b"content-type", b"x-type", 1), False, 0),
}  # fmt: skip


# In the gate each case is answered in one of the dialects.
PAIRS = [
    (name, list(DIALECTS)[(place + turn) % len(DIALECTS)])
    for place, name in enumerate(CASES)
    for turn in range(len(DIALECTS))
]


@pytest.mark.parametrize(("name", "dialect"), sampled_rows(PAIRS, every=len(DIALECTS)))
def test_an_odd_answer_ends_as_it_should(tmp_path: Path, name: str, dialect: str) -> None:
    made, (first, tried_again, code) = DIALECTS[dialect], CASES[name]
    with raw(first(made.stream), http(made.stream)) as url, world([], tmp_path) as w:
        w.context.model = made.model(url, "key")
        ended = w.run("hello")
        assert (ended.code, bool(w.told(Retrying))) == (code, tried_again), ended.error
        assert code or texts(w.record.facts) == [TEXT]
        assert not code or first(made.stream)[9:12].decode() in ended.error


def texts(facts: list[object]) -> list[str]:
    """The texts of the complete replies of a record."""
    replies = [fact for fact in facts if isinstance(fact, Reply) and fact.complete]
    return [
        "".join(block.text for block in reply.blocks if isinstance(block, TextBlock)) for reply in replies
    ]
