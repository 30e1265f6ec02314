"""What a compaction brings and costs, in figures: the report that is recorded with it and shown."""

from __future__ import annotations

from collections import Counter as Tallied
from collections.abc import Mapping
from typing import Any

from transcripts.edits import earliest_seq
from transcripts.facts import Clear, Edit, Fold, Unthink
from transcripts.messages import ToolUseBlock
from transcripts.view import Part, PartKind, View

from .cache_breakpoints import frontier
from .invariants import drop_thinking
from .placeholders import describe, recall_id
from .plan import Proposal, Situation, Trigger
from .prices import RewriteBill

BIGGEST = 3


def propose(
    situation: Situation,
    layer: str,
    trigger: Trigger,
    edits: tuple[Edit, ...],
    files: tuple[tuple[str, str], ...] = (),
    **more: Any,
) -> Proposal:
    """The proposal of these edits and what they make of the thinking; `more` goes into its report."""
    whole = drop_thinking(situation.folded, edits, situation.binds)
    report = {**_figures(situation, whole), **more}
    return Proposal(layer, trigger, whole, report, files)


def _figures(situation: Situation, edits: tuple[Edit, ...]) -> dict[str, Any]:
    view, before = situation.folded.view, situation.tokens
    then = situation.folded.with_edits(edits).view
    freed = situation.scaled(view.tokens - then.tokens)
    bill = bill_of(situation, edits, freed)
    prices = situation.prices
    return {
        "before": before,
        "after": max(0, before - freed),
        "freed": freed,
        "predicted_cost_usd": round(bill.warm(prices), 6),
        "cold_cost_usd": round(bill.cold(prices), 6),
        "pays_back_calls": 0 if situation.cold else bill.pays_back(prices),
        "rewritten": bill.rewritten,
        "cold": situation.cold,
        "calls": situation.folded.reply_count,
        "kinds": _kinds(situation, view, then),
        "edits": _edits(edits),
        "biggest": biggest(then, BIGGEST),
    }


def bill_of(situation: Situation, edits: tuple[Edit, ...], freed: int) -> RewriteBill:
    """What stays read, what is written anew, what goes, in the model's tokens."""
    view = situation.folded.view
    changed, behind = _first_changed(view, edits), frontier(situation.folded)
    asked = situation.folded.last_request
    if changed is None or (asked is not None and view[changed].first > asked.seq):
        return RewriteBill(situation.tokens, 0, freed)  # nothing of it was ever sent
    read = view.tokens_before(behind) if behind <= changed else 0  # what has an entry in the cache
    kept = situation.scaled(situation.overhead + read)
    return RewriteBill(kept, max(0, situation.tokens - kept - freed), freed)


def _first_changed(view: View, edits: tuple[Edit, ...]) -> int | None:
    """The first message that the edits show otherwise: for thinking, one that shows any."""
    shown = earliest_seq(tuple(edit for edit in edits if not isinstance(edit, Unthink)))
    places = [view.index_of(shown)] if shown is not None else []
    for edit in edits:
        if isinstance(edit, Unthink):
            start, end = view.index_of(edit.first), places[0] if places else len(view)
            places.extend(at for at in range(start, end) if view.between(PartKind.THINKING, at, at + 1))
    return min((place for place in places if place < len(view)), default=None)


def _kinds(situation: Situation, view: View, then: View) -> Mapping[str, int]:
    """Tokens gone by kind of part; what came in their place counts against "placeholder"."""
    pairs = zip(PartKind, view.tally, then.tally, strict=True)
    return {kind.name.lower(): situation.scaled(was - now) for kind, was, now in pairs if was != now}


def _edits(edits: tuple[Edit, ...]) -> Mapping[str, int]:
    named = (
        "folds" if isinstance(edit, Fold) else _what(edit) if isinstance(edit, Clear) else "unthinks"
        for edit in edits
    )
    return dict(Tallied(named))


def _what(edit: Clear) -> str:
    return {"content": "results", "text": "pasted", "source": "pasted"}.get(edit.field, "inputs")


def named(part: Part) -> str:
    """What a part of the view is, in a few words: a result by its call, a text by who said it."""
    if part.use is not None:
        return describe(part.use)
    return (
        f"call of {describe(part.block)}" if isinstance(part.block, ToolUseBlock) else part.kind.name.lower()
    )


def biggest(view: View, count: int) -> list[str]:
    """The largest blocks of the view, a line each: what, how large, and the id."""
    parts = [part for message in view for part in message.parts]
    parts.sort(key=lambda part: -part.tokens)
    lines = []
    for part in parts[:count]:
        lines.append(f"{named(part)}, {part.tokens:,} tokens ({recall_id(part)})")
    return lines


def fits(situation: Situation) -> bool:
    """Whether the request could be sent as it is."""
    return situation.tokens <= situation.window.size


def frees_enough(situation: Situation, freed: int) -> bool:
    """Whether it was worth it: at least a tenth."""
    return freed >= situation.settings.least_gain * situation.tokens
