import json
from random import Random

import pytest
from hypothesis import given, settings

from transcripts.codec import BadLine, decode_line, encode_fact, fact_from_json, seal
from transcripts.facts import Clear, Compacted, Fact, Reply, RequestSent, Result, UnknownFact, User
from transcripts.messages import (
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UnknownBlock,
    block_from_json,
    block_to_json,
    replace_surrogates_in_json,
)

from .random_histories import Dice, anything, seeds


def made(seed: int, count: int = 30) -> list[Fact]:
    dice = Dice(Random(seed))
    return [anything(seq, dice) for seq in range(1, count)]


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_every_fact_comes_back_as_it_went_in(seed: int) -> None:
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


def test_what_no_file_can_hold_is_replaced_and_all_else_is_kept() -> None:
    fact = User(1, 0.0, (TextBlock("a\ud800b \u2028 \x00 \U0001f600"),))
    back, _ = decode_line(encode_fact(fact, "s"))
    assert back == User(1, 0.0, (TextBlock("a?b \u2028 \x00 \U0001f600"),))


def test_a_line_of_a_newer_version_is_kept_whole() -> None:
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


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "user", "blocks": 5},
        {"kind": "user"},
        {"kind": "reply", "blocks": ["x"]},
        {"kind": "compacted", "layer": "a", "trigger": "b", "edits": [{"edit": "new kind"}]},
        {"kind": "result", "of": 1, "block": 0, "content": [], "stored": []},
        {"kind": "reply", "blocks": [], "usage": {"input": "many"}},
    ],
)
def test_a_sound_line_that_we_cannot_read_is_kept_as_unknown(body: dict[str, object]) -> None:
    raw = {"v": 1, "seq": 4, "ts": "2026-11-21T09:30:00.125Z", "sid": "s", **body}
    fact, _ = decode_line(seal(raw))
    assert isinstance(fact, UnknownFact) and fact.seq == 4


@pytest.mark.parametrize(
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
def test_what_has_no_number_time_session_or_kind_is_no_record(raw: object) -> None:
    with pytest.raises(BadLine):
        fact_from_json(raw)


def test_nesting_without_end_is_no_record() -> None:
    with pytest.raises(BadLine):
        decode_line(seal({"v": 1})[:-18] + b',"x":' + b"[" * 200_000 + b"\n")


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "text", "text": 5},
        {"type": "text"},
        {"type": "image", "source": "x"},
        {"type": "image", "source": {"type": "url", "url": "x"}},
        {"type": "thinking", "signature": "x"},
        {"type": "tool_use", "id": "a", "name": "b"},
        {"type": "tool_result", "tool_use_id": "a", "content": [5]},
        {"type": "future", "x": 1},
        {},
    ],
)
def test_a_block_that_we_cannot_read_is_sent_back_untouched(raw: dict[str, object]) -> None:
    block = block_from_json(raw)
    assert isinstance(block, UnknownBlock)
    assert block_to_json(block) == raw


def test_fields_of_a_block_that_we_do_not_know_are_kept() -> None:
    for raw in (
        {"type": "text", "text": "a", "citations": [1]},
        {"type": "thinking", "thinking": "a", "signature": "b", "extra": {"c": 1}},
        {"type": "tool_use", "id": "a", "name": "b", "input": {}, "caller": "x"},
    ):
        assert block_to_json(block_from_json(raw)) == raw


def test_defaults_take_no_room_in_a_line() -> None:
    line = json.loads(encode_fact(Reply(1, 0.0, (TextBlock("hi"),)), "s"))
    assert set(line) == {"v", "seq", "ts", "sid", "kind", "blocks", "crc"}


def test_lines_are_readable_by_eye() -> None:
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
    result = Result(2, 0.0, 1, 2, (TextBlock("x"),), about=replace_surrogates_in_json({"exit": 0}))
    assert decode_line(encode_fact(result, "s"))[0] == result
    assert decode_line(encode_fact(RequestSent(3, 0.5, "auto"), "s"))[0] == RequestSent(3, 0.5, "auto")
