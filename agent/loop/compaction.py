"""Compact a live session: answer the questions of the pure plan of compact/, and record its result as facts.

The automatic trigger, `/compact`, the compact tool and the reaction to a prompt that is too long are the same
call with a different trigger. Nothing is applied before the plan is complete, so an interruption leaves the
conversation unchanged. Files that a plan names are written before the fact that names them.

No request waits for a summary that the user did not ask for: it is written in the background
(summary_call.py), from the trigger on, and replaces the messages that it covers before the next request once
it is complete. Until then these messages are not changed otherwise. If the context gets too full to wait, or
the messages have changed in another way, it is dropped, and a local summary takes its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from agent.errors import PromptTooLong
from agent.events import ContextCompacted, Emit, Notice
from agent.ports import HookAnswer, HookEvent, Hooks
from agent.session import (
    Session,
    hidden_instructions,
    kept_instructions,
    newest_plan,
    newest_todos,
    todo_lines,
)
from compact import (
    ANNOUNCED_LAYERS,
    COLD_RETURN,
    REACTIVE_RUNGS,
    AccountsMissing,
    CompactionPlan,
    Flow,
    Proposal,
    ShownBlock,
    Situation,
    SummaryReply,
    SummaryRequest,
    Trigger,
    compaction_notice,
    is_announced,
    overall_slope,
    plan,
    text_slope,
    without_long_accounts,
)
from tools.files import shown_cwd
from transcripts import ChannelBlock, Fold, OutputsFolder, Prompt, TextBlock, ToolResultBlock
from transcripts.wording import cause_of

from .context import TurnContext
from .cost_preview import LESS_NOW, show_cold_cost, why_cold
from .model_call import prompt_tokens
from .sliced_reading import account_for_all, read_for_plan
from .summary_call import (
    HISTORY_CHANGED,
    SummaryTask,
    begin_summary_call,
    call_summarizer,
    end_background_summary,
)

_T = TypeVar("_T")
TOO_LARGE = "the server rejected the prompt as too large"
COUNTED = "the prompt exceeds the context window by the server's count"
MIN_ASKED_SHARE = 0.7  # of the window: a smaller prompt is not counted by the server
# Ordinary clearing may still come before the next request.
NOT_COMPACTED = (
    "Your request to compact had no effect: {}. Old tool output is cleared automatically when that is due. "
    "Continue with the work."
)


class CompactionRequest(Struct, frozen=True):
    """A request for a compaction.

    focus    names what to keep in detail
    attempt  counts reactions to an error from 1
    because  the error of a reaction
    preview  an earlier situation of the same moment, whose results are used again
    """

    trigger: Trigger
    focus: str = ""
    attempt: int = 0
    because: str = ""
    preview: Situation | None = None


AUTOMATIC = CompactionRequest("auto")


class CompactionOutcome(Struct, frozen=True):
    """The ids of the compactions that were made, the line that announces them, and the last one's report.

    `pending`: a summary is being written in the background.
    """

    ids: tuple[str, ...] = ()
    line: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    pending: bool = False


async def compact_if_due(session: Session, context: TurnContext, emit: Emit) -> None:
    """Free context before a request if the compact tool requested it or the pipeline finds it due."""
    state = context.compaction
    if (task := context.background_summary) is not None and not task.stands(session.folded):
        await end_background_summary(context, HISTORY_CHANGED)
    focus = state.requested_focus
    state.requested_focus = None
    if focus is not None and context.background_summary is None:
        outcome = await compact_context(session, context, emit, CompactionRequest("tool", focus))
        if outcome.ids or outcome.pending:
            return
        note_not_compacted(session, outcome)
    folded = session.folded
    messages = (folded.view.tokens + 1) * overall_slope(folded)
    prompt = max(messages, prompt_tokens(session, context))
    outcome = CompactionOutcome()
    is_due = prompt >= state.quiet_below[0] or messages >= state.quiet_below[1]
    if is_due or context.background_summary is not None:
        outcome = await compact_context(session, context, emit, AUTOMATIC)
    if prompt >= MIN_ASKED_SHARE * context.compaction.window.size:
        await _fit_what_is_counted(session, context, emit)
    asked = folded.last_request
    if outcome.report.get("why") == COLD_RETURN:
        return  # its line names the cost
    if asked is None or asked.seq == state.billed or not isinstance(folded.entries[-1], Prompt):
        return
    changed = folded.opened is not None and folded.opened.seq > asked.seq  # such as to another model
    if changed or context.clock.now() - asked.ts > state.settings.cache_ttl_s:
        less = LESS_NOW if context.advises else ""
        await show_cold_cost(session, context, emit, why_cold(session, context), less)


async def begin_summary_if_due(session: Session, context: TurnContext, emit: Emit) -> None:
    """Begin to write the summary that the next request needs, if it needs one; at the end of a turn."""
    is_full = prompt_tokens(session, context) >= context.compaction.quiet_below[0]
    if is_full and context.background_summary is None:
        async with context.asking:
            if isinstance(await off_loop(session, lambda: _first_step(session, context)), SummaryRequest):
                await _plan(session, context, emit, AUTOMATIC)


def note_not_compacted(session: Session, outcome: CompactionOutcome) -> None:
    """Tell the model that the compaction that it requested was not made."""
    session.user((ChannelBlock(NOT_COMPACTED.format(outcome.line or "it failed")),), "harness")


def _first_step(
    session: Session, context: TurnContext, trigger: Trigger = "auto", focus: str = "", cold: bool = False
) -> SummaryRequest | CompactionPlan:
    """Return the first question of a plan for the conversation as it is, or the complete plan."""
    return _advance(plan(replace(situation_of(session, context), cold=cold), trigger, focus))


async def off_loop(session: Session, work: Callable[[], _T]) -> _T:
    """Return the result of `work` on a session; for a long one in a thread, while keys are handled.

    If it needs a local summary, which can take seconds, the data for that is collected in slices first, and
    `work` starts again.
    """
    if not _is_long(session):
        return work()

    def without_accounts() -> _T:
        with without_long_accounts(session.folded):
            return work()

    await read_for_plan(session)
    try:
        return await _in_thread(session, without_accounts)
    except AccountsMissing:
        await account_for_all(session)
        return await _in_thread(session, work)


LONG_SESSION = 250  # entries; a plan for more takes 50 ms and longer


def _is_long(session: Session) -> bool:
    return bool(session.deferred) or len(session.folded.entries) > LONG_SESSION


async def _in_thread(session: Session, work: Callable[[], _T]) -> _T:
    """Run `work` in a thread. Nothing may change the session while it runs: a cancelled turn waits for it."""
    _ = session.folded.view  # never rendered in two threads
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


SUMMARY_FOLLOWS = (
    "Older messages will be replaced by a summary soon; a note follows if that frees too little. Continue "
    "with the work."
)


async def request_compaction(session: Session, context: TurnContext, focus: str) -> str:
    """Request a compaction before the next request; return for the model what will happen.

    Nothing is requested if the plan for the conversation so far has nothing to do.
    """
    planned = await off_loop(session, lambda: _first_step(session, context, "tool", focus))
    if isinstance(planned, SummaryRequest):
        context.compaction.requested_focus = focus
        return SUMMARY_FOLLOWS
    if not planned.proposals:
        return NOT_COMPACTED.format(planned.note or "nothing can be cleared")
    context.compaction.requested_focus = focus
    return "Before the next request, older text will be cleared or summarized. Continue with the work."


async def tokens_when_cold(session: Session, context: TurnContext) -> int:
    """Return the tokens of the next prompt if nothing is cached, after the clearing that is free then.

    They are 0 if a summary will replace the history, since its own line names the cost.
    """
    planned = await off_loop(session, lambda: _first_step(session, context, cold=True))
    if isinstance(planned, CompactionPlan) and planned.proposals:
        report = planned.proposals[-1].report
        return 0 if report.get("why") == COLD_RETURN else int(report["after"])
    return prompt_tokens(session, context)


async def _fit_what_is_counted(session: Session, context: TurnContext, emit: Emit) -> None:
    """Free context before a request that is too long by the server's count, before it is rejected."""
    state = context.compaction
    for attempt in range(1, REACTIVE_RUNGS + 1):
        tokens = await _counted_tokens(session, context)
        if tokens <= state.window.size:
            return
        raw = state.overhead + session.folded.view.tokens
        session.failed("request", COUNTED, {"raw": raw, "actual": tokens, "limit": state.window.size})
        request = CompactionRequest("reactive", attempt=attempt, because=COUNTED)
        outcome = await compact_context(session, context, emit, request)
        if not outcome.ids:
            return


