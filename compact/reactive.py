"""reactive: the API refused the prompt as too long. Three rungs, with one resend after each.

1. Everything that the model has seen is cleared, and the rest is shown by previews where that is not enough.
2. thrifty takes the ledger; classic asks for a summary, and takes the ledger if that fails.
3. The newest messages too are shrunk to previews.

A rung that cannot make the request fit gives way to the next at once.
"""

from __future__ import annotations

from compact.layers.summary import summarize

from .clearing import clear_candidates, placeholder_edit
from .fallback_summary import fallback_summary, is_acceptable, target_tokens
from .folding import ShrinkStep, shrink_blocks
from .plan import CompactionPlan, Flow, Proposal, Situation
from .report import largest_blocks_sentence, propose

REACTIVE_RUNGS = 3


def reactive_ladder(situation: Situation, rung: int) -> Flow:
    """What the rung (from 1) does, or the first after it that makes the request fit."""
    failures: tuple[tuple[str, str], ...] = ()
    for step in range(max(1, rung), REACTIVE_RUNGS + 1):
        if step == 1:
            proposal = _clear_all(situation)
        elif step == REACTIVE_RUNGS:
            proposal = _shrink_newest(situation)
        elif situation.settings.policy == "classic":
            plan = yield from summarize(situation, "reactive", "")
            failures += plan.failures
            proposal = plan.proposals[-1] if plan.proposals else None
        else:
            proposal = fallback_summary(situation, "reactive", "rung 2")
        if proposal is not None and is_acceptable(situation, proposal):
            return CompactionPlan((proposal,), failures)
    named = largest_blocks_sentence(situation.view)
    return CompactionPlan((), failures, f"nothing more can be left out. {named}")


def _clear_all(situation: Situation) -> Proposal | None:
    folded, target, counter = situation.folded, target_tokens(situation), situation.counter
    found = clear_candidates(folded, 0, len(situation.view))
    made = (placeholder_edit(folded, each.part, each.field, counter) for each in found)
    edits = tuple(edit for edit in made if edit is not None)
    now, more = situation.with_edits(edits), ShrinkStep()
    if now.tokens > target:
        room = situation.unscaled(target) - situation.overhead
        more = shrink_blocks(now, 0, max(0, room), unseen=True)
        by_place = {(edit.seq, edit.block, edit.field): edit for edit in (*edits, *more.edits)}
        edits = tuple(by_place[place] for place in sorted(by_place))  # of one place the later edit
    if not edits:
        return None
    return propose(situation, "reactive", "reactive", edits, more.files, why="rung 1", rung=1)


def _shrink_newest(situation: Situation) -> Proposal | None:
    view, kept = situation.view, max(1, situation.settings.keep_recent_messages)
    if not view:
        return None
    more = shrink_blocks(situation, view[max(0, len(view) - kept)].first, 0, unseen=True)
    if not more.edits:
        return None
    return propose(situation, "reactive", "reactive", more.edits, more.files, why="rung 3", rung=3)
