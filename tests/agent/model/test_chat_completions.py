"""Chat completions: what servers do differently, and whole turns with one of them."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.app import Options
from agent.app.config import load_config
from agent.app.context_building import require_price
from agent.app.setup import RunSetup
from agent.errors import (
    AuthenticationError,
    BlockRejected,
    ModelError,
    ModelNotFound,
    PromptTooLong,
    UsageError,
)
from agent.events import ContextCompacted, Notice, Retrying, TextDelta, ThinkingDelta
from agent.model.anthropic.client import AnthropicModel
from agent.model.anthropic.messages import PLAIN_FORM, as_sent
from agent.model.chat_completions.chat_client import ChatCompletionsModel
from agent.model.chat_completions.chat_request import CHAT_NAMES, encode_chat_request
from agent.model.chat_completions.chat_stream import ChunkReader
from agent.model.error_mapping import map_error
from agent.model.openai_http import OPENAI_URL
from agent.model.server_windows import facts_from_list
from agent.model_port import IncomingReply, ModelFacts, ModelRequest, RequestSettings
from tests.agent.commands.controller_run import started
from tests.agent.loop.world import World, turns, world
from tests.sampling import sampled
from tests.tables import each_row
from transcripts.facts import Reply, User
from transcripts.folding import fold
from transcripts.messages import RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolUseBlock, Usage

from .chat_server import MODEL, ChatReply, ChatServer, Failure
from .raw_server import raw, sse
from .test_size_errors import TOO_LONG

CALL = ChatReply("I look.", "I should look.", (("echo", '{"words": "x"}'),))


def read(*chunks: dict[str, Any]) -> tuple[IncomingReply, list[Any]]:
    """Return the reply that some deltas make, and its notices. The last delta ends it."""
    reply = IncomingReply()
    reader = ChunkReader(reply)
    events: list[Any] = []
    for chunk in chunks:
        events += reader.feed(chunk)
    reader.end(announced=False)
    return reply, events


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(arguments: Any, **more: Any) -> dict[str, Any]:
    name = {"name": more.pop("name")} if "name" in more else {}
    return {**more, "function": {**name, "arguments": arguments}}


def inputs(reply: IncomingReply) -> list[tuple[str, str, dict[str, Any]]]:
    calls = [block for block in reply.blocks if isinstance(block, ToolUseBlock)]
    return [(call.id, call.name, dict(call.input)) for call in calls]


BOTH = [("a", "read", {"p": 1}), ("b", "bash", {"c": 2})]


def test_calls_that_come_interleaved_keep_their_own_pieces() -> None:
    reply, _ = read(
        delta(tool_calls=[piece('{"p"', index=0, id="a", name="read")]),
        delta(tool_calls=[piece('{"c"', index=1, id="b", name="bash")]),
        delta(tool_calls=[piece(": 1}", index=0), piece(": 2}", index=1)]),
        delta("tool_calls"),
    )
    assert inputs(reply) == BOTH and (reply.complete, reply.stop) == (True, "tool_use")


def test_calls_without_an_index_or_an_id_and_arguments_as_objects_are_understood() -> None:
    whole = [piece({"p": 1}, id="a", name="read"), piece({"c": 2}, id="b", name="bash")]
    assert inputs(read(delta(tool_calls=whole), delta("stop"))[0]) == BOTH
    parts = (
        delta(tool_calls=[piece('{"p"', id="a", name="read")]),
        delta(tool_calls=[piece(": 1}")]),
        delta(tool_calls=[piece('{"c": 2}', id="b", name="bash")]),
    )
    assert inputs(read(*parts, delta("tool_calls"))[0]) == BOTH
    nameless = delta(tool_calls=[piece("{}", name="read"), piece("{}", name="bash")])
    assert [made[:2] for made in inputs(read(nameless, delta("stop"))[0])] == [
        ("call_0", "read"),
        ("call_1", "bash"),
    ]
    same_index = delta(tool_calls=[piece({"p": 1}, index=0, id="a", name="read"),
                                   piece({"c": 2}, index=0, id="b", name="bash")])  # fmt: skip
    assert inputs(read(same_index, delta("stop"))[0]) == BOTH


@each_row(
    ("pieces", "found"),
    [
        (  # Gemini: one index, no ids
            [piece('{"p": 1}', index=0, id="", name="read"), piece('{"c": 2}', index=0, id="", name="bash")],
            [("call_0", "read", {"p": 1}), ("call_1", "bash", {"c": 2})],
        ),
        (  # OCI: pieces without an id belong to the call that began last
            [piece("", index=0, id="a", name="read"), piece('{"p"', index=0), piece(": 1}", index=0),
             piece("", index=0, id="b", name="bash"), piece('{"c"', index=0), piece(": 2}", index=0)],
            BOTH,
        ),
        (  # MiniMax: the name in each piece
            [piece("", index=0, id="a", name="read"), piece('{"p"', index=0, name="read"),
             piece(": 1}", index=0, name="read")],
            BOTH[:1],
        ),
        (  # Ollama: one index, and the same call twice
            [piece('{"p": 1}', index=0, id=each, name="read") for each in "ab"],
            [("a", "read", {"p": 1}), ("b", "read", {"p": 1})],
        ),
        (  # the name in pieces, or a longer one each time
            [piece("", index=0, id="a", name="re"), piece("", index=0, name="ad"),
             piece('{"p": 1}', index=0), piece("", index=1, id="b", name="ba"),
             piece('{"c": 2}', index=1, name="bash")],
            BOTH,
        ),
        (  # GPT-5 by a gateway: a finished call again
            [piece('{"p": 1}', index=0, id="a", name="read")] * 2,
            BOTH[:1],
        ),
        (  # vLLM: another id for each piece
            [piece('{"p"', index=0, id="a", name="read"), piece(": 1}", index=0, id="x")],
            BOTH[:1],
        ),
        ([piece("null", index=0, id="a", name="read")], [("a", "read", {})]),
        (
            [piece('{"p": ', index=0, id="a", name="read"), piece("1}{", index=0, name="read"),
             piece("}", index=0)],
            [("a", "read", {ToolUseBlock.INVALID_JSON: '{"p": 1}{}'})],
        ),
    ],
)  # fmt: skip
def test_calls_that_share_an_index_or_repeat_a_name_are_told_apart(
    pieces: list[Any], found: list[Any]
) -> None:
    apart = [delta(tool_calls=[each]) for each in pieces]
    assert inputs(read(*apart, delta("tool_calls"))[0]) == found
    assert inputs(read(delta("tool_calls", tool_calls=pieces))[0]) == found


def test_a_last_chunk_that_repeats_the_reply_adds_nothing() -> None:
    message = {"role": "assistant", "content": "Hi there", "tool_calls": [piece("{}", id="a", name="read")]}
    last = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    reply, events = read(delta(content="Hi "), delta(content="there"), last)
    assert reply.complete and reply.blocks == [TextBlock("Hi there")] and len(events) == 2


def test_a_message_that_begins_after_another_is_an_error() -> None:
    call = {"tool_calls": [{"index": 0, "id": "c1", **piece("{}", name="echo")}]}
    for fields in ({"role": "assistant", "content": "hi"}, call):
        first = {"id": "chatcmpl-1", **delta("stop", content="hi")}
        with pytest.raises(ValueError, match="another message begins"):
            read(first, {"id": "chatcmpl-2", **delta(**fields)})
        for more in ({"id": "chatcmpl-1"}, {"id": ""}, {}):
            assert len(read(first, more | delta(**fields))[0].blocks) in (1, 2)
    proxy = [{"id": f"chatcmpl-{n}", **delta(content="x")} for n in range(3)]  # some give each chunk an id
    ended = {"id": "chatcmpl-8", **delta("stop")}
    assert read(*proxy, ended, {"id": "chatcmpl-9", **delta(role="assistant", content="")})[0].complete


def test_calls_in_a_choice_of_their_own_belong_to_the_reply() -> None:
    choices = [{"index": 0, "delta": {"content": "I look."}, "finish_reason": "tool_calls"},
               {"index": 1, "delta": {"tool_calls": [piece('{"p": 1}', id="a", name="read")]}}]  # fmt: skip
    reply, _ = read({"model": "m", "choices": choices}, delta("tool_calls"))
    assert [type(block) for block in reply.blocks] == [TextBlock, ToolUseBlock]


def test_reasoning_is_thinking_of_its_field_and_comes_before_the_text() -> None:
    for name in ("reasoning_content", "reasoning"):
        reply, events = read(
            delta(**{name: "hm, "}), delta(**{name: "yes"}), delta(content="Yes."), delta("stop")
        )
        assert reply.blocks == [
            ThinkingBlock("hm, yes", "", {ThinkingBlock.UNSIGNED: name}),
            TextBlock("Yes."),
        ]
        assert [type(event) for event in events] == [ThinkingDelta, ThinkingDelta, TextDelta]
    listed = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Yes."},
    ]
    reply, _ = read(delta("stop", content=listed))
    assert [type(block) for block in reply.blocks] == [ThinkingBlock, TextBlock]


@each_row(
    ("usage", "found"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 5}, Usage(100, 5)),
        ({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 60}},
         Usage(40, 5, 60)),
        ({"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 60}, Usage(40, 5, 60)),
        ({"prompt_tokens": 100, "completion_tokens": 5, "cached_tokens": 60}, Usage(40, 5, 60)),
        ({"prompt_tokens": 100, "completion_tokens": 5,
          "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}}, Usage(10, 5, 60, 30)),
        ({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": None}, Usage(100, 5)),
        ({"prompt_tokens": -3, "completion_tokens": "many"}, Usage()),
        ("none", Usage()),
    ],
)  # fmt: skip
def test_usage_is_read_in_every_dialect(usage: Any, found: Usage) -> None:
    assert read(delta("stop", content="x"), {"choices": [], "usage": usage})[0].usage == found
    inside = delta("stop", content="x")
    inside["choices"][0]["usage"] = usage
    assert read(inside)[0].usage == found


def test_a_completion_in_one_piece_is_a_reply_as_well() -> None:
    message = {"role": "assistant", "content": "Hi", "tool_calls": [piece('{"p": 1}', id="a", name="read")]}
    reply, _ = read({"model": "m", "choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert reply.complete and [type(block) for block in reply.blocks] == [TextBlock, ToolUseBlock]


def test_stops_are_in_the_words_of_the_port() -> None:
    stops = {
        "length": "max_tokens",
        "model_length": "model_context_window_exceeded",
        "content_filter": "refusal",
        "sensitive": "refusal",
    }
    for said, meant in stops.items():
        assert read(delta(said, content="x"))[0].stop == meant
    reply, _ = read(delta(content="x"))
    assert not reply.complete and reply.stop is None


SETTINGS = RequestSettings(MODEL, 8_000, ("One.", "Two."))


def encoded(*facts: Any, official: bool = False, settings: RequestSettings = SETTINGS) -> dict[str, Any]:
    request = ModelRequest(settings, fold(facts).view)
    made: dict[str, Any] = json.loads(encode_chat_request(request, official))
    return made


def test_a_request_is_as_plain_as_the_plainest_server_wants_it() -> None:
    call = ToolUseBlock("a", "read", {ToolUseBlock.INVALID_JSON: '{"p": '})
    facts = [
        User(1, 0.0, (TextBlock("one"), TextBlock("two"))),
        Reply(2, 0.0, (RedactedThinkingBlock("x"), ThinkingBlock("signed", "abc"), call), stop="tool_use"),
    ]
    body = encoded(*facts, User(3, 0.0, (TextBlock("go on"),)))
    assert [message["role"] for message in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
    ]
    assert [body["messages"][at]["content"] for at in (0, 1, 2)] == ["One.\n\nTwo.", "one\n\ntwo", None]
    assert body["messages"][2].keys() == {"role", "content", "tool_calls"}
    arguments = body["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {ToolUseBlock.INVALID_JSON: '{"p": '}
    assert body["max_tokens"] == 8_000 and body["stream_options"] == {"include_usage": True}


def test_the_output_limit_has_the_name_that_the_server_takes() -> None:
    hello = User(1, 0.0, (TextBlock("hello"),))
    assert "max_completion_tokens" in encoded(hello, official=True)
    assert "max_tokens" in encoded(hello)
    without = replace(SETTINGS, rejected=frozenset({"max_tokens", "usage in streams"}))
    body = encoded(hello, settings=without)
    assert body["max_completion_tokens"] == 8_000 and not {"max_tokens", "stream_options"} & body.keys()


@contextmanager
def chat_world(folder: Path, *replies: ChatReply | Failure) -> Iterator[tuple[World, ChatServer]]:
    with ChatServer() as server, world([], folder) as w:
        server.replies += replies
        w.context.model = ChatCompletionsModel(server.base_url, "key")
        w.context.settings = replace(w.context.settings, model=MODEL, thinking=False)
        w.context.compaction.binds = False
        yield w, server
        assert server.refused == []


def bodies(server: ChatServer) -> list[dict[str, Any]]:
    return [json.loads(body) for body in server.bodies]


def test_reasoning_goes_back_as_it_came(tmp_path: Path) -> None:
    again = replace(CALL, reasoning="And once more.", reasoning_field="reasoning")
    with chat_world(tmp_path, CALL, again, ChatReply("Done.", "That was it.")) as (w, server):
        assert turns(w, "look") == ["done"]
        replies = [message for message in bodies(server)[-1]["messages"] if message["role"] == "assistant"]
        assert replies[0]["reasoning_content"] == "I should look." and "reasoning" not in replies[0]
        assert replies[1]["reasoning"] == "And once more."


def keep(sent: list[Any], answer: bytes) -> Callable[[socket.socket, bytes], None]:
    """Return a step of a raw server that answers, and keeps the messages that it got."""

    def step(connection: socket.socket, body: bytes) -> None:
        sent.append(json.loads(body)["messages"])
        connection.sendall(answer)

    return step


SIGNED = {"google": {"thought_signature": "AY89a18IwQ"}}
DETAILS = (
    {"type": "reasoning.text", "text": "I ", "format": "f", "index": 0},
    {"type": "reasoning.text", "text": "look.", "signature": "s", "format": "f", "index": 0},
    {"type": "reasoning.encrypted", "data": "CiQB", "id": "a", "format": "google-gemini-v1", "index": 1},
)
SENT_BACK = [{**DETAILS[0], "text": "I look.", "signature": "s"}, DETAILS[2]]
MISSING = (
    "Function call is missing a thought_signature in functionCall parts. Please refer to"
    " https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)


def test_signatures_of_calls_and_details_of_reasoning_go_back_as_they_came(tmp_path: Path) -> None:
    call = piece('{"words": "x"}', index=0, id="a", name="echo")
    details = [
        ("", json.dumps(delta(reasoning=each.get("text"), reasoning_details=[each]))) for each in DETAILS
    ]
    steps = (
        sse(*details, ("", json.dumps(delta("tool_calls", tool_calls=[{**call, "extra_content": SIGNED}])))),
        sse(("", CHUNK)),
    )
    sent: list[Any] = []
    with raw(*(keep(sent, step) for step in steps)) as url, world([], tmp_path) as w:
        w.context.model = ChatCompletionsModel(url, "key")
        assert turns(w, "go") == ["done"]
        (reply,) = [message for message in sent[1] if message["role"] == "assistant"]
        assert reply["tool_calls"][0]["extra_content"] == SIGNED
        assert (reply["reasoning"], reply["reasoning_details"]) == ("I look.", SENT_BACK)
        w.check()
        said = next(message for message in w.session.folded.view if message.role == "assistant")
        elsewhere = [block.raw.keys() for block in as_sent(said, PLAIN_FORM).blocks]
        assert elsewhere == [{"type", "thinking", "signature"}, {"type", "id", "name", "input"}]


def test_a_call_without_a_signature_gets_the_documented_placeholder(tmp_path: Path) -> None:
    calls = [piece('{"words": "x"}', index=at, id=f"c{at}", name="echo") for at in (0, 1)]
    refusal = answer("application/json", json.dumps([{"error": {"code": 400, "message": MISSING}}])).replace(
        b"200 OK", b"400 Bad Request"
    )
    steps = (
        sse(("", json.dumps(delta("tool_calls", tool_calls=calls)))), refusal, sse(("", CHUNK)),
    )  # fmt: skip
    sent: list[Any] = []
    with raw(*(keep(sent, step) for step in steps)) as url, world([], tmp_path) as w:
        w.context.model = ChatCompletionsModel(url, "key")
        assert turns(w, "go") == ["done"]
        encoded = [[call.get("extra_content") for call in body[-3]["tool_calls"]] for body in sent[1:]]
        placeholder = {"google": {"thought_signature": "skip_thought_signature_validator"}}
        assert encoded == [[None, None], [placeholder, None]]


GEMINI_BEHIND = (
    "Gemini models require OpenRouter reasoning details to be preserved in each request. Please refer to our"
    ' docs: https://openrouter.ai/docs. Upstream error: {"error": {"code": 400, "message": "Unable to'
    " submit request because function call `default_api:echo` in the 2. content block is missing a"
    ' `thought_signature`."}}'
)


def test_a_call_of_another_model_gets_the_placeholder_in_the_details_for_gemini_behind_openrouter(
    tmp_path: Path,
) -> None:
    calls = [piece('{"words": "x"}', index=at, id=f"c{at}", name="echo") for at in (0, 1)]
    foreign = {"type": "reasoning.text", "text": "I", "signature": "s", "format": "anthropic-claude-v1"}
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": GEMINI_BEHIND}}
    refusal = answer("application/json", json.dumps({"error": error})).replace(b"200 OK", b"400 Bad Request")
    signed = {**DETAILS[2], "id": "d0"}
    last = [piece('{"words": "y"}', index=0, id="d0", name="echo")]
    steps = (
        sse(("", json.dumps(delta("tool_calls", tool_calls=calls, reasoning_details=[foreign])))),
        refusal,
        sse(("", json.dumps(delta("tool_calls", tool_calls=last, reasoning_details=[signed])))),
        sse(("", CHUNK)),
    )
    sent: list[Any] = []
    with raw(*(keep(sent, step) for step in steps)) as url, world([], tmp_path) as w:
        w.context.model = ChatCompletionsModel(url, "key")
        assert turns(w, "go") == ["done"]
        w.check()
    encoded = [[each["reasoning_details"] for each in body if each["role"] == "assistant"] for body in sent]
    placeholder = {**DETAILS[2], "data": "skip_thought_signature_validator", "id": "c0", "index": 0}
    assert encoded == [[], [[foreign]], [[placeholder]], [[placeholder], [signed]]]


def test_ids_of_calls_are_made_anew_for_a_server_that_wants_nine_characters(tmp_path: Path) -> None:
    words = "Tool call id was call_echo_0 but must be a-z, A-Z, 0-9, with a length of 9."
    with chat_world(tmp_path, CALL, Failure(400, words), ChatReply("Done."), ChatReply("Again.")) as (
        w,
        server,
    ):
        assert turns(w, "look", "and?") == ["done", "done"]
        for body in bodies(server)[2:]:
            call = next(message for message in body["messages"] if "tool_calls" in message)["tool_calls"][0]
            result = next(message for message in body["messages"] if message["role"] == "tool")
            assert re.fullmatch("[a-z0-9]{9}", call["id"]) and result["tool_call_id"] == call["id"]


def test_a_model_that_misses_reasoning_gets_it_blank_where_there_is_none(tmp_path: Path) -> None:
    silent = replace(CALL, reasoning="")
    with chat_world(tmp_path, silent, ChatReply("Done."), ChatReply("Again.")) as (w, server):
        server.wants_reasoning = True
        assert turns(w, "look", "and?") == ["done", "done"]
        assert len(server.bodies) == 4
        assert "reasoning with every tool call" in w.told(Notice)[0].text


def test_reasoning_that_the_server_does_not_take_back_is_left_out(tmp_path: Path) -> None:
    refusal = Failure(400, "Additional properties are not allowed ('reasoning_content' was unexpected)")
    with chat_world(tmp_path, CALL, refusal, ChatReply("Done."), ChatReply("Again.")) as (w, server):
        assert turns(w, "look", "and?") == ["done", "done"]
        assert ["reasoning_content" in str(body) for body in bodies(server)] == [False, True, False, False]


@pytest.mark.parametrize(
    ("words", "gone", "come"),
    [
        ("Unrecognized request argument supplied: stream_options", "stream_options", ""),
        ("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
         "instead.", "max_tokens", "max_completion_tokens"),
        ("reasoning_effort is not supported", "reasoning_effort", ""),
    ],
)  # fmt: skip
def test_a_field_that_a_server_does_not_take_is_left_out_or_named_again(
    tmp_path: Path, words: str, gone: str, come: str
) -> None:
    with chat_world(tmp_path, Failure(400, words), ChatReply("Done."), ChatReply("Again.")) as (w, server):
        w.context.settings = replace(w.context.settings, effort="low")
        assert turns(w, "one", "two") == ["done", "done"]
        first, *later = bodies(server)
        assert gone in first and not any(gone in body for body in later)
        assert not come or all(come in body for body in later)


@pytest.mark.parametrize(
    "name", sampled(["vllm", "openai in a stream", "openrouter, quoting", "llama.cpp", "gemini", "kimi"], 3)
)
def test_a_turn_compacts_and_continues_with_each_wording(tmp_path: Path, name: str) -> None:
    status, body, (_, limit) = TOO_LONG[name]
    asked = ChatReply("", calls=(("echo", json.dumps({"words": "long " * 8_000})),))
    with chat_world(tmp_path, asked, Failure(status, "", body=body), ChatReply("Done.")) as (w, server):
        assert turns(w, "go") == ["done"]
        assert w.told(ContextCompacted) and w.told(Retrying) == []
        before, after = map(len, server.bodies[1:])
        assert after < 0.6 * before
        assert limit is None or w.context.compaction.window.size == min(limit, 200_000)


def answer(content: str, body: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: {content}\r\nconnection: close\r\n\r\n{body}".encode()


CHUNK = json.dumps(delta("stop", content="whole"))


@pytest.mark.parametrize(
    "sent",
    [
        sse(("", json.dumps(delta(content="whole"))), ("", "[DONE]")),
        sse(("", CHUNK), ("", "[DONE]")),
        sse(("", CHUNK)),  # no [DONE]
        sse(("", CHUNK)).replace(b"connection: close", b"content-length: 9000"),  # cut behind the reply
        answer("application/json; charset=utf-8", json.dumps({"model": "m", "choices": [
            {"message": {"content": "whole"}, "finish_reason": "stop"}]})),
        sse(("", CHUNK), ("", "[DONE]"), ("", "{broken")),
        answer("text/event-stream", f": OPENROUTER PROCESSING\n\ndata: {CHUNK}\n\ndata: [DONE]\n\n"),
    ],
    ids=["no reason", "done", "no done", "cut", "json", "more", "comment"],
)  # fmt: skip
def test_a_whole_reply_counts_however_it_comes_and_ends(tmp_path: Path, sent: bytes) -> None:
    with raw(sent) as url, world([], tmp_path) as w:
        w.context.model = ChatCompletionsModel(url, "key")
        assert turns(w, "go") == ["done"]
        assert w.told(Retrying) == [] and [event.text for event in w.told(TextDelta)] == ["whole"]


@pytest.mark.parametrize(
    ("sent", "words", "tried_again"),
    [
        (answer("application/json", '{"error": "the model crashed"}'), "the model crashed", True),
        (sse(("", '{"error": {"message": "no GPU", "code": 400}}')), "no GPU", False),
        (sse(("", '{"error": {"message": "overloaded", "code": 502}}')), "overloaded", True),
        (sse(("", "{broken")), "cannot parse the response", True),
        (sse(("", '{"choices": [{"delta": {"tool_calls": 7}}]}')), "cannot parse the response", True),
        (answer("text/html", "<html>Sign in</html>"), "Sign in", True),
        (sse(("", json.dumps(delta(content="half")))), "ended before", True),
        (
            sse(
                ("", json.dumps(delta(content="half"))),
                ("", json.dumps(delta("network_error"))),
                ("", "[DONE]"),
            ),
            "'network_error'",
            True,
        ),
        (sse(("", "[DONE]")), "ended before", True),
    ],
    ids=["json", "stream", "gateway", "broken", "odd", "portal", "cut", "broken off", "nothing"],
)
def test_what_goes_wrong_is_reported_in_the_words_of_the_server(
    tmp_path: Path, sent: bytes, words: str, tried_again: bool
) -> None:
    with raw(sent) as url, world([], tmp_path) as w:
        w.context.model = ChatCompletionsModel(url, "key")
        ended = w.run()
        assert ended.reason == "failed" and words in ended.error
        assert bool(w.told(Retrying)) == tried_again


def test_images_that_a_model_does_not_take_are_known_by_the_words() -> None:
    for status, words in (
        (500, "image input is not supported - hint: you may need to provide the mmproj"),
        (400, "Invalid content type. image_url is only supported by certain models."),
        (404, "No endpoints found that support image input"),
    ):
        body = json.dumps({"error": {"message": words}})
        assert isinstance(map_error(status, body, {}, 0.0, CHAT_NAMES), BlockRejected)


def described(server: ChatServer, model: str) -> ModelFacts:
    async def ask() -> ModelFacts:
        made = ChatCompletionsModel(server.base_url, "key")
        try:
            return await made.describe(model)
        finally:
            await made.close()

    return asyncio.run(ask())


def test_the_only_model_of_a_server_needs_no_name_and_another_is_not_there() -> None:
    with ChatServer() as server:
        assert described(server, "").id == MODEL
        with pytest.raises(ModelNotFound, match=MODEL):
            described(server, "other")
    known = ModelFacts("")
    with pytest.raises(ModelNotFound, match="--model"):
        facts_from_list(known, [{"id": "a"}, {"id": "b"}])
    for name, listed in (("a:free", "a"), ("a", "a:latest"), ("any/thing", "any/*")):
        assert facts_from_list(ModelFacts(name), [{"id": listed}, {"id": "c"}]).id == name


def test_a_key_is_needed_for_openai_alone() -> None:
    with pytest.raises(AuthenticationError, match="OPENAI_API_KEY"):
        ChatCompletionsModel().connect()
    for url, server in (
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1"),
        (OPENAI_URL, OPENAI_URL),
    ):
        assert ChatCompletionsModel(url).server == server


def test_the_variables_of_openai_lead_to_its_servers_alone(tmp_path: Path) -> None:
    environ = {
        "OPENAI_API_KEY": "sk-proj-123456789",
        "OPENAI_BASE_URL": "http://user:pass12345@localhost:8000/v1",
        "OPENAI_MODEL": "local",
        "ANTHROPIC_MODEL": "opus",
        "MAKEROOM_PROVIDER": "openai",
    }
    setup = RunSetup(Options(), load_config(environ, tmp_path, tmp_path), tmp_path, environ)
    assert setup.model_name == "local" and setup.config.openai_key == "sk-proj-123456789"
    assert {"sk-proj-123456789", "pass12345"} <= set(setup.config.secrets)
    assert RunSetup(Options(model="x"), setup.config, tmp_path, environ).model_name == "x"
    anthropic = load_config({**environ, "MAKEROOM_PROVIDER": "anthropic"}, tmp_path, tmp_path)
    assert RunSetup(Options(), anthropic, tmp_path, environ).model_name == "opus"


@each_row(
    ("variables", "provider", "named"),
    [
        ({}, "anthropic", False),
        ({"OPENAI_MODEL": "o3"}, "anthropic", False),
        ({"ANTHROPIC_MODEL": "opus"}, "anthropic", True),
        ({"MAKEROOM_MODEL": "opus"}, "anthropic", True),
        ({"OPENAI_MODEL": "o3"}, "openai", True),
        ({"ANTHROPIC_MODEL": "opus"}, "openai", False),
    ],
)
def test_a_run_names_its_model_by_the_variables_of_its_provider(
    tmp_path: Path, variables: dict[str, str], provider: str, named: bool
) -> None:
    environ = {"HOME": str(tmp_path), "MAKEROOM_PROVIDER": provider, **variables}
    config = load_config(environ, tmp_path, tmp_path)
    assert RunSetup(Options(), config, tmp_path, environ).names_model is named
    assert RunSetup(Options(model="x"), config, tmp_path, environ).names_model


def test_errors_name_the_variables_of_this_provider(tmp_path: Path) -> None:
    with chat_world(tmp_path, Failure(401, "bad key")) as (w, _):
        ended = w.run()
        assert ended.code == 5 and "OPENAI_API_KEY" in ended.error and "ANTHROPIC" not in ended.error


def test_a_window_of_which_the_prompt_takes_too_much_is_reported(tmp_path: Path) -> None:
    with chat_world(tmp_path) as (w, server):
        server.window = 50
        with pytest.raises(PromptTooLong):
            asyncio.run(only_stream(w))


async def only_stream(w: World) -> None:
    w.say("hello " * 100)
    try:
        request = ModelRequest(w.context.settings, w.session.folded.view)
        await w.context.model.stream(request, IncomingReply(), lambda event: None)
    except ModelError:
        raise
    finally:
        await w.context.model.close()


def test_the_program_works_with_a_server_of_chat_completions(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("three small words")
    environ = {"MAKEROOM_PROVIDER": "openai"}
    with ChatServer() as server:
        server.replies += [
            ChatReply("", calls=(("read", '{"file_path": "notes.txt"}'),)),
            ChatReply("Three."),
            ChatReply(calls=(("task", json.dumps({"description": "look", "prompt": "look"})),)),
            ChatReply("It looks fine."),
            ChatReply("Fine."),
        ]
        config = load_config(
            {**environ, "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}, tmp_path, tmp_path
        )

        async def whole() -> None:
            setup = RunSetup(Options(), config, tmp_path, environ)
            async with started(setup, server) as run:  # type: ignore[arg-type]
                await run.do("how many words?")
                status = run.controller.status()
                assert (status.model, status.cost, status.priced) == (MODEL, 0.0, False)
                assert f"price unknown: {MODEL}" in await run.do("/cost")
                await run.do("look at it")
                assert "including 1 agent" in await run.do("/cost") and "$" not in run.text()
                assert "#1  general  look" in await run.do("/agents") and "$" not in run.text()
            with pytest.raises(UsageError, match=rf'\[prices."{MODEL}"\]'):
                require_price(replace(setup, options=Options(max_budget_usd=1.0)), ModelFacts(MODEL))

        asyncio.run(whole())
        assert server.refused == [] and b"three small words" in server.bodies[-1]


UNSIGNED_REPLY = {"type": "message", "model": "m", "stop_reason": "tool_use", "usage": None, "content": [
    {"type": "thinking", "thinking": "hm", "signature": ""},
    {"type": "tool_use", "id": "t1", "name": "echo", "input": {"words": "x"}},
]}  # fmt: skip
DONE = {**UNSIGNED_REPLY, "stop_reason": "end_turn", "content": [{"type": "text", "text": "done"}]}


def test_a_server_of_messages_gets_its_unsigned_thinking_back_or_not_as_it_likes(tmp_path: Path) -> None:
    sent: list[bytes] = []

    def keep(reply: bytes) -> Any:
        def respond(connection: socket.socket, request: bytes) -> None:
            sent.append(request)
            connection.sendall(reply)

        return respond

    refusal = (
        b"HTTP/1.1 400 Bad\r\nconnection: close\r\n\r\n"
        + json.dumps(
            {"error": {"message": "messages.1.content.0.thinking: Extra inputs are not permitted"}}
        ).encode()
    )
    whole = [answer("application/json", json.dumps(each)) for each in (UNSIGNED_REPLY, DONE)]
    with raw(keep(whole[0]), keep(refusal), keep(whole[1])) as url, world([], tmp_path) as w:
        w.context.model = AnthropicModel(url, "key")
        assert turns(w, "one", "two") == ["done", "done"]
    bodies = [json.loads(each) for each in sent]
    thinking = {"type": "thinking", "thinking": "hm", "signature": ""}
    assert [thinking in (body["messages"] + [{}])[1].get("content", ()) for body in bodies] == [
        False,
        True,
        False,
        False,
    ]
    assert "rejects its own thinking" in w.told(Notice)[0].text
    assert not any("unsigned" in str(body) for body in bodies)


def test_tools_are_sent_as_functions_with_their_descriptions() -> None:
    schema = {"type": "object", "properties": {}}
    tools = (
        {"name": "a", "description": "Does a.", "input_schema": schema},
        {"name": "b", "input_schema": schema},
    )
    body = encode_chat_request(ModelRequest(RequestSettings("m", 1, tools=tools), ()))
    sent = [each["function"] for each in json.loads(body)["tools"]]
    assert sent == [
        {"name": "a", "description": "Does a.", "parameters": schema},
        {"name": "b", "description": "", "parameters": schema},
    ]


def test_thinking_in_the_parts_of_a_content_is_read_apart_from_its_text() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "I think"}, {"text": " so"}]}
    content = [thought, {"type": "thinking"}, {"type": "text", "text": "Yes"}]
    reply, _ = read(delta("stop", content=content))
    thinking, text = reply.blocks
    assert isinstance(thinking, ThinkingBlock) and thinking.thinking == "I think so"
    assert text == TextBlock("Yes")


def test_a_call_with_a_name_that_no_model_writes_is_an_invalid_response() -> None:
    for field in ({"id": "x" * 201, "function": {"name": "a"}}, {"id": "x", "function": {"name": "a" * 201}}):
        with pytest.raises(ValueError, match="more than 200 characters"):
            read(delta("tool_calls", tool_calls=[{"index": 0, **field}]))
    longest = {"index": 0, "id": "x" * 200, "function": {"name": "a" * 200}}
    reply, _ = read(delta("tool_calls", tool_calls=[longest]))
    assert len(reply.blocks) == 1
