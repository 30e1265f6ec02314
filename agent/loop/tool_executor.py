"""The corridor: every tool call walks down it, prepare -> run -> finish, and comes out as one result.

Prepare goes in order of the calls: find the tool, read its arguments, hooks, permission, approval. Tools
that only look run together with their neighbours of the kind; the others run one by one. A tool may raise;
the corridor never does, but for cancellation, and then each call that was begun has its result recorded.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from glob import escape
from typing import Any

from agent.errors import AgentError
from agent.events import Emit, Notice, ToolCallFinished, ToolCallProgress, ToolCallStarted
from agent.permissions.read_only import is_read_only
from agent.permissions.rules import Rule, Verdict, judge_call
from agent.ports import Allow, CheckpointRecorder, Deny, HookEvent, PermissionQuestion
from agent.session.session import Session
from tools.base import Access, Tool, ToolCall, ToolError, ToolResult, parse_arguments, text_result
from transcripts.messages import INVALID_JSON, Block, TextBlock, ToolUseBlock, replace_surrogates_in_json

from .context import TurnContext
from .loop_detection import with_repeat_note

log = logging.getLogger(__name__)
INTERRUPTED = "[interrupted by the user; it may have run in part: check before you do it again]"
NOT_BEGUN = "[not run: the user interrupted the turn before this call]"
HINT = "Do not try to reach the same end another way; say what you would need, or go on without it."
CUT = "The reply was cut at max_tokens within this call, so it was not run. Do it again in smaller pieces."


class TurnStopped(Exception):
    """The person refused a call and wants the turn to end."""


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call that is ready to run, or already has its outcome."""

    block: int
    use: ToolUseBlock
    name: str
    title: str
    tool: Tool | None = None
    arguments: Any = None
    outcome: ToolResult | None = None
    denied: bool = False
    runs: bool = False  # it runs a command that may change files


@dataclass(frozen=True, slots=True)
class ReplyCalls:
    """The calls of one reply on their way; `of` is the reply's seq."""

    session: Session
    context: TurnContext
    emit: Emit
    of: int


async def run_tool_calls(way: ReplyCalls, calls: Sequence[tuple[int, ToolUseBlock]], cut: bool) -> None:
    """Run the calls of a reply; every one of them has a result in the record when this returns.

    `cut` tells that the reply ended at max_tokens: its last call may be unfinished and is not run.

    Raises TurnStopped after the person refused with Esc, CancelledError when the turn is interrupted.
    """
    left = list(calls)
    try:
        while left:
            group = await _next_group(way, left, cut)
            del left[: len(group)]
            if len(group) == 1:
                await _act(way, group[0])
            else:
                await _act_together(way, group)
    except (asyncio.CancelledError, TurnStopped):
        for block, use in left:
            if not _answered(way, block):
                _skip(
                    way,
                    PreparedCall(block, use, use.name, _rough_title(use)),
                    text_result(NOT_BEGUN, error=True),
                )
        raise


async def _next_group(
    way: ReplyCalls, left: Sequence[tuple[int, ToolUseBlock]], cut: bool
) -> list[PreparedCall]:
    """The next call, or as many neighbouring ones as may run together."""
    group: list[PreparedCall] = []
    for index, (block, use) in enumerate(left):
        tool = _find(way.context.tools, use.name)
        if group and (tool is None or not tool.parallel):
            break
        last = index == len(left) - 1
        group.append(await _prepare(way, block, use, cut and last))
        if tool is None or not tool.parallel:
            break
    return group


def _find(tools: Mapping[str, Tool], name: str) -> Tool | None:
    """The tool of that name; a wrong letter case is understood."""
    return tools.get(name) or tools.get(name.lower())


