"""summary: the model's account of the conversation takes the place of the old messages.

When it is asked for, what an answer comes to, and what happens without one. A failure leaves the history as
it is; only where the request could not be sent at all, or where summaries have failed too often, the ledger
takes over.
"""

from dataclasses import replace
from typing import Any

from compact.fallback_summary import fallback_summary, is_acceptable, ledger_first, target_tokens
from compact.folding import fold_history
from compact.identifiers import joined_text
from compact.ledger import coverage
from compact.plan import CompactionPlan, Flow, Layer, Proposal, Situation, Trigger
from compact.report import fits, largest_blocks_sentence, propose
from compact.settings import CompactSettings, ContextWindow, trigger_of
from compact.summary_prompt import SummaryFailed, request_summary
from compact.summary_record import FoldLimits, ledger_before
from compact.uncompact import exemptions
from transcripts.facts import Reply, User
from transcripts.fold import Folded

DUE_AFTER_CLEARING_SHARE = 0.9  # of the trigger: clearing that leaves more would only put the summary off
USUAL_SUMMARY_TOKENS = 1_500
ATTEMPTS = (
    FoldLimits("auto"),
    FoldLimits("auto", restoring=False),
    FoldLimits("auto", tail=0, restoring=False),
)
ALL_RECENT = "nothing to do: all of the conversation is recent, and that is kept word for word"
TOO_LITTLE = "a summary would free less than a tenth, so nothing was done"


def _min_tokens(settings: CompactSettings, window: ContextWindow) -> int | None:
    """While collapse is on, no summary is made unasked."""
    due = max(trigger_of(window, settings), settings.min_compact_size)
    return None if settings.collapse else int(_due_after_clearing(settings, due))


def _due_after_clearing(settings: CompactSettings, due: int) -> float:
    """The prompt size at which a summary is due although the clearing of this pass went before it."""
    return due if settings.policy == "classic" else DUE_AFTER_CLEARING_SHARE * due


def _plan(situation: Situation) -> Flow:
    """Planned without the clearing of this pass; the ledger is tried before the model is asked."""
    settings, uncleared = situation.settings, situation.uncleared or situation
    due = max(situation.trigger_tokens, settings.min_compact_size)
    if uncleared.tokens < due or situation.tokens < _due_after_clearing(settings, due):
        return CompactionPlan()
    if situation.vetoed or exemptions(uncleared).ranges:  # a fold would take the exempt stretch with it
        return CompactionPlan()
    if _thrashing(uncleared.folded, settings):
        named = largest_blocks_sentence(uncleared.view)
        return _without_model(uncleared, "auto", f"summaries follow each other too closely. {named}")
    if _breaker_open(uncleared.folded, settings):
        failed = f"{settings.breaker_failures} summaries in a row failed"
        return _without_model(uncleared, "auto", f"{failed}; /compact asks again")
    # The reference pipeline that classic follows asks the model; its ledger is only part of the summary.
    if settings.policy == "thrifty" and (proposal := ledger_first(uncleared, situation)) is not None:
        return CompactionPlan((proposal,))
    return (yield from summarize(uncleared, "auto", uncleared.focus))


def _breaker_open(folded: Folded, settings: CompactSettings) -> bool:
    """Whether so many summaries in a row have failed that none is asked for until the next `/compact`."""
    made = (each.seq for each in folded.compactions if each.layer == "summary" or each.trigger == "manual")
    last = max(made, default=0)
    failures = sum(1 for each in folded.failures if each.what == "summary" and each.seq > last)
    return failures >= settings.breaker_failures


def _thrashing(folded: Folded, settings: CompactSettings) -> bool:
    """Whether summaries follow each other too closely for another to help, until the user's next message."""
    summaries = [made.seq for made in folded.compactions if made.layer == "summary"]
    if len(summaries) < settings.thrash_summaries:
        return False
    first, last = summaries[-settings.thrash_summaries], summaries[-1]
    calls = 0
    for fact in reversed(folded.facts):
        if isinstance(fact, User) and fact.source == "user" and fact.seq > last:
            return False
        if fact.seq <= first:
            break
        calls += isinstance(fact, Reply) and fact.seq <= last
    return calls <= settings.thrash_window_calls


