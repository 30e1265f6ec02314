"""Plan a compaction: before a model call, on request, or after the API refused a prompt as too long.

Pure: a question to the model is yielded as a value, and its answer is sent in. Live sessions, replay and
tests run the same code, and apply the plan themselves. After a refusal there are three rungs, with one resend
each:

1. Clear everything that the model has seen; if that is not enough, show previews of the rest.
2. thrifty makes a local summary; classic asks for a model summary, and makes a local one if that fails.
3. Shrink the newest messages too, to previews, then to placeholders, and finally summarize everything.

A rung that cannot make the request fit is skipped.
"""

import sys
from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from compact.layers import LAYERS
from compact.layers.summary import (
    dummy_summary,
    fallback_summary,
    finish_background,
    fold_everything,
    is_acceptable,
    summarize,
    summarize_on_request,
    target_tokens,
)
from transcripts import Fold, TextBlock, earliest_seq

from .clearing import clear_candidates, placeholder_edit
from .estimate import text_slope
from .report import propose
from .settings import CompactSettings, ContextWindow
from .shown_blocks import ShownBlock
from .shrinking import Shrink, shrink_blocks, shrink_to
from .situation import (
    BackgroundSummary,
    CompactionPlan,
    File,
    Flow,
    Layer,
    Proposal,
    Situation,
    SummaryReply,
    Trigger,
    finish_plan,
)

REACTIVE_RUNGS = 3
PREVIEWED_BLOCKS = 5  # of the blocks that a compaction leaves
_CLEARED_LABELS = {
    "results": "old results",
    "inputs": "old tool inputs",
    "pasted": "pasted texts or images",
}


def plan(
    situation: Situation, trigger: Trigger, focus: str = "", rung: int = 0, layers: tuple[Layer, ...] = ()
) -> Flow:
    """Plan a compaction. Yields at most a few summary requests, is sent the replies, returns the plan.

    trigger "auto": before a model call. "manual" and "tool": on request; `focus` says what to pay attention
    to. "reactive": the API refused the prompt as too long; `rung` counts from 1. `layers` replaces LAYERS.
    """
    match trigger:
        case "auto" if situation.background is not None:
            return (yield from _beside_summary(situation, layers or LAYERS, situation.background))
        case "auto":
            return (yield from _automatic(situation, layers or LAYERS))
        case "reactive" if situation.settings.reactive:
            return (yield from _reactive_ladder(situation, rung))
        case "reactive":
            return CompactionPlan()
        case "manual" | "tool":
            return (yield from summarize_on_request(situation, trigger, focus))


def _automatic(situation: Situation, layers: tuple[Layer, ...]) -> Flow:
    """Ask the layers in order; each plans on the result of the layers before it."""
    now = situation
    total = CompactionPlan()
    made = list[tuple[Layer, Proposal]]()
    for layer, least in _active(layers, situation.settings, situation.window):
        if not now.reaches(least, layer.messages_only):
            continue
        step = layer.plan(now)
        planned = CompactionPlan(step) if isinstance(step, tuple) else (yield from step)
        if planned.pending or (planned.proposals and layer.replaces_history):
            made = [(by, proposal) for by, proposal in made if by.lasting]
            now = now.uncleared or now
        for proposal in planned.proposals:
            made.append((layer, proposal))
            now = now.with_edits(proposal.edits, layer.lasting)
        total = CompactionPlan(
            failures=total.failures + planned.failures,
            note=planned.note or total.note,
            pending=planned.pending or total.pending,
        )
    return replace(total, proposals=tuple(proposal for _, proposal in made)) if made else total


def _beside_summary(situation: Situation, layers: tuple[Layer, ...], background: BackgroundSummary) -> Flow:
    """Plan while a summary is written, and when it is complete: until then, nothing that it covers changes.

    If the context gets too full to wait for it, the layers act as if there were none, without asking a model.
    """
    lasting = tuple(layer for layer in layers if layer.lasting)
    planned = yield from _automatic(situation, lasting)
    kept = tuple(
        proposal
        for proposal in planned.proposals
        if (first := earliest_seq(proposal.edits)) is None or first > background.until
    )
    now = situation
    for proposal in kept:
        now = now.with_edits(proposal.edits)
    finished = finish_background(now, background)
    if not finished.proposals and not situation.can_wait:
        rest = yield from _automatic(situation, layers)
        return replace(rest, failures=finished.failures + rest.failures)
    return replace(
        finished, proposals=kept + finished.proposals, failures=planned.failures + finished.failures
    )


def quiet_below(settings: CompactSettings, window: ContextWindow) -> tuple[int, int]:
    """Return the tokens of the prompt and of its messages below which no layer acts automatically."""
    active = _active(LAYERS, settings, window)
    prompt = min((least for layer, least in active if not layer.messages_only), default=sys.maxsize)
    return prompt, min((least for _, least in active), default=sys.maxsize)


@lru_cache(maxsize=8)
def _active(
    layers: tuple[Layer, ...], settings: CompactSettings, window: ContextWindow
) -> tuple[tuple[Layer, int], ...]:
    """Return the layers that may act automatically, each with its minimum prompt size."""
    sizes = ((layer, layer.min_tokens(settings, window)) for layer in layers if settings.automatic)
    return tuple((layer, least) for layer, least in sizes if least is not None)


