"""Report the effect and the cost of a compaction: the recorded report, and the lines for the user.

Contains the figures of /context as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from msgspec import Struct

from transcripts import (
    Clear,
    Compacted,
    Edit,
    Fold,
    Folded,
    Opened,
    PartKind,
    Reply,
    Unthink,
    View,
)

from .breakpoints import cached_messages
from .invariants import changed_span, with_dropped_thinking
from .page_references import refers_to_a_page, resolved_references
from .prices import PriceList, RewriteBill
from .settings import WindowState
from .shown_blocks import NAMED_BLOCKS, ShownBlock
from .situation import CompactionReport, File, Proposal, ReportDetails, Situation, Trigger

MIN_SHARE_TOLD = 0.05  # of the context: an automatic compaction that frees less is not announced
ANNOUNCED_LAYERS = frozenset({"summary", "ledger", "reactive"})  # which are announced in any case
MIN_TOLD_TOKENS = 2_000  # that clearing has to free to be announced: in a small window it clears all the time
COLD_RETURN = "cold return"  # a reason in a report
MIN_TOLD_COST_USD = 0.05  # that a notice or a command mentions
_DONE_BY_LAYER = {
    "budget": "large results were moved to files",
    "snip": "messages in the middle were removed",
    "micro": "old tool output was cleared",
    "collapse": "older segments were summarized locally",
    "summary": "the model summarized older messages",
    "ledger": "older messages were summarized",
    "reactive": "results were shortened",
    "unthink": "earlier thinking was removed",
    "drop": "a block was dropped",
}
_SHORTENED = {  # where nothing is summarized, by the kind of edits
    "results": "results were shortened",
    "inputs": "tool inputs were shortened",
    "pasted": "your longest messages were cut in the middle",
}
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
    after = min(before, situation.calibration.prompt_tokens(folded, situation.overhead))
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
        "biggest": [block.line for block in ShownBlock.largest(then, situation.slope)[:NAMED_BLOCKS]],
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
    if changed is None or (asked is not None and view[changed].first > asked.seq):
        return RewriteBill(after, rewritten=0, freed=freed)  # nothing that changes was ever sent
    since = situation.now - situation.settings.cache_ttl_s
    cached = cached_messages(situation.folded, then, view[changed].first, since)
    rewritten = min(after, situation.calibration.tokens_behind(then, cached))
    return RewriteBill(after - rewritten, rewritten=rewritten, freed=freed)


def rewrite_note(situation: Situation) -> str:
    """Describe the cache write of the next request after a change by the user.

    "" if the cost is small, or the cache has expired anyway.
    """
    folded = situation.folded
    if folded.last_request is None or situation.cache_is_cold or situation.prices.is_guess:
        return ""
    if not situation.prices.caching:
        return ""
    since = situation.now - situation.settings.cache_ttl_s
    cached = cached_messages(folded, folded, folded.last_seq + 1, since)
    written = min(situation.tokens, situation.calibration.tokens_behind(folded, cached))
    dollars = situation.prices.dollars(written * situation.prices.write)
    if dollars < MIN_TOLD_COST_USD:
        return ""
    return f" (next request: {written:,} tokens of cache write, ~${dollars:.2f})"


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


def fits(situation: Situation) -> bool:
    """Return whether the prompt fits in the window."""
    return situation.tokens <= situation.window.size


def is_announced(made: Sequence[Proposal | Compacted], policy: str) -> bool:
    """Return whether compactions that were made together are announced; /context lists them all.

    The classic policy clears a little before almost every call, which is not worth a line.
    """
    if any(each.trigger != "auto" or each.layer in ANNOUNCED_LAYERS for each in made):
        return True
    before = made[0].report["before"]
    after = made[-1].report["after"]
    return bool(policy != "classic" and before - after >= max(MIN_TOLD_TOKENS, MIN_SHARE_TOLD * before))


def compaction_notice(proposals: Sequence[Proposal | Compacted], trigger: str = "") -> str:
    """Describe compactions in one line: the sizes, what was done, whether the model was asked.

    `trigger` overrides that of the proposals.
    """
    if not proposals:
        return ""
    name = trigger or proposals[0].trigger
    before = proposals[0].report["before"]
    after = proposals[-1].report["after"]
    share = round(100 * (before - after) / before) if before else 0
    sizes = f"{_thousands(before)} -> {_thousands(after)}"
    if _thousands(before) == _thousands(after):
        sizes = f"{before:,} -> {after:,}"
    done = ", ".join(dict.fromkeys(map(_done_by, proposals)))
    because = proposals[0].report.get("because", "")
    if proposals[0].report.get("why") == COLD_RETURN:  # the reason comes first, as the line may be cut
        return f"[{name} compact] {sizes} tokens (-{share}%): {because}; undo with /uncompact"
    done += f" ({because})" if because else ""
    asked = "" if any(each.layer in ("summary", "drop") for each in proposals) else " without a model call"
    cost = _notable_cost(proposals)
    return f"[{name} compact] {sizes} tokens (-{share}%): {done}{asked}{cost}; undo with /uncompact"


def _done_by(made: Proposal | Compacted) -> str:
    """Describe the effect of one compaction, with the block that the user dropped."""
    report = made.report
    edits = made.report.get("edits", {})
    if made.layer in ("reactive", "ledger") and "folds" not in edits:
        done = [words for what, words in _SHORTENED.items() if what in edits]
        return " and ".join(done) or _DONE_BY_LAYER[made.layer]
    if dropped := report.get("dropped"):
        return f"dropped {dropped}{f' as {made.id}' if isinstance(made, Compacted) else ''}"
    return _DONE_BY_LAYER.get(made.layer, made.layer)


def _notable_cost(proposals: Sequence[Proposal | Compacted]) -> str:
    """Describe the cost of the cache write, "" if it is small or due anyway."""
    dearest = max((_extra_cost(each.report) for each in proposals if not each.report["cold"]), default=0)
    return f", the next call costs ~${dearest:.2f} more" if dearest >= MIN_TOLD_COST_USD else ""


def _extra_cost(report: Mapping[str, Any]) -> float:
    """Return the dollars of writing instead of reading; in reports of earlier versions, of writing."""
    return float(report.get("extra_cost_usd", report["predicted_cost_usd"]))


def _thousands(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k" if tokens >= 1_000 else str(tokens)


def predicted_and_real_cost(folded: Folded, made: Compacted, prices_by_model: PriceList) -> str:
    """Compare the estimated cost of compaction `made` with that of the request after it, in one line.

    Both are the cost of the tokens that the request could not read from the cache, at the prices of its
    model. "" if nothing was estimated, or the prices of the model are unknown.
    """
    report = made.report
    if "predicted_cost_usd" not in report or "rewritten" not in report:
        return ""
    before = (fact for fact in reversed(folded.facts) if isinstance(fact, Opened) and fact.seq < made.seq)
    opened = next(before, None)
    if opened is not None and prices_by_model.known(opened.model) is None:
        return ""
    cost = report["predicted_cost_usd"]
    written = report["rewritten"]
    if report.get("cold"):
        cost = report["cold_cost_usd"]
        written = report["after"]
    estimated = f"estimated ${cost:.3f} ({written:,} tokens written)"
    if not written:
        return f"{estimated}: it changed nothing that had been sent before"
    later = (fact for fact in folded.facts if fact.seq > made.seq and isinstance(fact, Reply))
    reply = next((fact for fact in later if fact.usage.prompt), None)
    if reply is None or folded.undone.get(made.id, reply.seq) < reply.seq:
        return f"{estimated}, no request was sent with it"
    earlier = (fact for fact in reversed(folded.facts) if fact.seq < reply.seq)
    prices = prices_by_model.planning(
        next((fact.model for fact in earlier if isinstance(fact, Opened)), reply.model)
    )
    usage = reply.usage
    real = prices.dollars(prices.plain(usage) - prices.read * usage.cache_read)
    return f"{estimated}, actual ${real:.3f} ({usage.cache_written + usage.input:,})"


class ListedCompaction(Struct, frozen=True):
    """A compaction, whether it was undone, and its estimated and actual cost in one line, "" for none."""

    made: Compacted
    undone: bool
    cost: str


class ContextReport(Struct, frozen=True):
    """The context at one moment.

    tokens       the model's tokens of the next prompt
    overhead     the model's tokens of system prompt and tools
    kinds        our token counts of the messages, by kind of part
    blocks       the blocks of the messages, largest first
    compactions  newest first
    earlier      number of further compactions
    """

    state: WindowState
    tokens: int
    overhead: float
    kinds: Mapping[PartKind, int]
    blocks: tuple[ShownBlock, ...]
    compactions: tuple[ListedCompaction, ...]
    earlier: int

    @classmethod
    def of(cls, situation: Situation, prices: PriceList, newest: int | None = None) -> ContextReport:
        """Report the context, with at most `newest` compactions (None: all)."""
        folded = situation.folded
        view = situation.view
        calibration = situation.calibration
        tokens = situation.tokens
        overhead = (
            min(tokens, calibration.overhead_tokens(folded, situation.overhead)) if view.tokens else tokens
        )
        earlier = max(0, len(folded.compactions) - newest) if newest else 0
        listed = (
            ListedCompaction(
                made, undone=made.id in folded.undone, cost=predicted_and_real_cost(folded, made, prices)
            )
            for made in reversed(folded.compactions[earlier:])
        )
        return cls(
            state=situation.window.state(tokens, situation.settings),
            tokens=tokens,
            overhead=overhead,
            kinds={kind: view.tally[kind] for kind in PartKind},
            blocks=tuple(ShownBlock.largest(view, calibration.text_slope(folded))),
            compactions=tuple(listed),
            earlier=earlier,
        )
