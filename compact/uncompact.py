"""Undo compactions: list what they removed, plan the undo of one, and exempt restored blocks afterwards.

A compaction is a set of edits with an id. Undoing it removes these edits, whatever came later. The view is
then as if it had never happened, without the thinking that was produced while it was in force, because that
is bound to what was shown then.

The opposite, dropping one block at the user's request, is planned here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from transcripts import (
    Block,
    Clear,
    Compacted,
    Edit,
    Fold,
    Folded,
    PartKind,
    Reply,
    Result,
    ToolUseBlock,
    User,
    blocks_of_user,
    content_text,
)
from transcripts.wording import shorten

from .clearing import PLACEHOLDER_TOKENS, call_label, is_placeholder, is_replaced, strike_edits
from .estimate import estimate_prompt
from .invariants import changed_span, dropped_by_undo
from .page_references import resolved_references
from .report import propose
from .settings import CRITICAL_PERCENT
from .shown_blocks import ShownBlock
from .situation import CannotChange, Proposal, Situation

MAX_BEGINNING_CHARS = 60  # of the beginning of a message
MAX_BEGINNING_SOURCE_CHARS = 400  # of the text that the beginning is taken from
NAMED_COMPACTIONS = 5  # in the answer to an unknown id


class UndoPlan(Struct, frozen=True):
    """The edits to record as `undone`, and the message for the user."""

    id: str
    edits: tuple[Edit, ...]
    message: str


def in_force(folded: Folded) -> list[Compacted]:
    """Return the compactions that were not undone, oldest first."""
    return [made for made in folded.compactions if made.id not in folded.undone]


class Growth(NamedTuple):
    """The calls since a moment, and the model's tokens by which the conversation has grown since."""

    calls: int
    tokens: int


def growth_since_compaction(situation: Situation) -> Growth | None:
    """Return the growth since the newest compaction in force, None if there is none."""
    reports = [made.report for made in in_force(situation.folded) if "calls" in made.report]
    if not reports:
        return None
    calls = situation.folded.conversation.reply_count - int(reports[-1]["calls"])
    return Growth(calls, situation.tokens - int(reports[-1]["after"]))


def plan_undo(situation: Situation, id: str) -> UndoPlan | CannotChange:
    """Plan to undo compaction `id`, or the newest in force if `id` is empty."""
    folded = situation.folded
    compactions = in_force(folded)
    if not id:
        if not compactions:
            return CannotChange("cannot undo: no compaction is in effect")
        id = compactions[-1].id
    if id in folded.undone:
        return CannotChange(f"cannot undo {id}: it was already undone (r{folded.undone[id]})")
    target = next((made for made in compactions if made.id == id), None)
    if target is None:
        listed = ", ".join(made.id for made in compactions[-NAMED_COMPACTIONS:]) or "none"
        return CannotChange(f"cannot undo {id}: no such compaction is in effect (in effect: {listed})")
    before = situation.tokens
    hiding = _hiding(folded, target)
    edits = dropped_by_undo(folded, target, situation.binds, hiding[0].seq if hiding else None)
    then = folded.with_edits(edits, without=target.seq)
    if resolved := resolved_references(then, situation.counter.text):
        edits = (*edits, *resolved)
        then = folded.with_edits(edits, without=target.seq)
    for each in hiding:  # an undo that could never take effect is refused
        then = then.with_edits((), without=each.seq)
    later = " and ".join(each.id for each in hiding)
    after = estimate_prompt(then, situation.overhead)
    if after > situation.window.size:
        over = after - situation.window.size
        within = f"it is covered by the later {later}, and without these " if hiding else ""
        return CannotChange(
            f"cannot undo {target.id}: {within}the conversation would have {after:,} tokens, {over:,} more "
            f"than the context window of {situation.window.size:,}. Use /recall ID to show single blocks"
        )
    name = f"{target.id} ({target.label})"
    if not hiding:
        return UndoPlan(target.id, edits=edits, message=f"undid {name}: {before:,} -> {after:,} tokens")
    steps = " and ".join(f"/uncompact {each.id}" for each in hiding)
    shown = f"{name} is covered by the later {later}, so the undo only takes effect after {steps}"
    return UndoPlan(target.id, edits=edits, message=f"nothing changes yet: {shown}")


