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
    BlockRejected,
    BudgetExceeded,
    FieldRejected,
    ModelError,
    OutputTooLong,
    PromptTooLong,
    ThinkingRejected,
    TransientError,
)
from agent.events import Emit, Notice, ReplyFinished, RequestStarted, Retrying, StreamAborted
from agent.model.anthropic.accumulator import MessageAccumulator
from agent.model.anthropic.request import build, without_tail
from agent.model.retry import TRIES, wait_before
from agent.session.session import Session
from compact.cache_breakpoints import cache_breakpoints
from compact.plan import SummaryReply, SummaryRequest
from compact.tokens import calibrate, context_tokens
from compact.window import ContextWindow
from transcripts.facts import Clear, Reply, Unthink
from transcripts.messages import Block, ImageBlock, TextBlock, ToolResultBlock
from transcripts.view import Message, Part, PartKind

from .context import TurnContext

LEFT_OUT = "[The oldest part of this conversation is left out here.]"
SUMMARY_TRIES = 4


@dataclass(slots=True)
class Repairs:
    """What has been mended for one reply already: each cause once, of blocks each one."""

    thinking: bool = False
    blocks: set[tuple[int, int]] = field(default_factory=set)


def prompt_tokens(session: Session, context: TurnContext) -> int:
    """The calibrated size of the next prompt, in tokens."""
    folded = session.folded
    return context_tokens(folded, context.compaction.overhead, calibrate(folded.measures))


async def call_model(session: Session, context: TurnContext, emit: Emit) -> Reply:
    """The model's reply to the conversation, complete and recorded (not yet on the disk).

    Raises ModelError when there is none to be had; PromptTooLong is for the caller's ladder.
    """
    if context.max_cost is not None and session.cost >= context.max_cost:
        raise BudgetExceeded("the budget of this run is spent (--max-budget-usd)")
    mended = Repairs()
    attempt = 1
    while True:
        draft = MessageAccumulator()
        asked = _announce(session, context, emit, attempt)
        try:
            await _stream(context, _body(session, context), draft, emit)
        except asyncio.CancelledError:
            _keep_partial(session, draft, asked)
            raise
        except TransientError as error:
            _keep_partial(session, draft, asked)
            await _wait(context, error, attempt, draft, emit)
            attempt += 1
        except PromptTooLong as error:
            raw = context.compaction.overhead + session.folded.view.tokens
            session.failed("request", str(error), {"raw": raw, "actual": error.actual, "limit": error.limit})
            raise
        except ModelError as error:
            _keep_partial(session, draft, asked)
            _mend(session, context, error, mended, emit)
        else:
            reply = session.reply(draft, asked)
            emit(ReplyFinished(reply))
            return reply


def _announce(session: Session, context: TurnContext, emit: Emit, attempt: int) -> int:
    tokens = prompt_tokens(session, context)
    raw = context.compaction.overhead + session.folded.view.tokens
    asked = session.asked("turn", tokens, raw, attempt)
    session.sync()  # results are durable before the next request
    emit(RequestStarted("turn", tokens, attempt))
    return asked.seq


def _body(session: Session, context: TurnContext) -> bytes:
    """The request. It ends with the model's own words only where a pause asks for just that."""
    view = session.folded.view
    paused = session.folded.reply is not None and session.folded.reply.stop == "pause_turn"
    return build(context.frame, view if paused else without_tail(view), cache_breakpoints(session.folded))


async def _stream(context: TurnContext, body: bytes, draft: MessageAccumulator, emit: Emit) -> None:
    await context.model.stream(body, draft, emit)
    if not draft.complete:
        raise TransientError("the stream ended before the reply did")


def _keep_partial(session: Session, draft: MessageAccumulator, asked: int) -> None:
    if draft.begun:
        draft.complete = False
        session.reply(draft, asked)


async def _wait(
    context: TurnContext, error: TransientError, attempt: int, draft: MessageAccumulator, emit: Emit
) -> None:
    """Wait for the next try, or raise the error when there is none."""
    if draft.text:
        emit(StreamAborted(str(error), draft.text))
    seconds = wait_before(error, attempt, context.jitter())
    if seconds is None:
        raise error
    emit(Retrying(str(error), seconds, attempt + 1, error.tries or TRIES))
    await context.clock.sleep(seconds)


def _mend(session: Session, context: TurnContext, error: ModelError, mended: Repairs, emit: Emit) -> None:
    """Mend what the server refused, or raise the error again."""
    match error:
        case FieldRejected() | OutputTooLong() if _adapt(context, error, emit):
            pass
        case ThinkingRejected() | FieldRejected(field="thinking") if not mended.thinking:
            mended.thinking = True
            newest = session.folded.last_seq
            session.compacted("unthink", "reactive", (Unthink(0, newest),), {"reason": str(error)})
            emit(Notice("the server refused old thinking: left out of the context", "warning"))
        case BlockRejected() if edit := _without_block(session, error, mended):
            session.compacted("repair", "reactive", (edit,), {"reason": str(error)})
            emit(Notice(f"a block was refused and is now a placeholder: {error}", "warning"))
        case _:
            raise error


