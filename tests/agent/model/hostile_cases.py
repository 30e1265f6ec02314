"""Answers of a server that means harm, or is broken beyond what any fault of a network explains.

`HOSTILE` names them all, with what has to come of each.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any, Literal

from .hostile_answers import (
    EVIL,
    MEGABYTE,
    begin,
    call,
    calling,
    delta,
    drip,
    empty_bomb,
    end,
    event,
    forever,
    headed,
    packed,
    page,
    refusal,
    reset,
    start,
    stop,
    text,
    whole,
)
from .raw_server import HEAD, Answer

_GZIP = headed("content-encoding: gzip")
_CHUNKED = headed("transfer-encoding: chunked")
_OK = b"HTTP/1.1 200 OK\r\n"
_THINKING = begin(0, type="thinking", thinking="")
_CALLING = begin(0, type="tool_use", id="t", name="echo", input={})


@dataclass(frozen=True, slots=True)
class Hostile:
    """One answer, and its required outcome.

    ends   "goes on": the turn is done with it; "tries n": the request is sent again, at most n times in all;
           "gives up": the turn fails
    words  that are told
    slow   it takes seconds: for the sweep
    rejected  the next request is, and then sent again without what was rejected
    """

    answer: Answer
    ends: Literal["goes on", "tries 3", "tries 10", "gives up"]
    words: str = ""
    slow: bool = False
    rejected: bool = False


def odd(answer: Answer) -> Hostile:
    return Hostile(answer, "goes on")


def repaired(answer: Answer) -> Hostile:
    """Return a case with a reply that the strict server rejects once when it is sent back."""
    return Hostile(answer, "goes on", rejected=True)


def senseless(answer: Answer, words: str = "cannot parse the response") -> Hostile:
    return Hostile(answer, "tries 3", words)


def empty(answer: Answer) -> Hostile:
    """Return a case without an event, like that of a connection which is lost at once."""
    return Hostile(answer, "tries 10", "ended before the reply")


def silent(answer: Answer) -> Hostile:
    return Hostile(answer, "tries 10", "no content for")


def too_much(answer: Answer, words: str, slow: bool = False) -> Hostile:
    return Hostile(answer, "gives up", words, slow)


def refused(answer: Answer, words: str) -> Hostile:
    return Hostile(answer, "gives up", words)


def _waiting(header: str) -> Hostile:
    """An answer that says when to come back; it lies."""
    return Hostile(refusal("429 Slow", "wait", header, kind="rate_limit_error"), "tries 10", "429")


_BODIES = {
    "a line without an end": too_much(forever(HEAD, b"x"), "6 MB"),
    "an event without an end": too_much(forever(HEAD, b"data: x\n"), "6 MB"),
    "a name of an event without an end": too_much(forever(HEAD + b"event: ", b"n"), "6 MB"),
    "NUL for ever": too_much(forever(HEAD, b"\0"), "6 MB"),
    "comments within an event": too_much(forever(HEAD, b": alive and well\n" * 10), "6 MB"),
    "comments for ever": silent(forever(HEAD, b": alive\n\n")),
    "blank lines for ever": silent(forever(HEAD, b"\n")),
    "pings for ever": silent(forever(HEAD, b'data: {"type":"ping"}\n\n')),
    "a line that drips": silent(drip(HEAD + b"data: ", b"x")),
    "comments that drip": silent(drip(HEAD + start(), b": x\n\n")),
    "one packed line": too_much(_GZIP + packed(b"x" * MEGABYTE, 10), "6 MB"),
    "a deflated line": too_much(
        headed("content-encoding: deflate") + zlib.compress(b"x" * 10 * MEGABYTE, 1), "6 MB"
    ),
    "packed text": too_much(
        _GZIP + packed(start() + begin(0) + delta(0, "text_delta", text="ab" * 999) * 2_200), "4,194,304"
    ),
    "packed twice": senseless(
        headed("content-encoding: gzip, gzip") + packed(packed(b"x")), "compressed more than once"
    ),
    "packed nothing": silent(empty_bomb(1)),
    "nothing, packed three times": senseless(empty_bomb(3), "compressed more than once"),
    "packed in an unknown way": senseless(
        headed("content-encoding: br") + b"\x01\x02", "compressed with 'br', which was not requested"
    ),
    "an error packed in an unknown way": refused(
        page("418 Teapot", b"\x01\x02", "content-encoding: zstd"),
        "418: the response is compressed with 'zstd'",
    ),
    "chunks of one byte for ever": silent(forever(_CHUNKED, b"1\r\n\n\r\n")),
    "a chunk's head without an end": senseless(forever(_CHUNKED + b"1;", b"a=b;"), "too long"),
    "a chunk of a negative size": senseless(_CHUNKED + b"-5\r\nx", "illegal chunk"),
    "a chunk of every byte there is": Hostile(
        _CHUNKED + b"f" * 20 + b"\r\nx", "tries 10", "connection was lost"
    ),
    "trailers for ever": senseless(forever(_CHUNKED + b"0\r\n", b"a: b\r\n"), "too long"),
    "a length beyond all": senseless(headed(f"content-length: {10**20}") + start(), "Content-Length"),
    "a length that is a lie": Hostile(
        headed("content-length: 999999999") + start(), "tries 10", "connection was lost"
    ),
    "two lengths": senseless(headed("content-length: 5", "content-length: 6") + b"hello!", "HTTP"),
}
_HEADS = {
    "header lines for ever": senseless(forever(_OK, b"a: b\r\n"), "too long"),
    "a header without an end": senseless(forever(_OK + b"x: ", b"y"), "too long"),
    "a status without an end": senseless(forever(b"HTTP/1.1 200 ", b"y"), "too long"),
    "a head that drips": silent(drip(_OK, b"a")),
    "promises for ever": silent(forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
    "hints for ever": silent(forever(b"", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")),
    "another protocol": senseless(headed("upgrade: x", status="101 Switching"), "HTTP"),
    "NUL in a header": senseless(_OK + b"x: a\0b\r\n\r\n", "illegal header"),
    "escapes in headers": empty(
        headed(*(f"{name}: \x9d52;c;ZXZpbA==\x9c" for name in ("request-id", "content-type")))
    ),
    "an escape in a header": empty(headed("request-id: \x1b[2J") + b"x"),
    "a thousand cookies": odd(
        whole(text(), head=headed(*(f"set-cookie: c{at}={'v' * 60}" for at in range(900))))
    ),
    "no success that is known": refused(b"HTTP/1.1 999 Odd\r\n\r\n", "999"),
    "a status of 0": senseless(b"HTTP/1.1 000 Odd\r\n\r\n", "HTTP"),
    "a status of five digits": senseless(b"HTTP/1.1 20000 Odd\r\n\r\n", "HTTP"),
    "no content": empty(b"HTTP/1.1 204 No\r\n\r\n"),
    "a part of the content": odd(whole(text(), head=headed(status="206 Part"))),
    "HTTP/1.0": odd(b"HTTP/1.0 200 OK\r\n\r\n" + start() + text() + end()),
    "no HTTP": senseless(start() + text() + end(), "does not respond with valid HTTP"),
    "a handshake": senseless(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 99, "HTTP"),
    "an end at once": Hostile(b"", "tries 10", "disconnected"),
    "an end behind the head": Hostile(HEAD, "tries 10", "ended before the reply"),
    "a reset": Hostile(reset(b""), "tries 10", "reset"),
    "a reset within a text": Hostile(
        reset(HEAD + start() + begin(0) + delta(0, "text_delta", text="par")),
        "tries 10",
        "connection was lost",
    ),
    "a redirect to itself": refused(
        page("302 Found", b"", "location: /v1/messages"), "does not follow redirects"
    ),
    "a redirect to an escape": refused(
        page("307 Go", b"", "location: http://\x9b2J/"), "does not follow redirects"
    ),
    "a redirect to nowhere": refused(page("308 Go", b""), "does not follow redirects"),
}
_ERRORS = {
    "3 MB of tags": refused(page("400 Bad", b"<" * 3 * MEGABYTE), "400: <<<<"),
    "tags for ever": refused(forever(headed(status="400 Bad"), b"<"), "400: <<<<"),
    "packed tags": refused(
        page("400 Bad", packed(b"<" * MEGABYTE, 4), "content-encoding: gzip"), "400: <<<<"
    ),
    "an error of escapes": refused(refusal("400 Bad", EVIL, kind=EVIL), "erased"),
    "an error of surrogates": refused(refusal("400 Bad", "\ud800 no", kind="\udfff"), "400 ?: ? no"),
    "an error that is nested": refused(page("400 Bad", b'{"error":' * 7_000), '400: {"error"'),
    "a message that is nested": refused(
        page("400 Bad", b'{"error":{"message":' + b"[" * 900 + b"]" * 900 + b"}}"), "400: {"
    ),
    "a window of nothing": odd(refusal("400 Bad", "prompt is too long: 999999999999999 tokens > 0 maximum")),
    "no room for an answer": refused(
        refusal("400 Bad", "max_tokens: 5 > 0, which is the maximum allowed number of output tokens for m"),
        "max_tokens",
    ),
    "a rejection of all features": odd(
        refusal("400 Bad", "thinking output_config cache_control eager_input_streaming")
    ),
    "a prompt too large": refused(page("413 Large", b"\xff" * 99), "413: "),
    "a success that is an error": Hostile(
        page("200 OK", b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'),
        "tries 10",
        "busy",
    ),
    "a success that is a list": senseless(page("200 OK", b"[" + b"0," * 2 * MEGABYTE + b"0]")),
    "a success without an end": too_much(forever(page("200 OK", b'{"a":'), b" "), "6 MB"),
    "a message of nonsense": senseless(
        page("200 OK", b'{"type":"message","content":[1,null,{"type":5},{"type":"text","text":[]}]}')
    ),
    "a success that is a page": senseless(headed(kind="text/html") + EVIL.encode(), "portal"),
    "an error of escapes in the stream": refused(
        HEAD + start() + event("error", error={"type": EVIL, "message": EVIL}), "erased"
    ),
    "an error of surrogates in the stream": refused(
        HEAD + event("error", error={"type": "\ud800", "message": "\udfff x"}), "? x"
    ),
    # Its beginning is no JSON, so the kind of the error is unknown.
    "5 MB of error in the stream": senseless(
        HEAD + event("error", error={"type": "x", "message": "<" * 5 * MEGABYTE}), "<<<"
    ),
    **{
        f"to come back at {value[:12]!r}": _waiting(f"retry-after: {value}")
        for value in ("-1", "inf", "nan", "1e999", "9" * 99, "Fri, 31 Dec 9999 23:59:59 GMT", "x" * 9_000)
    },
    "to come back in days": refused(refusal("429 Slow", "wait", "retry-after: 1e8"), "429"),
    "to come back before now": _waiting("retry-after-ms: -5"),
}
_EVENTS = {
    "words for ever": too_much(
        forever(HEAD + start() + begin(0), delta(0, "text_delta", text="ab" * 999)), "4,194,304"
    ),
    "letters for ever": too_much(
        forever(HEAD + start() + begin(0), delta(0, "text_delta", text="a")), "64 MB", slow=True
    ),
    "empty words for ever": too_much(
        forever(HEAD + start() + begin(0), delta(0, "text_delta", text="")), "64 MB", slow=True
    ),
    "an input for ever": too_much(
        forever(HEAD + start() + _CALLING, delta(0, "input_json_delta", partial_json="[" * 999)), "4,194,304"
    ),
    "a signature for ever": too_much(
        forever(HEAD + start() + _THINKING, delta(0, "signature_delta", signature="s" * 999)), "4,194,304"
    ),
    "unknown deltas for ever": too_much(
        forever(HEAD + start() + begin(0), delta(0, "novel", x="y" * 99_999)), "64 MB"
    ),
    "unknown events for ever": too_much(forever(HEAD + start(), event("novel", x="y" * 99_999)), "64 MB"),
    "beginnings for ever": too_much(forever(HEAD, start(model="m" * 99_999)), "64 MB"),
    "unknown blocks for ever": too_much(
        forever(HEAD + start(), lambda at: begin(at, type="odd", x=[at]) + stop(at)), "2,000 blocks"
    ),
    "open blocks for ever": too_much(forever(HEAD + start(), begin), "2,000 blocks"),
    "one block begun for ever": too_much(
        forever(HEAD + start(), begin(0, type="text", text="", x="y" * 999)), "4,194,304"
    ),
    "5 MB of data in a block": too_much(
        HEAD + start() + begin(0, type="redacted_thinking", data="A" * 5 * MEGABYTE), "4,194,304"
    ),
    "a reply, and more for ever": odd(forever(whole(text()), event("novel", x=1))),
    "an event nested 100,000 deep": senseless(HEAD + b'data: {"type":' + b"[" * 100_000 + b"\n\n"),
    "a number of a million digits": senseless(HEAD + b'data: {"type":' + b"9" * 1_000_000 + b"}\n\n"),
    "an index beyond all": senseless(HEAD + start() + begin(1e999)),
    "an index that is none": senseless(HEAD + start() + begin(float("nan"))),
    "a list for an index": senseless(HEAD + start() + begin([0])),
    "negative indices": odd(whole(begin(-5), delta(-5, "text_delta", text="a"), stop(-5))),
    "an index twice": odd(whole(begin(0), begin(0), delta(0, "text_delta", text="a"), stop(0))),
    "an end twice": senseless(whole(text(), stop(0))),
    "an end of nothing": senseless(whole(stop(3))),
    "a delta of nothing": senseless(whole(delta(3, "text_delta", text="a"))),
    "the end first": odd(HEAD + end() + start() + text()),
    "words that are no events": senseless(HEAD + b"data: " + EVIL.replace("\r", "").encode() + b"\n\n"),
    "bytes that are no text": senseless(HEAD + start() + b"data: \xff\xfe\n\n"),
    "a mark of byte order": odd(whole(text(), head=HEAD + b"\xef\xbb\xbf")),
    "NUL between events": odd(whole(text(), head=HEAD + b"\0" * 999 + b"\n\n")),
    "the type of a page": odd(whole(text(), head=headed(kind="text/html"))),
    "no type": odd(whole(text(), head=b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")),
}
_REPLIES = {
    "4 MB of one word": odd(whole(begin(0), *[delta(0, "text_delta", text="a" * 41_000)] * 99, stop(0))),
    "an input nested 100,000 deep": odd(calling(call("t", "echo", '{"words":' + "[" * 100_000))),
    "an infinite number in an input": odd(calling(call("t", "echo", '{"words":"a","n":[1e999]}'))),
    "no number in an input": odd(calling(call("t", "echo", '{"words":"a","n":NaN}'))),
    "no number in an unknown block": senseless(whole(begin(1, type="odd", n=float("nan")), stop(1))),
    "4,000 digits in an input": odd(calling(call("t", "echo", '{"words":"a","n":' + "9" * 4_000 + "}"))),
    "a million digits in an input": odd(calling(call("t", "echo", '{"n":' + "9" * 1_000_000 + "}"))),
    "4 MB of input": odd(calling(call("t", "echo", json.dumps({"words": "a" * 4_190_000})))),
    "a name of a megabyte": senseless(calling(call("t", "n" * MEGABYTE, "{}"))),
    "a call without a name": senseless(calling(call("t", None, "{}"))),
    "a call without an id": odd(calling(call(None, "echo", '{"words":"a"}'), call(None, "echo", "{}", 1))),
    "a block whose type is a list": senseless(whole(begin(0, type=["text"]), stop(0))),
    "redacted thinking of nothing": senseless(whole(begin(0, type="redacted_thinking"), stop(0))),
    "a text that is none": odd(whole(begin(0, type="text", text=["a"]), stop(0))),
    "a result in a reply": odd(
        whole(text(), begin(1, type="tool_result", tool_use_id="t", content=[]), stop(1))
    ),
    "an image in a reply": repaired(
        whole(
            text(),
            begin(1, type="image", source={"type": "base64", "media_type": "image/png", "data": "aGk="}),
            stop(1),
        )
    ),
    "a text with a field of its own": repaired(
        whole(begin(0, type="text", text="hello", provider_specific_fields={"a": 1}), stop(0))
    ),
    "a call with a field of its own": repaired(
        calling(begin(0, type="tool_use", id="t", name="echo", input={"words": "a"}, caller_x=None), stop(0))
    ),
    "arguments of wrong types": odd(
        calling(
            call("t", "echo", '{"words":["a",{"b":1}]}'),
            call("u", "act", '{"words":null}', 1),
            call(5, ["echo"], "{}", 2),
            call({"a": 1}, 7, "[]", 3),
        )
    ),
    "ids that are paths": odd(
        calling(
            call("../../etc/passwd", "echo", '{"words":"a"}'),
            call("/", "../../bin/sh", "{}", 1),
            call("a/b\n", "..", "{}", 2),
        )
    ),
    "fifty calls of one id": odd(
        calling(*(call("t", "echo", f'{{"words":"{at}"}}', at) for at in range(50)))
    ),
    "two thousand calls": odd(
        calling(*(call("t", "echo", f'{{"words":"{at}"}}', at) for at in range(1_999)))
    ),
    "many unknown tools": odd(calling(*(call("t", f"no-{at}", "{}", at) for at in range(500)))),
    "surrogates everywhere": odd(
        HEAD
        + start(model="\ud800m", id="\udfff")
        + text("\ud800")
        + call("\ud800", "\udfff", '{"words":"\\ud800","\\udfff":1}', 1)
        + end("end_turn\ud800")
    ),
    "escapes everywhere": odd(
        HEAD
        + start(model=EVIL, id=EVIL, usage={EVIL: EVIL})
        + begin(0, type="text", text=EVIL)
        + stop(0)
        + call(EVIL, EVIL, json.dumps({"words": EVIL}), 1)
        + call("u", "act", json.dumps({"words": EVIL}), 2)
        + call("v", "echo", EVIL, 3)
        + end(EVIL)
    ),
    "lies about usage": odd(
        HEAD
        + start(usage={"input_tokens": -5, "output_tokens": "many", "cache_read_input_tokens": 10**30})
        + text()
        + end(input_tokens=1e999, output_tokens=float("nan"), cache_creation=[])
    ),
    "usage within usage": odd(
        HEAD
        + b'data: {"type":"message_start","message":{"usage":'
        + b'{"cache_creation":' * 900
        + b"1"
        + b"}" * 902
        + b"\n\n"
        + text()
        + end()
    ),
}
HOSTILE: dict[str, Hostile] = {**_BODIES, **_HEADS, **_ERRORS, **_EVENTS, **_REPLIES}


def _chunk(reason: Any = None, **piece: Any) -> bytes:
    """One chunk of a chat completion."""
    choices = [{"index": 0, "delta": piece, "finish_reason": reason}]
    return f"data: {json.dumps({'model': 'm', 'choices': choices})}\n\n".encode()


def _chat(*chunks: bytes, reason: Any = "stop") -> bytes:
    return HEAD + b"".join(chunks) + _chunk(reason) + b"data: [DONE]\n\n"


def _chat_call(given: Any, ident: Any = "t", name: Any = "echo", **more: Any) -> bytes:
    return _chunk(tool_calls=[{"id": ident, "function": {"name": name, "arguments": given}, **more}])


# The same for chat completions, where their chunks differ from the events above.
CHAT: dict[str, Hostile] = {
    "words for ever": too_much(forever(HEAD, _chunk(content="ab" * 999)), "4,194,304"),
    "thoughts for ever": too_much(forever(HEAD, _chunk(reasoning="ab" * 999)), "4,194,304"),
    "an input for ever": too_much(forever(HEAD, _chat_call("[" * 999, index=0)), "4,194,304"),
    "calls for ever": too_much(forever(HEAD, lambda at: _chat_call("", f"t{at}", index=at)), "2,000 blocks"),
    "empty chunks for ever": too_much(forever(HEAD, _chunk(x="y" * 99_999)), "64 MB"),
    "no number in an input": odd(_chat(_chat_call('{"words":"a","n":NaN}'), reason="tool_calls")),
    "no number in an object": senseless(_chat(_chat_call({"words": "a", "n": float("inf")}))),
    "an input nested too deep": odd(_chat(_chat_call('{"words":' + "[" * 100_000), reason="tool_calls")),
    "a name of a megabyte": senseless(_chat(_chat_call("{}", name="n" * MEGABYTE))),
    "ids that are none": odd(
        _chat(
            _chat_call("{}", {"a": 1}, ["echo"], index=0),
            _chat_call("[]", "../..", 5, index=-1),
            reason="tool_calls",
        )
    ),
    "a call without a name": senseless(_chat(_chat_call("{}", name=None), reason="tool_calls")),
    "an index that is a list": senseless(_chat(_chat_call("{}", index=[1]))),
    "a call that is none": senseless(_chat(_chunk(tool_calls=[5]))),
    "choices that are none": senseless(HEAD + b'data: {"choices":[5]}\n\n'),
    "content that is none": odd(_chat(_chunk(content={"a": 1}), _chunk(content="words"))),
    "surrogates everywhere": odd(
        _chat(
            _chunk(content="\ud800", reasoning_content="\udfff", x="\ud800"),
            _chat_call('{"words":"\ud800"}', "\ud800", "\udfff"),
            reason="tool_calls\ud800",
        )
    ),
    "escapes everywhere": odd(
        _chat(
            _chunk(content=EVIL, reasoning_content=EVIL, role=EVIL),
            _chat_call(json.dumps({"words": EVIL}), EVIL, EVIL),
            reason=EVIL,
        )
    ),
    "an error of escapes": refused(
        HEAD + b"data: " + json.dumps({"error": {"message": EVIL, "code": EVIL}}).encode() + b"\n\n", "erased"
    ),
    "lies about usage": odd(
        _chat(
            _chunk(content="words"),
            b'data: {"usage":{"prompt_tokens":-5,"completion_tokens":1e999,"cached_tokens":"many"}}\n\n',
        )
    ),
}
