"""What a compaction frees and costs: the report recorded with it, and the lines that show it to the user."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from transcripts.facts import Clear, Compacted, Edit, Fold, Reply, Unthink
from transcripts.fold import Folded
from transcripts.messages import ToolUseBlock
from transcripts.view import Part, PartKind, View

from .cache_breakpoints import first_unedited
from .clearing import call_label, recall_id
from .invariants import changed_span, with_dropped_thinking
from .plan import File, Proposal, Situation, Trigger
from .prices import Prices, RewriteBill

NAMED_BLOCKS = 3  # of the largest blocks that a report and a message name
_EDIT_LABELS = {"content": "results", "text": "pasted", "source": "pasted"}  # of a field; else an input


def propose(
    situation: Situation,
    layer: str,
    trigger: Trigger,
    edits: tuple[Edit, ...],
    files: tuple[File, ...] = (),
    **more: Any,
) -> Proposal:
    """A proposal of these edits and of the thinking that they drop; `more` is added to its report."""
    edits = with_dropped_thinking(situation.folded, edits, situation.binds)
    view, before, prices = situation.view, situation.tokens, situation.prices
    then = situation.folded.with_edits(edits).view
    freed = situation.scaled(view.tokens - then.tokens)
    bill = _bill(situation, edits, freed)
    tallies = zip(PartKind, view.tally, then.tally, strict=True)
    kinds = {kind.name.lower(): situation.scaled(was - now) for kind, was, now in tallies if was != now}
    report = {
        "before": before,
        "after": max(0, before - freed),
        "freed": freed,
        "predicted_cost_usd": round(bill.warm(prices), 6),
        "cold_cost_usd": round(bill.cold(prices), 6),
        "pays_back_calls": 0 if situation.cache_is_cold else bill.pays_back(prices),
        "rewritten": bill.rewritten,
        "cold": situation.cache_is_cold,
        "calls": situation.folded.conversation.reply_count,
        "kinds": kinds,  # freed by kind of part; what is shown instead counts against "placeholder"
        "edits": dict(Counter(map(_edit_label, edits))),
        "biggest": largest_blocks(then),
    }
    return Proposal(layer, trigger, edits, {**report, **more}, files)


def _bill(situation: Situation, edits: tuple[Edit, ...], freed: int) -> RewriteBill:
    view, asked = situation.view, situation.folded.last_request
    changed, behind = _first_changed(view, edits), first_unedited(situation.folded)
    if changed is None or (asked is not None and view[changed].first > asked.seq):
        return RewriteBill(situation.tokens, 0, freed)  # nothing that changes was ever sent
    cached = view.tokens_before(behind) if behind <= changed else 0  # up to the newest breakpoint
    kept = situation.scaled(situation.overhead + cached)
    return RewriteBill(kept, max(0, situation.tokens - kept - freed), freed)


def _first_changed(view: View, edits: tuple[Edit, ...]) -> int | None:
    """Index of the first message that looks different under the edits; None where none does."""
    span = changed_span(edits)
    places = [view.index_of(span[0])] if span is not None else []
    for edit in edits:
        if isinstance(edit, Unthink):
            start, end = view.index_of(edit.first), places[0] if places else len(view)
            places.extend(at for at in range(start, end) if view.between(PartKind.THINKING, at, at + 1))
    return min((place for place in places if place < len(view)), default=None)


def _edit_label(edit: Edit) -> str:
    if isinstance(edit, Clear):
        return _EDIT_LABELS.get(edit.field, "inputs")
    return "folds" if isinstance(edit, Fold) else "unthinks"


def part_label(part: Part) -> str:
    """What a part of the view is, in a few words: a result by its call, a text by its kind."""
    if part.use is not None:
        return call_label(part.use)
    if isinstance(part.block, ToolUseBlock):
        return f"call of {call_label(part.block)}"
    return part.kind.name.lower()


def largest_blocks(view: View, count: int = NAMED_BLOCKS) -> list[str]:
    """The largest blocks of the view, largest first, a line each: what it is, its tokens, its id."""
    parts = [part for message in view for part in message.parts]
    parts.sort(key=lambda part: -part.tokens)
    return [f"{part_label(part)}, {part.tokens:,} tokens ({recall_id(part)})" for part in parts[:count]]


def largest_blocks_sentence(view: View) -> str:
    """The largest blocks, named in one sentence at the end of a message."""
    named = "; ".join(largest_blocks(view))
    return f"The biggest blocks: {named}" if named else "The conversation is empty"


def fits(situation: Situation) -> bool:
    """Whether the prompt fits the window as it is."""
    return situation.tokens <= situation.window.size


def compaction_notice(proposals: Sequence[Proposal], trigger: str = "") -> str:
    """One line that tells what proposals made together free and cost; `trigger` overrides theirs."""
    if not proposals:
        return ""
    name = trigger or proposals[0].trigger
    before, after = proposals[0].report["before"], proposals[-1].report["after"]
    share = round(100 * (before - after) / before) if before else 0
    text = f"[{name} compact] {_thousands(before)} -> {_thousands(after)} tokens (-{share} %)"
    return f"{text}, {_rewrite_cost(proposals)}; /uncompact undoes it"


def _rewrite_cost(proposals: Sequence[Proposal]) -> str:
    dearest = max((each.report for each in proposals), key=lambda report: report["predicted_cost_usd"])
    if not dearest["rewritten"]:
        return "nothing cached is rewritten"
    if dearest["cold"]:
        return "no rewrite beyond what the cold cache costs anyway"
    calls = dearest["pays_back_calls"]
    times = "call" if calls == 1 else "calls"
    return f"one cache rewrite ~${dearest['predicted_cost_usd']:.2f}, pays back in {calls} {times}"


def _thousands(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k" if tokens >= 1_000 else str(tokens)


def predicted_and_real_cost(folded: Folded, made: Compacted, prices: Prices) -> str:
    """One line that compares the predicted cost of compaction `made` with that of the request after it.

    Both are the cost of what that request could not read from the cache. "" where nothing was predicted.
    """
    report = made.report
    if "predicted_cost_usd" not in report or "rewritten" not in report:
        return ""
    predicted = f"predicted ${report['predicted_cost_usd']:.3f} ({report['rewritten']:,} tokens written)"
    later = (fact for fact in folded.facts if fact.seq > made.seq and isinstance(fact, Reply))
    reply = next((fact for fact in later if fact.usage.prompt), None)
    if reply is None or folded.undone.get(made.id, reply.seq) < reply.seq:
        return f"{predicted}, nothing was asked under it"
    usage = reply.usage
    real = prices.dollars(prices.plain(usage) - prices.read * usage.cache_read)
    return f"{predicted}, came ${real:.3f} ({usage.cache_written + usage.input:,})"
