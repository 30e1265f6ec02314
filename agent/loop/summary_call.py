"""Ask the model for a summary: while a request waits for it, or in the background.

A call freezes the messages that it summarizes when it begins, and repeats the same request if that fails.
While a call runs in the background, the conversation continues. Its summary is used only if these messages
are still what the conversation begins with; otherwise it is dropped, and its cost is recorded with the
reason. Every attempt is charged, a cancelled one with at least the tokens that it had used by then.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from agent.errors import ModelError, PromptTooLong, TransientError
from agent.events import Emit, Event, Notice, RequestStarted
from agent.model import ended_early
from agent.model_port import IncomingReply, ModelRequest, RequestSettings
from agent.session import Session
from compact import UNUSED_SUMMARY, BackgroundSummary, SummaryReply, SummaryRequest, Trigger, summary_messages
from transcripts import Folded, Message, Opened, TextBlock, UnknownBlock

from .context import TurnContext
from .model_call import Repairs, adapt, announce_retry, no_failures, prompt_tokens

MAX_SUMMARY_TRIES = 4
HISTORY_CHANGED = "the history had changed"


class SummaryCall(Struct):
    """A call for a summary of the conversation as it is when the call begins.

    view      the messages before the instructions; `marks` are the indices of those with cache breakpoints
    settings  of the session's requests
    model     the model that writes the summary, "" for the session's
    asked     the seq of the newest request
    """

    session: Session
    context: TurnContext
    wanted: SummaryRequest
    view: Sequence[Message]
    marks: tuple[int, ...]
    opened: Opened | None
    settings: RequestSettings
    model: str
    asked: int = 0
    repairs: Repairs = field(default_factory=Repairs)

    async def write(self, emit: Emit, request: ModelRequest) -> SummaryReply:
        """Send a request that was recorded already, and return the answer; a failure is returned as data."""
        session = self.session
        failures = no_failures(self.context, MAX_SUMMARY_TRIES)
        for attempt in itertools.count(1):
            if attempt > 1:
                request = self.request()
                self.record(request, attempt)
            reply = IncomingReply()
            emit(RequestStarted("summary", tokens=prompt_tokens(session, self.context), attempt=attempt))
            try:
                await self.context.model.stream(request, reply, lambda event: None)
                if not reply.complete:
                    raise ended_early()
                self._charge(reply)
                return _summary_reply(reply)
            except asyncio.CancelledError:
                self._charge(reply)
                raise
            except PromptTooLong as error:
                self._charge(reply)
                failure = f"prompt too long: {error}"
                return SummaryReply(None, failure=failure, usage=reply.usage, too_long=True)
            except ModelError as error:
                self._charge(reply)
                if self._asks_service():
                    self.repairs.summary_by_model = True
                    text = f"the API could not write a summary ({error}); asking the model instead"
                    emit(Notice(text, "warning"))
                elif isinstance(error, TransientError):
                    seconds = announce_retry(self.context, error, failures, emit)
                    if seconds is None:
                        return SummaryReply(None, failure=str(error), usage=reply.usage)
                    await self.context.clock.sleep(seconds)
                elif attempt >= MAX_SUMMARY_TRIES or not adapt(self.context, error, self.repairs, emit):
                    return SummaryReply(None, failure=str(error), usage=reply.usage)
        raise AssertionError("the last try returns")

    def request(self) -> ModelRequest:
        """Return the next request."""
        most = self.context.compaction.window.max_output
        max_tokens = min(self.wanted.max_tokens, most, self.repairs.max_tokens or most)
        settings = self.settings.without(*self.context.settings.rejected)
        settings = replace(settings, max_tokens=max_tokens)
        if self.model:  # may lack the features of the session's model, and does not share its cache
            settings = replace(settings, model=self.model, thinking=False, effort=None, cache=None)
            settings = replace(settings, system_role=False)
        return ModelRequest(
            settings,
            messages=self.view,
            cache_marks=self.marks,
            instruction=self.wanted.instructions,
            compacts=self._asks_service(),
        )

    def record(self, request: ModelRequest, attempt: int = 1) -> None:
        """Record what is needed to rebuild a request, since it is not in the conversation.

        The body is left out if the transcript now folds to another conversation.
        """
        session = self.session
        view, _ = summary_messages(session.folded, self.wanted)
        is_rebuilt = session.folded.opened is self.opened and tuple(view) == self.view
        body = self.context.model.encode(request) if is_rebuilt else b""
        self.asked = session.request_sent(
            "summary",
            body,
            attempt=attempt,
            encoding=self.context.model.encoding,
            settings=request.recorded() | ({"model": self.model} if self.model else {}),
            marks=request.cache_marks,
            instructions=self.wanted.instructions,
            leave_out=self.wanted.leave_out,
            edits=self.wanted.edits,
        ).seq
        session.sync()  # results are durable before any request that contains them

    def _charge(self, reply: IncomingReply) -> None:
        usage = reply.usage if reply.complete else self.session.used_at_least(reply)
        self.session.charge(usage, self.model or self.settings.model, self.asked)

    def _asks_service(self) -> bool:
        """Return whether the API makes the summary itself: only of the whole view, which is in its cache."""
        is_whole = not (self.model or self.wanted.leave_out or self.wanted.edits)
        wants = self.context.compaction.settings.service_summaries
        return wants and is_whole and not self.repairs.summary_by_model


def begin_summary_call(session: Session, context: TurnContext, wanted: SummaryRequest) -> SummaryCall:
    """Return a call for a summary of the current view."""
    view, marks = summary_messages(session.folded, wanted)
    return SummaryCall(
        session,
        context,
        wanted=wanted,
        view=tuple(view),
        marks=marks,
        opened=session.folded.opened,
        settings=context.settings,
        model=context.summary_model,
    )


async def call_summarizer(
    session: Session, context: TurnContext, wanted: SummaryRequest, emit: Emit
) -> SummaryReply:
    """Request a summary of the current view, and return the answer; a failure is returned as data."""
    call = begin_summary_call(session, context, wanted)
    request = call.request()
    call.record(request)
    try:
        return await call.write(emit, request)
    except asyncio.CancelledError:
        session.failed(UNUSED_SUMMARY, "it was interrupted", {"asked": call.asked})
        raise


class SummaryTask:
    """A summary that is written in the background; `trigger` is the reason."""

    def __init__(self, call: SummaryCall, trigger: Trigger, emit: Emit) -> None:
        folded = call.session.folded
        view = folded.with_edits(call.wanted.edits).view if call.wanted.edits else folded.view
        self.trigger = trigger
        self._view = tuple(view.sendable())
        self._call = call
        self._is_dropped = False
        request = call.request()
        call.record(request)

        def emit_notices(event: Event) -> None:
            if isinstance(event, Notice):
                emit(event)

        self._task = asyncio.ensure_future(call.write(emit_notices, request))

    @property
    def is_running(self) -> bool:
        return not self._task.done()

    def stands(self, folded: Folded) -> bool:
        """Return whether the conversation still begins with the messages that are summarized."""
        frozen = self._view
        view = folded.view
        last = len(frozen) - 1
        if self._is_dropped or folded.opened is not self._call.opened or len(view) <= last:
            return False
        parts = frozen[last].parts
        same_last = view[last].role == frozen[last].role and view[last].parts[: len(parts)] == parts
        return same_last and view[:last] == list(frozen[:last])

    def state(self) -> BackgroundSummary:
        """Return its state for the pipeline. Raises what the task raised."""
        reply = self._task.result() if self._task.done() else None
        return BackgroundSummary(self.trigger, until=self._view[-1].last, reply=reply)

    def drop(self, why: str) -> None:
        """Cancel it, and record why it is not used."""
        if not self._is_dropped:
            self._is_dropped = True
            self._call.session.failed(UNUSED_SUMMARY, why, {"asked": self._call.asked})
            self._task.cancel()

    async def end(self, why: str) -> None:
        """Drop it, and wait until its request has ended and is charged."""
        self.drop(why)
        await asyncio.gather(self._task, return_exceptions=True)


async def end_background_summary(context: TurnContext, why: str) -> None:
    """Drop the summary that is written in the background, if there is one."""
    if (task := context.background_summary) is not None:
        await task.end(why)
        context.background_summary = None


def _summary_reply(reply: IncomingReply) -> SummaryReply:
    texts = [block.text for block in reply.blocks if isinstance(block, TextBlock)]
    for block in reply.blocks:
        if isinstance(block, UnknownBlock) and block.raw.get("type") == "compaction":
            texts.append(str(block.raw.get("content") or ""))
    return SummaryReply("".join(texts), failure=None, usage=reply.usage, stop=reply.stop)
