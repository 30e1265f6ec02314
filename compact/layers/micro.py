"""micro: replace old results with one line that names the call and the recall id.

The classic policy counts: of the results that the model has seen, it clears all but the newest few, before
every call. The thrifty policy clears in batches, long tool inputs too, when policy.py finds that a batch is
due. With a batch, summaries replace the runs of old messages in which nothing is likely to be needed. The
first one is the local summary of all runs; the others only name their messages.
"""

from msgspec.structs import replace

from compact.clearing import is_one_line, placeholder_edit, shown_text
from compact.folding import fold_before
from compact.layers.summary import earlier_summary
from compact.policy import choose_batch, min_batch_tokens
from compact.report import propose
from compact.settings import CompactSettings, ContextWindow
from compact.settled_runs import Run, SettledRuns
from compact.situation import FoldLimits, Layer, Proposal, Situation
from compact.uncompact import exemptions
from transcripts import Clear, Fold, TextBlock

MIN_FOLD_TOKENS = 4_000  # that the summaries free
MIN_FOLD_SHARE = 0.1  # of the window, that they free in a small one
RUN_SUMMARIZED = "[summarized: r{first}-r{last}. The summary at the beginning covers it. recall shows it.]"


def _min_tokens(settings: CompactSettings, window: ContextWindow) -> int:
    return 0 if settings.policy == "classic" else min_batch_tokens(settings, window)


def _plan(situation: Situation) -> tuple[Proposal, ...]:
    if situation.settings.policy == "classic":
        edits = _all_but_newest(situation)
        why = "count"
    elif (batch := choose_batch(situation)) is not None:
        if folds := _folds_of(situation, batch.settled):
            rest = tuple(edit for edit in batch.edits if not batch.settled.contain(edit.seq))
            return (propose(situation, "ledger", "auto", (*folds, *rest), why=batch.why),)
        edits = batch.edits
        why = batch.why
    else:
        return ()
    return (propose(situation, "micro", "auto", edits, why=why),) if edits else ()


def _folds_of(situation: Situation, settled: SettledRuns) -> tuple[Fold, ...]:
    """Return the summaries of the settled runs, if they free enough; else ().

    The messages after them are written to the cache again for the batch in any case.
    """
    folded = situation.folded
    least = max(1, situation.unscaled(min(MIN_FOLD_TOKENS, int(MIN_FOLD_SHARE * situation.window.size))))
    if settled.tokens - sum(fold.tokens for fold in folded.edits.folds) < least:
        return ()
    limits = FoldLimits("auto", earlier_summary(situation), restoring=False)
    summary = fold_before(situation, limits, settled.recent).fold
    first, *others = settled.runs
    folds = (replace(summary, last=first.last), *(_named(situation, run) for run in others))
    freed = settled.tokens - sum(fold.tokens for fold in folds)
    return folds if freed >= least else ()


def _named(situation: Situation, run: Run) -> Fold:
    """Return the fold of a run that the local summary at the beginning covers."""
    text = RUN_SUMMARIZED.format(first=run.first, last=run.last)
    return Fold(run.first, last=run.last, blocks=(TextBlock(text),), tokens=situation.counter.text(text))


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
