"""Replies with random faults in their events come to a refusal, or to a reply that can be used."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from agent.errors import ModelError
from agent.model.anthropic.accumulator import MessageAccumulator, message_events
from agent.model.anthropic.request import encode_request
from agent.model.chat_completions.chat_request import encode_chat_request
from agent.model.chat_completions.chat_stream import ChunkReader
from agent.model.responses.request import encode_responses_request
from agent.model.responses.stream import ItemReader
from agent.model_port import IncomingReply, ModelRequest, RequestSettings
from agent.session.session import Session
from agent.ui.output_formats import json_line
from compact.tokens import TokenCounter
from tests.agent.loop.world import Memory, TestClock
from transcripts.codec import decode_line, encode_fact
from transcripts.folding import Folded, fold
from transcripts.messages import TextBlock

from .responses_server import Said, spoken

WORDS = """
    type index content_block delta message usage id name input text thinking signature data partial_json
    stop_reason model content cache_creation input_tokens error unsigned source cache_control role
    choices tool_calls function arguments finish_reason reasoning reasoning_content refusal x
    response item output_index call_id encrypted_content summary status incomplete_details phase
"""
KINDS = """
    message_start content_block_start content_block_delta content_block_stop message_delta message_stop
    text thinking tool_use redacted_thinking tool_result image text_delta input_json_delta
    thinking_delta signature_delta odd base64
    response.created response.output_item.added response.output_item.done response.output_text.delta
    response.function_call_arguments.delta response.reasoning_summary_text.delta response.incomplete
    response.completed message reasoning function_call incomplete
"""
NAMES, TYPES = WORDS.split(), KINDS.split()
LEAVES: list[Any] = [None, True, False, 0, 1, -1, 2, 1e999, float("nan"), 1.5, 10**20, "", "a", "0", "\ud800"]
LEAVES += ["\x1b]52;c;x\x07", "../x", "{}", "[", '{"a":1}', "x" * 300, *TYPES]
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": ""},
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "tool_use", "id": "t", "name": "read", "input": {}},
    {"type": "redacted_thinking", "data": "abc"},
    {"type": "odd", "x": 1},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
]
DELTAS: dict[str, list[dict[str, Any]]] = {
    "text": [{"type": "text_delta", "text": "hello"}],
    "thinking": [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "s"},
    ],
    "tool_use": [{"type": "input_json_delta", "partial_json": '{"a":1}'}],
}
NONSENSE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, ModelError)


def random_value(rng: random.Random, depth: int) -> Any:
    kind = rng.random()
    if depth == 0 or kind < 0.5:
        return rng.choice(LEAVES)
    if kind < 0.75:
        return {rng.choice(NAMES): random_value(rng, depth - 1) for _ in range(rng.randrange(4))}
    return [random_value(rng, depth - 1) for _ in range(rng.randrange(3))]


def with_faults(rng: random.Random, value: Any, share: float) -> Any:
    """The value with that share of its parts replaced, left out, or added to."""
    if rng.random() < share:
        return random_value(rng, 2)
    if isinstance(value, list):
        return [with_faults(rng, each, share) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: with_faults(rng, each, share) for name, each in value.items() if rng.random() > share}
    return kept | ({rng.choice(NAMES): random_value(rng, 2)} if rng.random() < share else {})


def random_events(rng: random.Random) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "i", "model": "m"}}]
    for index in range(rng.randrange(1, 4)):
        block = rng.choice(BLOCKS)
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        for delta in DELTAS.get(block["type"], ()):
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}})
    return [*events, {"type": "message_stop"}]


def random_chunks(rng: random.Random) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    for _ in range(rng.randrange(1, 5)):
        call = {"index": rng.randrange(2), "id": "c", "function": {"name": "read", "arguments": '{"a":1}'}}
        pieces: dict[str, Any] = {"content": "hi", "reasoning": "hm", "tool_calls": [call]}
        deltas.append({name: pieces[name] for name in rng.sample(list(pieces), rng.randrange(1, 4))})
    chunks = [{"id": "i", "model": "m", "choices": [{"delta": delta}]} for delta in deltas]
    return [*chunks, {"choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 5}}]


def random_response(rng: random.Random) -> list[dict[str, Any]]:
    calls = tuple(("read", '{"a":1}') for _ in range(rng.randrange(3)))
    stop = rng.choice(["", "", "max_output_tokens", "content_filter"])
    said = Said(rng.choice(["", "hi"]), ("hm", "so"), calls, stop=stop, refusal=rng.random() < 0.2)
    return [json.loads(event.partition(b"data: ")[2]) for event in spoken(said)]


def read_with_faults(rng: random.Random) -> IncomingReply:
    """A reply as far as it could be read: streamed, whole, or of OpenAI's protocols."""
    reply, share = IncomingReply(), rng.choice([0.0, 0.01, 0.03, 0.1])
    kind = rng.choice(["streamed", "whole", "chat", "responses"])
    try:
        if kind == "chat":
            reader = ChunkReader(reply)
            for chunk in random_chunks(rng):
                list(reader.feed(with_faults(rng, chunk, share)))
            reader.end(announced=False)
        elif kind == "responses":
            items = ItemReader(reply)
            for event in random_response(rng):
                list(items.feed({"type": "", **with_faults(rng, event, share)}))
        else:
            accumulator = MessageAccumulator(reply, rng.random() < 0.5)
            blocks = rng.choices(BLOCKS, k=3)
            message = {"id": "i", "model": "m", "content": blocks, "stop_reason": "end_turn", "usage": {}}
            events = random_events(rng) if kind == "streamed" else None
            for part in events or message_events(with_faults(rng, message, share)):
                accumulator.feed(with_faults(rng, part, share) if events else part)
    except NONSENSE:
        pass  # the attempt has failed; what came by then is recorded
    return reply


def strict(text: str | bytes) -> Any:
    return json.loads(text, parse_constant=pytest.fail)


def check_usable(reply: IncomingReply) -> None:
    """The reply can be recorded, read again, shown, and sent back by each protocol."""
    record = Memory()
    session = Session("s", record, Folded(), TokenCounter.load(), TestClock().now)
    session.open((), (), model="m", window=1_000, folder="/")
    session.user((TextBlock("go"),))
    fact = session.reply(reply, 1)
    session.user((TextBlock("next"),))
    again = [decode_line(encode_fact(each, "s"))[0] for each in record.facts]
    assert list(map(type, again)) == list(map(type, record.facts))
    strict(json_line([each.to_json() for each in fact.blocks]))
    for view in (session.folded.view, fold(again).view):
        request = ModelRequest(RequestSettings("m", 1), view.sendable())
        strict(encode_request(request))
        strict(encode_chat_request(request))
        strict(encode_responses_request(request))


def run_some(seeds: range) -> None:
    started = 0
    for seed in seeds:
        reply = read_with_faults(random.Random(seed))
        if reply.started:
            started += 1
            check_usable(reply)
    assert started > len(seeds) / 3


def test_a_reply_with_random_faults_is_refused_or_usable() -> None:
    run_some(range(600))


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_a_great_many_replies_with_random_faults_are_refused_or_usable() -> None:
    run_some(range(1_000, 40_000))
