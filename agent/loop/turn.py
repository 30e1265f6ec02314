"""The turn: call the model and run the tools it calls, repeatedly, until it calls none.

The loop owns nothing: it has only session, context and emit, and a new feature belongs in one of them. It
may be cancelled at any await; the transcript is valid at each.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from agent.errors import ModelError, PromptTooLong, program_changed, unexpected
from agent.events import Emit, TurnFinished
from agent.session import Session
from tools.text import printable
from transcripts import ChannelBlock, Reply
from transcripts.wording import pluralize

from .compaction import compact_if_due, compact_reactively
from .context import TurnContext, TurnStopped
from .model_call import call_model

REPLY_WAS_EMPTY = "Your reply was empty. Please continue."


class Progress(Struct):
    """The progress of a turn: its replies, how many were continued in a row, and the text of the last one."""

    replies: int = 0
    continuations: int = 0
    text: str = ""

    def repeats(self, reply: Reply) -> bool:
        """Return whether the reply, which continues the last one, has the same text."""
        last = self.text
        self.text = reply.text.strip()
        return self.continuations > 0 and self.text != "" and self.text == last


async def run_turn(session: Session, context: TurnContext, emit: Emit) -> TurnFinished:
    """Continue the conversation until the model is done. Emits TurnFinished last, whatever happens."""
    progress = Progress()
    finished = TurnFinished("failed", turns=0, error="the turn ended unexpectedly", code=1)
    try:
        finished = await _run(session, context, emit, progress)
    except ModelError as error:
        finished = TurnFinished("failed", turns=progress.replies, error=str(error), code=error.code)
    except TurnStopped as stop:
        finished = TurnFinished(stop.reason, turns=progress.replies, error=stop.error)
    except ImportError as error:
        finished = TurnFinished("failed", turns=progress.replies, error=program_changed(error), code=1)
    except asyncio.CancelledError:
        finished = TurnFinished("interrupted", turns=progress.replies, error="interrupted", code=130)
        raise
    except Exception as error:
        finished = TurnFinished("failed", turns=progress.replies, error=unexpected(error), code=1)
        raise
    finally:
        session.sync()
        emit(finished)
    return finished


MAX_CONTINUATIONS = 3  # times in a row that a cut or empty reply is continued without the user
MAX_PAUSES = 10  # times in a row that a reply that paused for server-side tools is sent back


async def _run(session: Session, context: TurnContext, emit: Emit, progress: Progress) -> TurnFinished:
    while context.max_turns is None or progress.replies < context.max_turns:
        if progress.replies and not progress.continuations and context.between_requests is not None:
            await context.between_requests()
        await compact_if_due(session, context, emit)
        reply = await _reply(session, context, emit)
        progress.replies += 1
        if reply.calls and reply.stop != "refusal":
            from .tool_executor import run_tool_calls  # with what it needs, it takes 10 ms

            await run_tool_calls(session, context, emit, reply)
            progress.continuations = 0
        elif (words := await _continuation(session, context, emit, reply)) is None:
            return _finished(reply, progress)
        else:
            if progress.repeats(reply):
                return _given_up("the reply was cut off, and its continuation was the same text", progress)
            progress.continuations += 1
            if progress.continuations > (MAX_CONTINUATIONS if words else MAX_PAUSES):
                what = "empty" if words == REPLY_WAS_EMPTY else "cut off"
                return _given_up(f"the reply was {what} {progress.continuations} times", progress)
            if words:
                session.user((ChannelBlock(words),), "harness")
    turns = pluralize(progress.replies, "turn")
    return TurnFinished(
        "max_turns", turns=progress.replies, error=f"stopped after {turns} (--max-turns)", code=3
    )


async def _reply(session: Session, context: TurnContext, emit: Emit) -> Reply:
    """Return the model's reply, after as many reactive compactions as it needs. Raises ModelError."""
    attempt = 0
    while True:
        try:
            return await call_model(session, context, emit)
        except PromptTooLong as error:
            attempt += 1
            await compact_reactively(session, context, emit, error, attempt)


CUT_OFF = "the reply was cut off because the context was full"


async def _continuation(session: Session, context: TurnContext, emit: Emit, reply: Reply) -> str | None:
    """Return a prompt to continue a reply without calls; "" to send the reply back, None to end the turn."""
    match reply.stop:
        case "max_tokens":
            return "Your reply was cut off at the output limit. Continue exactly where it stopped."
        case "pause_turn":
            return ""
        case "model_context_window_exceeded":
            error = PromptTooLong("the context window was full")
            await compact_reactively(session, context, emit, error, 1, CUT_OFF)
            return (
                "Your reply was cut off because the context was full. Older parts were compacted. Continue."
            )
        case "refusal":
            return None
    return None if printable(reply.text).strip() else REPLY_WAS_EMPTY


def _given_up(cause: str, progress: Progress) -> TurnFinished:
    return TurnFinished(
        "failed", turns=progress.replies, error=f"{cause}; send 'continue' to resume", code=1, cause=cause
    )


def _finished(reply: Reply, progress: Progress) -> TurnFinished:
    if reply.stop == "refusal":
        cause = "the model refused to answer this"
        error = f"{cause}; undo the prompt with /rewind"
        return TurnFinished("refused", turns=progress.replies, error=error, code=1, cause=cause)
    return TurnFinished("done", progress.replies)