async def _counted_tokens(session: Session, context: TurnContext) -> int:
    """Return the size of the next prompt, its new part counted by the server; 0 if that is not needed."""
    folded = session.folded
    window = context.compaction.window.size
    view = folded.view
    seen = folded.last_reply_seq
    new = [part for each in view[view.index_of(seen + 1) :] for part in each.parts if part.seq > seen]
    estimate = prompt_tokens(session, context)
    ours = text_slope(folded) * sum(part.tokens for part in new)
    if estimate < MIN_ASKED_SHARE * window or ours < 0.1 * window:  # little is new
        return 0
    blocks = [
        block
        for part in new
        for block in (part.block.content if isinstance(part.block, ToolResultBlock) else (part.block,))
    ]
    counted = await context.model.count_tokens(context.settings.model, blocks)
    return round(estimate - ours) + counted if counted is not None else 0


async def compact_context(
    session: Session, context: TurnContext, emit: Emit, request: CompactionRequest
) -> CompactionOutcome:
    """Plan and apply one compaction; the outcome has no ids if there was nothing to do."""
    async with context.asking:
        task = context.background_summary
        if task is not None and request.trigger != "auto":
            await end_background_summary(context, f"another compaction ({request.trigger}) came first")
            task = None
        planned = await _plan(session, context, emit, request)
        trigger = request.trigger
        if task is not None and not planned.pending:
            is_used = [each.trigger for each in planned.proposals if each.layer == "summary"]
            trigger = is_used[-1] if is_used else trigger
            if is_used or any(what == "summary" for what, _ in planned.failures):
                context.background_summary = None
            else:
                await end_background_summary(context, "it was not finished in time")
        for what, reason in planned.failures:
            session.failed(what, reason)
            if what != HookEvent.PRE_COMPACT and not (trigger == "manual" and reason in planned.note):
                emit(Notice(f"[{trigger} compact] {what}: {reason}", "warning"))
        if planned.note:
            _explain(context, emit, trigger, planned)
        if not planned.proposals:
            outcome = CompactionOutcome(line=planned.note, pending=planned.pending)
            if task is not None and task.trigger == "tool" and not planned.pending:
                note_not_compacted(session, outcome)
            return outcome
        return await _apply(session, context, emit, replace(request, trigger=trigger), planned)


