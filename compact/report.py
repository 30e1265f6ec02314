"""Make a proposal of edits, with those that they entail and a report of their effect and cost."""

from __future__ import annotations

from collections import Counter
from typing import Unpack

from transcripts import Clear, Compacted, Edit, Fold, Folded, PartKind, Unthink, View

from .breakpoints import cached_messages
from .estimate import estimate_prompt, tokens_behind
from .invariants import changed_span, with_dropped_thinking
from .page_references import refers_to_a_page, resolved_references
from .prices import RewriteBill
from .shown_blocks import NAMED_BLOCKS, ShownBlock
from .situation import CompactionReport, File, Proposal, ReportDetails, Situation, Trigger

COLD_RETURN = "cold return"  # a reason in a report
_EDIT_LABELS = {"content": "results", "text": "pasted", "source": "pasted"}  # of a field; else an input


def propose(
    situation: Situation,
    layer: str,
    trigger: Trigger,
    edits: tuple[Edit, ...],
    files: tuple[File, ...] = (),
    **more: Unpack[ReportDetails],
) -> Proposal:
    """Return a proposal of these edits and of those that they entail; `more` is for its report.

    References to results that leave the view are rewritten, and affected thinking is dropped.
    """
    if refers_to_a_page(situation.view):
        edited = situation.folded.with_edits(edits)
        edits = (*edits, *resolved_references(edited, situation.counter.text))
    edits = with_dropped_thinking(situation.folded, edits, situation.binds)
    view = situation.view
    before = situation.tokens
    prices = situation.prices
    folded = situation.folded.with_edits(edits)
    made = Compacted(folded.last_seq, ts=situation.now, layer=layer, trigger=trigger, edits=edits)
    folded.compactions = [*folded.compactions, made]
    then = folded.view
    after = min(before, estimate_prompt(folded, situation.overhead))
    freed = before - after
    bill = _bill(situation, folded, edits, after)
    tallies = zip(PartKind, view.tally, then.tally, strict=True)
    kinds = {kind.name.lower(): situation.scaled(was - now) for kind, was, now in tallies if was != now}
    report: CompactionReport = {
        "before": before,
        "after": after,
        "freed": freed,
        "predicted_cost_usd": round(bill.warm(prices), 6),
        "cold_cost_usd": round(bill.cold(prices), 6),
        "extra_cost_usd": 0.0 if prices.is_guess else round(prices.dollars(bill.extra(prices)), 6),
        "pays_back_calls": 0 if situation.cache_is_cold else bill.pays_back(prices),
        "rewritten": bill.rewritten,
        "cold": situation.cache_is_cold,
        "calls": situation.folded.conversation.reply_count,
        "kinds": kinds,
        "edits": dict(Counter(map(_edit_label, edits))),
        "biggest": [block.line for block in ShownBlock.largest(folded)[:NAMED_BLOCKS]],
        **more,
    }
    return Proposal(layer, trigger=trigger, edits=edits, report=report, files=files)


def _bill(situation: Situation, then: Folded, edits: tuple[Edit, ...], after: int) -> RewriteBill:
    """Return the cost of `edits`, which `then` has in force, for the next request of `after` tokens.

    Tokens that we do not count (those that the server adds for tools) come before the messages.
    """
    view = situation.view
    asked = situation.folded.last_request
    changed = _first_changed(view, edits)
    freed = situation.tokens - after
    if not situation.prices.caching:
        return RewriteBill(0, rewritten=after, freed=freed)  # every request is billed whole
    if changed is None or (asked is not None and view[changed].first > asked.seq):
        return RewriteBill(after, rewritten=0, freed=freed)  # nothing that changes was ever sent
    since = situation.now - situation.settings.cache_ttl_s
    cached = cached_messages(situation.folded, then, view[changed].first, since)
    rewritten = min(after, tokens_behind(then, cached))
    return RewriteBill(after - rewritten, rewritten=rewritten, freed=freed)


def _first_changed(view: View, edits: tuple[Edit, ...]) -> int | None:
    """Return the index of the first message that the edits change, None for none."""
    span = changed_span(edits)
    places = [view.index_of(span[0])] if span is not None else []
    for edit in edits:
        if isinstance(edit, Unthink):
            start = view.index_of(edit.first)
            end = places[0] if places else len(view)
            places.extend(at for at in range(start, end) if view.between(PartKind.THINKING, at, at + 1))
    return min((place for place in places if place < len(view)), default=None)


def _edit_label(edit: Edit) -> str:
    if isinstance(edit, Clear):
        return _EDIT_LABELS.get(edit.field, "inputs")
    return "folds" if isinstance(edit, Fold) else "unthinks"
