"""Run the tool calls of a reply: prepare each one, run it, record its result.

Calls are prepared in order: find the tool, parse its arguments, ask for permission. Adjacent calls that
change nothing run in parallel, all others one by one. A tool may raise anything; the executor raises only
when the turn ends, and then each call of the reply has its result in the transcript.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from msgspec import Struct
from msgspec.structs import replace

from agent.errors import ModelError, program_changed
from agent.events import Emit, Notice, ToolCallFinished, ToolCallProgress, ToolCallStarted
from agent.ports import HookEvent
from agent.session import Session, note_news
from compact import NeededText, joined_text
from tools.base import Tool, ToolCall, ToolError, ToolInterrupted, ToolResult, text_result
from tools.files import FileError
from tools.sandbox import BlockedAccess, UnblockDecision
from tools.spawning import CallPlace
from transcripts import ChannelBlock, Display, Reply, Result, TextBlock, ToolUseBlock
from transcripts.wording import shorten

from .call_permission import ParsedCall, Permission, ask_permission, parse_call
from .call_questions import CallQuestions
from .changed_files import checkpointed, with_changed_files
from .context import TurnContext, TurnStopped
from .loop_detection import STUCK, is_stuck, with_repeat_note
from .put_back import content_of, needed_text, with_own_id
from .sent_memory import post_memory_below
from .unknown_tools import answer_unknown, find_tool

log = logging.getLogger(__name__)
INTERRUPTED = "[interrupted by the user; it may have run partially: check before you repeat it]"


class PreparedCall(Struct, frozen=True):
    """A call that is ready to run, or already has its result.

    index      the index of the call's block in the reply
    parsed     None if the call could not be parsed
    result     the reason why it does not run; None if it may run
    notes      words of the hook before the call and of the user, sent to the model with the result
    sandboxed  the command runs in the sandbox
    remark     the words that the user approved the call with
    """

    index: int
    use: ToolUseBlock
    name: str
    title: str
    tool: Tool | None = None
    parsed: ParsedCall | None = None
    result: ToolResult | None = None
    denied: bool = False
    notes: tuple[str, ...] = ()
    sandboxed: bool = False
    remark: str = ""


class CallBatch(Struct, frozen=True):
    """The calls of one reply and the context to run them; `reply` is its seq."""

    session: Session
    context: TurnContext
    emit: Emit
    reply: int


NOT_BEGUN = "[not run: the user interrupted the turn before this call]"


async def run_tool_calls(session: Session, context: TurnContext, emit: Emit, reply: Reply) -> None:
    """Run the calls of a reply; each has a result in the transcript when this returns or raises.

    Raises TurnStopped after the user denied a call with Esc, CancelledError when the turn is interrupted, and
    ModelError if the model repeats a call endlessly.
    """
    batch = CallBatch(session, context=context, emit=emit, reply=reply.seq)
    waiting = reply.calls
    unfinished = waiting[-1:] if reply.stop == "max_tokens" else []
    try:
        while waiting:
            group = await _prepare_group(batch, waiting, unfinished)
            del waiting[: len(group)]
            await _run_together(batch, group)
    except (asyncio.CancelledError, TurnStopped, ModelError) as stop:
        why = f"[not run: {stop}]" if isinstance(stop, ModelError) else NOT_BEGUN
        exchange = session.folded.conversation.exchange_of(reply.seq)
        results = exchange.results if exchange is not None else {}
        for index, use in waiting:
            if index not in results:
                result = text_result(why, error=True, human=Display(text="", note="not run"))
                _answer(batch, replace(_refused(index, use, None, why), result=result))
        raise


CUT = "The reply was cut at max_tokens within this call, so it was not run. Repeat it in smaller pieces."


async def _prepare_group(
    batch: CallBatch,
    waiting: Sequence[tuple[int, ToolUseBlock]],
    unfinished: Sequence[tuple[int, ToolUseBlock]],
) -> list[PreparedCall]:
    """Return the next call, or all adjacent calls that may run in parallel."""
    group: list[PreparedCall] = []
    for index, use in waiting:
        tool = batch.context.tools.get(use.name) or find_tool(batch.context.tools, use.name)
        if group and (tool is None or not tool.parallel):
            break
        if (index, use) in unfinished and tool is not None:
            group.append(_refused(index, use, tool, CUT))
        else:
            group.append(await _prepare(batch, index, use, tool))
        if tool is None or not tool.parallel:
            break
    return group


async def _prepare(batch: CallBatch, index: int, use: ToolUseBlock, tool: Tool | None) -> PreparedCall:
    if tool is None:
        return _refused(index, use, tool, answer_unknown(use.name, batch.context.tools))
    if ToolUseBlock.INVALID_JSON in use.input:
        given = str(use.input[ToolUseBlock.INVALID_JSON])[:200]
        return _refused(index, use, tool, f"The input was not a valid JSON object: {given}")
    title = ""
    asked = (use, tool)
    try:
        if tool.resolve is not None and (found := await tool.resolve(use.name, use.input)) is not None:
            tool = found[0]
            asked = replace(use, name=tool.name, input=dict(found[1])), tool
        parsed = parse_call(batch.context, *asked)
        title = parsed.title
        permission = await ask_permission(batch.context, batch.emit, parsed)
    except (FileError, ToolError) as error:
        return _refused(index, use, tool, error.for_model(batch.context.tools), title)
    parsed = permission.call or parsed
    call = PreparedCall(
        index,
        use=use,
        name=tool.name,
        title=parsed.title,
        tool=tool,
        parsed=parsed,
        notes=permission.notes,
        sandboxed=permission.sandboxed,
        remark=permission.reason,
    )
    return _denied(batch, call, permission) if permission.refusal else call


def _refused(index: int, use: ToolUseBlock, tool: Tool | None, text: str, title: str = "") -> PreparedCall:
    """Return a call that gets an error as its result instead of being run."""
    name = tool.name if tool else use.name
    shown = title or _first_string(use)
    return PreparedCall(
        index, use=use, name=name, title=shown, tool=tool, result=text_result(text, error=True)
    )


def _denied(batch: CallBatch, call: PreparedCall, permission: Permission) -> PreparedCall:
    """Return a call without permission. Raises TurnStopped, with the call answered, if the turn ends."""
    batch.context.permissions.denied.append(replace(_ran(call), name=call.name))
    text = "\n".join((permission.refusal, *permission.notes, permission.hint))
    shown = permission.shown or permission.refusal
    about = Result.about_remarks(("", permission.reason))
    human = Display(text=shown, denied=permission.why)
    result = text_result(text, error=True, human=human, about=about)
    denied = replace(call, result=result, denied=True)
    if permission.stop:
        _answer(batch, denied)
        raise TurnStopped
    return denied


async def _run_together(batch: CallBatch, group: Sequence[PreparedCall]) -> None:
    if len(group) == 1:
        return await _run(batch, group[0])
    tasks = [asyncio.ensure_future(_run(batch, call)) for call in group]
    try:
        await asyncio.gather(*tasks)
    except (asyncio.CancelledError, TurnStopped, ModelError):
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


SAID_ABOUT_LEAVING = "The user did not approve this access, and says:"


async def _run(batch: CallBatch, call: PreparedCall) -> None:
    """Run one call, unless it already has its result, and record the result."""
    if call.result is not None or call.parsed is None:
        await _answer_with_text(batch, call)
        _end_where_stuck(batch)
        return
    began = batch.context.clock.monotonic()
    batch.emit(ToolCallStarted(batch.reply, block=call.index, name=call.name, title=call.title))
    if not call.parsed.tool.parallel or call.parsed.tool.acts:
        batch.session.started(batch.reply, call.index)
    human = Display(text="", note="interrupted")
    result = text_result(INTERRUPTED, error=True, human=human)
    stop = None
    needed = None
    questions = CallQuestions(batch.context, emit=batch.emit, call=call.parsed)
    try:
        await batch.session.synced()  # the reply, and the start of a call that acts, before it runs
        result = await _call_tool(batch, call, call.parsed, questions)
        took = batch.context.clock.monotonic() - began - questions.waited
        noted = replace(call, notes=(*call.notes, *questions.notes))
        result, stop = await _with_words_of_hooks(batch, noted, result, took)
        folder = str(result.about.get("path", "")).rpartition("/")[0]
        if folder not in ("", str(batch.context.tool_context.folder)):
            await post_memory_below(batch.session, batch.context, [result.about], batch.emit)
        if batch.session.folded.compactions:
            needed = await needed_text(batch.session, batch.context, call.use, result)
    except ToolInterrupted as error:
        human = replace(error.result.human, note="interrupted")
        if human.text is None:
            human = replace(human, text=joined_text(error.result.content))
        result = replace(error.result, content=(*error.result.content, *result.content), human=human)
        raise asyncio.CancelledError from error
    finally:
        call = replace(call, denied=questions.denied)
        if questions.reason:
            words = ChannelBlock(f"{SAID_ABOUT_LEAVING} {questions.reason}", in_place=True)
            result = replace(result, content=(*result.content, words))
        if remarks := Result.about_remarks(("", call.remark), ("", questions.remark), ("", questions.reason)):
            result = replace(result, about={**result.about, **remarks})
        seconds = batch.context.clock.monotonic() - began - questions.waited
        _finish(batch, call, result, seconds, needed)
    if questions.stop:
        raise TurnStopped
    if stop is not None or result.ends_turn:
        raise TurnStopped("denied" if stop is not None or result.error else "done", stop or "")
    _end_where_stuck(batch)


def _end_where_stuck(batch: CallBatch) -> None:
    """Raise ModelError if the model repeats the same call endlessly."""
    if is_stuck(batch.session.folded):
        raise ModelError(STUCK)


async def _call_tool(
    batch: CallBatch, call: PreparedCall, parsed: ParsedCall, questions: CallQuestions
) -> ToolResult:
    def progress(text: str) -> None:
        batch.emit(ToolCallProgress(batch.reply, block=call.index, text=text))

    context = batch.context
    announce = context.checkpoints.announce if context.checkpoints else None
    rules = context.permissions.rules
    ident = f"{batch.reply}.{call.index}"
    running = ToolCall(
        context.tool_context,
        ident=ident,
        place=CallPlace(batch.reply, call.index),
        progress=progress,
        checkpoint=announce,
        sandboxed=call.sandboxed,
        ask_to_leave=questions.ask_about_access if call.sandboxed else None,
        ask=questions.ask_for_tool,
    )
    try:
        if context.checkpoints is None or (parsed.tool.parallel and not parsed.tool.acts):
            return await parsed.tool.run(parsed.arguments, running)
        if parsed.tool.parallel:  # its agents act for it and record their own changes
            known = len(context.checkpoints.log.changes)
            result = await parsed.tool.run(parsed.arguments, running)
            return with_changed_files(result, context.checkpoints.log.changes[known:], told=False)
        changing = any(
            each.kind == "server" or (each.kind == "run" and not rules.only_reads(each))
            for each in parsed.access
        )
        emit = batch.emit
        tools = context.tool_context if changing else None
        if changing and call.sandboxed and rules.sandbox_read_only:
            async with checkpointed(context.checkpoints, emit, None) as changed, AsyncExitStack() as outside:
                recording = checkpointed(context.checkpoints, emit, tools)
                leaving = _RecordedLeaving(questions, outside=outside, recording=recording)
                result = await parsed.tool.run(parsed.arguments, replace(running, ask_to_leave=leaving.ask))
        else:
            async with checkpointed(context.checkpoints, emit, tools) as changed:
                result = await parsed.tool.run(parsed.arguments, running)
        return with_changed_files(result, changed, told=call.sandboxed) if changing else result
    except (FileError, ToolError) as error:
        return text_result(error.for_model(context.tools), error=True)
    except OSError as error:
        log.warning("tool %s failed", call.name, exc_info=True)
        return text_result(f"{call.name} failed: {error}", error=True)
    except ImportError as error:
        return text_result(f"{call.name} failed: {program_changed(error)}", error=True)
    except Exception as error:
        log.exception("tool %s raised", call.name)
        fault = f"{call.name} failed with an internal error: {error!r}. The call itself is not at fault."
        return text_result(fault, error=True)


class _RecordedLeaving(Struct):
    """The questions about access of a command that can write nothing before the user allows it.

    From then on its changes are recorded: `outside` enters `recording`.
    """

    questions: CallQuestions
    outside: AsyncExitStack
    recording: AbstractAsyncContextManager[object]
    is_recorded: bool = False

    async def ask(self, refusal: BlockedAccess) -> UnblockDecision:
        decision = await self.questions.ask_about_access(refusal)
        if decision.answer != "no" and not refusal.waiting and not self.is_recorded:
            self.is_recorded = True
            await self.outside.enter_async_context(self.recording)
        return decision


async def _with_words_of_hooks(
    batch: CallBatch, call: PreparedCall, result: ToolResult, seconds: float
) -> tuple[ToolResult, str | None]:
    """Return the result with the words of hooks, and the reason why a hook ends the turn, else None."""
    words = list(call.notes)
    stop = None
    hooks = batch.context.hooks
    if hooks is not None:
        about = {"tool": call.name, "input": dict(_ran(call).input), "id": call.use.id, "seconds": seconds}
        about |= {"output": joined_text(result.content), "error": result.error}
        event = HookEvent.POST_TOOL_FAILURE if result.error else HookEvent.POST_TOOL
        hooked = await hooks.run(event, about)
        stop = hooked.stop
        if hooked.veto is not None:
            objection = shorten(hooked.veto, 200)
            batch.emit(Notice(f"a hook objects to the {call.name} call: {objection}"))
        if hooked.updated_output is not None:
            result = _replaced(result, hooked.updated_output)
        if said := "\n".join(filter(None, (hooked.veto, hooked.words))):
            words.append(f"[a hook after this call says: {said}]")
    if words:
        notes = (ChannelBlock(each, in_place=True) for each in words)
        result = replace(result, content=(*result.content, *notes))
    return result, stop


def _ran(call: PreparedCall) -> ToolUseBlock:
    """Return the call as it was judged: resolved, and with any changes to its input."""
    return call.use if call.parsed is None else call.parsed.use


def _replaced(result: ToolResult, text: str) -> ToolResult:
    """Return the result with a hook's output for the model; the transcript keeps the tool's own output."""
    note = ChannelBlock("[a hook after this call replaced its output]", in_place=True)
    about = {**result.about, "output_before_hook": joined_text(result.content)}
    return replace(result, content=(TextBlock(text), note), about=about)


async def _answer_with_text(batch: CallBatch, call: PreparedCall) -> None:
    """Record the result of a call that does not run; a failed edit gets the cleared lines that it needs."""
    needed = None
    try:
        if call.result is not None and not call.denied and batch.session.folded.compactions:
            needed = await needed_text(batch.session, batch.context, call.use, call.result)
    finally:
        _answer(batch, call, needed)


def _answer(batch: CallBatch, call: PreparedCall, needed: NeededText | None = None) -> None:
    """Record the result of a call that does not run."""
    assert call.result is not None
    batch.emit(ToolCallStarted(batch.reply, block=call.index, name=call.name, title=call.title))
    _finish(batch, call, call.result, 0.0, needed)


def _finish(
    batch: CallBatch,
    call: PreparedCall,
    result: ToolResult,
    seconds: float,
    needed: NeededText | None = None,
) -> None:
    tools = batch.context.tool_context
    content = content_of(batch.session, call.use, result)
    content = with_repeat_note(batch.session.folded, call.use, content)
    content = with_own_id(batch.session, call.use, result, content)
    if tools.inbox.waiting:
        content = (*content, *tools.inbox.take(batch.session.folded.last_seq + 1))
    fact = batch.session.result(
        batch.reply,
        call.index,
        content if needed is None else (*content, *needed.blocks(batch.session.folded)),
        error=result.error,
        human=result.human,
        about=result.about,
        stored=result.stored,
    )
    if tools.inbox.changed:
        note_news(batch.session, tools.inbox)
    if call.tool is not None and call.tool.record is not None:
        call.tool.record(result, batch.context.tool_context, fact.seq)
    batch.emit(
        ToolCallFinished(
            batch.reply,
            block=call.index,
            name=call.name,
            title=call.title,
            result=fact,
            seconds=seconds,
            denied=call.denied,
        )
    )


def _first_string(use: ToolUseBlock) -> str:
    """Return a title for a call that was not parsed: the first string of its input."""
    strings = (value for value in use.input.values() if isinstance(value, str))
    return next(strings, "")[:200]
