"""reactive: the API said that the prompt is too long. A ladder of three rungs, one resend each, no deadlock.

1: everything seen is cleared, the rest shown by previews. 2: thrifty takes the floor, classic asks for a
summary and takes the floor if it fails. 3: the newest messages too are shrunk to previews. A rung that
cannot make the request fit gives way to the next at once.
"""

from __future__ import annotations

from collections.abc import Generator

from compact.layers.summary import summarize
from transcripts.facts import Clear

from .clearing import candidates, clear
from .fallback_summary import accepted, fallback_summary, goal_of
from .folding import shrink
from .plan import Plan, Proposal, Situation, SummaryReply, SummaryRequest
from .policy import LEAST
from .report import biggest, propose

RUNGS = 3


def ladder(situation: Situation, rung: int) -> Generator[SummaryRequest, SummaryReply, Plan]:
    """What the rung does, or the first after it that makes the request fit."""
    failures: tuple[tuple[str, str], ...] = ()
    for step in range(max(1, rung), RUNGS + 1):
        if step == 2 and situation.settings.policy == "classic":
            plan = yield from summarize(situation, "reactive", "")
            failures += plan.failures
            proposals = plan.proposals
        else:
            proposal = (_clear_all, _floor, _shrink_newest)[step - 1](situation)
            proposals = (proposal,) if proposal is not None else ()
        if proposals and accepted(situation, proposals[-1]):
            return Plan(proposals, failures)
    named = "; ".join(biggest(situation.folded.view, 3))
    return Plan((), failures, f"nothing more can be left out. The biggest blocks: {named}")


def _clear_all(situation: Situation) -> Proposal | None:
    folded, count = situation.folded, situation.count
    found = candidates(folded, 0, len(folded.view), LEAST)
    edits = tuple(edit for each in found if (edit := clear(folded, each.part, each.field, count)))
    now = situation.supposing(edits)
    files: tuple[tuple[str, str], ...] = ()
    if now.tokens > goal_of(situation):
        room = situation.unscaled(goal_of(situation)) - situation.overhead
        more = shrink(now, 0, max(0, room), unseen=True)
        edits, files = _together(edits, more.edits), more.files
    return propose(situation, "reactive", "reactive", edits, files, why="rung 1", rung=1) if edits else None


def _together(edits: tuple[Clear, ...], more: tuple[Clear, ...]) -> tuple[Clear, ...]:
    """Both, the later one where they meet, in order."""
    made = {(edit.seq, edit.block, edit.field): edit for edit in (*edits, *more)}
    return tuple(made[key] for key in sorted(made))


def _floor(situation: Situation) -> Proposal | None:
    return fallback_summary(situation, "reactive", "rung 2")


def _shrink_newest(situation: Situation) -> Proposal | None:
    view = situation.folded.view
    if not len(view):
        return None
    first = view[max(0, len(view) - max(1, situation.settings.keep_recent_messages))].first
    more = shrink(situation, first, 0, unseen=True)
    if not more.edits:
        return None
    return propose(situation, "reactive", "reactive", more.edits, more.files, why="rung 3", rung=3)
