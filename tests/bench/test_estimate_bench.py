"""Accuracy of the estimate of the next prompt, compared with another counter.

`MAKEROOM_RECORDINGS=FOLDER python -m pytest -m bench -n 0 -s tests/bench/test_estimate_bench.py` also judges
recorded sessions, each source (the name up to `__`) by itself.
"""

import json
import os
import re
import statistics
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from agent.replay.policies import PRICE_TIERS
from compact import (
    CompactSettings,
    ContextWindow,
    Situation,
    SummaryReply,
    TokenCounter,
    finish_plan,
    plan,
)
from compact.estimate import LARGE_CUT, estimate_prompt
from tests.agent.test_long_session import run_and_check
from transcripts import (
    Block,
    Compacted,
    Fact,
    Folded,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    Reply,
    RequestSent,
    Result,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    read_transcript,
)
from transcripts.importers import import_session

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]
CALIBRATED = 5  # replies after which the fit is taken to be calibrated
OVERHEAD = 3_200
POLICIES: tuple[Literal["thrifty", "classic"], ...] = ("thrifty", "classic")
FOLDER = os.environ.get("MAKEROOM_RECORDINGS", "")
PIECE = re.compile(r"[A-Za-z]+|\d|\n\s*|[ \t]{2,}|[^\sA-Za-z0-9]")


@pytest.mark.parametrize("policy", ["thrifty", "classic"])
def test_the_estimate_is_within_three_percent_of_the_usage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], policy: str
) -> None:
    path, _ = run_and_check(tmp_path, capfd, policy, files=60, window=60_000, believed=60_000)
    facts = {fact.seq: fact for fact in read_transcript(path).facts}
    errors = []
    for reply in facts.values():
        asked = facts.get(reply.asked or 0) if isinstance(reply, Reply) else None
        if isinstance(reply, Reply) and isinstance(asked, RequestSent) and reply.usage.prompt:
            errors.append(abs(asked.tokens - reply.usage.prompt) / reply.usage.prompt)
    late = errors[CALIBRATED:]
    mean, worst = 100 * statistics.mean(late), 100 * max(late)
    print(f"\n{policy}: mean error {mean:.2f} %, worst {worst:.1f} %, {len(late)} requests")
    assert statistics.mean(late) <= 0.03


@lru_cache(maxsize=100_000)
def other_count(text: str) -> int:
    """Count as a tokenizer of another kind does: short words whole, digits and signs alone."""
    return sum(
        -(-len(piece) // 7) if piece.isalpha() and piece.isascii() else 1 for piece in PIECE.findall(text)
    )


def other_block_count(block: Block) -> int:
    match block:
        case TextBlock(text=text):
            return other_count(text)
        case ThinkingBlock():
            return other_count(block.thinking) if block.thinking else len(block.signature) // 5
        case RedactedThinkingBlock(data=data):
            return len(data) // 5
        case ImageBlock():
            return 1_300
        case ToolUseBlock():
            return 8 + other_count(block.name) + other_count(json.dumps(block.input, default=dict))
        case ToolResultBlock():
            return 8 + sum(map(other_block_count, block.content))
    return other_count(json.dumps(block.raw, default=dict))


def service_count(view: Sequence[Message]) -> int:
    blocks = sum(other_block_count(part.block) for message in view for part in message.parts)
    return round(2_000 + 1.25 * OVERHEAD) + 4 * len(view) + blocks


class _Session:
    """A recorded session, compacted as its policy wants and counted by the other counter."""

    def __init__(self, policy: Literal["thrifty", "classic"], counter: TokenCounter) -> None:
        self.settings = CompactSettings(policy=policy)
        self.counter = counter
        self.folded = Folded()
        self.numbers: dict[int, int] = {}
        self.errors: dict[str, list[float]] = defaultdict(list)

    def take(self, fact: Fact) -> None:
        reply = fact if isinstance(fact, Reply) else None
        asked = self._ask(reply) if reply is not None and self.folded.entries else None
        seq = self.numbers[fact.seq] = self.folded.last_seq + 1
        if reply is not None and asked is not None:
            output = sum(map(other_block_count, reply.blocks)) + 4
            usage = Usage(input=asked.tokens, output=output)
            self.folded.apply(replace(reply, seq=seq, usage=usage, asked=asked.seq))
        elif isinstance(fact, Result):
            self.folded.apply(replace(fact, seq=seq, of=self.numbers[fact.of]))
        else:
            self.folded.apply(replace(fact, seq=seq))

    def _ask(self, reply: Reply) -> RequestSent:
        folded = self.folded
        situation = Situation(
            folded=folded,
            settings=self.settings,
            window=ContextWindow(60_000, 8_000),
            prices=PRICE_TIERS["standard"],
            now=reply.ts,
            overhead=OVERHEAD,
            binds=True,
            counter=self.counter,
        )
        planned = finish_plan(plan(situation, "auto", "", 0), lambda _: SummaryReply("It went well. " * 200))
        for made in planned.proposals:
            seq = folded.last_seq + 1
            folded.apply(Compacted(seq, reply.ts, made.layer, "auto", made.edits, report=made.report))
        actual = service_count(folded.view.sendable())
        raw = OVERHEAD + folded.view.tokens
        sizes = folded.sizes
        if len(sizes.requests) >= CALIBRATED:
            is_large = raw < LARGE_CUT * sizes.requests[-1].raw
            kind = "large cut" if is_large else "small cut" if sizes.edited else "grown"
            estimate = estimate_prompt(folded, OVERHEAD)
            self.errors[kind].append(abs(estimate - actual) / actual)
        asked = RequestSent(folded.last_seq + 1, reply.ts, "turn", actual, raw)
        folded.apply(asked)
        return asked


@pytest.mark.skipif(not FOLDER, reason="MAKEROOM_RECORDINGS names no folder of recordings")
def test_the_estimate_is_near_another_count_on_recordings_of_each_source() -> None:
    counter = TokenCounter.load()
    counter.warm()
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    for path in sorted(Path(FOLDER).glob("*.jsonl")):
        facts = import_session(path.read_bytes(), counter.blocks).facts
        for policy in POLICIES:
            session = _Session(policy, counter)
            for fact in facts:
                session.take(fact)
            for kind, found in session.errors.items():
                errors[path.name.partition("__")[0], kind].extend(found)
    for (source, kind), found in sorted(errors.items()):
        mean, worst = 100 * statistics.mean(found), 100 * max(found)
        print(
            f"\n{source:14} {kind:10} mean error {mean:.2f} %, worst {worst:.1f} %, {len(found)} requests",
            end="",
        )
        assert mean <= (7 if kind == "large cut" else 2.5), (source, kind)
