"""One summary from question to proposal: who is asked, what an answer comes to, what happens without one.

A failure leaves the history as it is. Only where the request could not be sent at all, or where summaries
have failed too often, the floor takes over.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from compact.coverage import coverage
from compact.fallback_summary import accepted, fallback_summary, goal_of, ledger_first
from compact.folding import FoldLimits, fold_old
from compact.guards import exemptions, summaries_broken, thrashing
from compact.plan import Plan, Proposal, Situation, SummaryReply, SummaryRequest, Trigger
from compact.report import biggest, fits, propose
from compact.summary_prompt import SummaryAnswer, ask

ENOUGH = 0.9  # of the size that makes a summary due: clearing that leaves more only puts it off
USUAL = 1_500  # tokens of a summary, about
ATTEMPTS = (
    FoldLimits("auto"),
    FoldLimits("auto", restoring=False),
    FoldLimits("auto", tail=0, restoring=False),
)
TOO_LITTLE = "a summary would free less than a tenth, so nothing was done"


def plan_summary(situation: Situation) -> Generator[SummaryRequest, SummaryReply, Plan]:
    """The automatic summary, when it is due: clearing and the ledger are tried before the model is asked."""
    settings, bare = situation.settings, situation.bare or situation
    due = max(situation.due, settings.min_compact_size)
    enough = due if settings.policy == "classic" else ENOUGH * due
    if bare.tokens < due or situation.tokens < enough or settings.collapse:
        return Plan()
    if situation.held or exemptions(bare).ranges:  # a fold would take the exempt stretch with it
        return Plan()
    if thrashing(bare.folded, settings):
        named = "; ".join(biggest(bare.folded.view, 3))
        return _down(bare, "auto", f"summaries follow each other too closely. The biggest blocks: {named}")
    if summaries_broken(bare.folded, settings):
        return _down(bare, "auto", f"{settings.breaker} summaries in a row failed; /compact asks again")
    # classic asks the model, as its reference does; its ledger is part of the summary, and the floor
    if settings.policy == "thrifty" and (proposal := ledger_first(bare, situation)) is not None:
        return Plan((proposal,))
    return (yield from summarize(bare, "auto", bare.focus))


def on_request(
    situation: Situation, trigger: Trigger, focus: str
) -> Generator[SummaryRequest, SummaryReply, Plan]:
    """`/compact` and the compact tool: a summary, but for a conversation too short for one."""
    least = situation.settings.min_compact_size
    if situation.tokens < least:
        few = f"nothing to do: {situation.tokens:,} tokens are in the context"
        return Plan(note=f"{few}; a summary pays from {least:,} on ([compact] min_compact_size)")
    if fold_old(situation, FoldLimits(trigger)) is None and fits(situation):
        return Plan(note="nothing to do: all of the conversation is recent, and that is kept word for word")
    return (yield from summarize(situation, trigger, focus))


def summarize(
    situation: Situation, trigger: Trigger, focus: str
) -> Generator[SummaryRequest, SummaryReply, Plan]:
    """Ask, and make a proposal of the answer; not where even an empty answer would bring too little."""
    if _with(situation, trigger, SummaryAnswer()) is None:
        if not fits(situation):
            return _down(situation, trigger, TOO_LITTLE)
        return Plan(note=TOO_LITTLE if trigger != "auto" else "")  # nobody asked, nothing happened
    told = yield from ask(situation, focus)
    if not told.failure:
        proposal = _with(situation, trigger, told)
        if proposal is not None:
            return Plan((proposal,))
        told = SummaryAnswer(failure=TOO_LITTLE)
    failures = (("summary", told.failure),)
    if trigger != "reactive" and fits(situation):
        return Plan((), failures, f"the history is as it was: {told.failure}")
    down = _down(situation, trigger, told.failure)
    return Plan(down.proposals, failures + down.failures, down.note)


def _down(situation: Situation, trigger: Trigger, why: str) -> Plan:
    proposal = fallback_summary(situation, trigger, why)
    if proposal is not None:
        return Plan((proposal,), note=why)
    named = "; ".join(biggest(situation.folded.view, 3))
    return Plan(note=f"{why}; nothing more can be left out. The biggest blocks: {named}")


def _with(situation: Situation, trigger: Trigger, told: SummaryAnswer) -> Proposal | None:
    """The fold that shows the summary, cut as a usual one would need it; a larger one may need more."""
    best: Proposal | None = None
    for attempt in ATTEMPTS[_usual(situation, trigger) :]:
        proposal = _attempted(situation, replace(attempt, trigger=trigger, summary=told.text), told)
        if proposal is not None and accepted(situation, proposal):
            best = proposal
            if proposal.report["after"] <= goal_of(situation):
                return proposal
    return best


def _usual(situation: Situation, trigger: Trigger) -> int:
    """Which attempt a summary of the usual size needs: a preview can tell, whatever the model writes then."""
    text = stand_in(situation)
    for number, attempt in enumerate(ATTEMPTS):
        proposal = _attempted(situation, replace(attempt, trigger=trigger, summary=text), SummaryAnswer(text))
        if proposal is not None and proposal.report["after"] <= goal_of(situation):
            return number
    return 0


def stand_in(situation: Situation) -> str:
    """So many empty words as a summary has, where none was asked for."""
    return "summary " * min(USUAL, max(1, situation.folded.view.tokens // 10))


def _attempted(situation: Situation, terms: FoldLimits, told: SummaryAnswer) -> Proposal | None:
    folding = fold_old(situation, terms)
    if folding is None:
        return None
    more: dict[str, Any] = {
        "restored": list(folding.restored.results),
        "summary_tokens": told.tokens,
        "coverage": coverage(situation, folding.fold, told.text),
    }
    return propose(situation, "summary", terms.trigger, (folding.fold,), why="summary", **more)
