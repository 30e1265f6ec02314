"""The floor: room without any model. The ledger and the words of the person take the place of old history.

Deterministic, and it always ends in a request that can be sent, from any state: where folding is not enough,
the tail gets shorter, and in the end the newest blocks are shrunk to previews, unseen ones included.
"""

from __future__ import annotations

from transcripts.facts import Edit
from transcripts.messages import TextBlock

from .clearing import text_of
from .folding import FoldLimits, FoldPlan, ShrinkStep, fold_at, fold_old, shrink
from .placeholders import head_and_tail
from .plan import Proposal, Situation, Trigger
from .report import fits, frees_enough, propose
from .summary_record import keep_cap, summary_in

SHORT_TAIL = 2_000  # tokens by our count


def fallback_summary(situation: Situation, trigger: Trigger, why: str) -> Proposal | None:
    """The first of ever harder foldings that leaves a sendable request and frees a tenth, or None.

    What the model has not seen is only touched where the person or the API asked for room.
    """
    forced = trigger != "auto"
    carried = _carried(situation)
    usual = FoldLimits(trigger, carried)
    hard = FoldLimits(trigger, carried, SHORT_TAIL, restoring=False)
    for terms, unseen in (
        (usual, False),
        (FoldLimits(trigger, carried, None, False), False),
        (hard, False),
        (hard, True),
    ):
        if unseen and not forced:
            break
        proposal = _made(situation, terms, unseen, why)
        if proposal is not None and accepted(situation, proposal):
            return proposal
    return None


def ledger_first(situation: Situation, clears: Situation) -> Proposal | None:
    """The ledger in place of history that has been cleared already, if that frees enough to need no summary.

    `clears` is the situation with the clearing planned in this pass.
    """
    cleared = [seq for seq, _ in clears.folded.edits.clears if seq <= clears.folded.last_reply_seq]
    if not cleared:
        return None
    at = sum(1 for entry in situation.folded.entries if entry.seq <= max(cleared))
    if not 0 < at < len(situation.folded.entries):
        return None
    folding = fold_at(situation, FoldLimits("auto", _carried(situation)), at)
    proposal = _proposed(situation, "auto", folding, ShrinkStep(), "ledger first")
    enough = situation.settings.ledger_enough * situation.due
    return proposal if accepted(situation, proposal) and proposal.report["after"] <= enough else None


def goal_of(situation: Situation) -> int:
    """What a compaction should leave at most: below what would make the next one due at once."""
    goal = min(situation.due, situation.window.size)
    most = situation.settings.max_compact_size
    return min(goal, most) if most else goal


def accepted(situation: Situation, proposal: Proposal) -> bool:
    """Whether what it leaves can be sent, and it was worth it."""
    report = proposal.report
    return report["after"] <= situation.window.size and (
        frees_enough(situation, report["freed"]) or not fits(situation)
    )


def _made(situation: Situation, terms: FoldLimits, unseen: bool, why: str) -> Proposal | None:
    folding = fold_old(situation, terms)
    now = situation if folding is None else situation.supposing((folding.fold,))
    shrunk = ShrinkStep()
    if now.tokens > goal_of(situation):
        first = folding.tail[0].seq if folding is not None and folding.tail else 0
        before = now.folded.view.tokens_before(now.folded.view.index_of(first))
        room = situation.unscaled(goal_of(situation)) - situation.overhead - before
        shrunk = shrink(now, first, max(0, room), unseen)
    if folding is None and not shrunk.edits:
        return None
    proposal = _proposed(situation, terms.trigger, folding, shrunk, why)
    over = proposal.report["after"] > goal_of(situation)
    return None if over and not unseen and terms.trigger != "auto" else proposal


def _proposed(
    situation: Situation, trigger: Trigger, folding: FoldPlan | None, shrunk: ShrinkStep, why: str
) -> Proposal:
    edits: tuple[Edit, ...] = shrunk.edits if folding is None else (folding.fold, *shrunk.edits)
    restored = [] if folding is None else list(folding.restored.results)
    return propose(situation, "ledger", trigger, edits, shrunk.files, why=why, restored=restored)


def _carried(situation: Situation) -> str:
    """The summary of an earlier fold, cut to a third of what a fold may keep: no model writes a new one."""
    for fold in reversed(situation.folded.edits.folds):
        for block in fold.blocks:
            if isinstance(block, TextBlock) and (text := summary_in(text_of(block))):
                size, room = situation.count.text(text), keep_cap(situation) // 3
                if size <= room:
                    return text
                return head_and_tail(text, len(text) * room // size, f"r{fold.first}-r{fold.last}")
    return ""