async def _prepare(way: ReplyCalls, block: int, use: ToolUseBlock, cut: bool) -> PreparedCall:
    tool = _find(way.context.tools, use.name)
    title = _rough_title(use)
    if tool is None:
        known = ", ".join(way.context.tools)
        error = text_result(f"There is no tool named {use.name!r}. The tools are: {known}.", error=True)
        return PreparedCall(block, use, use.name, title, outcome=error)
    step = PreparedCall(block, use, tool.name, title, tool)
    if cut:
        return _with(step, text_result(CUT, error=True))
    if INVALID_JSON in use.input:
        error = text_result(
            f"The input was no valid JSON object: {str(use.input[INVALID_JSON])[:200]}", error=True
        )
        return _with(step, error)
    try:
        arguments = parse_arguments(tool, use.input)
        step = PreparedCall(block, use, tool.name, tool.title(arguments), tool, arguments)
        return await _permitted(way, step)
    except ToolError as error:
        return _with(step, text_result(str(error), error=True))


async def _permitted(way: ReplyCalls, step: PreparedCall) -> PreparedCall:
    """The step with leave to run, or with the outcome that refuses it."""
    assert step.tool is not None
    context = way.context
    access = step.tool.access(step.arguments, context.tool_context)
    runs = any(each.kind == "run" and not is_read_only(each.target) for each in access)
    step = replace(step, runs=runs)
    hooked = await context.hooks.run(HookEvent.PRE_TOOL, {"tool": step.name, "input": dict(step.use.input)})
    if hooked.veto is not None:
        return _denied(way, step, f"A hook refused this call: {hooked.veto}")
    verdict = judge_call(step.name, access, context.permissions.rules)
    if verdict.answer == "allow":
        return step
    if verdict.answer == "deny":
        return _denied(way, step, f"Permission denied: {verdict.why}.")
    question = _question(way, step, access, verdict)
    answer = await context.approver.ask(question)
    if isinstance(answer, Deny):
        reason = f": {answer.reason}" if answer.reason else "."
        whose = "Permission denied" if answer.nobody else "The user refused this call"
        denied = _denied(way, step, f"{whose}{reason}", bool(answer.reason) and not answer.nobody)
        if answer.stop:
            _skip(way, denied, denied.outcome or text_result("", error=True))
            raise TurnStopped
        return denied
    _grant(way, question, verdict, answer)
    return step


def _question(
    way: ReplyCalls, step: PreparedCall, access: tuple[Access, ...], verdict: Verdict
) -> PermissionQuestion:
    preview = step.tool.preview if step.tool is not None else None
    shown = preview(step.arguments, way.context.tool_context) if preview is not None else {"text": step.title}
    key = hashlib.sha256(repr((step.name, step.use.input, access)).encode("utf-8", "replace")).hexdigest()
    prefix = str(verdict.prefix) if verdict.prefix is not None else None
    return PermissionQuestion(step.name, step.title, access, verdict.why, prefix, shown, key)


def _grant(way: ReplyCalls, question: PermissionQuestion, verdict: Verdict, answer: Allow) -> None:
    if answer.scope == "session":
        for rule in _for_session(question, verdict):
            way.context.permissions.allow(rule)
    elif answer.scope == "always" and verdict.prefix is not None:
        _grant_for_good(way, verdict.prefix)


def _grant_for_good(way: ReplyCalls, rule: Rule) -> None:
    grants = way.context.permissions
    try:
        grants.allow_always(rule)
    except (AgentError, OSError) as error:
        way.emit(Notice(f"{rule} is allowed for this session only, as it cannot be kept: {error}", "warning"))
    else:
        way.emit(Notice(f"{rule} is allowed in this project from now on: {grants.path} keeps it"))


def _for_session(question: PermissionQuestion, verdict: Verdict) -> list[Rule]:
    """What "for this session" grants: the rule that was shown; else just the place, or the tool."""
    if verdict.prefix is not None:
        return [verdict.prefix]
    places = [escape(each.target) for each in question.access if each.outside or each.protected]
    return [Rule(question.tool, place) for place in places] or [Rule(question.tool)]


def _denied(way: ReplyCalls, step: PreparedCall, text: str, reasoned: bool = False) -> PreparedCall:
    way.context.permissions.denied.append(
        {"tool_name": step.name, "tool_use_id": step.use.id, "tool_input": dict(step.use.input)}
    )
    hint = "Follow what the user said." if reasoned else HINT
    return _with(step, text_result(f"{text}\n{hint}", error=True, human={"text": text}), denied=True)


