"""Undoing a compaction: the view is then what it would be had it never been made, less the thinking since.

A compaction is a set of edits with an id; undoing takes them away, whatever came later. What was thought
while it was in force is bound to what was then shown, and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from transcripts.edits import earliest_seq
from transcripts.facts import Clear, Compacted, Edit, Fold, Unthink
from transcripts.fold import Folded

from .guards import in_force
from .invariants import drop_thinking_since
from .plan import Situation


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What to record as `undone`, and what to tell."""

    id: str
    edits: tuple[Edit, ...]
    message: str


@dataclass(frozen=True, slots=True)
class CannotUndo:
    """Why it cannot be undone, with the number or the name that says what could be done instead."""

    reason: str


def plan_undo(situation: Situation, id: str) -> UndoPlan | CannotUndo:
    """The undoing of compaction `id`, or of the newest in force where `id` is empty."""
    folded = situation.folded
    known = in_force(folded)
    if not id:
        if not known:
            return CannotUndo("there is no compaction to undo")
        id = known[-1].id
    if id in folded.undone:
        return CannotUndo(f"{id} is undone already (by fact {folded.undone[id]})")
    target = next((made for made in known if made.id == id), None)
    if target is None:
        names = ", ".join(made.id for made in known[-5:]) or "none"
        return CannotUndo(f"there is no compaction {id} in force; there are: {names}")
    return _undoing(situation, target)


def _undoing(situation: Situation, target: Compacted) -> UndoPlan | CannotUndo:
    folded = situation.folded
    wider = _wider(folded, target)
    edits = drop_thinking_since(folded, target, situation.binds, wider.seq if wider is not None else None)
    then = folded.with_edits(edits, without=target.seq)
    after = situation.tokens + situation.scaled(then.view.tokens - folded.view.tokens)
    if after > situation.window.size:
        over = after - situation.window.size
        return CannotUndo(
            f"without {target.id} the conversation would have {after:,} tokens, {over:,} more than the "
            f"window's {situation.window.size:,}: recall brings back single pieces"
        )
    gained = f"{target.id} ({target.layer}) is undone: {situation.tokens:,} -> {after:,} tokens"
    if wider is not None:
        gained = (
            f"{target.id} ({target.layer}) lies within the wider {wider.id}: its undoing takes effect when "
            f"{wider.id} is undone too"
        )
    return UndoPlan(target.id, edits, gained)


def _wider(folded: Folded, target: Compacted) -> Compacted | None:
    """The later compaction whose fold hides everything that the target changed."""
    changed = [edit for edit in target.edits if not isinstance(edit, Unthink)]
    first, last = earliest_seq(tuple(changed)), max((_last(edit) for edit in changed), default=0)
    if first is None:
        return None
    for made in in_force(folded):
        if made.seq > target.seq and any(
            isinstance(edit, Fold) and edit.first <= first and last <= edit.last for edit in made.edits
        ):
            return made
    return None


def _last(edit: Edit) -> int:
    return edit.seq if isinstance(edit, Clear) else edit.last