def _reactive_ladder(situation: Situation, rung: int) -> Flow:
    """Return the plan of a rung (from 1), or of the first rung after it that makes the request fit."""
    failures: tuple[tuple[str, str], ...] = ()
    for step in range(max(1, rung), REACTIVE_RUNGS + 1):
        if step == 1:
            proposal = _clear_all(situation)
        elif step == REACTIVE_RUNGS:
            proposal = _shrink_newest(situation) or fold_everything(situation, "reactive", "rung 3")
        elif situation.settings.policy == "classic":
            plan = yield from summarize(situation, "reactive", "")
            failures += plan.failures
            proposal = plan.proposals[-1] if plan.proposals else None
        else:
            proposal = fallback_summary(situation, "reactive", "rung 2")
        if proposal is not None and is_acceptable(situation, proposal):
            return CompactionPlan((proposal,), failures)
    named = ShownBlock.largest_sentence(situation.folded)
    return CompactionPlan((), failures=failures, note=f"nothing more can be cleared. {named}")


def _clear_all(situation: Situation) -> Proposal | None:
    folded = situation.folded
    target = target_tokens(situation)
    counter = situation.counter
    found = clear_candidates(folded)
    made = (placeholder_edit(folded, each.part, each.field, counter) for each in found)
    edits = tuple(edit for edit in made if edit is not None)
    files: tuple[File, ...] = ()
    now = situation.with_edits(edits)
    if now.tokens > target:
        more, files = shrink_to(now, 0, target, Shrink.PREVIEWS)
        by_place = {(edit.seq, edit.block, edit.field): edit for edit in (*edits, *more)}
        edits = tuple(by_place[place] for place in sorted(by_place))  # the later edit of each field
    if not edits:
        return None
    return propose(situation, "reactive", "reactive", edits, files, why="rung 1", rung=1)


def _shrink_newest(situation: Situation) -> Proposal | None:
    """Shrink the newest messages to previews, or to placeholders if the request still does not fit."""
    view = situation.view
    kept = max(1, situation.settings.keep_recent_messages)
    for how in (Shrink.PREVIEWS, Shrink.PLACEHOLDERS) if view else ():
        edits, files = shrink_blocks(situation, view[max(0, len(view) - kept)].first, 0, how)
        proposal = propose(situation, "reactive", "reactive", edits, files, why="rung 3", rung=3)
        if edits and is_acceptable(situation, proposal):
            return proposal
    return None


def dry_run(situation: Situation, trigger: Trigger, focus: str = "") -> CompactionPlan:
    """Return the plan without asking the model: meaningless words of the usual length stand for a summary.

    The blocks that are summarized, cleared and kept are exactly those of the real compaction; only the size
    of the summary is a guess.
    """
    answer = SummaryReply(f"<summary>{dummy_summary(situation)}</summary>", stop="end_turn")
    planned = finish_plan(plan(situation, trigger, focus), lambda request: answer)
    removed = [line for proposal in planned.proposals for line in _preview(situation, proposal)]
    then = situation
    for proposal in planned.proposals:
        then = then.with_edits(proposal.edits)
    remaining = ShownBlock.largest(then.folded)[:PREVIEWED_BLOCKS] if planned.proposals else []
    return replace(planned, removed=tuple(removed), remaining=tuple(f"  {block.line}" for block in remaining))


def _preview(situation: Situation, proposal: Proposal) -> Iterator[str]:
    report = proposal.report
    yield f"{proposal.layer}: {report['before']:,} -> {report['after']:,} tokens"
    for edit in proposal.edits:
        if isinstance(edit, Fold):
            yield _fold_preview(situation, edit)
    labels = _CLEARED_LABELS
    counts = [f"{number} {labels[what]}" for what, number in report["edits"].items() if what in labels]
    if counts:
        yield f"  shown as placeholders: {', '.join(counts)}"
    if "unthinks" in report["edits"]:
        yield "  removed: the model's thinking in all replies after the first changed one"
    if report.get("restored"):
        yield f"  files shown again: {', '.join(f'r{seq}' for seq in report['restored'])}"
    is_shown = report["cold_cost_usd"] >= 0.005 and not situation.prices.is_guess  # rounded to a cent
    if report["rewritten"] and is_shown:
        warm = report["predicted_cost_usd"]
        cold = report["cold_cost_usd"]
        yield f"  next request: +${warm:.2f} cache write (${cold:.2f} if the cache has expired)"


def _fold_preview(situation: Situation, fold: Fold) -> str:
    view = situation.view
    first = view.index_of(fold.first)
    last = view.index_of(fold.last)
    tokens = view.tokens_before(min(len(view), last + 1)) - view.tokens_before(first)
    sizes = [len(block.text) for block in fold.blocks if isinstance(block, TextBlock)]
    slope = text_slope(situation.folded)
    summary, *files = (slope * fold.tokens * size / sum(sizes) for size in sizes)
    return (
        f"  r{fold.first} to r{fold.last} ({last - first + 1} messages, {situation.scaled(tokens):,} tokens) "
        f"become a summary of about {summary:,.0f} tokens"
        + "".join(f" and {size:,.0f} tokens of files shown again" for size in files)
    )
