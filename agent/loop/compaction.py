"""Making room, live: the pure plan of compact/ is given what it asks for and becomes facts.

The automatic trigger, `/compact`, the compact tool and the reactive ladder are the same call with another
trigger name. Nothing is applied until the plan is whole: an interruption anywhere leaves the conversation
as it was. Files that a plan names are on the disk before the record that names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent.errors import PromptTooLong
from agent.events import ContextCompacted, Emit, Notice
from agent.ports import HookAnswer
from agent.session.session import Session
from compact import report
from compact.notice import notice
from compact.pipeline import Flow, plan
from compact.plan import Plan, Proposal, SummaryReply, SummaryRequest, Trigger
from compact.window import ContextWindow
from transcripts.outputs import store

from .context import TurnContext
from .model_call import call_summarizer, prompt_tokens

RUNGS = 3
HOOK = "pre_compact"
QUIET = 0.05  # of the context: an automatic compaction that frees less is not told


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """What came of making room: the ids of the compactions, and the line that tells of it."""

    ids: tuple[str, ...] = ()
    line: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)


async def compact_context(
    session: Session, context: TurnContext, emit: Emit, trigger: Trigger, focus: str = "", rung: int = 0
) -> CompactionOutcome:
    """Plan and apply one compaction. `CompactionOutcome()` when there was nothing to do."""
    made_plan = await _planned(session, context, emit, trigger, (focus, rung))
    for what, reason in made_plan.failures:
        session.failed(what, reason)
        if what != HOOK:
            emit(Notice(f"[{trigger} compact] {what}: {reason}", "warning"))
    _say_why(context, emit, trigger, made_plan)
    if not made_plan.proposals:
        return CompactionOutcome(line=made_plan.note)
    return await _apply(session, context, emit, trigger, made_plan)


def _say_why(context: TurnContext, emit: Emit, trigger: Trigger, made_plan: Plan) -> None:
    """Tell why nothing was made, or why not by a summary; before calls only what is news."""
    note = made_plan.note
    if trigger != "auto":
        if note and not made_plan.proposals:
            emit(Notice(note))
    elif (
        note and (reason := note.partition(". ")[0]) != context.compaction.told
    ):  # the blocks it names change
        context.compaction.told = reason
        if not any(what != HOOK for what, _ in made_plan.failures):  # those are told already
            emit(Notice(f"[auto compact] {note}", "warning"))


async def _planned(
    session: Session, context: TurnContext, emit: Emit, trigger: Trigger, asked: tuple[str, int]
) -> Plan:
    (focus, rung), situation = asked, context.situation(session)
    if trigger != "auto":
        focus = "\n".join(filter(None, (focus, (await _before(session, context, trigger)).words)))
    flow = plan(situation, trigger, focus, rung)
    step, said = _advance(flow), HookAnswer()
    if trigger == "auto" and _folds(step):
        said = await _before(session, context, trigger)
        if said.veto is not None or said.words:
            flow = plan(replace(situation, held=said.veto is not None, focus=said.words), trigger)
            step = _advance(flow)
    while isinstance(step, SummaryRequest):
        answer = await call_summarizer(session, context, step, emit)
        session.charge(answer.usage)
        step = _advance(flow, answer)
    if said.veto is not None:
        why = f"a hook said no: {said.veto}"
        return replace(step, failures=((HOOK, why), *step.failures), note=why)
    return step


def _advance(flow: Flow, answer: SummaryReply | None = None) -> SummaryRequest | Plan:
    """The next question of a plan, or the plan when it is whole."""
    try:
        return next(flow) if answer is None else flow.send(answer)
    except StopIteration as stop:
        made: Plan = stop.value
        return made


def _folds(step: SummaryRequest | Plan) -> bool:
    """Whether history is about to be replaced, by a summary or by the ledger: hooks have a say in that."""
    return isinstance(step, SummaryRequest) or any(each.layer == "ledger" for each in step.proposals)


async def _before(session: Session, context: TurnContext, trigger: str) -> HookAnswer:
    about = {
        "trigger": trigger,
        "tokens": prompt_tokens(session, context),
        "budget": context.compaction.window.size,
    }
    return await context.hooks.run(HOOK, about)


async def _apply(
    session: Session, context: TurnContext, emit: Emit, trigger: Trigger, made_plan: Plan
) -> CompactionOutcome:
    ids, applied = [], []
    for proposal in made_plan.proposals:
        if error := _not_kept(proposal, context):
            session.failed(proposal.layer, error)
            emit(Notice(f"[{trigger} compact] {proposal.layer}: outputs cannot be kept: {error}", "warning"))
            break  # what comes later was planned on top of it
        ids.append(session.compacted(proposal.layer, trigger, proposal.edits, proposal.report).id)
        applied.append(proposal)
    if not applied:
        return CompactionOutcome()
    line = notice(applied)
    report = applied[-1].report
    if trigger != "auto" or _telling(report):
        emit(ContextCompacted(line, trigger, tuple(ids), report))
    before, after = applied[0].report["before"], report["after"]
    figures = {"before": before, "after": after, "reclaimed": before - after}
    await context.hooks.run("post_compact", {**report, "trigger": trigger, **figures})
    return CompactionOutcome(tuple(ids), line, report)


def _not_kept(proposal: Proposal, context: TurnContext) -> str:
    """Write the files that a proposal names. Why that failed, or ""."""
    try:
        for name, text in proposal.files:
            store(context.tool_context.outputs, name, text)
    except OSError as error:
        return f"{error.strerror or error}, {context.tool_context.outputs}"
    return ""


def _telling(report: Mapping[str, Any]) -> bool:
    """Whether an automatic compaction freed enough to be worth a line; /context lists them all."""
    before, after = int(report.get("before", 0)), int(report.get("after", 0))
    return before - after >= QUIET * before


async def compact_reactively(
    session: Session, context: TurnContext, emit: Emit, error: PromptTooLong, rung: int
) -> None:
    """One rung of the ladder after the API said that the prompt is too long.

    Raises the error again, naming the biggest blocks, when no rung is left or reacting is off.
    """
    if error.limit is not None and error.limit < context.compaction.window.size:
        context.compaction.window = ContextWindow(
            error.limit, min(context.compaction.window.max_output, error.limit // 2)
        )
        context.compaction.learned(error.limit)
    if rung > RUNGS or not context.compaction.settings.reactive:
        raise PromptTooLong(f"{error}. {biggest(session)}", error.actual, error.limit)
    context.compaction.reported = error.actual or 0
    try:
        made = await compact_context(session, context, emit, "reactive", rung=rung)
    finally:
        context.compaction.reported = 0
    if not made.ids and rung == RUNGS:
        raise PromptTooLong(f"{error}. {biggest(session)}", error.actual, error.limit)


def biggest(session: Session, count: int = 3) -> str:
    """One line that names the largest blocks of the view."""
    named = "; ".join(report.biggest(session.folded.view, count))
    return f"The biggest blocks: {named}" if named else "The conversation is empty"
