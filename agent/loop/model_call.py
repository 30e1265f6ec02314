"""Asking the model: one request and everything that may come between it and its reply.

Retries are visible and can be cancelled. What the server refuses is mended once for each cause: an optional
field is dropped for the session, thinking is left out, a bad block is replaced, a prompt that is too long
goes down the reactive ladder. A stream that broke is recorded as an incomplete reply, and asked again.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.errors import (
    BlockRefused,
    FieldRefused,
    ModelError,
    OutputTooLong,
    OverBudget,
    PromptTooLong,
    ThinkingRefused,
    Transient,
)
from agent.events import Emit, Notice, ReplyEnded, ReplyLost, RequestBegan, Retrying
from agent.model.anthropic.accumulator import Draft
from agent.model.anthropic.request import build, without_tail
from agent.model.retry import TRIES, wait_before
from agent.session.session import Session
from compact.cache_breakpoints import marks
from compact.plan import Answer, AskSummary
from compact.tokens import context_tokens, fit
from compact.window import Window
from transcripts.facts import Clear, Reply, Unthink
from transcripts.messages import Block, Image, Text, ToolResult
from transcripts.view import Kind, Message, Part

from .context import Parts

LEFT_OUT = "[The oldest part of this conversation is left out here.]"
SUMMARY_TRIES = 4


@dataclass(slots=True)
class Mended:
    """What has been mended for one reply already: each cause once, of blocks each one."""

    thinking: bool = False
    blocks: set[tuple[int, int]] = field(default_factory=set)


def size(session: Session, parts: Parts) -> int:
    """The calibrated size of the next prompt, in tokens."""
    folded = session.folded
    return context_tokens(folded, parts.room.overhead, fit(folded.measures))


async def ask(session: Session, parts: Parts, emit: Emit) -> Reply:
    """The model's reply to the conversation, complete and recorded (not yet on the disk).

    Raises ModelError when there is none to be had; PromptTooLong is for the caller's ladder.
    """
    if parts.max_cost is not None and session.cost >= parts.max_cost:
        raise OverBudget("the budget of this run is spent (--max-budget-usd)")
    mended = Mended()
    attempt = 1
    while True:
        draft = Draft()
        asked = _announce(session, parts, emit, attempt)
        try:
            await _stream(parts, _body(session, parts), draft, emit)
        except asyncio.CancelledError:
            _keep_partial(session, draft, asked)
            raise
        except Transient as error:
            _keep_partial(session, draft, asked)
            await _wait(parts, error, attempt, draft, emit)
            attempt += 1
        except PromptTooLong as error:
            raw = parts.room.overhead + session.folded.view.tokens
            session.failed("request", str(error), {"raw": raw, "actual": error.actual, "limit": error.limit})
            raise
        except ModelError as error:
            _keep_partial(session, draft, asked)
            _mend(session, parts, error, mended, emit)
        else:
            reply = session.reply(draft, asked)
            emit(ReplyEnded(reply))
            return reply


def _announce(session: Session, parts: Parts, emit: Emit, attempt: int) -> int:
    tokens = size(session, parts)
    raw = parts.room.overhead + session.folded.view.tokens
    asked = session.asked("turn", tokens, raw, attempt)
    session.sync()  # results are durable before the next request
    emit(RequestBegan("turn", tokens, attempt))
    return asked.seq


def _body(session: Session, parts: Parts) -> bytes:
    """The request. It ends with the model's own words only where a pause asks for just that."""
    view = session.folded.view
    paused = session.folded.reply is not None and session.folded.reply.stop == "pause_turn"
    return build(parts.frame, view if paused else without_tail(view), marks(session.folded))


async def _stream(parts: Parts, body: bytes, draft: Draft, emit: Emit) -> None:
    await parts.model.stream(body, draft, emit)
    if not draft.complete:
        raise Transient("the stream ended before the reply did")


def _keep_partial(session: Session, draft: Draft, asked: int) -> None:
    if draft.begun:
        draft.complete = False
        session.reply(draft, asked)


async def _wait(parts: Parts, error: Transient, attempt: int, draft: Draft, emit: Emit) -> None:
    """Wait for the next try, or raise the error when there is none."""
    if draft.text:
        emit(ReplyLost(str(error), draft.text))
    seconds = wait_before(error, attempt, parts.jitter())
    if seconds is None:
        raise error
    emit(Retrying(str(error), seconds, attempt + 1, error.tries or TRIES))
    await parts.clock.sleep(seconds)


def _mend(session: Session, parts: Parts, error: ModelError, mended: Mended, emit: Emit) -> None:
    """Mend what the server refused, or raise the error again."""
    match error:
        case FieldRefused() | OutputTooLong() if _adapt(parts, error, emit):
            pass
        case ThinkingRefused() | FieldRefused(field="thinking") if not mended.thinking:
            mended.thinking = True
            newest = session.folded.last_seq
            session.compacted("unthink", "reactive", (Unthink(0, newest),), {"reason": str(error)})
            emit(Notice("the server refused old thinking: left out of the context", "warning"))
        case BlockRefused() if edit := _without_block(session, error, mended):
            session.compacted("repair", "reactive", (edit,), {"reason": str(error)})
            emit(Notice(f"a block was refused and is now a placeholder: {error}", "warning"))
        case _:
            raise error