def _explain(context: TurnContext, emit: Emit, trigger: Trigger, planned: CompactionPlan) -> None:
    """Show why nothing was done, or why no summary was made; before a request, show each reason only once."""
    if trigger != "auto":
        has_failed = bool(planned.failures) and trigger == "manual"
        if not planned.proposals:
            emit(Notice(planned.note, "error" if has_failed else "info"))
        elif has_failed:
            emit(Notice(planned.note, "warning"))
        return
    reason = planned.note.partition(". ")[0]  # the blocks that the rest names change with every call
    if reason == context.compaction.shown_reason:
        return
    context.compaction.shown_reason = reason
    if not any(what != HookEvent.PRE_COMPACT for what, _ in planned.failures):  # these were shown already
        emit(Notice(f"[auto compact] {planned.note}", "warning"))


async def _plan(
    session: Session, context: TurnContext, emit: Emit, request: CompactionRequest
) -> CompactionPlan:
    trigger = request.trigger
    task = context.background_summary
    background = task.state() if task is not None else None
    if _is_long(session):
        await read_for_plan(session)  # in slices, before the situation asks for it
    situation = replace(situation_of(session, context), background=background)
    if request.preview is not None:
        situation = replace(situation, worked_out=request.preview.worked_out)
    answer = HookAnswer()
    focus = request.focus
    if trigger != "auto":
        words = (await _ask_hook(session, context, request)).words
        focus = "\n".join(filter(None, (focus, words)))
    flow, step = await off_loop(session, lambda: _begun(plan(situation, trigger, focus, request.attempt)))
    if trigger == "auto" and _replaces_history(step):
        answer = await _ask_hook(session, context, request)
        if answer.veto is not None or answer.words:
            answered = replace(situation, vetoed=answer.veto is not None, focus=answer.words)
            flow, step = await off_loop(session, lambda: _begun(plan(answered, trigger)))
    cost = session.cost
    while isinstance(step, SummaryRequest):
        if context.compaction.settings.waits_for_summary(trigger):
            reply = await call_summarizer(session, context, step, emit)
        else:
            call = begin_summary_call(session, context, step)
            context.background_summary = SummaryTask(call, trigger, emit)
            reply = SummaryReply(None, pending=True)
        finish = partial(_advance, flow, reply)
        step = await _in_thread(session, finish) if _is_long(session) else finish()
    paid = session.cost - cost
    if trigger == "manual" and step.note and paid >= 0.005:  # rounded to a cent
        step = replace(step, note=f"{step.note}; the attempt cost ${paid:.2f}")
    if answer.veto is not None:
        reason = f"a hook denied it: {answer.veto}"
        return replace(step, failures=((HookEvent.PRE_COMPACT, reason), *step.failures), note=reason)
    return step


