import json
import zlib
from random import Random
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings

from tests.tables import each_row
from transcripts import Display
from transcripts.codec import BadLine, decode_line, encode_fact, fact_from_json, seal
from transcripts.facts import (
    Clear,
    Compacted,
    Fact,
    Fold,
    Metadata,
    Reply,
    RequestSent,
    Result,
    Undone,
    UnknownFact,
    Unthink,
    User,
)
from transcripts.messages import (
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UnknownBlock,
    replace_surrogates,
)

from .random_histories import RandomParts, any_fact, seeds


def nested(depth: int) -> dict[str, Any]:
    """A tool result within a tool result, and so on."""
    inside: list[dict[str, Any]] = []
    for _ in range(depth):
        inside = [{"type": "tool_result", "tool_use_id": "t", "content": inside}]
    return inside[0]


def sealed(head: bytes) -> bytes:
    """A line that begins with these bytes, its checksum right."""
    return b'%b,"crc":"%08x"}\n' % (head, zlib.crc32(head))


def made(seed: int, count: int = 30) -> list[Fact]:
    parts = RandomParts(Random(seed))
    return [any_fact(seq, parts) for seq in range(1, count)]


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_every_fact_survives_encoding_and_decoding(seed: int) -> None:
    for fact in made(seed):
        line = encode_fact(fact, "s")
        assert line.endswith(b"\n") and line.count(b"\n") == 1
        back, sid = decode_line(line)
        assert sid == "s"
        assert type(back) is type(fact)
        if b"?" not in line:  # it stands for what no file can hold
            assert back == fact
        assert encode_fact(back, "s") == line


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_one_flipped_bit_is_noticed(seed: int) -> None:
    random = Random(seed)
    for fact in made(seed, 6):
        line = bytearray(encode_fact(fact, "s")[:-1])
        at = random.randrange(len(line))
        line[at] ^= 1 << random.randrange(8)
        if bytes(line) == encode_fact(fact, "s")[:-1] or line[at] in b"\r\n":
            continue
        with pytest.raises(BadLine):
            decode_line(bytes(line))


def test_a_line_that_an_editor_marked_or_ended_its_own_way_is_read() -> None:
    line = encode_fact(User(1, 0.0, ()), "s")
    for found in (b"\xef\xbb\xbf" + line, line[:-1] + b"\r\n", line[:-1]):
        assert decode_line(found) == (User(1, 0.0, ()), "s")


def test_lone_surrogates_are_replaced_and_all_else_is_kept() -> None:
    fact = User(1, 0.0, (TextBlock("a\ud800b \u2028 \x00 \U0001f600"),))
    back, _ = decode_line(encode_fact(fact, "s"))
    assert back == User(1, 0.0, (TextBlock("a?b \u2028 \x00 \U0001f600"),))


def test_a_line_of_a_newer_version_is_kept_unchanged() -> None:
    raw = {
        "v": 9,
        "seq": 4,
        "ts": "2026-11-21T09:30:00.125Z",
        "sid": "s",
        "kind": "user",
        "future": {"a": [1]},
    }
    fact, _ = decode_line(seal(raw))
    assert isinstance(fact, UnknownFact) and fact.raw["future"] == {"a": [1]}
    assert decode_line(encode_fact(fact, "s"))[0] == fact


@each_row(
    "body",
    [
        {"kind": "user", "blocks": 5},
        {"kind": "user"},
        {"kind": "reply", "blocks": ["x"]},
        {"kind": "compacted", "layer": "a", "trigger": "b", "edits": [{"edit": "new kind"}]},
        {"kind": "result", "of": 1, "block": 0, "content": [], "stored": []},
        {"kind": "reply", "blocks": [], "usage": {"input": "many"}},
        {"kind": "reply", "blocks": [], "usage": {"input": float("inf")}},
        {"kind": "undone", "id": "c1", "edits": [{"edit": "fold", "first": 1, "last": 2}]},
        {"kind": "user", "blocks": [nested(400)]},
    ],
)
def test_a_valid_line_with_unreadable_fields_is_kept_as_an_unknown_fact(body: dict[str, object]) -> None:
    raw = {"v": 1, "seq": 4, "ts": "2026-11-21T09:30:00.125Z", "sid": "s", **body}
    fact, _ = decode_line(seal(raw))
    assert isinstance(fact, UnknownFact) and fact.seq == 4


@each_row(
    ("human", "display"),
    [
        ({"text": "", "note": "exit 1", "above": 2}, Display(text="", note="exit 1", above=2)),
        ({"note": 5, "silent": 1, "above": True, "text": None, "diff": "@@"}, Display(diff="@@")),
        ({"of a later version": "x"}, Display()),
        (["text"], Display()),
        ("text", Display()),
    ],
)
def test_a_result_is_read_whatever_was_stored_for_the_user(human: object, display: Display) -> None:
    envelope = {"v": 1, "seq": 4, "ts": "2026-11-21T09:30:00.125Z", "sid": "s", "kind": "result"}
    fact, _ = decode_line(seal(envelope | {"of": 1, "block": 0, "content": [], "human": human}))
    assert fact == Result(4, fact.ts, 1, 0, (), human=display)
    assert decode_line(encode_fact(fact, "s"))[0] == fact


