"""micro: replace old results with one line that names the call and the recall id.

The classic policy counts: of the results that the model has seen, it clears all but the newest few, before
every call. The thrifty policy clears in batches, long tool inputs too, when policy.py finds that a batch is
due. With a batch, a local summary replaces the range that earlier batches have cleared, where that pays.
"""

from bisect import bisect_left

from compact.clearing import is_one_line, placeholder_edit, shown_text
from compact.folding import fold_before
from compact.layers.summary import earlier_summary
from compact.policy import MIN_BATCH_SHARE, Batch, choose_batch, min_batch_tokens
from compact.report import propose
from compact.settings import CompactSettings, ContextWindow
from compact.situation import FoldLimits, Layer, Proposal, Situation
from compact.uncompact import exemptions
from transcripts import Clear, Fold

MIN_FOLD_TOKENS = 4_000  # that a local summary frees where it replaces a range that was cleared before
FOLD_PAYBACK_CALLS = 10  # within which it has to pay for its own tokens


def _min_tokens(settings: CompactSettings, window: ContextWindow) -> int:
    return 0 if settings.policy == "classic" else min_batch_tokens(settings, window)


def _plan(situation: Situation) -> tuple[Proposal, ...]:
    if situation.settings.policy == "classic":
        edits = _all_but_newest(situation)
        why = "count"
    elif (batch := choose_batch(situation)) is not None:
        if (fold := _fold_of_settled(situation, batch)) is not None:
            rest = tuple(edit for edit in batch.edits if edit.seq > fold.last)
            return (propose(situation, "ledger", "auto", (fold, *rest), why=batch.why),)
        edits = batch.edits
        why = batch.why
    else:
        return ()
    return (propose(situation, "micro", "auto", edits, why=why),) if edits else ()


def _fold_of_settled(situation: Situation, batch: Batch) -> Fold | None:
    """Return the local summary of the range that earlier batches have cleared, where that pays; else None.

    Placeholders, short results and old texts accumulate there. The messages after it are written to the cache
    again for the batch in any case, so the fold costs no more than its own tokens.
    """
    folded = situation.folded
    view = situation.view
    prices = situation.prices
    at = bisect_left(folded.entries, batch.settled, key=lambda entry: entry.seq)
    least = situation.unscaled(min(MIN_FOLD_TOKENS, int(MIN_BATCH_SHARE * situation.window.size)))
    zone = view.tokens_before(view.index_of(batch.settled)) if 0 < at < len(folded.entries) else 0
    if zone - sum(fold.tokens for fold in folded.edits.folds) < max(1, least):
        return None
    if situation.vetoed or exemptions(situation):
        return None
    limits = FoldLimits("auto", earlier_summary(situation), restoring=False)
    fold = fold_before(situation, limits, at).fold
    saved = (zone - fold.tokens) * prices.read * FOLD_PAYBACK_CALLS
    return (
        fold if zone - fold.tokens >= least and saved >= fold.tokens * (prices.write - prices.read) else None
    )


def _all_but_newest(situation: Situation) -> tuple[Clear, ...]:
    """Return clears of all results longer than a line; a preview counts as the result that it shows."""
    folded = situation.folded
    settings = situation.settings
    exempt = exemptions(situation)
    parts = (part for message in situation.view for part in message.parts)
    seen = [part for part in parts if part.use is not None and part.seq <= folded.last_reply_seq]
    edits: list[Clear | None] = []
    for part in seen[: max(0, len(seen) - settings.micro_keep_results)]:
        text = shown_text(part.block)
        least = settings.micro_min_chars
        is_long = len(text) > least or part.tokens > least
        if part.use is not None and folded.kind_of(part.use.name) == "instructs":
            continue
        if is_long and not is_one_line(text) and not exempt.holds(part.seq, part.index, "content"):
            edits.append(placeholder_edit(folded, part, "content", situation.counter))
    return tuple(edit for edit in edits if edit is not None)


MICRO_LAYER = Layer(_plan, _min_tokens, messages_only=True)
