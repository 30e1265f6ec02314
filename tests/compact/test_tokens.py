"""Counting tokens locally, and learning from the replies what the local count is worth."""

import gzip
import random
import struct
from base64 import b64encode
from threading import Semaphore

import pytest

from compact.estimate import estimate_prompt, overall_slope, text_slope
from compact.report import propose
from compact.tokens import LOADING_CHARS, TokenCounter
from tests.tables import each_row
from transcripts.facts import Clear, Compacted, Edit, Fold, Reply, RequestSent, Result, Rewound
from transcripts.messages import (
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    Usage,
)
from transcripts.view import PartKind, ids_in

from .worlds import COUNT, World


@each_row(
    ("text", "tokens"),
    [
        ("", 0),
        ("abcd", 1),
        ("abcde", 2),
        ("\u00e4" * 8, 2),
        ("\u4e16" * 10, 8),
        ("\u4e16" * 10 + "abcde", 10),
    ],
)
def test_without_a_table_characters_count(text, tokens):
    assert COUNT.text(text) == tokens and COUNT.name == "characters"


def test_a_table_that_is_not_the_genuine_one_is_ignored(tmp_path):
    table = tmp_path / "table"
    for content in (b"aGk= 0\n", b"\xff broken", b""):
        table.write_bytes(gzip.compress(content))
        counter = TokenCounter(table)
        counter.warm()
        assert counter.name == "characters"
    table.write_bytes(gzip.compress(b"aGk= 0\n")[:-9])  # cut off
    for path in (table, tmp_path / "none.gz"):
        counter = TokenCounter(path)
        counter.warm()
        assert counter.name == "characters"


class NotedCounter(TokenCounter):
    """A counter that notes that its table would be loaded."""

    def __init__(self, table):
        super().__init__(table)
        self.loads = Semaphore(0)

    def warm(self):
        self.loads.release()


def test_the_table_is_loaded_once_as_soon_as_much_text_was_counted(tmp_path):
    counter = NotedCounter(tmp_path / "table")
    for chars, loads in ((LOADING_CHARS - 1, False), (1, True), (LOADING_CHARS, False)):
        counter.text("x" * chars)
        assert counter.loads.acquire(timeout=5 if loads else 0) is loads
    without = NotedCounter(None)
    without.text("x" * LOADING_CHARS)
    assert not without.loads.acquire(timeout=0)


def test_the_genuine_table_counts_as_tiktoken_does_whatever_the_length():
    counter = TokenCounter.load()
    counter.warm()
    if counter.name == "characters":
        pytest.skip("no table on this machine")
    assert counter.name == "cl100k"
    assert [counter.text(text) for text in ("", "hello world", " a a a", "def f(x):\n    return x")] == [
        0,
        2,
        3,
        7,
    ]
    assert counter.text("word " * 30_000) == pytest.approx(30_000, abs=4)


@each_row(
    ("block", "tokens"),
    [
        (TextBlock("x" * 40), 10),
        (ThinkingBlock("x" * 40, "s" * 600), 14),
        (ThinkingBlock("", "s" * 600), 104),
        (RedactedThinkingBlock("d" * 60), 14),
        (ToolUseBlock("t", "bash", {"a": "b"}), 1 + 1 + 2 + 1 + 4),
        (ToolResultBlock("t", (TextBlock("x" * 40), TextBlock("x" * 4))), 15),
        (UnknownBlock({"type": "new"}), 4 + 4),
    ],
)
def test_every_block_has_its_tokens(block, tokens):
    assert COUNT.blocks((block, block)) == (tokens, tokens)


def test_a_text_among_the_arguments_of_a_call_is_counted_unescaped():
    code = 'if name == "main":\n\tprint("\\n")\n' * 50
    call = ToolUseBlock("t", "write", {"content": code})
    assert COUNT.blocks((call,))[0] - COUNT.text(code) <= 12
    assert COUNT.value({"content": code}) > 1.2 * COUNT.text(code)


def png(width, height):
    return b"\x89PNG\r\n\x1a\n" + b"\0" * 8 + struct.pack(">II", width, height)


def jpeg(width, height):
    start = b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"\0" * 14
    return start + b"\xff\xc2" + struct.pack(">HBHH", 11, 8, height, width) + b"\0" * 6


@each_row(
    ("data", "tokens"),
    [
        (png(750, 100), 100),
        (png(7, 7), 1),
        (png(4_000, 3_000), 1_600),
        (b"GIF89a" + struct.pack("<HH", 75, 100), 10),
        (jpeg(150, 100), 20),
        (b"\xff\xd8\xff\xc4", 1_600),
        (b"RIFF", 1_600),
    ],
)
def test_an_image_has_a_token_for_750_pixels_and_1600_at_most(data, tokens):
    assert COUNT.blocks((ImageBlock("image/png", b64encode(data).decode()),)) == (tokens,)
    assert COUNT.blocks((ImageBlock("image/png", "no base64"),)) == (1_600,)


def test_the_newest_figure_gives_the_slope_within_bounds():
    world = World(judged=False)
    figures = [(0, 5, 1.0), (1_000, 1_300, 1.3), (2_000, 2_400, 1.2), (5, 0, 1.2)]
    for raw, actual, slope in (*figures, (1_000, 90_000, 4.0), (1_000, 1, 0.3)):
        asked = world.add(RequestSent, "turn", 0, raw)
        world.add(Reply, (TextBlock("x"),), (1,), Usage(actual, 1), asked=asked.seq)
        assert overall_slope(world.folded) == slope, (raw, actual)


