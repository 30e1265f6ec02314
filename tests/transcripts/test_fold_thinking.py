"""Thinking is shown only behind the exact bytes that it was signed for: a session with a signing model."""

import hashlib
import json
from random import Random
from typing import Any

import pytest

from tests.sampling import sampled, scaled
from transcripts.edits import earliest_seq
from transcripts.entries import Exchange
from transcripts.facts import (
    Clear,
    Compacted,
    Edit,
    Fact,
    Fold,
    Opened,
    Reply,
    Result,
    Rewound,
    Undone,
    Unthink,
    User,
)
from transcripts.folding import Folded, fold
from transcripts.messages import Block, TextBlock, ThinkingBlock, ToolUseBlock

from .api_rules import as_sent, bytes_sent, violations
from .random_histories import PLACEHOLDERS, nests

Pairs = list[tuple[str, str]]


def sent(folded: Folded) -> Pairs:
    """(role, JSON) of every block that the model is sent, the tools before them."""
    tools = json.dumps(folded.opened.tools if folded.opened else ())
    pairs: Pairs = [("tools", tools)]
    for message in folded.view:
        pairs += [(message.role, json.dumps(part.block.to_json())) for part in message.parts]
    return pairs


def digest(pairs: Pairs) -> str:
    return hashlib.sha256(repr(pairs).encode()).hexdigest()[:16]


def misplaced(folded: Folded) -> list[str]:
    """Thinking in the view that does not follow the bytes that it was signed for."""
    pairs, found = sent(folded), []
    for index, (_, block) in enumerate(pairs[1:], 1):
        made: dict[str, Any] = json.loads(block)
        if made["type"] == "thinking" and made["signature"] != digest(pairs[:index]):
            found.append(f"block {index}: {made['thinking']}")
    return found


def signed(pairs: Pairs, blocks: list[Block]) -> tuple[Block, ...]:
    """The blocks of a reply to a request of these pairs, their thinking signed."""
    made: list[Block] = []
    for block in blocks:
        if isinstance(block, ThinkingBlock):
            block = ThinkingBlock(block.thinking, digest(pairs))
        pairs = [*pairs, ("assistant", json.dumps(block.to_json()))]
        made.append(block)
    return tuple(made)


