"""Call the model: one request, and everything that may happen between it and its reply.

Retries are visible and can be cancelled. A rejected request is repaired, once for each cause: an optional
feature is dropped for the session, thinking is left out, a bad block is replaced. The caller compacts a
prompt that is too long. A broken stream is recorded as an incomplete reply, and the request is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from agent.errors import (
    BlockRejected,
    BudgetExceeded,
    Feature,
    FieldRejected,
    ModelError,
    OutputTooLong,
    PromptTooLong,
    ThinkingRejected,
    TransientError,
)
from agent.events import Emit, Notice, ReplyFinished, RequestStarted, Retrying, StreamAborted
from agent.model import MAX_TRIES, Failures, ended_early
from agent.model_port import IncomingReply, ModelRequest
from agent.session import Session
from compact import ContextWindow, cache_breakpoints, estimate_prompt
from transcripts import (
    Block,
    Clear,
    ImageBlock,
    Message,
    Part,
    Reply,
    RequestSent,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    Unthink,
)

from .context import TurnContext

_CHANGED_FEATURE: dict[Feature, str] = {
    "system blocks": "the server does not support system prompts in parts; sending one string from now on",
    "system messages": "the model does not support system messages; marking makeroom's own words with tags",
    "unsigned thinking": "the server rejects its own thinking, which is no longer sent back",
    "reasoning gaps": "the server requires reasoning with every tool call; sending empty reasoning if needed",
    "details gaps": "the server requires a signature of each call; sending a placeholder if needed",
    "signature gaps": "the server requires a signature of each call; sending a placeholder if needed",
    "tool ids": "the server requires ids of nine letters and digits; sending such ids from now on",
    "max_tokens": "the server requires max_completion_tokens instead of max_tokens",
}


class Repairs(Struct):
    """The repairs made for one reply so far: each cause once, each block once.

    max_tokens        the output that fits alongside this prompt, if a server has reported it
    summary_by_model  the API's own compaction has failed
    """

    thinking: bool = False
    blocks: set[tuple[int, int]] = field(default_factory=set)
    max_tokens: int | None = None
    summary_by_model: bool = False


def prompt_tokens(session: Session, context: TurnContext) -> int:
    """Return the estimated size of the next prompt in tokens."""
    return estimate_prompt(session.folded, context.compaction.overhead)


MIN_SEEN_SHARE = 0.7  # of our estimate of a prompt: a server that saw less has truncated it
MIN_CUT_TOKENS = 1_000  # left out by a server: the estimates of small prompts are inaccurate


async def call_model(session: Session, context: TurnContext, emit: Emit) -> Reply:
    """Return the model's reply to the conversation, complete and recorded (not yet synced to disk).

    Meanwhile the results before it are synced: the caller awaits `Session.synced` before tools run.

    Raises ModelError if there is no reply. The caller handles PromptTooLong with a compaction.
    """
    if context.max_cost is not None and session.cost >= context.max_cost:
        raise BudgetExceeded("the budget of this run is spent (--max-budget-usd)")
    repairs = Repairs()
    failures = no_failures(context, context.max_tries)
    attempt = 1
    while True:
        reply = IncomingReply()
        failed = None
        async with context.asking:
            request = _request(session, context, repairs)
            sent = _record_request(session, context, emit, attempt, request)
            try:
                await context.model.stream(request, reply, emit)
                if not reply.complete:
                    raise ended_early()
            except asyncio.CancelledError:
                _keep_partial(session, reply, sent)
                raise
            except TransientError as error:
                _keep_partial(session, reply, sent)
                failed = error
            except PromptTooLong as error:
                measured = {"raw": sent.raw, "actual": error.actual, "limit": error.limit}
                session.failed("request", str(error), measured)
                raise
            except ModelError as error:
                _keep_partial(session, reply, sent)
                _repair(session, context, error, repairs, emit)
            else:
                seen = reply.usage.prompt if context.compaction.cuts_silently else 0
                is_cut = 0 < seen < min(MIN_SEEN_SHARE * sent.tokens, sent.tokens - MIN_CUT_TOKENS)
                # The server's count of a truncated prompt cannot calibrate our estimate.
                fact = session.reply(reply, 0 if is_cut else sent.seq)
                emit(ReplyFinished(fact))
                if is_cut:
                    _plan_for_cut(context, seen, sent.tokens, emit)
                return fact
        if failed is not None:
            attempt += 1
            if await _falls_back(context, failed, failures, reply, emit):
                failures = no_failures(context, context.max_tries)
                attempt = 1


def _plan_for_cut(context: TurnContext, seen: int, sent: int, emit: Emit) -> None:
    """Warn that the server truncated a prompt, and limit the window to the tokens that it saw."""
    text = (
        f"the server silently truncated the prompt to {seen:,} of about {sent:,} tokens. The context is now"
        " limited to that size. Start the server with a larger OLLAMA_CONTEXT_LENGTH to avoid this."
    )
    emit(Notice(text, "warning"))
    context.limit_window(seen)


def _record_request(
    session: Session, context: TurnContext, emit: Emit, attempt: int, request: ModelRequest
) -> RequestSent:
    tokens = prompt_tokens(session, context)
    sent = session.request_sent(
        "turn",
        context.model.encode(request),
        tokens=tokens,
        raw=context.compaction.overhead + session.folded.view.tokens,
        attempt=attempt,
        encoding=context.model.encoding,
        settings=request.recorded(),
        marks=request.cache_marks,
    )
    session.begin_sync()  # results are durable before the tools of the reply run
    emit(RequestStarted("turn", tokens=tokens, attempt=attempt))
    return sent


def _request(session: Session, context: TurnContext, repairs: Repairs) -> ModelRequest:
    """Return the request. It ends with the model's own message only after a pause, which requires that."""
    folded = session.folded
    settings = context.settings
    if repairs.max_tokens is not None:
        settings = replace(settings, max_tokens=min(settings.max_tokens, repairs.max_tokens))
    paused = folded.last_reply is not None and folded.last_reply.stop == "pause_turn"
    view = folded.view if paused else folded.view.sendable()
    previous = None
    if settings.diagnoses and settings.cache is not None:
        previous = folded.last_reply.ident if folded.last_reply is not None else ""
    return ModelRequest(settings, messages=view, cache_marks=cache_breakpoints(folded), previous=previous)