def _hiding(folded: Folded, target: Compacted) -> list[Compacted]:
    """Return the later compactions whose folds hide everything that the target changed, oldest first.

    [] if anything of the target shows.
    """
    later = [made for made in in_force(folded) if made.seq > target.seq]
    whole = changed_span(target.edits)
    if whole is None:
        return []
    if (around := _first_around(later, whole)) is not None:
        return [around]
    found: dict[int, Compacted] = {}
    for span in filter(None, (changed_span((edit,)) for edit in target.edits)):
        around = _first_around(later, span)
        if around is None:
            return []
        found[around.seq] = around
    return [found[seq] for seq in sorted(found)]


def _first_around(later: Sequence[Compacted], span: tuple[int, int]) -> Compacted | None:
    """Return the first compaction with a fold around the facts first..last, None if there is none."""
    first, last = span
    folds = ((made, edit) for made in later for edit in made.edits if isinstance(edit, Fold))
    return next((made for made, fold in folds if fold.first <= first and last <= fold.last), None)


class Exemptions(Struct, frozen=True):
    """Blocks that the user restored: automatic layers skip them until the window leaves no choice."""

    clears: frozenset[tuple[int, int, str]] = frozenset()  # (seq, block, field)
    ranges: tuple[tuple[int, int], ...] = ()  # (first, last) of facts that were folded

    def __bool__(self) -> bool:
        return bool(self.clears or self.ranges)

    def holds(self, seq: int, block: int, field: str) -> bool:
        """Return whether a block or field is exempt."""
        return (seq, block, field) in self.clears or self.within(seq, seq)

    def within(self, first: int, last: int) -> bool:
        """Return whether any of the facts first..last is exempt."""
        return any(start <= last and first <= end for start, end in self.ranges)


def exemptions(situation: Situation) -> Exemptions:
    """Return the blocks that are exempt now; none if the window leaves no choice."""
    folded = situation.folded
    if not folded.undone or situation.window.percent(situation.tokens) >= CRITICAL_PERCENT:
        return Exemptions()
    clears: set[tuple[int, int, str]] = set()
    ranges: list[tuple[int, int]] = []
    for edit in (edit for made in folded.compactions if made.id in folded.undone for edit in made.edits):
        if isinstance(edit, Clear):
            if folded.edits.shows(edit.seq, edit.block, edit.field):
                clears.add((edit.seq, edit.block, edit.field))
        elif isinstance(edit, Fold):
            again = folded.edits.covering(edit.first)  # on request, or a wider fold
            if again is None or again.last < edit.last:
                ranges.append((edit.first, edit.last))
    return Exemptions(frozenset(clears), tuple(ranges))


class Evicted(Struct, frozen=True):
    """A block that left the context: its recall id, tokens (our count), and the compaction (`by`).

    It is the block with this index of a fact, or the whole fact; `call` is the one that a result answers.
    """

    id: str
    fact: Result | User | Reply
    tokens: int
    by: str
    call: ToolUseBlock | None = None
    block: int | None = None

    @classmethod
    def all_of(cls, folded: Folded) -> list[Evicted]:
        """Return the blocks that the compactions in force removed, newest compaction first, then by size."""
        found: dict[str, Evicted] = {}
        listed: list[Fold] = []
        for made in reversed(in_force(folded)):
            left = sorted(_left_out_by(folded, made, listed), key=lambda each: -each.tokens)
            new = (each for each in left if each.id not in found)
            found.update((each.id, each) for each in new if each.id.partition(".")[0] not in found)
        return list(found.values())

    @property
    def what(self) -> str:
        """Its label, one line."""
        if isinstance(self.fact, Result):
            return call_label(self.call) if self.call is not None else self.fact.speaker
        blocks = self.fact.blocks
        if self.block is not None:
            blocks = blocks[self.block : self.block + 1]
        elif isinstance(self.fact, User):
            blocks = blocks_of_user(blocks) or blocks
        return f"{self.fact.speaker}: {_beginning(blocks)}"