def _with(step: PreparedCall, outcome: ToolResult, denied: bool = False) -> PreparedCall:
    return replace(step, outcome=outcome, denied=denied)


async def _act_together(way: ReplyCalls, group: Sequence[PreparedCall]) -> None:
    tasks = [asyncio.ensure_future(_act(way, step)) for step in group]
    try:
        await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _act(way: ReplyCalls, step: PreparedCall) -> None:
    """Run one step and record its result."""
    began = way.context.clock.monotonic()
    if step.outcome is not None:
        _skip(way, step, step.outcome)
        return
    assert step.tool is not None
    way.emit(ToolCallStarted(way.of, step.block, step.name, step.title))
    if step.tool.parallel:
        way.session.sync()  # the reply is durable before its tools run
    else:
        way.session.started(way.of, step.block)
    try:
        outcome = await _run(way, step)
    except asyncio.CancelledError:
        _finish(way, step, text_result(INTERRUPTED, error=True), way.context.clock.monotonic() - began)
        raise
    _finish(way, step, outcome, way.context.clock.monotonic() - began)


async def _run(way: ReplyCalls, step: PreparedCall) -> ToolResult:
    assert step.tool is not None

    def progress(text: str) -> None:
        way.emit(ToolCallProgress(way.of, step.block, text))

    keeper = way.context.checkpoints
    call = ToolCall(
        way.context.tool_context, f"{way.of}.{step.block}", progress, keeper.before if keeper else None
    )
    try:
        async with _kept(keeper, step):
            return await step.tool.run(step.arguments, call)
    except ToolError as error:
        return text_result(str(error), error=True)
    except OSError as error:
        log.warning("tool %s failed", step.name, exc_info=True)
        return text_result(f"{step.name} failed: {error}", error=True)
    except Exception as error:
        log.exception("tool %s raised", step.name)
        return text_result(
            f"{step.name} failed inside: {error!r}. This is a fault of the tool, not of the call.", error=True
        )


@asynccontextmanager
async def _kept(checkpoints: CheckpointRecorder | None, step: PreparedCall) -> AsyncIterator[None]:
    """Let the keeper look before and after a call that changes things; a command may change anything."""
    if checkpoints is None or step.tool is None or step.tool.parallel:
        yield
        return
    if step.runs:
        await asyncio.to_thread(checkpoints.begin)
    try:
        yield
    finally:
        await asyncio.shield(asyncio.to_thread(checkpoints.finish))


def _skip(way: ReplyCalls, step: PreparedCall, outcome: ToolResult) -> None:
    """Answer a call that does not run."""
    way.emit(ToolCallStarted(way.of, step.block, step.name, step.title))
    _finish(way, step, outcome, 0.0)


def _finish(way: ReplyCalls, step: PreparedCall, outcome: ToolResult, seconds: float) -> None:
    fact = way.session.result(
        way.of,
        step.block,
        with_repeat_note(way.session.folded, step.use, outcome.content),
        error=outcome.error,
        human=replace_surrogates_in_json(outcome.human),
        about=replace_surrogates_in_json(outcome.about),
        stored=outcome.stored,
    )
    if step.tool is not None and step.tool.record is not None:
        step.tool.record(outcome, way.context.tool_context, fact.seq)
    way.emit(ToolCallFinished(way.of, step.block, step.name, step.title, fact, seconds, step.denied))


def _answered(way: ReplyCalls, block: int) -> bool:
    exchange = way.session.folded.conversation.exchange_of(way.of)
    return exchange is not None and block in exchange.results


def _rough_title(use: ToolUseBlock) -> str:
    """A title for a call that could not be read: its first string."""
    return next((str(value) for value in use.input.values() if isinstance(value, str)), "")[:200]


def text_of(content: Sequence[Block]) -> str:
    """The texts of a result, joined."""
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))