def _adapt(context: TurnContext, error: ModelError, emit: Emit) -> bool:
    """Ask otherwise from now on: without a field that is not taken, or for no more than can be written."""
    match error:
        case FieldRejected() if error.field not in context.frame.without:
            context.frame = context.frame.dropping(error.field)
            emit(Notice(f"the server does not take {error.field}: left out from now on", "warning"))
        case OutputTooLong() if error.limit < context.frame.max_tokens:
            context.frame = dataclasses.replace(context.frame, max_tokens=error.limit)
            context.compaction.window = ContextWindow(context.compaction.window.size, error.limit)
            emit(Notice(f"the model writes at most {error.limit:,} tokens: asked for no more", "warning"))
        case _:
            return False
    return True


def _without_block(session: Session, error: BlockRejected, mended: Repairs) -> Clear | None:
    """The edit that leaves the refused block out; None where that is not possible or was done already."""
    part = _refused(without_tail(session.folded.view), error)
    if part is None or (part.seq, part.index) in mended.blocks:
        return None
    mended.blocks.add((part.seq, part.index))
    text = f"[a block that the API refused was here; recall r{part.seq} shows it]"
    match part.block:
        case ToolResultBlock():
            return Clear(part.seq, part.index, "content", text, part.tokens)
        case ImageBlock():
            return Clear(part.seq, part.index, "source", text, part.tokens)
    return None


def _refused(view: Sequence[Message], error: BlockRejected) -> Part | None:
    """The part of the view that an error names, or the newest one with an image where it names none."""
    if error.message is None or error.block is None:
        newest = (part for message in reversed(view) for part in reversed(message.parts))
        return next((part for part in newest if _pictured(part.block)), None)
    if error.message >= len(view) or error.block >= len(view[error.message].parts):
        return None
    found: Part = view[error.message].parts[error.block]
    return found


def _pictured(block: Block) -> bool:
    inner = block.content if isinstance(block, ToolResultBlock) else (block,)
    return any(isinstance(each, ImageBlock) for each in inner)


async def call_summarizer(
    session: Session, context: TurnContext, wanted: SummaryRequest, emit: Emit
) -> SummaryReply:
    """The answer to a summary request, asked on the view as it stands; failures come back as data."""
    session.sync()  # results are durable before any request that has them
    for attempt in range(1, SUMMARY_TRIES + 1):
        draft = MessageAccumulator()
        emit(RequestStarted("summary", prompt_tokens(session, context), attempt))
        try:
            await _stream(context, _summary_body(session, context, wanted), draft, lambda event: None)
            return _answer(draft)
        except PromptTooLong as error:
            return SummaryReply(None, f"too long: {error}", draft.usage, None)
        except TransientError as error:
            seconds = wait_before(error, attempt, context.jitter()) if attempt < SUMMARY_TRIES else None
            if seconds is None:
                return SummaryReply(None, str(error), draft.usage, None)
            emit(Retrying(str(error), seconds, attempt + 1, SUMMARY_TRIES))
            await context.clock.sleep(seconds)
        except ModelError as error:
            if attempt == SUMMARY_TRIES or not _adapt(context, error, emit):
                return SummaryReply(None, str(error), draft.usage, None)
    raise AssertionError("unreachable: the last try returns")


def _summary_body(session: Session, context: TurnContext, wanted: SummaryRequest) -> bytes:
    folded = session.folded.supposing(wanted.edits) if wanted.edits else session.folded
    view = leaving_out(without_tail(folded.view), wanted.leave_out)
    frame = dataclasses.replace(
        context.frame, max_tokens=min(wanted.max_tokens, context.compaction.window.max_output)
    )
    at = () if wanted.leave_out else cache_breakpoints(folded)
    return build(frame, view, at, ask=wanted.instructions)


def _answer(draft: MessageAccumulator) -> SummaryReply:
    texts = [block.text for block in draft.blocks if isinstance(block, TextBlock)]
    if draft.stop == "tool_use":
        return SummaryReply(None, "it called a tool", draft.usage, draft.stop)
    if draft.stop == "refusal":
        return SummaryReply(None, "the model refused to write it", draft.usage, draft.stop)
    return SummaryReply("".join(texts), None, draft.usage, draft.stop)


def leaving_out(view: Sequence[Message], exchanges: int) -> Sequence[Message]:
    """The view without its oldest exchanges, still a sound conversation: thinking goes too."""
    if exchanges <= 0:
        return view
    replies = [index for index, message in enumerate(view) if message.role == "assistant"]
    if exchanges >= len(replies):
        return view[-1:] if view and not _has_results(view[-1]) else [_left_out()]
    return [_left_out(), *(_unthought(message) for message in view[replies[exchanges] :])]


def _left_out() -> Message:
    return Message("user", (Part(TextBlock(LEFT_OUT), 0, 0, PartKind.PLACEHOLDER, 12),), 0, 0)


def _has_results(message: Message) -> bool:
    return any(isinstance(part.block, ToolResultBlock) for part in message.parts)


def _unthought(message: Message) -> Message:
    parts = tuple(part for part in message.parts if part.kind is not PartKind.THINKING)
    return (
        message if len(parts) == len(message.parts) else dataclasses.replace(message, parts=parts, _json=[])
    )
