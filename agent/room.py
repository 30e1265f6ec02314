"""Making room, live: the pure plan of compact/ is given what it asks for and becomes facts.

The automatic trigger, `/compact`, the compact tool and the reactive ladder are the same call with another
trigger name. Nothing is applied until the plan is whole: an interruption anywhere leaves the conversation
as it was. Files that a plan names are on the disk before the record that names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compact.notice import notice
from compact.pipeline import plan
from compact.plan import Plan, Proposal, Trigger
from compact.window import Window
from transcripts.outputs import store

from .asking import ask_summary, size
from .errors import PromptTooLong
from .events import Emit, MadeRoom, Notice
from .parts import Parts
from .session import Session

RUNGS = 3
QUIET = 0.05  # of the context: an automatic compaction that frees less is not told


@dataclass(frozen=True, slots=True)
class Made:
    """What came of making room: the ids of the compactions, and the line that tells of it."""

    ids: tuple[str, ...] = ()
    line: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)


async def make_room(
    session: Session, parts: Parts, emit: Emit, trigger: Trigger, focus: str = "", rung: int = 0
) -> Made:
    """Plan and apply one compaction. `Made()` when there was nothing to do."""
    made_plan, focus = await _planned(session, parts, emit, trigger, (focus, rung))
    for what, reason in made_plan.failures:
        session.failed(what, reason)
        emit(Notice(f"[{trigger} compact] {what}: {reason}", "warning"))
    if not made_plan.proposals:
        if made_plan.note and trigger != "auto":
            emit(Notice(made_plan.note))
        return Made(line=made_plan.note)
    return await _apply(session, parts, emit, trigger, made_plan)


async def _planned(
    session: Session, parts: Parts, emit: Emit, trigger: Trigger, asked: tuple[str, int]
) -> tuple[Plan, str]:
    focus, rung = asked
    if trigger != "auto":
        veto, words = await _before(session, parts, trigger)
        focus = "\n".join(filter(None, (focus, words)))
    flow = plan(parts.situation(session), trigger, focus, rung)
    answer = None
    while True:
        try:
            wanted = flow.send(answer) if answer is not None else next(flow)
        except StopIteration as stop:
            result: Plan = stop.value
            return result, focus
        if trigger == "auto" and answer is None:
            veto, words = await _before(session, parts, trigger)
            if veto is not None:
                flow.close()
                return Plan(failures=(("summary", f"a hook said no: {veto}"),)), focus
        answer = await ask_summary(session, parts, wanted, emit)
        session.charge(answer.usage)


async def _before(session: Session, parts: Parts, trigger: str) -> tuple[str | None, str]:
    about = {"trigger": trigger, "tokens": size(session, parts), "budget": parts.room.window.size}
    said = await parts.hooks.run("pre_compact", about)
    return (said.veto if trigger == "auto" else None), said.words


async def _apply(session: Session, parts: Parts, emit: Emit, trigger: Trigger, made_plan: Plan) -> Made:
    ids, applied = [], []
    for proposal in made_plan.proposals:
        if error := _not_kept(proposal, parts):
            session.failed(proposal.layer, error)
            emit(Notice(f"[{trigger} compact] {proposal.layer}: outputs cannot be kept: {error}", "warning"))
            break  # what comes later was planned on top of it
        ids.append(session.compacted(proposal.layer, trigger, proposal.edits, proposal.report).id)
        applied.append(proposal)
    if not applied:
        return Made()
    line = notice(applied)
    report = applied[-1].report
    if trigger != "auto" or _telling(report):
        emit(MadeRoom(line, trigger, tuple(ids), report))
    await parts.hooks.run("post_compact", {"trigger": trigger, **report})
    return Made(tuple(ids), line, report)


def _not_kept(proposal: Proposal, parts: Parts) -> str:
    """Write the files that a proposal names. Why that failed, or ""."""
    try:
        for name, text in proposal.files:
            store(parts.place.outputs, name, text)
    except OSError as error:
        return f"{error.strerror or error}, {parts.place.outputs}"
    return ""


def _telling(report: Mapping[str, Any]) -> bool:
    """Whether an automatic compaction freed enough to be worth a line; /context lists them all."""
    before, after = int(report.get("before", 0)), int(report.get("after", 0))
    return before - after >= QUIET * before


async def react(session: Session, parts: Parts, emit: Emit, error: PromptTooLong, rung: int) -> None:
    """One rung of the ladder after the API said that the prompt is too long.

    Raises the error again, naming the biggest blocks, when no rung is left or reacting is off.
    """
    if error.limit is not None and error.limit < parts.room.window.size:
        parts.room.window = Window(error.limit, min(parts.room.window.max_output, error.limit // 2))
        parts.room.learned(error.limit)
    if rung > RUNGS or not parts.room.settings.reactive:
        raise PromptTooLong(f"{error}. {biggest(session)}", error.actual, error.limit)
    parts.room.reported = error.actual or 0
    try:
        made = await make_room(session, parts, emit, "reactive", rung=rung)
    finally:
        parts.room.reported = 0
    if not made.ids and rung == RUNGS:
        raise PromptTooLong(f"{error}. {biggest(session)}", error.actual, error.limit)


def biggest(session: Session, count: int = 3) -> str:
    """One line that names the largest blocks of the view."""
    parts = [part for message in session.folded.view for part in message.parts]
    parts.sort(key=lambda part: -part.tokens)
    named = ", ".join(
        f"r{part.seq} ({part.kind.name.lower()}, {part.tokens:,} tokens)" for part in parts[:count]
    )
    return f"The biggest blocks: {named}" if named else "The conversation is empty"