class Simulation:
    """A random session that derives `Unthink` edits as compactions do."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.facts: list[Fact] = []
        self.folded = Folded()
        self.add(Opened(1, 0.0, ("system",), ({"name": "bash"},), "m", 9, "/"))

    @property
    def seq(self) -> int:
        return self.folded.last_seq + 1

    def add(self, fact: Fact) -> None:
        self.facts.append(fact)
        self.folded.apply(fact)

    def turn(self) -> None:
        self.add(User(self.seq, 0.0, (TextBlock(f"prompt {self.seq}"),)))
        for more in (True, self.random.random() < 0.6, False):
            self.reply(calls=more)
            if self.random.random() < 0.3:
                self.change()
            if not more:
                return

    def reply(self, calls: bool) -> None:
        if self.random.random() < 0.08:
            self.add(
                Reply(self.seq, 0.0, signed(sent(self.folded), [ThinkingBlock("cut", "")]), complete=False)
            )
            return
        blocks: list[Block] = [ThinkingBlock(f"thought {self.seq}", "")] if self.random.random() < 0.8 else []
        blocks.append(TextBlock(f"answer {self.seq}"))
        if calls:
            blocks.append(ToolUseBlock(f"t{self.seq}", "bash", {"command": "ls " * 9}))
            if self.random.random() < 0.5:
                blocks += [ThinkingBlock("between", ""), ToolUseBlock(f"u{self.seq}", "read", {"path": "x"})]
        self.add(Reply(of := self.seq, 0.0, signed(sent(self.folded), blocks)))
        for index, block in enumerate(blocks):
            if isinstance(block, ToolUseBlock) and self.random.random() < 0.95:
                self.add(Result(self.seq, 0.0, of, index, (TextBlock("output " * 20),), (30,)))

    def change(self) -> None:
        kind = self.random.random()
        if kind < 0.5:
            self.compact()
        elif kind < 0.7:
            self.undo()
        elif kind < 0.8 and len(self.folded.entries) > 3:
            prompts = [entry.seq for entry in self.folded.entries if not isinstance(entry, Exchange)]
            self.add(Rewound(self.seq, 0.0, self.random.choice(prompts)))
            self.add(User(self.seq, 0.0, (TextBlock("another way"),)))
        elif kind < 0.9:
            edits = (Unthink(0, self.folded.last_seq),)
            self.add(
                Opened(self.seq, 0.0, ("system",), ({"name": f"tool {self.seq}"},), "m", 9, "/", edits=edits)
            )

    def compact(self) -> None:
        edits = self.edits()
        first = earliest_seq(edits)
        if first is not None:
            edits = (*edits, Unthink(first, self.folded.last_reply_seq))
            self.add(Compacted(self.seq, 0.0, "snip", "auto", edits))

    def edits(self) -> tuple[Edit, ...]:
        entries = self.folded.entries
        results = [r.seq for e in entries if isinstance(e, Exchange) for r in e.results.values()]
        calls = [(e.seq, index) for e in entries if isinstance(e, Exchange) for index in e.uses]
        made: list[Edit] = []
        for _ in range(self.random.randint(1, 2)):
            kind = self.random.randrange(3)
            if kind == 0 and results:
                made.append(
                    Clear(self.random.choice(results), 0, "content", self.random.choice(PLACEHOLDERS))
                )
            elif kind == 1 and calls:
                made.append(Clear(*self.random.choice(calls), "command", self.random.choice(PLACEHOLDERS)))
            elif kind == 2 and len(entries) > 2:
                first = self.random.randrange(len(entries) - 1)
                last = self.random.randrange(first, len(entries) - 1)
                fold_ = Fold(entries[first].seq, entries[last].last, (TextBlock(f"summary {self.seq}"),))
                if nests(fold_, self.folded, made):
                    made.append(fold_)
        return tuple(made)

    def undo(self) -> None:
        left = [one for one in self.folded.compactions if one.id not in self.folded.undone]
        if left:
            one = self.random.choice(left)
            edits = (
                (Unthink(one.seq, self.folded.last_reply_seq),)
                if self.folded.last_reply_seq > one.seq
                else ()
            )
            self.add(Undone(self.seq, 0.0, one.id, edits))


def kept(folded: Folded) -> int:
    return sum(b'"thinking"' in bytes_sent(message) for message in folded.view)


def simulated(seed: int, turns: int = 14) -> Simulation:
    simulation = Simulation(seed)
    for _ in range(turns):
        simulation.turn()
        assert misplaced(simulation.folded) == [], f"after {simulation.facts[-1]}"
    return simulation


@pytest.mark.parametrize("seed", sampled(range(60), 6))
def test_thinking_in_every_view_follows_the_bytes_it_was_signed_for(seed: int) -> None:
    simulation = simulated(seed)
    assert misplaced(fold(simulation.facts)) == []
    assert sent(fold(simulation.facts)) == sent(simulation.folded)


@pytest.mark.parametrize("seeds", scaled(range(12), range(12, 200)))
def test_thinking_follows_the_bytes_it_was_signed_for_when_records_are_missing(seeds: range) -> None:
    for seed in seeds:
        check_with_missing_records(seed)


def check_with_missing_records(seed: int) -> None:
    random = Random(seed)
    facts = simulated(seed).facts
    lost = set(random.sample(range(len(facts)), 2))
    folded = fold(fact for index, fact in enumerate(facts) if index not in lost)
    assert misplaced(folded) == []
    folded.apply(User(folded.last_seq + 1, 0.0, (TextBlock("continue"),)))
    assert violations([as_sent(message) for message in folded.view]) == []
    tools = folded.opened.tools if folded.opened else ()
    edits, about = (Unthink(0, folded.last_seq),), {"holes": list(folded.gaps)}
    folded.apply(Opened(folded.last_seq + 1, 0.0, (), tools, "m", 9, "/", edits=edits, about=about))
    before = kept(folded)
    folded.apply(
        Reply(folded.last_seq + 1, 0.0, signed(sent(folded), [ThinkingBlock("new", ""), TextBlock("here")]))
    )
    assert misplaced(folded) == []
    assert kept(folded) == before + 1, "what is thought after the session was opened anew is kept"


def test_a_session_without_edits_keeps_all_its_thinking() -> None:
    simulation = Simulation(1)
    simulation.random.random = lambda: 0.5  # type: ignore[method-assign]  # thinks always, changes nothing
    for _ in range(3):
        simulation.turn()
    thoughts = sum(
        isinstance(b, ThinkingBlock) for f in simulation.facts if isinstance(f, Reply) for b in f.blocks
    )
    shown = sum(
        isinstance(p.block, ThinkingBlock) for message in simulation.folded.view for p in message.parts
    )
    assert shown == thoughts > 5


def test_the_check_notices_thinking_behind_changed_bytes() -> None:
    simulation = Simulation(1)
    simulation.random.random = lambda: 0.5  # type: ignore[method-assign]
    simulation.turn()
    result = next(fact for fact in simulation.facts if isinstance(fact, Result))
    simulation.turn()
    simulation.add(
        Compacted(simulation.seq, 0.0, "micro", "auto", (Clear(result.seq, 0, "content", "[cleared]"),))
    )
    assert misplaced(simulation.folded) != []