def _keep_partial(session: Session, reply: IncomingReply, sent: RequestSent) -> None:
    if reply.started:
        reply.complete = False
        session.reply(reply, sent.seq)


def no_failures(context: TurnContext, most: int) -> Failures:
    """Return the count for a new request. Where the user has limited the attempts, time does not count."""
    return Failures(most=min(most, context.max_tries), patient=context.max_tries >= MAX_TRIES)


async def _falls_back(
    context: TurnContext, error: TransientError, failures: Failures, reply: IncomingReply, emit: Emit
) -> bool:
    """Wait for the next attempt, and return whether it goes to the fallback model instead.

    Raises the error if there are no attempts left.
    """
    if reply.text:
        emit(StreamAborted(str(error), reply.text))
    seconds = announce_retry(context, error, failures, emit)
    if seconds is not None:
        await context.clock.sleep(seconds)
        return False
    if not error.overloaded or context.fall_back is None:
        raise error
    fall_back = context.fall_back
    context.fall_back = None
    emit(Notice(f"{error}; continuing with {await fall_back()}", "warning"))
    return True


def announce_retry(
    context: TurnContext, error: TransientError, failures: Failures, emit: Emit
) -> float | None:
    """Count a failure, and return the seconds until the next attempt, None if there are none left."""
    retry = failures.retry(error, now=context.clock.monotonic(), jitter=context.jitter())
    if retry is None:
        return None
    emit(
        Retrying(
            str(error),
            seconds=retry.seconds,
            attempt=retry.attempt,
            tries=retry.tries,
            status=error.status,
            left_s=retry.left_s,
        )
    )
    return retry.seconds


