"""Fold one reply with 2,000 calls, against 200 replies with ten each."""

import time

import pytest

from transcripts.facts import Fact, Reply, RequestSent, Result, Started, User
from transcripts.folding import fold
from transcripts.messages import TextBlock, ToolUseBlock, Usage

pytestmark = pytest.mark.bench
CALLS = 2_000
MAX_RATIO = 2.5  # 1.0 measured; it was 7 when each result was compared with all calls


def session(calls_in_reply: int) -> list[Fact]:
    facts: list[Fact] = [User(1, 1.0, (TextBlock("go"),), (1,))]
    for number in range(0, CALLS, calls_in_reply):
        asked = len(facts) + 1
        facts.append(RequestSent(asked, 1.0, "turn", 10, 10))
        uses = (ToolUseBlock(f"t{number + at}", "bash", {"command": "ls"}) for at in range(calls_in_reply))
        reply = (asked + 1, 1.0, tuple(uses), (1,) * calls_in_reply)
        facts.append(Reply(*reply, Usage(1, 1), "tool_use", complete=True, model="m", asked=asked))
        for at in range(calls_in_reply):
            facts.append(Started(len(facts) + 1, 1.0, asked + 1, at))
            facts.append(Result(len(facts) + 1, 1.0, asked + 1, at, (TextBlock("out"),), (1,)))
    return facts


def cpu_s(facts: list[Fact]) -> float:
    times = []
    for _ in range(5):
        began = time.process_time()
        assert len(fold(facts).view) > 1
        times.append(time.process_time() - began)
    return min(times)


def test_many_calls_in_a_reply_are_folded_as_fast_as_in_many(capsys: pytest.CaptureFixture[str]) -> None:
    many = cpu_s(session(10))
    one = cpu_s(session(CALLS))
    with capsys.disabled():
        print(f"\n{CALLS:,} calls in one reply: {one:.3f} s, in {CALLS // 10} replies: {many:.3f} s")
    assert one <= MAX_RATIO * many
