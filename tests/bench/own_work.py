"""Microseconds that fold, pipeline and request marks take for one more exchange, by messages in the view."""

import json
import statistics
import time
from contextlib import suppress

from msgspec.structs import replace

from compact.breakpoints import cache_breakpoints
from compact.pipeline import plan
from compact.prices import Prices
from compact.settings import CompactSettings, ContextWindow
from compact.situation import Situation
from compact.tokens import TokenCounter
from transcripts.codec import encode_fact
from transcripts.facts import Reply, RequestSent, Result, User
from transcripts.folding import Folded
from transcripts.messages import TextBlock, ToolUseBlock, Usage

EXCHANGES = 200


def one_exchange(folded: Folded, situation: Situation) -> float:
    seq = folded.last_seq + 1
    use = ToolUseBlock(f"toolu_{seq}", "bash", {"command": f"echo {seq}"})
    facts = (
        RequestSent(seq, 0.0, "turn", 10, 10),
        Reply(seq + 1, 0.0, (use,), (20,), Usage(100, 10), "tool_use", True, "m", seq),
        Result(seq + 2, 0.0, seq + 1, 0, (TextBlock(f"line {seq} " * 8),), (25,)),
    )
    began = time.perf_counter()
    for fact in facts:
        encode_fact(fact, "sid")
        folded.apply(fact)
    with suppress(StopIteration):
        next(plan(replace(situation), "auto"))  # a situation is of one moment
    cache_breakpoints(folded)
    len(folded.view)
    return 1e6 * (time.perf_counter() - began)


def measure(messages: int) -> float:
    folded = Folded()
    folded.apply(User(1, 0.0, (TextBlock("go"),), (1,)))
    situation = Situation(
        folded,
        CompactSettings(),
        ContextWindow(10_000_000, 8_000),
        Prices(),
        0.0,
        100,
        True,
        TokenCounter.load(),
    )
    while len(folded.view) < messages:
        one_exchange(folded, situation)
    return statistics.median(one_exchange(folded, situation) for _ in range(EXCHANGES))


print(json.dumps({str(messages): measure(messages) for messages in (1_000, 10_000)}))