def _left_out_by(folded: Folded, made: Compacted, listed: list[Fold]) -> Iterator[Evicted]:
    """Yield what a compaction removed, but for the ranges within those `listed`, to which its own are added.

    Each summary of a long session covers what the summaries before it covered.
    """
    for edit in made.edits:
        if isinstance(edit, Clear):
            match folded.fact_at(edit.seq):
                case Result() as cleared:
                    yield _evicted_result(folded, cleared, made)
                case User() | Reply() as cleared:
                    tokens = _tokens_before(edit, cleared)
                    id = f"r{edit.seq}.{edit.block}"
                    yield Evicted(id, cleared, tokens=tokens, by=made.id, block=edit.block)
        elif isinstance(edit, Fold):
            if any(one.first <= edit.first and edit.last <= one.last for one in listed):
                continue
            listed.append(edit)
            for fact in folded.facts_between(edit.first, edit.last):
                if isinstance(fact, Result):
                    yield _evicted_result(folded, fact, made)
                elif isinstance(fact, User | Reply):
                    yield Evicted(f"r{fact.seq}", fact, tokens=sum(fact.tokens), by=made.id)


def _evicted_result(folded: Folded, fact: Result, made: Compacted) -> Evicted:
    call = fact.call_in(folded.fact_at(fact.of))
    return Evicted(f"r{fact.seq}", fact, tokens=sum(fact.tokens), by=made.id, call=call)


def _tokens_before(edit: Clear, fact: User | Reply) -> int:
    """Return the tokens of the text that the placeholder replaced."""
    return fact.tokens[edit.block] if isinstance(fact, User) else edit.saves + PLACEHOLDER_TOKENS


def _beginning(blocks: tuple[Block, ...]) -> str:
    calls = [call_label(block) for block in blocks if isinstance(block, ToolUseBlock)]
    text = content_text(tuple(block for block in blocks if not isinstance(block, ToolUseBlock)))
    line = " ".join((text[:MAX_BEGINNING_SOURCE_CHARS] or ", ".join(calls)).split())
    return shorten(line, MAX_BEGINNING_CHARS)


def plan_drop(situation: Situation, name: str) -> Proposal | CannotChange:
    """Plan to drop the block with this id, which is the id in the list or the one that recalls it."""
    folded = situation.folded
    blocks = ShownBlock.largest(folded)
    found = (each for each in blocks if name in (each.id, each.recall_id, f"r{each.part.seq}"))
    block = next(found, None)
    if block is None:
        return CannotChange(f"cannot drop {name}: no block in the context has this id (see /context)")
    edits = strike_edits(folded, block.part, situation.counter)
    if not edits:
        return CannotChange(f"cannot drop {block.id}: {_why_not(block, folded)}")
    return propose(situation, "drop", "manual", edits, dropped=f"{block.recall_id} ({block.label})")


def _why_not(block: ShownBlock, folded: Folded) -> str:
    """Return the reason why a block cannot be dropped, with a remedy if there is one."""
    part = block.part
    fold = folded.edits.covering(part.seq)
    made = next((made for made in reversed(in_force(folded)) if fold in made.edits), None)
    if made is not None:
        replaces = f"it ({block.label}) replaces messages that {made.id} summarized"
        return f"{replaces}. /uncompact {made.id} shows these messages again"
    values = part.block.input.values() if isinstance(part.block, ToolUseBlock) else ()
    if is_replaced(part) or any(isinstance(value, str) and is_placeholder(value) for value in values):
        return "it is no longer shown. /recall shows it"
    if part.kind is PartKind.THINKING:
        return "thinking cannot be dropped by itself"
    return "it is shorter than a placeholder would be"