def _adapt(parts: Parts, error: ModelError, emit: Emit) -> bool:
    """Ask otherwise from now on: without a field that is not taken, or for no more than can be written."""
    match error:
        case FieldRefused() if error.field not in parts.frame.without:
            parts.frame = parts.frame.dropping(error.field)
            emit(Notice(f"the server does not take {error.field}: left out from now on", "warning"))
        case OutputTooLong() if error.limit < parts.frame.max_tokens:
            parts.frame = dataclasses.replace(parts.frame, max_tokens=error.limit)
            parts.room.window = Window(parts.room.window.size, error.limit)
            emit(Notice(f"the model writes at most {error.limit:,} tokens: asked for no more", "warning"))
        case _:
            return False
    return True


def _without_block(session: Session, error: BlockRefused, mended: Mended) -> Clear | None:
    """The edit that leaves the refused block out; None where that is not possible or was done already."""
    part = _refused(without_tail(session.folded.view), error)
    if part is None or (part.seq, part.index) in mended.blocks:
        return None
    mended.blocks.add((part.seq, part.index))
    text = f"[a block that the API refused was here; recall r{part.seq} shows it]"
    match part.block:
        case ToolResult():
            return Clear(part.seq, part.index, "content", text, part.tokens)
        case Image():
            return Clear(part.seq, part.index, "source", text, part.tokens)
    return None


def _refused(view: Sequence[Message], error: BlockRefused) -> Part | None:
    """The part of the view that an error names, or the newest one with an image where it names none."""
    if error.message is None or error.block is None:
        newest = (part for message in reversed(view) for part in reversed(message.parts))
        return next((part for part in newest if _pictured(part.block)), None)
    if error.message >= len(view) or error.block >= len(view[error.message].parts):
        return None
    found: Part = view[error.message].parts[error.block]
    return found


def _pictured(block: Block) -> bool:
    inner = block.content if isinstance(block, ToolResult) else (block,)
    return any(isinstance(each, Image) for each in inner)


async def ask_summary(session: Session, parts: Parts, wanted: AskSummary, emit: Emit) -> Answer:
    """The answer to a summary request, asked on the view as it stands; failures come back as data."""
    session.sync()  # results are durable before any request that has them
    for attempt in range(1, SUMMARY_TRIES + 1):
        draft = Draft()
        emit(RequestBegan("summary", size(session, parts), attempt))
        try:
            await _stream(parts, _summary_body(session, parts, wanted), draft, lambda event: None)
            return _answer(draft)
        except PromptTooLong as error:
            return Answer(None, f"too long: {error}", draft.usage, None)
        except Transient as error:
            seconds = wait_before(error, attempt, parts.jitter()) if attempt < SUMMARY_TRIES else None
            if seconds is None:
                return Answer(None, str(error), draft.usage, None)
            emit(Retrying(str(error), seconds, attempt + 1, SUMMARY_TRIES))
            await parts.clock.sleep(seconds)
        except ModelError as error:
            if attempt == SUMMARY_TRIES or not _adapt(parts, error, emit):
                return Answer(None, str(error), draft.usage, None)
    raise AssertionError("unreachable: the last try returns")


def _summary_body(session: Session, parts: Parts, wanted: AskSummary) -> bytes:
    folded = session.folded.supposing(wanted.edits) if wanted.edits else session.folded
    view = leaving_out(without_tail(folded.view), wanted.leave_out)
    frame = dataclasses.replace(parts.frame, max_tokens=min(wanted.max_tokens, parts.room.window.max_output))
    at = () if wanted.leave_out else marks(folded)
    return build(frame, view, at, ask=wanted.instructions)


def _answer(draft: Draft) -> Answer:
    texts = [block.text for block in draft.blocks if isinstance(block, Text)]
    if draft.stop == "tool_use":
        return Answer(None, "it called a tool", draft.usage, draft.stop)
    if draft.stop == "refusal":
        return Answer(None, "the model refused to write it", draft.usage, draft.stop)
    return Answer("".join(texts), None, draft.usage, draft.stop)


def leaving_out(view: Sequence[Message], exchanges: int) -> Sequence[Message]:
    """The view without its oldest exchanges, still a sound conversation: thinking goes too."""
    if exchanges <= 0:
        return view
    replies = [index for index, message in enumerate(view) if message.role == "assistant"]
    if exchanges >= len(replies):
        return view[-1:] if view and not _has_results(view[-1]) else [_left_out()]
    return [_left_out(), *(_unthought(message) for message in view[replies[exchanges] :])]


def _left_out() -> Message:
    return Message("user", (Part(Text(LEFT_OUT), 0, 0, Kind.PLACEHOLDER, 12),), 0, 0)


def _has_results(message: Message) -> bool:
    return any(isinstance(part.block, ToolResult) for part in message.parts)


def _unthought(message: Message) -> Message:
    parts = tuple(part for part in message.parts if part.kind is not Kind.THINKING)
    return (
        message if len(parts) == len(message.parts) else dataclasses.replace(message, parts=parts, _json=[])
    )
