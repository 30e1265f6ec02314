"""Making room without a model: the ledger and the user's messages take the place of old history.

Deterministic, and from any state it ends in a request that can be sent: where folding is not enough the tail
gets shorter, and at last the newest blocks are shrunk to previews, unseen ones included.
"""

from dataclasses import replace

from transcripts.facts import Edit
from transcripts.messages import TextBlock

from .clearing import head_and_tail
from .folding import fold_before, fold_history, shrink_blocks
from .plan import File, Proposal, Situation, Trigger
from .report import fits, propose
from .summary_record import FoldLimits, record_limit, summary_in

SHORT_TAIL_TOKENS = 2_000  # by our count


def fallback_summary(situation: Situation, trigger: Trigger, why: str) -> Proposal | None:
    """The mildest folding that leaves a sendable request and frees enough, or None.

    What the model has not seen is only touched where the user or the API asked for room.
    """
    usual = FoldLimits(trigger, _earlier_summary(situation))
    bare = replace(usual, restoring=False)
    short = replace(bare, tail=SHORT_TAIL_TOKENS)
    attempts = ((usual, False), (bare, False), (short, False), (short, True))
    for limits, unseen in attempts[:-1] if trigger == "auto" else attempts:
        proposal = _attempt(situation, limits, unseen, why)
        if proposal is not None and is_acceptable(situation, proposal):
            return proposal
    return None


def ledger_first(situation: Situation, cleared: Situation) -> Proposal | None:
    """The ledger in place of history that was cleared already, if that makes a summary needless.

    `cleared` is the situation with the clearing planned in this pass.
    """
    seqs = [seq for seq, _ in cleared.folded.edits.clears if seq <= cleared.folded.last_reply_seq]
    if not seqs:
        return None
    entries = situation.folded.entries
    at = sum(1 for entry in entries if entry.seq <= max(seqs))
    if not 0 < at < len(entries):
        return None
    folding = fold_before(situation, FoldLimits("auto", _earlier_summary(situation)), at)
    edits, why = (folding.fold,), "ledger first"
    proposal = propose(situation, "ledger", "auto", edits, why=why, restored=folding.restored)
    most = situation.settings.ledger_first_max_share * situation.trigger_tokens
    return proposal if is_acceptable(situation, proposal) and proposal.report["after"] <= most else None


def target_tokens(situation: Situation) -> int:
    """What a compaction should leave at most: less than what would make the next one due at once."""
    target = min(situation.trigger_tokens, situation.window.size)
    most = situation.settings.max_compact_size
    return min(target, most) if most else target


def is_acceptable(situation: Situation, proposal: Proposal) -> bool:
    """Whether a proposal leaves a sendable request, and frees enough where that was not the point."""
    report, least = proposal.report, situation.settings.min_gain_share * situation.tokens
    return report["after"] <= situation.window.size and (report["freed"] >= least or not fits(situation))


def _attempt(situation: Situation, limits: FoldLimits, unseen: bool, why: str) -> Proposal | None:
    folding = fold_history(situation, limits)
    edits: tuple[Edit, ...] = () if folding is None else (folding.fold,)
    files: tuple[File, ...] = ()
    now, target = situation.with_edits(edits), target_tokens(situation)
    if now.tokens > target:
        first = folding.tail[0].seq if folding is not None and folding.tail else 0
        before = now.view.tokens_before(now.view.index_of(first))
        room = situation.unscaled(target) - situation.overhead - before
        shrunk, files = shrink_blocks(now, first, max(0, room), unseen)
        edits += shrunk
    if not edits:
        return None
    restored = [] if folding is None else folding.restored
    proposal = propose(situation, "ledger", limits.trigger, edits, files, why=why, restored=restored)
    too_much = proposal.report["after"] > target
    return None if too_much and not unseen and limits.trigger != "auto" else proposal


def _earlier_summary(situation: Situation) -> str:
    """The summary of the newest fold that has one, cut to a third of what a record may take; "" for none."""
    for fold in reversed(situation.folded.edits.folds):
        for block in fold.blocks:
            if isinstance(block, TextBlock) and (text := summary_in(block.text)):
                size, room = situation.counter.text(text), record_limit(situation) // 3
                if size <= room:
                    return text
                return head_and_tail(text, len(text) * room // size, f"r{fold.first}-r{fold.last}")
    return ""
