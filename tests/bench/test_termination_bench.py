"""Five compactions in a row on recorded sessions in small windows: each shrinks the request or says why not.

A local summary stays within its limit, except for what the model has not seen yet.

MAKEROOM_RECORDINGS=DIR python -m pytest tests/bench/test_termination_bench.py -m bench -s -n 0
"""

import os
from pathlib import Path
from statistics import median

import pytest
from msgspec.structs import replace

from compact.identifiers import joined_text
from compact.layers.summary import fallback_summary
from compact.pipeline import plan
from compact.prices import Prices
from compact.settings import CompactSettings, ContextWindow
from compact.situation import Situation, SummaryReply, finish_plan
from compact.tokens import TokenCounter
from transcripts.facts import Compacted, Fold, Result, User
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


def summarized(folded, window, counter):
    """The session after a local summary, with the replacement's tokens and those of what had to stay."""
    situation = Situation(
        folded,
        CompactSettings(),
        ContextWindow(window, min(32_000, window // 4)),
        Prices(),
        now=0.0,
        overhead=min(3_200, window // 8),
        binds=True,
        counter=counter,
    )
    made = fallback_summary(situation, "tool", "measured")
    if made is None:
        return None
    view = folded.view
    stays = view.tokens - view.tokens_before(view.index_of(folded.last_reply_seq))
    fold = next(edit for edit in made.edits if isinstance(edit, Fold))
    return folded.with_edits(made.edits).view.tokens, counter.text(joined_text(fold.blocks[:1])), stays


@pytest.mark.skipif(not FOLDER, reason="MAKEROOM_RECORDINGS names no folder of recordings")
@pytest.mark.parametrize(
    ("window", "most"), [(8_000, 2_500), (16_000, 4_200), (32_000, 8_000), (200_000, 16_000)]
)
def test_what_a_local_summary_leaves_stays_within_its_limit(window, most):
    counter = TokenCounter.load()
    counter.warm()
    sizes = []
    for path in sorted(Path(FOLDER).glob("*.jsonl")):
        for folded in full_moments(path, counter, window):
            if (found := summarized(folded, window, counter)) is not None:
                left, replacement, stays = found
                sizes.append(left)
                assert replacement <= most, path.stem
                assert left <= most + max(0, stays - most // 8), path.stem
    largest = f"{median(sizes):,.0f} tokens, at most {max(sizes):,}"
    print(f"\n{len(sizes)} summaries in a window of {window:,}: {largest}")