def _repair(session: Session, context: TurnContext, error: ModelError, repairs: Repairs, emit: Emit) -> None:
    """Repair the cause of a rejection, or raise the error again."""
    match error:
        case FieldRejected() | OutputTooLong() if adapt(context, error, repairs, emit):
            pass
        case ThinkingRejected() if _holds_unsigned(session) and adapt(
            context, FieldRejected(str(error), "unsigned thinking"), repairs, emit
        ):
            pass
        case ThinkingRejected() | FieldRejected(feature="thinking") if not repairs.thinking:
            repairs.thinking = True
            everything = Unthink(0, session.folded.last_seq)
            session.compacted("unthink", "reactive", (everything,), {"reason": str(error)})
            emit(Notice("the server rejected earlier thinking, which is no longer sent", "warning"))
        case BlockRejected() if edits := _replacements(session, error, repairs):
            session.compacted("repair", "reactive", edits, {"reason": str(error)})
            which = "a block, which is now a placeholder"
            if len(edits) > 1:
                which = f"{len(edits)} blocks, which are now placeholders"
            emit(Notice(f"the server rejected {which}: {error}", "warning"))
        case OutputTooLong(window=int(window)):
            raise PromptTooLong(str(error), limit=window) from error
        case _:
            raise error


def _holds_unsigned(session: Session) -> bool:
    blocks = (part.block for message in session.folded.view for part in message.parts)
    return any(isinstance(block, ThinkingBlock) and block.UNSIGNED in block.extra for block in blocks)


_DROPPED_FEATURE = "the server does not support {}, which is no longer sent"


def adapt(context: TurnContext, error: ModelError, repairs: Repairs, emit: Emit) -> bool:
    """Leave out a feature or limit the output from now on; return whether either was possible."""
    settings = context.settings
    match error:
        case FieldRejected() if error.feature not in settings.rejected:
            context.settings = settings.without(error.feature)
            emit(
                Notice(_CHANGED_FEATURE.get(error.feature, _DROPPED_FEATURE).format(error.feature), "warning")
            )
        case OutputTooLong(window=None) if error.limit < settings.max_tokens:
            context.settings = replace(settings, max_tokens=error.limit)
            context.compaction.use_window(ContextWindow(context.compaction.window.size, error.limit))
            emit(Notice(f"the model's output limit is {error.limit:,} tokens, which is now used", "warning"))
        case OutputTooLong(window=int(window)) if error.limit < (repairs.max_tokens or settings.max_tokens):
            context.limit_window(window)
            repairs.max_tokens = error.limit
            limits = f"the server's context window is {window:,} tokens"
            emit(Notice(f"{limits}; limiting the output to {error.limit:,} tokens", "warning"))
        case _:
            return False
    return True


def _replacements(session: Session, error: BlockRejected, repairs: Repairs) -> tuple[Clear, ...]:
    """Return the edits that remove the rejected blocks, but not those that were removed before."""
    edits = []
    for part in _rejected_parts(session.folded.view.sendable(), error):
        edit = _replacement(part)
        if edit is not None and (part.seq, part.index) not in repairs.blocks:
            repairs.blocks.add((part.seq, part.index))
            edits.append(edit)
    return tuple(edits)


def _replacement(part: Part) -> Clear | None:
    """Return the edit that replaces a block by a placeholder, None if that is impossible."""
    text = f"[a block that the API rejected was here; recall r{part.seq} shows it]"
    match part.block:
        case ToolResultBlock():
            return Clear(part.seq, block=part.index, field="content", text=text, saves=part.tokens)
        case ImageBlock():
            return Clear(part.seq, block=part.index, field="source", text=text, saves=part.tokens)
        case UnknownBlock():
            return Clear(part.seq, block=part.index, field=Clear.UNKNOWN_BLOCK, text=text, saves=part.tokens)
        case TextBlock(said, extra) if extra:  # fields added by another server
            return Clear(part.seq, block=part.index, field="text", text=said)
        case ToolUseBlock(extra=extra) if extra:
            return Clear(part.seq, block=part.index, field=Clear.UNKNOWN_FIELDS, text="")
    return None


def _rejected_parts(view: Sequence[Message], error: BlockRejected) -> list[Part]:
    """Return the parts of the view that an error names, or the newest one with an image if it names none."""
    if not error.places:
        newest = (part for message in reversed(view) for part in reversed(message.parts))
        return [part for part in newest if _has_image(part.block)][:1]
    return [
        view[message].parts[block]
        for message, block in dict.fromkeys(error.places)
        if message < len(view) and block < len(view[message].parts)
    ]


def _has_image(block: Block) -> bool:
    inner = block.content if isinstance(block, ToolResultBlock) else (block,)
    return any(isinstance(each, ImageBlock) for each in inner)
