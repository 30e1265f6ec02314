"""What left the context, a line each, for a person to bring something of it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from transcripts.facts import Clear, Compacted, Edit, Fact, Fold, Reply, Result, User
from transcripts.fold import Folded
from transcripts.messages import Block, ToolUseBlock, without_injected
from transcripts.render_text import call_of, content_text, speaker_of

from .invariants import fact_at
from .placeholders import describe

BEGINNING = 60  # characters of what somebody said


@dataclass(frozen=True, slots=True)
class Evicted:
    """Something that is shown otherwise, or not at all: its recall id, what it was, its size in tokens.

    `by` is the id of the compaction that left it out.
    """

    id: str
    what: str
    tokens: int
    by: str


def evicted_since(folded: Folded) -> list[Evicted]:
    """What the compactions in force left out: the newest of them first, in each the largest first."""
    found: dict[str, Evicted] = {}
    for made in reversed(folded.compactions):
        if made.id not in folded.undone:
            left = sorted(_left_by(folded, made), key=lambda one: -one.tokens)
            found.update((one.id, one) for one in left if one.id not in found)
    return list(found.values())


def _left_by(folded: Folded, made: Compacted) -> Iterator[Evicted]:
    for edit in made.edits:
        for fact, id, tokens in _facts(folded, edit):
            if what := _what(folded, fact):
                yield Evicted(id, what, tokens, made.id)


def _facts(folded: Folded, edit: Edit) -> Iterator[tuple[Fact, str, int]]:
    """(fact, recall id, tokens) of what an edit leaves out."""
    if isinstance(edit, Clear) and (fact := fact_at(folded, edit.seq)) is not None:
        block = "" if isinstance(fact, Result) else f".{edit.block}"
        yield fact, f"r{edit.seq}{block}", edit.saves
    elif isinstance(edit, Fold):
        for fact in folded.facts:
            if edit.first <= fact.seq <= edit.last and isinstance(fact, User | Reply | Result):
                yield fact, f"r{fact.seq}", sum(fact.tokens)


def _what(folded: Folded, fact: Fact) -> str:
    match fact:
        case Result():
            use = call_of(fact_at(folded, fact.of), fact)
            return describe(use) if use is not None else speaker_of(fact)
        case User(blocks=blocks) | Reply(blocks=blocks):
            return f"{speaker_of(fact)}: {_beginning(without_injected(blocks))}"
    return ""


def _beginning(blocks: tuple[Block, ...]) -> str:
    calls = [describe(block) for block in blocks if isinstance(block, ToolUseBlock)]
    words = content_text(tuple(block for block in blocks if not isinstance(block, ToolUseBlock)))
    line = " ".join((words[:400] or ", ".join(calls)).split())
    return line if len(line) <= BEGINNING else f"{line[: BEGINNING - 1]}…"