def summarize_on_request(situation: Situation, trigger: Trigger, focus: str) -> Flow:
    """`/compact` and the compact tool: a summary, but for a conversation too short for one."""
    least = situation.settings.min_compact_size
    if situation.tokens < least:
        few = f"nothing to do: {situation.tokens:,} tokens are in the context"
        return CompactionPlan(note=f"{few}; a summary pays from {least:,} on ([compact] min_compact_size)")
    if fold_history(situation, FoldLimits(trigger)) is None and fits(situation):
        return CompactionPlan(note=ALL_RECENT)
    return (yield from summarize(situation, trigger, focus))


def summarize(situation: Situation, trigger: Trigger, focus: str) -> Flow:
    """Ask for a summary, unless even an empty one would free too little, and propose the fold with it."""
    if _fold_with(situation, trigger, "") is None:
        if not fits(situation):
            return _without_model(situation, trigger, TOO_LITTLE)
        return CompactionPlan(note=TOO_LITTLE if trigger != "auto" else "")
    reason = TOO_LITTLE
    try:
        summary = yield from request_summary(situation, focus)
        if (proposal := _fold_with(situation, trigger, summary)) is not None:
            return CompactionPlan((proposal,))
    except SummaryFailed as failed:
        reason = str(failed)
    failures = (("summary", reason),)
    if trigger != "reactive" and fits(situation):
        return CompactionPlan((), failures, f"the history is as it was: {reason}")
    return replace(_without_model(situation, trigger, reason), failures=failures)


def _without_model(situation: Situation, trigger: Trigger, why: str) -> CompactionPlan:
    if (proposal := fallback_summary(situation, trigger, why)) is not None:
        return CompactionPlan((proposal,), note=why)
    named = largest_blocks_sentence(situation.view)
    return CompactionPlan(note=f"{why}; nothing more can be left out. {named}")


def _fold_with(situation: Situation, trigger: Trigger, summary: str) -> Proposal | None:
    """The fold that shows a summary, cut as one of usual size needs it, or harder for a larger one."""
    best: Proposal | None = None
    for attempt in ATTEMPTS[_usual_attempt(situation, trigger) :]:
        proposal = _attempt(situation, attempt, trigger, summary)
        if proposal is not None and is_acceptable(situation, proposal):
            best = proposal
            if proposal.report["after"] <= target_tokens(situation):
                return proposal
    return best


def _usual_attempt(situation: Situation, trigger: Trigger) -> int:
    """Index of the attempt that a summary of usual size needs, so that a preview shows the real cut."""
    usual = dummy_summary(situation)
    for number, attempt in enumerate(ATTEMPTS):
        proposal = _attempt(situation, attempt, trigger, usual)
        if proposal is not None and proposal.report["after"] <= target_tokens(situation):
            return number
    return 0


def dummy_summary(situation: Situation) -> str:
    """Meaningless words, as many as a usual summary has, where the model is not asked."""
    return "summary " * min(USUAL_SUMMARY_TOKENS, max(1, situation.view.tokens // 10))


def _attempt(situation: Situation, limits: FoldLimits, trigger: Trigger, summary: str) -> Proposal | None:
    folding = fold_history(situation, replace(limits, trigger=trigger, summary=summary))
    if folding is None:
        return None
    ledger = ledger_before(situation, len(situation.folded.entries) - len(folding.tail))
    about: dict[str, Any] = {
        "restored": folding.restored,
        "summary_tokens": situation.counter.text(summary),
        "coverage": coverage(ledger, summary, joined_text(folding.fold.blocks)),
    }
    return propose(situation, "summary", trigger, (folding.fold,), why="summary", **about)


SUMMARY_LAYER = Layer(_plan, _min_tokens, replaces_history=True)
