"""Plan a block's leaving of the context on the user's request, as the edits that do it."""

from __future__ import annotations

from transcripts import Folded, PartKind, ToolUseBlock

from .clearing import is_placeholder, is_replaced, strike_edits
from .report import propose
from .shown_blocks import ShownBlock, largest_blocks
from .situation import CannotChange, Proposal, Situation
from .uncompact import in_force


def plan_drop(situation: Situation, name: str) -> Proposal | CannotChange:
    """Plan to drop the block with this id: the one that it is listed by, or one that recalls it."""
    folded = situation.folded
    blocks = largest_blocks(situation.view, situation.calibration.text_slope(folded))
    found = (each for each in blocks if name in (each.id, each.recall_id, f"r{each.part.seq}"))
    block = next(found, None)
    if block is None:
        return CannotChange(f"nothing in the context has the id {name}; /context lists the largest")
    edits = strike_edits(folded, block.part, situation.counter)
    if not edits:
        return CannotChange(f"{block.id} {_why_not(block, folded)}")
    return propose(situation, "drop", "manual", edits, dropped=f"{block.recall_id} ({block.label})")


def _why_not(block: ShownBlock, folded: Folded) -> str:
    """Say why a block cannot be dropped, as the rest of a sentence that begins with its id."""
    part = block.part
    fold = folded.edits.covering(part.seq)
    made = next((made for made in reversed(in_force(folded)) if fold in made.edits), None)
    if made is not None:
        told = f"({block.label}) stands for messages that {made.id} folded"
        return f"{told}: /uncompact {made.id} brings them back, and what else /context lists can be dropped"
    values = part.block.input.values() if isinstance(part.block, ToolUseBlock) else ()
    if is_replaced(part) or any(isinstance(value, str) and is_placeholder(value) for value in values):
        return "is left out already; /recall shows it"
    if part.kind is PartKind.THINKING:
        return "is thinking, which cannot be dropped by itself"
    return "is too short to be dropped: a placeholder would take as much room"
