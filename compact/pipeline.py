"""The pipeline: the layers in their order, and the four triggers that set them going.

Pure: what is to be done comes back as a plan, and a question to the model as a value that is sent out. The
same body serves live sessions, replay and tests. Nothing is applied here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace

from compact.layers.budget import plan_budget
from compact.layers.collapse import plan_collapse
from compact.layers.micro import plan_micro
from compact.layers.snip import plan_snip
from compact.layers.summary import on_request, plan_summary, stand_in
from transcripts.facts import Fold

from .plan import Plan, Proposal, Situation, SummaryReply, SummaryRequest, Trigger
from .reactive import ladder
from .report import biggest

Flow = Generator[SummaryRequest, SummaryReply, Plan]
Layer = Callable[[Situation], tuple[Proposal, ...] | Flow]

LAYERS: tuple[tuple[str, Layer], ...] = (
    ("budget", plan_budget),
    ("snip", plan_snip),
    ("micro", plan_micro),
    ("collapse", plan_collapse),
    ("summary", plan_summary),
)
LASTING = frozenset({"budget", "collapse"})  # these stay even if a summary follows in the same pass
WORDS = {"results": "old results", "inputs": "old inputs of tools", "pasted": "pasted texts or images"}


def plan(situation: Situation, trigger: Trigger, focus: str = "", rung: int = 0) -> Flow:
    """What to do now. Yields at most a few questions for a summary, is sent the answers, returns the plan.

    trigger "auto": before a model call; "manual" and "tool": somebody asked, `focus` says what to keep an eye
    on; "reactive": the API refused the prompt as too long, `rung` counts from 1.
    """
    match trigger:
        case "auto":
            return (yield from _automatic(situation))
        case "reactive":
            return (yield from ladder(situation, rung)) if situation.settings.reactive else Plan()
        case "manual" | "tool":
            return (yield from on_request(situation, trigger, focus))


def _automatic(situation: Situation) -> Flow:
    if not situation.settings.automatic:
        return Plan()
    now, made = situation, list[Proposal]()
    for _, layer in LAYERS:
        step = layer(now)
        planned = Plan(step) if isinstance(step, tuple) else (yield from step)
        if layer is plan_summary:
            if planned.proposals:
                made = [each for each in made if each.layer in LASTING]
            return replace(planned, proposals=(*made, *planned.proposals))
        for proposal in planned.proposals:
            made.append(proposal)
            now = now.supposing(proposal.edits, proposal.layer in LASTING)
    return Plan(tuple(made))


def dry_run(situation: Situation, trigger: Trigger, focus: str = "") -> Plan:
    """The plan as it would be, with nobody asked: a summary's place is taken by so many empty words.

    What would be folded, cleared and kept is exactly what then happens; only the summary's size is a guess.
    """
    flow = plan(situation, trigger, focus)
    answer = SummaryReply(f"<summary>{stand_in(situation)}</summary>", stop="end_turn")
    try:
        next(flow)
        while True:
            flow.send(answer)
    except StopIteration as stop:
        planned: Plan = stop.value
    return replace(planned, goes=_going(situation, planned), stays=_staying(situation, planned))


def _going(situation: Situation, planned: Plan) -> tuple[str, ...]:
    lines: list[str] = []
    for proposal in planned.proposals:
        report = proposal.report
        lines.append(f"{proposal.layer}: {report['before']:,} -> {report['after']:,} tokens")
        lines.extend(_goes(situation, edit) for edit in proposal.edits if isinstance(edit, Fold))
        counted = ", ".join(
            f"{number} {WORDS[what]}" for what, number in report["edits"].items() if what in WORDS
        )
        if counted:
            lines.append(f"  shown as placeholders: {counted}")
        if "unthinks" in report["edits"]:
            lines.append("  left out: the model's thinking from the first change on")
        if report.get("restored"):
            lines.append(f"  files shown again: {', '.join(f'r{seq}' for seq in report['restored'])}")
        if report["rewritten"]:
            warm, cold = report["predicted_cost_usd"], report["cold_cost_usd"]
            lines.append(f"  the next request writes ${warm:.2f} anew; ${cold:.2f} once the cache is cold")
    return tuple(lines)


def _goes(situation: Situation, fold: Fold) -> str:
    view = situation.folded.view
    first, last = view.index_of(fold.first), view.index_of(fold.last)
    tokens = view.tokens_before(min(len(view), last + 1)) - view.tokens_before(first)
    return (
        f"  r{fold.first} to r{fold.last} ({last - first + 1} messages, {situation.scaled(tokens):,} tokens) "
        f"become a record of about {situation.scaled(fold.tokens):,} tokens"
    )


def _staying(situation: Situation, planned: Plan) -> tuple[str, ...]:
    """The largest blocks of what would be left."""
    for proposal in planned.proposals:
        situation = situation.supposing(proposal.edits)
    return tuple(f"  {line}" for line in biggest(situation.folded.view, 5)) if planned.proposals else ()
