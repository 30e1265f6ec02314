"""The turn: ask, run what was asked for, again, until the model asks for nothing more.

The loop owns nothing: session, parts and emit are its whole world, and a new feature has its place in one
of them. It may be cancelled at any await; the record is sound at each.
"""

from __future__ import annotations

import asyncio

from agent.errors import ModelError, PromptTooLong
from agent.events import Emit, Notice, TurnFinished
from agent.session.session import Session, calls_of, words_of
from tools.text_encoding import pluralize
from transcripts.facts import Reply
from transcripts.messages import TextBlock

from . import tool_executor as corridor
from .compaction import compact_context, compact_reactively
from .context import TurnContext
from .model_call import call_model

CONTINUE = "Your reply was cut off at the output limit. Go on exactly where it stopped."
GO_ON = "Your reply was cut off because the context was full. Older parts were compacted; go on."
EMPTY = "Your reply was empty. Please go on."
CONTINUES = 3  # times in a row that a cut or empty reply is carried on by itself


async def run_turn(session: Session, context: TurnContext, emit: Emit) -> TurnFinished:
    """Run the conversation on until the model is done. Tells TurnFinished last, whatever happens."""
    ended = TurnFinished("failed", 0, "the turn ended unexpectedly", 1)
    try:
        ended = await _loop(session, context, emit)
    except ModelError as error:
        ended = TurnFinished("failed", 0, str(error), error.code)
    except corridor.TurnStopped:
        ended = TurnFinished("denied", 0, "the turn was stopped at a permission question", 0)
    except asyncio.CancelledError:
        ended = TurnFinished("interrupted", 0, "interrupted", 130)
        raise
    finally:
        session.sync()
        emit(ended)
    return ended


async def _loop(session: Session, context: TurnContext, emit: Emit) -> TurnFinished:
    turns, carried = 0, 0
    while context.max_turns is None or turns < context.max_turns:
        await _prepare(session, context, emit)
        reply = await _ask_with_ladder(session, context, emit)
        turns += 1
        calls = calls_of(reply)
        if calls and reply.stop != "refusal":
            way = corridor.ReplyCalls(session, context, emit, reply.seq)
            await corridor.run_tool_calls(way, calls, cut=reply.stop == "max_tokens")
            carried = 0
            continue
        words = await _carry_on(session, context, emit, reply)
        if words is None:
            return _over(reply, turns)
        carried += 1
        if carried > CONTINUES:
            what = "empty" if words == EMPTY else "cut"
            return TurnFinished(
                "failed", turns, f"the reply was {what} {carried} times; say 'continue' to go on", 1
            )
        if words:
            session.user((TextBlock(words),), "harness")
    return TurnFinished("max_turns", turns, f"stopped after {pluralize(turns, 'turn')} (--max-turns)", 3)


async def _prepare(session: Session, context: TurnContext, emit: Emit) -> None:
    """Make room before the request: what the compact tool asked for, or what the pipeline finds due."""
    focus = context.compaction.focus
    if focus is None:
        await compact_context(session, context, emit, "auto")
    else:
        context.compaction.focus = None
        await compact_context(session, context, emit, "tool", focus)


async def _ask_with_ladder(session: Session, context: TurnContext, emit: Emit) -> Reply:
    rung = 0
    while True:
        try:
            return await call_model(session, context, emit)
        except PromptTooLong as error:
            rung += 1
            emit(Notice(f"the prompt was too long ({error})", "warning"))
            await compact_reactively(session, context, emit, error, rung)


async def _carry_on(session: Session, context: TurnContext, emit: Emit, reply: Reply) -> str | None:
    """Words that make the model go on after a reply without calls, "" to ask again as is, None to end."""
    match reply.stop:
        case "max_tokens":
            return CONTINUE
        case "pause_turn":
            return ""
        case "model_context_window_exceeded":
            await compact_reactively(session, context, emit, PromptTooLong("the context window was full"), 1)
            return GO_ON
        case "refusal":
            return None
    return None if words_of(reply).strip() else EMPTY


def _over(reply: Reply, turns: int) -> TurnFinished:
    if reply.stop == "refusal":
        return TurnFinished(
            "refused", turns, "the model refused to answer this; /rewind takes the prompt back", 1
        )
    return TurnFinished("done", turns)
