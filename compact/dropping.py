"""Plan to drop a block from the context at the user's request, as the edits that do it."""

from __future__ import annotations

from transcripts import Folded, PartKind, ToolUseBlock

from .clearing import is_placeholder, is_replaced, strike_edits
from .report import propose
from .shown_blocks import ShownBlock
from .situation import CannotChange, Proposal, Situation
from .uncompact import in_force


def plan_drop(situation: Situation, name: str) -> Proposal | CannotChange:
    """Plan to drop the block with this id, which is the id in the list or the one that recalls it."""
    folded = situation.folded
    blocks = ShownBlock.largest(situation.view, situation.calibration.text_slope(folded))
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
