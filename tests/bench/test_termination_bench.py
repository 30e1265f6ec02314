"""Five compactions in a row on recorded sessions in small windows: each shrinks the request or says why not.

MAKEROOM_RECORDINGS=DIR python -m pytest tests/bench/test_termination_bench.py -m bench -s -n 0
"""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from compact.pipeline import plan
from compact.prices import Prices
from compact.settings import CompactSettings, ContextWindow
from compact.situation import Situation, SummaryReply, finish_plan
from compact.tokens import TokenCounter
from transcripts.facts import Compacted, Result, User
from transcripts.folding import Folded
from transcripts.importers import import_session

pytestmark = pytest.mark.bench
FOLDER = os.environ.get("MAKEROOM_RECORDINGS", "")
TRIGGERS = ("reactive", "manual", "auto", "tool", "reactive")
MOMENTS = 12  # of each session at which the context is full


def full_moments(path, counter, window):
    """The session, at moments at which it fills the window; its compactions stay in force."""
    folded = Folded()
    numbers = {}
    moments = 0
    for fact in import_session(path.read_bytes(), counter.blocks).facts:
        numbers[fact.seq] = folded.last_seq + 1
        own = replace(fact, seq=folded.last_seq + 1)
        folded.apply(replace(own, of=numbers[fact.of]) if isinstance(fact, Result) else own)
        if isinstance(fact, User | Result) and folded.view.tokens >= 0.9 * window and moments < MOMENTS:
            moments += 1
            yield folded


def compact(folded, window, counter, trigger):
    situation = Situation(
        folded,
        CompactSettings(),
        ContextWindow(window, window // 4),
        Prices(),
        now=0.0,
        overhead=window // 20,
        binds=True,
        counter=counter,
    )
    answer = SummaryReply("<summary>short</summary>", stop="end_turn")
    made = finish_plan(plan(situation, trigger, "", 1), lambda request: answer)
    for each in made.proposals:
        folded.apply(Compacted(folded.last_seq + 1, 0.0, each.layer, trigger, each.edits, None, each.report))
    return made


@pytest.mark.skipif(not FOLDER, reason="MAKEROOM_RECORDINGS names no folder of recordings")
@pytest.mark.parametrize("window", [4_000, 8_000, 16_000, 32_000])
def test_each_of_five_compactions_shrinks_the_request_or_says_that_it_cannot(window):
    counter = TokenCounter(None)
    plans = 0
    for path in sorted(Path(FOLDER).glob("*.jsonl")):
        for folded in full_moments(path, counter, window):
            for trigger in TRIGGERS:
                before = folded.view.tokens
                made = compact(folded, window, counter, trigger)
                plans += 1
                if made.proposals:
                    assert folded.view.tokens < before, (path.stem, trigger)
                else:
                    assert made.note or trigger == "auto", (path.stem, trigger)
    print(f"\n{plans:,} plans in a window of {window:,}")
    assert plans
