"""Continue after the model is done, if a hook wants that or the answer lacks the required form."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from agent.events import Emit, Event, Notice, TurnFinished
from agent.loop import TurnContext, run_turn
from agent.ports import HookEvent, Hooks
from agent.session import Session
from transcripts import ChannelBlock, TextBlock, newest_answer
from transcripts.wording import shorten

from .structured_output import ANSWER_REMINDER, MAX_REMINDERS, StructuredOutput

NO_ANSWER = "the model gave no answer that matches --json-schema"


async def run_with_follow_ups(
    session: Session, context: TurnContext, emit: Emit, answer: StructuredOutput | None
) -> TurnFinished:
    """Run a turn, and continue while a hook or a missing answer requires it. Emits one TurnFinished, last."""
    if answer is not None:
        answer.value = None
    limit = context.max_turns
    turns = 0
    vetoes = 0
    reminders = 0
    finished = TurnFinished("interrupted", turns=0, error="interrupted", code=130)

    def without_end(event: Event) -> None:
        if not isinstance(event, TurnFinished):
            emit(event)

    try:
        while True:
            context.max_turns = None if limit is None else max(0, limit - turns)
            ended = await run_turn(session, context, without_end)
            turns += ended.turns
            finished = replace(ended, turns=turns)
            if ended.reason != "done":
                return finished
            if answer is not None and answer.value is None:
                reminders += 1
                if reminders > MAX_REMINDERS:
                    finished = TurnFinished("no_answer", turns=turns, error=NO_ANSWER, code=1)
                    return finished
                words = ANSWER_REMINDER
            else:
                words = await stop_veto(session, context, vetoes)
                vetoes += 1
                if words:
                    emit(Notice(f"a hook asked the model to continue: {shorten(words, 200)}"))
            if not words:
                return finished
            session.user((ChannelBlock(words),), "harness")
    except asyncio.CancelledError:
        finished = TurnFinished("interrupted", turns=turns, error="interrupted", code=130)
        raise
    finally:
        context.max_turns = limit
        emit(finished)


async def hook_refuses(hooks: Hooks, prompt: str, earlier: list[TextBlock]) -> TurnFinished | None:
    """Return the end of a turn whose prompt a hook denies, else None; the hook's words go into `earlier`."""
    answer = await hooks.run(HookEvent.PROMPT, {"prompt": prompt})
    if (reason := answer.stop if answer.veto is None else answer.veto) is not None:
        return TurnFinished("denied", turns=0, error=f"a hook denied the prompt: {reason}", code=1)
    earlier += [ChannelBlock(answer.introduced_words)] if answer.words else []
    return None


async def stop_veto(
    session: Session, context: TurnContext, vetoes: int, event: HookEvent = HookEvent.STOP
) -> str:
    """Return a hook's reason for the model to continue after it is done; "" if no hook objects.

    `vetoes` is the number of vetoes in this turn. For an agent's session the event is SUBAGENT_STOP.
    """
    if context.hooks is None or vetoes >= 3:  # more vetoes would be an endless loop
        return ""
    about = {"answer": newest_answer(session.folded.facts).text, "again": vetoes > 0}
    answer = await context.hooks.run(event, about)
    return "" if answer.stop is not None else answer.veto or ""


async def run_agent_turns(session: Session, context: TurnContext, emit: Emit) -> TurnFinished:
    """Run an agent until it is done and no hook makes it continue, or until its requests are used up."""
    turns = 0
    vetoes = 0
    most = context.max_turns or 0
    while True:
        ended = await run_turn(session, context, emit)
        turns += ended.turns
        words = ""
        if ended.reason == "done":
            words = await stop_veto(session, context, vetoes, HookEvent.SUBAGENT_STOP)
        if not words:
            return replace(ended, turns=turns)
        vetoes += 1
        context.max_turns = max(0, most - turns)
        session.user((ChannelBlock(words),), "harness")
