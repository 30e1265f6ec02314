"""Names that a compaction keeps and that the work continues to use, in recorded sessions.

MAKEROOM_RECORDINGS names a directory of recordings. At several points of each session of over 60k tokens all
old history is folded; of the paths and identifiers that the next 20 tool calls use and that had come up
before, so many are named in what is kept. With a summary (canned, as in replay: it helps no more than a
model's) and without one.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.replay.policies import canned_summary
from compact.estimate import Calibration
from compact.identifiers import names, strings
from compact.layers.summary import fallback_summary, summarize_on_request
from compact.prices import Prices
from compact.settings import CompactSettings, ContextWindow
from compact.situation import Proposal, Situation, SummaryReply, replacement_limit
from compact.tokens import TokenCounter, load_counter
from transcripts.facts import Fact, Fold, Reply
from transcripts.folding import Folded
from transcripts.importers import import_session
from transcripts.messages import TextBlock, ToolResultBlock, ToolUseBlock

pytestmark = pytest.mark.bench
FOLDER = os.environ.get("MAKEROOM_RECORDINGS", "")
AHEAD = 20
POINTS = (0.4, 0.5, 0.6, 0.7, 0.8)
LEAST = 60_000


WHOLE = re.compile(r"(?<![\w./@+~-])[A-Za-z_]\w*(?:[.-]\w+)+(?![\w/-])")  # state.AgentType, data-testid
MIN_WHOLE = 6


@dataclass
class Score:
    used: int = 0
    named: int = 0
    sizes: tuple[int, ...] = ()
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        return self.named / max(1, self.used)

    def add(self, wanted: set[str], kept: str) -> None:
        self.used += len(wanted)
        self.named += sum(each in kept for each in wanted)
        for each in wanted:
            kind = "paths" if "/" in each else "identifiers"
            self.kinds[kind] += 1
            self.kinds[f"{kind} named"] += each in kept

    def told(self) -> str:
        """The shares of paths and of identifiers, where dotted and hyphenated names are taken whole."""
        kinds = (
            f"{kind} {self.kinds[f'{kind} named'] / max(1, self.kinds[kind]):.1%} of {self.kinds[kind]}"
            for kind in ("paths", "identifiers")
        )
        return ", ".join(kinds)


def recordings(counter: TokenCounter) -> Iterator[tuple[str, tuple[Fact, ...]]]:
    for path in sorted(Path(FOLDER).glob("*.jsonl")):
        yield path.stem, tuple(import_session(path.read_bytes(), counter.blocks).facts)


def halves(facts: tuple[Fact, ...]) -> Iterator[tuple[Folded, tuple[Fact, ...]]]:
    """(session up to a reply, the facts after it), at each of the points."""
    replies = [at for at, fact in enumerate(facts) if isinstance(fact, Reply)]
    for point in POINTS:
        end = replies[int(len(replies) * point)]
        folded = Folded()
        for fact in facts[:end]:
            folded.apply(fact)
        if folded.view.tokens >= LEAST:
            yield folded, facts[end:]


def upcoming(facts: tuple[Fact, ...]) -> set[str]:
    """Names in the next tool calls' inputs."""
    calls = [block for fact in facts if isinstance(fact, Reply) for block in fact.blocks]
    uses = [block for block in calls if isinstance(block, ToolUseBlock)][:AHEAD]
    texts = [text for use in uses for text in strings(use.input)]
    whole = {name for text in texts for name in WHOLE.findall(text) if len(name) >= MIN_WHOLE}
    return whole | {name for text in texts for name in names(text) if not any(name in each for each in whole)}


def text_of(folded: Folded) -> str:
    pieces: list[str] = []
    for message in folded.view:
        for part in message.parts:
            match part.block:
                case TextBlock(text=text):
                    pieces.append(text)
                case ToolUseBlock():
                    pieces.extend(strings(part.block.input))
                case ToolResultBlock(content=content):
                    pieces.extend(piece.text for piece in content if isinstance(piece, TextBlock))
    return "\n".join(pieces)


def summarised(situation: Situation) -> Proposal | None:
    flow = summarize_on_request(situation, "tool", "")
    try:
        next(flow)
        flow.send(SummaryReply(canned_summary(situation.folded, situation.counter.text), stop="end_turn"))
    except StopIteration as stop:
        return stop.value.proposals[-1] if stop.value.proposals else None
    raise AssertionError("asked twice")


def bare(situation: Situation) -> Proposal | None:
    return fallback_summary(situation, "tool", "measured")


@pytest.mark.skipif(not FOLDER, reason="MAKEROOM_RECORDINGS names no folder of recordings")
@pytest.mark.parametrize(("make", "target"), [(summarised, 0.92), (bare, 0.92)], ids=["summary", "no model"])
def test_what_is_kept_names_what_the_next_calls_use(make, target):
    counter = load_counter()
    counter.warm()
    score, cap = Score(), 0
    for name, facts in recordings(counter):
        own = Score()
        for folded, rest in halves(facts):
            situation = Situation(
                folded,
                CompactSettings(),
                ContextWindow(200_000),
                Prices(),
                0.0,
                12_000,
                Calibration(),
                True,
                counter,
            )
            made = make(situation)
            if made is None:
                continue
            cap = replacement_limit(situation)
            known, after = text_of(folded), folded.with_edits(made.edits)
            wanted = {each for each in upcoming(rest) if each in known}
            kept = text_of(after)
            score.sizes += (size(after, made),)
            for total in (own, score):
                total.add(wanted, kept)
        if own.used:
            print(f"{name:50} {own.named:5} of {own.used:5}  {own.share:.1%}")
    mean = sum(score.sizes) // max(1, len(score.sizes))
    print(
        f"{score.named} of {score.used}: {score.share:.1%}; kept {mean:,} tokens on average; {score.told()}"
    )
    assert score.share >= target
    assert mean <= cap * 1.1


def size(after: Folded, made: Proposal) -> int:
    """Tokens kept, restored files aside: they have a limit of their own."""
    fold = next(edit for edit in made.edits if isinstance(edit, Fold))
    restored = sum(len(block.text) // 4 for block in fold.blocks[1:] if isinstance(block, TextBlock))
    return after.view.tokens - restored