def test_only_what_the_user_sees_is_stored_of_a_display() -> None:
    fact = Result(4, 0.0, 1, 0, (), human=Display(text="", note="done"))
    assert json.loads(encode_fact(fact, "s"))["human"] == {"text": "", "note": "done"}


@each_row(
    "raw",
    [
        None,
        [],
        5,
        {},
        {"v": 1, "seq": 0, "ts": "2026-11-21T09:30:00Z", "sid": "s", "kind": "user"},
        {"v": 1, "seq": float("inf"), "ts": "2026-11-21T09:30:00Z", "sid": "s", "kind": "user"},
        {"v": 1, "seq": 1, "ts": 5, "sid": "s", "kind": "user"},
        {"v": 1, "seq": 1, "ts": "yesterday", "sid": "s", "kind": "user"},
    ],
)
def test_an_object_without_number_time_session_or_kind_is_not_a_record(raw: object) -> None:
    with pytest.raises(BadLine):
        fact_from_json(raw)


def test_endless_nesting_is_not_a_record() -> None:
    with pytest.raises(BadLine):
        decode_line(seal({"v": 1})[:-18] + b',"x":' + b"[" * 200_000 + b"\n")


def test_fields_with_their_default_are_left_out_of_a_line() -> None:
    line = json.loads(encode_fact(Reply(1, 0.0, (TextBlock("hi"),)), "s"))
    assert set(line) == {"v", "seq", "ts", "sid", "kind", "blocks", "crc"}


def test_a_line_is_plain_json_with_its_checksum_last() -> None:
    fact = Compacted(7, 0.0, "micro", "auto", (Clear(3, 0, "content", "gone", 5),), 6, {"freed": 9})
    assert encode_fact(fact, "s1") == (
        b'{"v":1,"seq":7,"ts":"1970-01-01T00:00:00.000Z","sid":"s1","kind":"compacted","layer":"micro",'
        b'"trigger":"auto","edits":[{"edit":"clear","seq":3,"block":0,"field":"content","text":"gone","saves":5}],'
        b'"asked":6,"report":{"freed":9},"crc":"%s"}\n' % encode_fact(fact, "s1")[-11:-3]
    )


def test_every_kind_of_block_survives() -> None:
    blocks = (
        TextBlock("a"),
        ThinkingBlock("", "sig"),
        ToolUseBlock("t", "bash", {"a": [1, None]}),
        UnknownBlock({"type": "new"}),
    )
    fact = Reply(1, 0.0, blocks)
    assert decode_line(encode_fact(fact, "s"))[0] == fact
    result = Result(2, 0.0, 1, 2, (TextBlock("x"),), about=replace_surrogates({"exit": 0}))
    assert decode_line(encode_fact(result, "s"))[0] == result
    assert decode_line(encode_fact(RequestSent(3, 0.5, "auto"), "s"))[0] == RequestSent(3, 0.5, "auto")


def test_a_readable_line_of_a_newer_version_is_unknown_and_one_of_an_older_version_is_not() -> None:
    raw = {"seq": 4, "ts": "2026-11-21T09:30:00.125Z", "sid": "s", "kind": "user", "blocks": []}
    for version, made in ((0, User), (1, User), (2, UnknownFact)):
        assert type(decode_line(seal({"v": version, **raw}))[0]) is made


@pytest.mark.parametrize("deep", [b"[" * 100_000 + b"]" * 100_000, b"[" * 100_000])
def test_nesting_that_json_cannot_parse_is_not_a_record_though_its_checksum_is_right(deep: bytes) -> None:
    with pytest.raises(BadLine, match="not JSON"):
        decode_line(sealed(b'{"v":1,"x":' + deep))


def test_two_values_on_a_line_are_not_a_record_though_the_checksum_is_right() -> None:
    first = encode_fact(User(1, 0.0, ()), "s")[:-1]
    with pytest.raises(BadLine, match="unexpected data after character"):
        decode_line(sealed(first + b'{"v":1'))


def test_what_the_record_cannot_hold_is_refused_and_mappings_are_objects() -> None:
    with pytest.raises(TypeError, match="cannot encode set"):
        encode_fact(Metadata(1, 0.0, "x", {"a": {1}}), "s")
    fact = Metadata(1, 0.0, "x", MappingProxyType({"a": MappingProxyType({"b": 1})}))
    assert decode_line(encode_fact(fact, "s"))[0] == Metadata(1, 0.0, "x", {"a": {"b": 1}})


def test_edits_that_leave_out_a_default_are_read() -> None:
    clear = {"edit": "clear", "seq": 3, "block": 0, "field": "content", "text": "x"}
    fold = {"edit": "fold", "first": 1, "last": 2, "blocks": [{"type": "text", "text": "y"}]}
    raw = {"v": 1, "seq": 4, "ts": "2026-11-21T09:30:00Z", "sid": "s", "kind": "undone", "id": "c1"}
    fact, _ = fact_from_json({**raw, "edits": [clear, fold, {"edit": "unthink", "first": 1, "last": 2}]})
    edits = (Clear(3, 0, "content", "x"), Fold(1, 2, (TextBlock("y"),)), Unthink(1, 2))
    assert isinstance(fact, Undone) and fact.edits == edits