def situation_of(session: Session, context: TurnContext) -> Situation:
    """Return the current input of the pipeline for a session."""
    state = context.compaction
    tools = context.tool_context
    folded = session.folded
    inside = tools.outputs.is_relative_to(tools.folder)
    outputs = tools.outputs.relative_to(tools.folder) if inside else tools.outputs
    return Situation(
        folded=folded,
        settings=state.settings,
        window=state.window,
        prices=state.prices_in(folded),
        now=context.clock.now(),
        overhead=state.overhead,
        binds=state.binds,
        counter=state.counter,
        live=tuple(live_state(session, context)),
        # Each session numbers its facts from 1, and all sessions of a project share the directory.
        outputs=f"{outputs / session.sid}-",
    )


def live_state(session: Session, context: TurnContext) -> Iterator[str]:
    """Yield the state besides the conversation, one line each: mode, commands, agents, plan, to-do list."""
    yield f"permission mode: {context.permissions.rules.mode}"
    if (cwd := shown_cwd(context.tool_context)) != ".":
        yield f"commands run in: {cwd}"
    jobs = context.tool_context.jobs
    for job in jobs.running if jobs is not None else ():
        yield f"background command {job.id} is running: {' '.join(job.line.split())[:120]}"
    for agent in context.agents.in_background if context.agents is not None else ():
        reports = "its report arrives automatically"
        yield f"agent {agent.label} is running in the background: {agent.task} ({reports})"
    if (found := newest_plan(session.folded)) is not None:
        yield f"plan (r{found.seq}): {found.text}"
    if (todos := newest_todos(session.folded)) is not None and todos.items:
        yield "\n  ".join((f"to-do list (r{todos.seq}):", *todo_lines(todos.items)))
    if (servers := context.tool_context.servers) is not None:
        yield from servers.live_lines()
    yield from kept_instructions(session.folded, context.compaction.window.size)


def _advance(flow: Flow, reply: SummaryReply | None = None) -> SummaryRequest | CompactionPlan:
    """Return the next question of a plan, or the complete plan."""
    try:
        return next(flow) if reply is None else flow.send(reply)
    except StopIteration as stop:
        planned: CompactionPlan = stop.value
        return planned


def _begun(flow: Flow) -> tuple[Flow, SummaryRequest | CompactionPlan]:
    return flow, _advance(flow)


def _replaces_history(step: SummaryRequest | CompactionPlan) -> bool:
    """Return whether a model summary or a local summary is about to replace history, which hooks can deny."""
    return isinstance(step, SummaryRequest) or any(each.layer == "ledger" for each in step.proposals)


async def _ask_hook(session: Session, context: TurnContext, request: CompactionRequest) -> HookAnswer:
    if context.hooks is None:
        return HookAnswer()
    budget = context.compaction.window.size
    about: dict[str, Any] = {"trigger": request.trigger, "focus": request.focus}
    about |= {"tokens": prompt_tokens(session, context), "budget": budget}
    return await context.hooks.run(HookEvent.PRE_COMPACT, about)


