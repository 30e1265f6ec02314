"""A reply as it streams in: what is finished, what is not, and what a watcher sees."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import RequestRejected
from agent.events import Notice, TextDelta, ThinkingDelta, ToolCallDelta
from agent.model.anthropic.accumulator import MessageAccumulator
from agent.model_port import IncomingReply
from tests.tables import each_row
from transcripts.messages import CacheMiss, TextBlock, ThinkingBlock, ToolUseBlock, UnknownBlock, Usage


def start(usage: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "message_start", "message": {"model": "m", "usage": usage or {"input_tokens": 3}}}


def block(index: int, raw: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": raw},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def end(stop: str = "end_turn") -> list[dict[str, Any]]:
    delta = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}}
    return [delta, {"type": "message_stop"}]


def json_deltas(text: str, size: int = 5) -> list[dict[str, Any]]:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def text_deltas(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text_delta", "text": text} for text in texts]


TOOL = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
WHOLE = [
    start({"input_tokens": 3, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 5}),
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "s"},
    ),
    *block(1, {"type": "text", "text": ""}, *text_deltas("Hel", "lo")),
    *block(2, TOOL, *json_deltas('{"file_path":"a.py"}')),
    *end("tool_use"),
]


def fed(events: list[dict[str, Any]]) -> IncomingReply:
    accumulator = MessageAccumulator()
    for event in events:
        accumulator.feed(event)
    return accumulator.reply


def test_a_whole_stream_becomes_its_blocks_and_its_usage() -> None:
    reply = fed(WHOLE)
    assert reply.complete
    assert reply.stop == "tool_use"
    assert reply.kept() == (
        ThinkingBlock("hm", "s"),
        TextBlock("Hello"),
        ToolUseBlock("t1", "read", {"file_path": "a.py"}),
    )
    assert (reply.usage.prompt, reply.usage.output) == (18, 7)


@given(st.integers(0, len(WHOLE) - 1))
def test_no_prefix_of_a_stream_is_complete_or_shows_a_call_that_did_not_finish(cut: int) -> None:
    reply = fed(WHOLE[:cut])
    assert not reply.complete
    for kept in reply.kept():
        assert not isinstance(kept, ToolUseBlock) or kept.input == {"file_path": "a.py"}
        assert not isinstance(kept, ThinkingBlock) or kept.signature == "s"


def test_text_that_was_cut_is_kept_and_a_cut_call_only_as_bytes_for_the_record() -> None:
    cut_text = fed(WHOLE[: WHOLE.index({"type": "content_block_stop", "index": 1})])
    assert cut_text.kept()[-1] == TextBlock("Hello")
    cut_call = fed(WHOLE[:-4])
    assert not any(isinstance(kept, ToolUseBlock) for kept in cut_call.kept())
    assert cut_call.unfinished.startswith('{"file')


@each_row("text", ['{"a": ', "[1, 2]", '"words"', "{'a': 1}"])
def test_input_that_is_not_a_json_object_is_kept_as_invalid(text: str) -> None:
    reply = fed([start(), *block(0, TOOL, *json_deltas(text)), *end("tool_use")])
    use = reply.blocks[0]
    assert isinstance(use, ToolUseBlock)
    assert use.input == {ToolUseBlock.INVALID_JSON: text}


def test_a_call_without_input_has_an_empty_object() -> None:
    reply = fed([start(), *block(0, TOOL), *end("tool_use")])
    assert reply.blocks[0] == ToolUseBlock("t1", "read", {})


def test_a_call_without_an_id_gets_one() -> None:
    calls = [block(index, {"type": "tool_use", "name": "ls", "input": {}}) for index in range(2)]
    reply = fed([start(), *calls[0], *calls[1], *end("tool_use")])
    assert [use.id for use in reply.blocks if isinstance(use, ToolUseBlock)] == ["call_0", "call_1"]


def test_a_reply_is_not_complete_while_a_block_has_no_end() -> None:
    events = [event for event in WHOLE if event != {"type": "content_block_stop", "index": 2}]
    reply = fed(events)
    assert events[-1] == {"type": "message_stop"} and reply.stop == "tool_use"
    assert not reply.complete
    assert not any(isinstance(kept, ToolUseBlock) for kept in reply.kept())


def test_tokens_that_are_cached_for_an_hour_are_counted_apart() -> None:
    ephemeral = {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 7, "cache_creation": ephemeral}
    reply = fed([start(usage), *block(0, {"type": "text", "text": ""}, *text_deltas("x")), *end()])
    assert reply.usage == Usage(1, 7, cache_written=7, cache_written_hour=4)
    assert reply.usage.prompt == 8


def test_the_model_that_answered_is_named_even_where_the_server_does_not() -> None:
    assert fed(WHOLE).model == "m" and fed(WHOLE[:1]).started
    for message in ({"usage": None}, {"model": None}, {"model": ""}):
        assert fed([{"type": "message_start", "message": message}]).model == "unknown"


def test_a_message_that_begins_within_another_is_an_error() -> None:
    first, second = ({"type": "message_start", "message": {"id": ident}} for ident in ("msg_1", "msg_2"))
    call = block(0, TOOL, *json_deltas('{"file_path":"a.py"}'))
    for begun in (call, call[:2], call[:1]):
        with pytest.raises(ValueError, match="another message begins"):
            fed([first, *begun, second, *call, *end("tool_use")])
        assert fed([first, *begun, first]).ident == "msg_1"  # the same one again
    assert fed([first, second, *call, *end("tool_use")]).ident == "msg_2"


def test_what_a_block_begins_with_counts_too() -> None:
    thought = {"type": "thinking", "thinking": "h", "signature": "s"}
    deltas = {"type": "thinking_delta", "thinking": "m"}, {"type": "signature_delta", "signature": "ig"}
    raw = {**TOOL, "input": {"file_path": "a"}}
    text = {"type": "text", "text": "Hel"}
    events = [
        start(),
        *block(0, thought, *deltas),
        *block(1, text, *text_deltas("lo")),
        *block(2, raw),
        *end(),
    ]
    assert fed(events).kept() == (
        ThinkingBlock("hm", "sig"),
        TextBlock("Hello"),
        ToolUseBlock("t1", "read", {"file_path": "a"}),
    )
    accumulator = MessageAccumulator()
    told = [accumulator.feed(event) for event in (start(), block(0, text)[0])]
    assert told == [None, TextDelta("Hel")] and accumulator.reply.text == "Hel"
    bare = fed(
        [start(), *block(0, {"type": "thinking"}, *deltas), *block(1, {**TOOL, "input": None}), *end()]
    )
    assert bare.kept() == (ThinkingBlock("m", "ig"), ToolUseBlock("t1", "read", {}))


def test_what_is_under_way_is_known_by_its_kind_and_only_text_is_text() -> None:
    thought = {"type": "thinking", "thinking": "", "signature": ""}
    begun = [
        block(0, thought, {"type": "thinking_delta", "thinking": "hm"})[:-1],
        block(1, {"type": "text", "text": ""}, *text_deltas("words"))[:-1],
        block(2, TOOL, *json_deltas('{"a": 1}'))[:-1],
        block(3, {"type": "from_the_future"}, {"type": "text_delta"}, {"type": "text_delta", "text": 5})[:-1],
    ]
    reply = fed([start(), *(event for events in begun for event in events)])
    kinds = {index: pending.kind for index, pending in reply.pending.items()}
    assert kinds == {0: "thinking", 1: "text", 2: "tool input", 3: "other"}
    assert reply.text == "words" and reply.kept() == (TextBlock("words"),)
    assert reply.unfinished == 'hmwords{"a": 1}'


def test_unknown_blocks_and_events_pass_through() -> None:
    raw = {"type": "from_the_future", "x": [1]}
    reply = fed([start(), {"type": "novel"}, *block(0, raw, {"type": "novel_delta", "y": 1}), *end()])
    assert reply.blocks == [UnknownBlock(raw)]


def test_lone_surrogates_never_reach_the_record() -> None:
    reply = fed([start(), *block(0, {"type": "text", "text": ""}, *text_deltas("a\ud800b")), *end()])
    assert reply.blocks == [TextBlock("a?b")]


def test_a_watcher_sees_text_thinking_and_the_size_of_a_drafted_call() -> None:
    accumulator = MessageAccumulator()
    told = [event for raw in WHOLE if (event := accumulator.feed(raw)) is not None]
    assert told[:4] == [ThinkingDelta("hm"), TextDelta("Hel"), TextDelta("lo"), ToolCallDelta("read", 0)]
    assert told[-1] == ToolCallDelta("read", len('{"file_path":"a.py"}'))


def test_joining_a_long_input_costs_no_more_than_its_length() -> None:
    content = json.dumps({"file_path": "a", "content": "x" * 200_000})
    reply = fed([start(), *block(0, TOOL, *json_deltas(content, 24)), *end("tool_use")])
    use = reply.blocks[0]
    assert isinstance(use, ToolUseBlock)
    assert len(use.input["content"]) == 200_000


@each_row(
    "usage",
    [
        *("many", [1], 5, None, {"input_tokens": "many"}, {"input_tokens": -5}, {"output_tokens": 10**400}),
        *(
            {"input_tokens": float("nan")},
            {"input_tokens": 1e400},
            {"cache_creation": 5},
            {"input_tokens": [9]},
        ),
    ],
)
def test_usage_that_makes_no_sense_does_not_cost_the_reply(usage: Any) -> None:
    events = [start(), *block(0, {"type": "text", "text": "hi"}), *end()]
    reply = fed([*events[:-2], events[-2] | {"usage": usage}, events[-1]])
    assert reply.complete and reply.text == "hi"
    assert reply.usage == Usage(3)


def test_figures_of_usage_may_be_whole_floats_and_lie_in_an_inner_object() -> None:
    usage = {
        "input_tokens": 12.0,
        "cache_creation": {"ephemeral_1h_input_tokens": 4},
        "other": {"input_tokens": 9},
    }
    assert fed([start(usage)]).usage == Usage(12, cache_written_hour=4)


def nested(depth: int) -> str:
    return '{"a":' + "[" * depth + "]" * depth + "}"


@each_row(
    "text",
    [
        nested(100),
        nested(900),
        nested(100_000),
        '{"a":[' + "0," * 50_000 + "0]}",
        '{"n":' + "9" * 5_000 + "}",
    ],
)
def test_an_input_that_no_one_could_handle_is_not_valid_json(text: str) -> None:
    (use,) = fed([start(), *block(0, TOOL, *json_deltas(text, 10_000)), *end("tool_use")]).blocks
    assert isinstance(use, ToolUseBlock) and use.input == {ToolUseBlock.INVALID_JSON: text}


def test_an_input_of_usual_depth_and_width_is_read() -> None:
    text = json.dumps(
        {"edits": [{"line": n, "text": "[" * 200} for n in range(5_000)], "deep": json.loads(nested(60))}
    )
    (use,) = fed([start(), *block(0, TOOL, *json_deltas(text, 10_000)), *end("tool_use")]).blocks
    assert isinstance(use, ToolUseBlock) and len(use.input["edits"]) == 5_000


@each_row(
    ("events", "words"),
    [
        ([each for at in range(2_001) for each in block(at, {"type": "text", "text": ""})], "2,000 blocks"),
        (block(0, {"type": "text", "text": ""}, *text_deltas(*["y" * 2**20] * 5)), "4,194,304 characters"),
        (block(0, TOOL, *json_deltas("y" * 5 * 2**20, 2**20)), "4,194,304 characters"),
        (block(0, {"type": "odd", "data": "y" * 5 * 2**20}), "4,194,304 characters"),
        (
            block(
                0,
                {"type": "thinking", "thinking": ""},
                *[{"type": "signature_delta", "signature": "s" * 2**20}] * 5,
            ),
            "4,194,304 characters",
        ),
    ],
)
def test_more_than_any_model_writes_is_given_up(events: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(RequestRejected, match=words):
        fed([start(), *events])


def test_names_and_ids_of_calls_have_a_length_that_makes_sense() -> None:
    for field in ("id", "name"):
        with pytest.raises(ValueError, match="more than 200 characters"):
            fed([start(), *block(0, TOOL | {field: "x" * 201})])


def test_the_words_about_a_reply_are_cut() -> None:
    reply = fed([{"type": "message_start", "message": {"model": "m" * 9_999}}, *end("s" * 9_999)])
    assert (reply.model, reply.stop) == ("m" * 100, "s" * 100)
    assert fed([start(), *end({"a": 1})]).stop == "{'a': 1}"  # type: ignore[arg-type]


def test_the_tokens_of_thinking_and_the_reason_for_a_cache_miss_are_read():
    begun = start({"input_tokens": 3, "output_tokens_details": {"thinking_tokens": 40}})
    miss = {"type": "tools_changed", "cache_missed_input_tokens": 1_234}
    begun["message"]["diagnostics"] = {"cache_miss_reason": miss}
    usage = {"output_tokens": 50, "output_tokens_details": {"thinking_tokens": 44}}
    accumulator = MessageAccumulator()
    for event in [begun, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}]:
        accumulator.feed(event)
    assert accumulator.reply.usage == Usage(input=3, output=50, thinking=44)
    assert accumulator.reply.cache_miss == CacheMiss("tools_changed", 1_234)
    too_many = {"output_tokens": 50, "output_tokens_details": {"thinking_tokens": 51}}
    assert fed([start(too_many)]).usage.thinking == 50  # it is a part of the output


@each_row("diagnostics", [None, [], "x", {"cache_miss_reason": None}, {"cache_miss_reason": {"type": 3}}])
def test_a_pending_or_unreadable_diagnosis_is_no_reason(diagnostics: Any):
    begun = start()
    begun["message"]["diagnostics"] = diagnostics
    accumulator = MessageAccumulator()
    accumulator.feed(begun)
    assert accumulator.reply.cache_miss is None and accumulator.reply.model == "m"


def test_every_figure_of_the_usage_counts() -> None:
    usage = {
        "input_tokens": 1,
        "output_tokens": 8,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 5,
        "cache_creation": {"ephemeral_1h_input_tokens": 4},
        "server_tool_use": {"web_search_requests": 6},
        "output_tokens_details": {"thinking_tokens": 7},
    }
    assert fed([start(usage)]).usage == Usage(
        input=1, output=8, cache_read=3, cache_written=5, cache_written_hour=4, searches=6, thinking=7
    )


def test_text_and_thinking_that_share_a_block_are_parted() -> None:
    begun, delta = block(0, {"type": "text", "text": ""}, *text_deltas("---"))[:2]
    thought = {"type": "thinking_delta", "thinking": "hm"}
    ollama = [start(), begun, delta, *block(0, {"type": "thinking", "thinking": ""}, thought), *end()]
    litellm = [start(), *block(0, {"type": "text", "text": ""}, thought, *text_deltas("Hello")), *end()]
    for events, kinds in ((ollama, ["text", "thinking"]), (litellm, ["text", "thinking", "text"])):
        reply = fed(events)
        assert reply.complete and [each.to_json()["type"] for each in reply.blocks] == kinds
        assert "hm" not in reply.text and reply.text.strip("-") in ("", "Hello")


def test_a_call_that_has_not_ended_is_not_ended_by_another() -> None:
    with pytest.raises(ValueError, match="not ended"):
        fed([start(), *block(0, TOOL)[:1], *block(0, TOOL)])


def test_a_mark_of_our_own_in_a_block_of_a_server_is_dropped() -> None:
    """It would decide which blocks are sent back."""
    (text,) = fed(
        [start(), *block(0, {"type": "text", "text": "x", ThinkingBlock.UNSIGNED: "thinking"})]
    ).blocks
    assert ThinkingBlock.UNSIGNED not in text.to_json()


@each_row(
    "details, told",
    [
        ({"type": "refusal", "category": "cyber", "explanation": "an\n exploit"}, " (cyber): an exploit"),
        ({"type": "refusal", "explanation": "x" * 600}, ": " + "x" * 500),
        ({"type": "refusal", "category": "cyber"}, ": cyber"),
        ({"type": "refusal", "category": 3, "explanation": ""}, None),
        ({"type": "other", "category": "cyber"}, None),
        ("refusal", None),
    ],
)
def test_the_reason_for_a_refusal_is_a_warning(details: Any, told: str | None) -> None:
    delta = {"stop_reason": "refusal", "stop_details": details}
    notice = MessageAccumulator().feed({"type": "message_delta", "delta": delta})
    wanted = Notice(f"the provider refused the request{told}", "warning")
    assert notice == (wanted if told else None)


def test_the_usage_of_several_steps_is_their_sum() -> None:
    steps = [{"input_tokens": 5, "output_tokens": 1}, "?", {"input_tokens": 7, "cache_read_input_tokens": 2}]
    usage = {"input_tokens": 7, "output_tokens": 3, "iterations": steps}
    assert fed([start(usage)]).usage == Usage(input=12, output=1, cache_read=2)
    assert fed([start({**usage, "iterations": ["?"]})]).usage == Usage(input=7, output=3)


def test_a_compaction_of_the_api_and_citations_are_kept_with_their_block() -> None:
    deltas: list[dict[str, Any]] = [{"type": "compaction_delta", "content": "all", "more": 1}]
    cited = [{"type": "citations_delta", "citation": {"at": at}} for at in (1, 2)]
    summary, text = fed(
        [start(), *block(0, {"type": "compaction"}, *deltas), *block(1, {"type": "text"}, *cited)]
    ).blocks
    assert summary == UnknownBlock({"type": "compaction", "content": "all", "more": 1})
    assert text.to_json() == {"type": "text", "text": "", "citations": [{"at": 1}, {"at": 2}]}


@each_row(
    "raw, error",
    [
        ({"type": "tool_use", "id": "t"}, "tool call without a name"),
        ({"type": "redacted_thinking"}, "redacted thinking without data"),
        ({"type": "redacted_thinking", "data": ""}, "redacted thinking without data"),
        ({"type": "redacted_thinking", "data": 3}, "redacted thinking without data"),
        ({"type": 3}, "the type of a block is not a string"),
    ],
)
def test_a_block_that_could_not_be_used_is_an_error(raw: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        fed([start(), *block(0, raw)])


def test_only_unsigned_thinking_of_a_server_that_wants_it_back_is_marked() -> None:
    def thinking(signature: str, text: str, marks: bool) -> dict[str, Any]:
        accumulator = MessageAccumulator(marks_unsigned=marks)
        raw = {"type": "thinking", "thinking": text, "signature": signature}
        for event in [start(), *block(0, raw)]:
            accumulator.feed(event)
        return accumulator.reply.blocks[0].to_json()

    assert thinking("", "hm", True) == {
        "type": "thinking",
        "thinking": "hm",
        "signature": "",
        ThinkingBlock.UNSIGNED: "thinking",
    }
    for signature, text, marks in (("s", "hm", True), ("", "", True), ("", "hm", False)):
        assert ThinkingBlock.UNSIGNED not in thinking(signature, text, marks)