def test_the_newest_usage_is_exact_and_only_what_came_since_is_estimated():
    world = World(overhead=100, judged=False)
    world.user("x" * 400)
    assert estimate_prompt(world.folded, 100) == 100 + 100 + 4
    reply_raw = world.folded.view.tokens
    world.reply("x" * 40, usage=Usage(input=200, cache_read=55, output=60))
    assert text_slope(world.folded) == 1.25
    assert estimate_prompt(world.folded, 100) == 255 + 60
    world.user("x" * 80)
    assert estimate_prompt(world.folded, 100) == 255 + 60 + 1.25 * (20 + 4)
    world.reply("unmeasured", usage=Usage())
    behind = world.folded.view.tokens - reply_raw
    assert estimate_prompt(world.folded, 100) == pytest.approx(255 + 1.25 * behind, abs=1)


def counted(world):
    """A service that counts otherwise than we do: ids little, results more than texts, its own words."""
    kinds = {PartKind.RESULT: 1.35, PartKind.PLACEHOLDER: 1.15}
    view = world.folded.view
    ids = sum(ids_in(message.parts) for message in view)
    texts = sum(part.tokens * kinds.get(part.kind, 1.2) for message in view for part in message.parts)
    return round(2_000 + 1.2 * world.overhead + texts + 8 * ids + 4 * len(view))


@each_row("kept", [0, 3, 20])
@each_row("folded", [False, True])
def test_what_is_left_after_a_large_cut_is_known(kept, folded):
    world = World(overhead=3_000, judged=False)
    rng = random.Random(kept)
    world.user("go through src/ and mend what is broken")
    for at in range(60):
        use = ToolUseBlock(f"t{at}", "bash", {"command": f"make part{at} && cat report{at}.txt"})
        reply = world.reply(use, usage=Usage(input=counted(world), output=40))
        world.result(reply, 0, "word " * rng.randrange(20, 4_000))
    world.reply("done", usage=Usage(input=counted(world), output=3))
    results = [fact for fact in world.facts if isinstance(fact, Result)][: 60 - kept]
    edits: tuple[Edit, ...] = tuple(
        Clear(one.seq, 0, "content", "[cleared: it]", sum(one.tokens) - 4) for one in results
    )
    if folded:
        record = (TextBlock("record " * 600),)
        edits = (Fold(1, results[-1].seq, record, sum(COUNT.blocks(record))),)
    tokens = estimate_prompt(world.folded.with_edits(edits), 3_000)
    world.add(Compacted, "micro", "auto", edits, report={})
    assert tokens == pytest.approx(counted(world), rel=0.05 if kept or folded else 0.08)
    assert estimate_prompt(world.folded, 3_000) == tokens


def test_what_a_batch_writes_again_is_known_where_it_is_mostly_calls_and_placeholders():
    world = World(overhead=3_000, judged=False)
    for at in range(80):
        world.user(f"and part {at}")
        use = ToolUseBlock(f"t{at}", "bash", {"command": f"make part{at}"})
        reply = world.reply(use, usage=Usage(input=counted(world), output=20))
        world.result(reply, 0, "word " * 200)
        world.reply("ok", usage=Usage(input=counted(world), output=1))
    results = [fact for fact in world.facts if isinstance(fact, Result)][40:]
    edits = tuple(Clear(one.seq, 0, "content", f"[cleared: r{one.seq}]", 244) for one in results)
    rewritten = propose(world.situation, "micro", "auto", edits).report["rewritten"]
    world.add(Compacted, "micro", "auto", edits, report={})
    whole = counted(world)
    world.add(Rewound, results[0].seq - 1)
    assert rewritten == pytest.approx(whole - counted(world), rel=0.2)


def test_a_record_is_not_counted_as_the_placeholders_before_it_were():
    world = World(overhead=3_000, judged=False)

    def sent():  # placeholders take a third less than other texts
        parts = [part for message in world.folded.view for part in message.parts]
        made = [part.tokens for part in parts if part.kind is PartKind.PLACEHOLDER]
        short = sum(tokens for tokens in made if tokens < 100)
        texts = world.overhead + sum(part.tokens for part in parts)
        return Usage(input=round(1.3 * texts - 0.4 * short + 8 * ids_in(parts)), output=40)

    world.user("go through src/ and mend what is broken")
    for at in range(160):
        reply = world.reply(ToolUseBlock(f"t{at}", "bash", {"command": f"make part{at}"}), usage=sent())
        world.result(reply, 0, "word " * 200)
    results = [fact for fact in world.facts if isinstance(fact, Result)]
    placeholder = "[cleared: " + "make " * 46 + "]"
    for half in (results[:80], results[80:]):
        edits = tuple(Clear(one.seq, 0, "content", placeholder, sum(one.tokens) - 60) for one in half)
        world.add(Compacted, "micro", "auto", edits, report={})
        world.reply("done", usage=sent())
        world.user("go on")
    record = (TextBlock("record " * 8_000),)
    folds = (Fold(1, world.folded.last_seq, record, sum(COUNT.blocks(record))),)
    tokens = estimate_prompt(world.folded.with_edits(folds), 3_000)
    world.add(Compacted, "ledger", "auto", folds, report={})
    assert tokens == pytest.approx(sent().prompt, rel=0.08)