async def _apply(
    session: Session, context: TurnContext, emit: Emit, request: CompactionRequest, planned: CompactionPlan
) -> CompactionOutcome:
    ids = []
    applied = []
    trigger = request.trigger
    last = session.folded.compactions[-1] if session.folded.compactions else None
    for proposal in planned.proposals:
        if request.because:
            proposal = replace(proposal, report={**proposal.report, "because": request.because})
        if error := _store_files(proposal, context):
            session.failed(proposal.layer, error)
            emit(Notice(f"[{trigger} compact] {proposal.layer}: cannot save outputs: {error}", "warning"))
            break  # later proposals build on this one
        ids.append(session.compacted(proposal.layer, trigger, proposal.edits, proposal.report).id)
        applied.append(proposal)
    if not applied:
        return CompactionOutcome()
    line = compaction_notice(applied)
    final = applied[-1].report
    if is_announced(applied, context.compaction.settings.policy, last):
        emit(ContextCompacted(line, trigger=trigger, ids=tuple(ids), report=final))
    _tell_hidden_skills(session, context)
    before = applied[0].report["before"]
    after = final["after"]
    figures = {"before": before, "after": after, "reclaimed": before - after}
    about = {**final, "trigger": trigger, **figures, "summary": _summary(applied)}
    if context.hooks is not None and (trigger != "auto" or any(p.layer in ANNOUNCED_LAYERS for p in applied)):
        await _run_hooks(context, context.hooks, about)
    return CompactionOutcome(tuple(ids), line=line, report=final)


def _summary(applied: Sequence[Proposal]) -> str:
    """Return the text that replaced the history; "" if no history was replaced."""
    folds = [edit for proposal in applied for edit in proposal.edits if isinstance(edit, Fold)]
    return (
        "\n".join(block.text for block in folds[-1].blocks if isinstance(block, TextBlock)) if folds else ""
    )


async def _run_hooks(context: TurnContext, hooks: Hooks, compacted: Mapping[str, Any]) -> None:
    """Run the hooks of a compaction; their words are sent to the model with the next request."""
    await hooks.run(HookEvent.POST_COMPACT, compacted)
    about = {"source": "compact", "model": context.settings.model}
    if words := (await hooks.run(HookEvent.SESSION_START, about)).introduced_words:
        context.tool_context.inbox.post(words)


def _tell_hidden_skills(session: Session, context: TurnContext) -> None:
    """Send the model again the instructions in use that the view no longer contains in any form."""
    for name, text in hidden_instructions(session.folded).items():
        context.tool_context.inbox.post(text, f"skill {name}")


def _store_files(proposal: Proposal, context: TurnContext) -> str:
    """Write the files that a proposal names. Returns the reason of a failure, or ""."""
    try:
        for name, text in proposal.files:
            masked = context.tool_context.masks.text(text)
            OutputsFolder(context.tool_context.outputs).write(name, masked.encode())
    except OSError as error:
        return f"{cause_of(error)}, {context.tool_context.outputs}"
    return ""


async def compact_reactively(
    session: Session,
    context: TurnContext,
    emit: Emit,
    error: PromptTooLong,
    attempt: int,
    because: str = TOO_LARGE,
) -> None:
    """Compact after a prompt was rejected as too long, or a reply was cut off; each `attempt` frees more.

    Raises the error with the largest blocks if no attempt is left, if the last one changed nothing, or if
    reactive compaction is off.
    """
    state = context.compaction
    before = state.window
    if error.limit is not None:
        context.limit_window(error.limit)
    if attempt <= REACTIVE_RUNGS and state.settings.reactive:
        if because == TOO_LARGE:
            emit(Notice(f"the prompt is too long ({error.sizes}); compacting", "warning"))
        request = CompactionRequest("reactive", attempt=attempt, because=because)
        outcome = await compact_context(session, context, emit, request)
        # Without a change, the same request would be rejected again. A smaller window means a shorter reply,
        # and a reply that was cut off is continued by another request.
        if outcome.ids or state.window != before or because != TOO_LARGE:
            return
    raise PromptTooLong(f"{error}. {ShownBlock.largest_sentence(session.folded)}", error.actual, error.limit)
