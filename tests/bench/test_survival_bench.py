"""What a compaction keeps of what the work goes on to need, on recorded sessions.

MAKEROOM_RECORDINGS names a directory of recordings. At several points of each session of over 60k tokens all
old history is summarized, with a model summary (canned, as in replay: it helps no more than a model's) and
without one. Judged is what the next 20 tool calls need and what had come up before:

- the files that they read and edit must be named in what is kept;
- the definitions around the places that they edit should be named;
- paths and identifiers in the inputs are only counted: a name that stands somewhere helps nobody by itself.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest

from agent.replay.canned_summary import canned_summary
from compact.definitions import LINE_NUMBER, enclosing_definition
from compact.identifiers import (
    OLD_TEXT_ARGUMENTS,
    base_name,
    file_path_of,
    joined_text,
    names,
    strings,
)
from compact.layers.summary import fallback_summary, summarize_on_request
from compact.prices import Prices
from compact.settings import CompactSettings, ContextWindow
from compact.situation import Proposal, Situation, SummaryReply
from compact.tokens import TokenCounter
from transcripts.entries import Exchange
from transcripts.facts import Fact, Reply
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
LEAST_FILES = 0.87  # of the files that the next calls read or edit
LEAST_DEFINITIONS = 0.80  # of the definitions that they edit
MOST_USUAL = 12_000  # tokens that are kept, restored files included
MOST = 16_000


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


def needed(folded: Folded, facts: tuple[Fact, ...]) -> tuple[set[str], set[str]]:
    """The files that the next tool calls read or edit, and the definitions around the places they edit."""
    pages = dict[str, str]()
    for exchange in (entry for entry in folded.entries if isinstance(entry, Exchange)):
        for index, use in exchange.uses.items():
            result = exchange.results.get(index)
            if result is not None and folded.kind_of(use.name) == "reads":
                pages[file_path_of(use)] = LINE_NUMBER.sub("", joined_text(result.content))
    files, defined = set[str](), set[str]()
    calls = [block for fact in facts if isinstance(fact, Reply) for block in fact.blocks]
    for use in [block for block in calls if isinstance(block, ToolUseBlock)][:AHEAD]:
        path = file_path_of(use)
        if "." in base_name(path) and folded.kind_of(use.name) != "searches":
            files.add(path)
        olds = (str(use.input[name]) for name in OLD_TEXT_ARGUMENTS if name in use.input)
        defined.update(enclosing_definition(pages.get(path, ""), old) for old in olds)
    return files, defined - {""}


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
@pytest.mark.parametrize("make", [summarised, bare], ids=["summary", "no model"])
def test_what_is_kept_names_what_the_next_calls_use(make):
    counter = TokenCounter.load()
    counter.warm()
    score = Score()
    files, definitions = Score(), Score()
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
                True,
                counter,
            )
            made = make(situation)
            if made is None:
                continue
            known, after = text_of(folded), folded.with_edits(made.edits)
            wanted = {each for each in upcoming(rest) if each in known}
            kept = text_of(after)
            score.sizes += (after.view.tokens,)
            for total in (own, score):
                total.add(wanted, kept)
            touched, edited = needed(folded, rest)
            files.add({path for path in touched if path in known}, kept)
            definitions.add({name for name in edited if name in known}, kept)
        if own.used:
            print(f"{name:50} {own.named:5} of {own.used:5}  {own.share:.1%}")
    usual = median(score.sizes)
    kept = f"kept {usual:,.0f} tokens (median), at most {max(score.sizes):,}"
    print(f"{score.named} of {score.used}: {score.share:.1%}; {kept}; {score.told()}")
    print(f"files {files.share:.1%} of {files.used}; edited definitions {definitions.share:.1%} of", end=" ")
    print(definitions.used)
    assert files.share >= LEAST_FILES
    assert definitions.share >= LEAST_DEFINITIONS
    assert usual <= MOST_USUAL
    assert max(score.sizes) <= MOST
