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
from agent.events import CallBegan, CallEnded, CallProgress, Emit, Notice
from agent.permissions.rules import Rule, Verdict, judge
from agent.permissions.shell_syntax import only_looks
from agent.ports import Keeper, Permit, Question, Refuse
from agent.session.session import Session
from tools.arguments import parse
from tools.base import Call, Outcome, Tool, ToolError, say
from transcripts.messages import INVALID_JSON, Block, Text, ToolUse, clean_json

from .context import Parts
from .loop_detection import noted

log = logging.getLogger(__name__)
INTERRUPTED = "[interrupted by the user; it may have run in part: check before you do it again]"
NOT_BEGUN = "[not run: the user interrupted the turn before this call]"
HINT = "Do not try to reach the same end another way; say what you would need, or go on without it."
CUT = "The reply was cut at max_tokens within this call, so it was not run. Do it again in smaller pieces."


class Stopped(Exception):
    """The person refused a call and wants the turn to end."""


@dataclass(frozen=True, slots=True)
class Step:
    """A call that is ready to run, or already has its outcome."""

    block: int
    use: ToolUse
    name: str
    title: str
    tool: Tool | None = None
    arguments: Any = None
    outcome: Outcome | None = None
    denied: bool = False
    runs: bool = False  # it runs a command that may change files


@dataclass(frozen=True, slots=True)
class Corridor:
    """The calls of one reply on their way; `of` is the reply's seq."""

    session: Session
    parts: Parts
    emit: Emit
    of: int


async def walk(way: Corridor, calls: Sequence[tuple[int, ToolUse]], cut: bool) -> None:
    """Run the calls of a reply; every one of them has a result in the record when this returns.

    `cut` tells that the reply ended at max_tokens: its last call may be unfinished and is not run.

    Raises Stopped after the person refused with Esc, CancelledError when the turn is interrupted.
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
    except (asyncio.CancelledError, Stopped):
        for block, use in left:
            if not _answered(way, block):
                _skip(way, Step(block, use, use.name, _rough_title(use)), say(NOT_BEGUN, error=True))
        raise


async def _next_group(way: Corridor, left: Sequence[tuple[int, ToolUse]], cut: bool) -> list[Step]:
    """The next call, or as many neighbouring ones as may run together."""
    group: list[Step] = []
    for index, (block, use) in enumerate(left):
        tool = _find(way.parts.tools, use.name)
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


async def _prepare(way: Corridor, block: int, use: ToolUse, cut: bool) -> Step:
    tool = _find(way.parts.tools, use.name)
    title = _rough_title(use)
    if tool is None:
        known = ", ".join(way.parts.tools)
        error = say(f"There is no tool named {use.name!r}. The tools are: {known}.", error=True)
        return Step(block, use, use.name, title, outcome=error)
    step = Step(block, use, tool.name, title, tool)
    if cut:
        return _with(step, say(CUT, error=True))
    if INVALID_JSON in use.input:
        error = say(f"The input was no valid JSON object: {str(use.input[INVALID_JSON])[:200]}", error=True)
        return _with(step, error)
    try:
        arguments = parse(tool, use.input)
        step = Step(block, use, tool.name, tool.title(arguments), tool, arguments)
        return await _permitted(way, step)
    except ToolError as error:
        return _with(step, say(str(error), error=True))


async def _permitted(way: Corridor, step: Step) -> Step:
    """The step with leave to run, or with the outcome that refuses it."""
    assert step.tool is not None
    parts = way.parts
    touches = step.tool.touches(step.arguments, parts.place)
    runs = any(touch.kind == "run" and not only_looks(touch.target) for touch in touches)
    step = replace(step, runs=runs)
    hooked = await parts.hooks.run("pre_tool", {"tool": step.name, "input": dict(step.use.input)})
    if hooked.veto is not None:
        return _denied(way, step, f"A hook refused this call: {hooked.veto}")
    verdict = judge(step.name, touches, parts.grants.rules)
    if verdict.answer == "allow":
        return step
    if verdict.answer == "deny":
        return _denied(way, step, f"Permission denied: {verdict.why}.")
    question = _question(way, step, touches, verdict)
    answer = await parts.approver.ask(question)
    if isinstance(answer, Refuse):
        reason = f": {answer.reason}" if answer.reason else "."
        whose = "Permission denied" if answer.nobody else "The user refused this call"
        denied = _denied(way, step, f"{whose}{reason}", bool(answer.reason) and not answer.nobody)
        if answer.stop:
            _skip(way, denied, denied.outcome or say("", error=True))
            raise Stopped
        return denied
    _grant(way, question, verdict, answer)
    return step


def _question(way: Corridor, step: Step, touches: tuple[Any, ...], verdict: Verdict) -> Question:
    preview = getattr(step.tool, "preview", None)
    shown = preview(step.arguments, way.parts.place) if preview is not None else {"text": step.title}
    key = hashlib.sha256(repr((step.name, step.use.input, touches)).encode("utf-8", "replace")).hexdigest()
    prefix = str(verdict.prefix) if verdict.prefix is not None else None
    return Question(step.name, step.title, touches, verdict.why, prefix, shown, key)


def _grant(way: Corridor, question: Question, verdict: Verdict, answer: Permit) -> None:
    if answer.scope == "session":
        for rule in _for_session(question, verdict):
            way.parts.grants.allow(rule)
    elif answer.scope == "always" and verdict.prefix is not None:
        _grant_for_good(way, verdict.prefix)


def _grant_for_good(way: Corridor, rule: Rule) -> None:
    grants = way.parts.grants
    try:
        grants.allow_for_good(rule)
    except (AgentError, OSError) as error:
        way.emit(Notice(f"{rule} is allowed for this session only, as it cannot be kept: {error}", "warning"))
    else:
        way.emit(Notice(f"{rule} is allowed in this project from now on: {grants.path} keeps it"))


def _for_session(question: Question, verdict: Verdict) -> list[Rule]:
    """What "for this session" grants: the rule that was shown; else just the place, or the tool."""
    if verdict.prefix is not None:
        return [verdict.prefix]
    places = [escape(touch.target) for touch in question.touches if touch.outside or touch.protected]
    return [Rule(question.tool, place) for place in places] or [Rule(question.tool)]


def _denied(way: Corridor, step: Step, text: str, reasoned: bool = False) -> Step:
    way.parts.grants.denied.append(
        {"tool_name": step.name, "tool_use_id": step.use.id, "tool_input": dict(step.use.input)}
    )
    hint = "Follow what the user said." if reasoned else HINT
    return _with(step, say(f"{text}\n{hint}", error=True, human={"text": text}), denied=True)


def _with(step: Step, outcome: Outcome, denied: bool = False) -> Step:
    return replace(step, outcome=outcome, denied=denied)


async def _act_together(way: Corridor, group: Sequence[Step]) -> None:
    tasks = [asyncio.ensure_future(_act(way, step)) for step in group]
    try:
        await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _act(way: Corridor, step: Step) -> None:
    """Run one step and record its result."""
    began = way.parts.clock.monotonic()
    if step.outcome is not None:
        _skip(way, step, step.outcome)
        return
    assert step.tool is not None
    way.emit(CallBegan(way.of, step.block, step.name, step.title))
    if step.tool.parallel:
        way.session.sync()  # the reply is durable before its tools run
    else:
        way.session.started(way.of, step.block)
    try:
        outcome = await _run(way, step)
    except asyncio.CancelledError:
        _finish(way, step, say(INTERRUPTED, error=True), way.parts.clock.monotonic() - began)
        raise
    _finish(way, step, outcome, way.parts.clock.monotonic() - began)


async def _run(way: Corridor, step: Step) -> Outcome:
    assert step.tool is not None

    def progress(text: str) -> None:
        way.emit(CallProgress(way.of, step.block, text))

    keeper = way.parts.keeper
    call = Call(way.parts.place, f"{way.of}.{step.block}", progress, keeper.before if keeper else None)
    try:
        async with _kept(keeper, step):
            return await step.tool.run(step.arguments, call)
    except ToolError as error:
        return say(str(error), error=True)
    except OSError as error:
        log.warning("tool %s failed", step.name, exc_info=True)
        return say(f"{step.name} failed: {error}", error=True)
    except Exception as error:
        log.exception("tool %s raised", step.name)
        return say(
            f"{step.name} failed inside: {error!r}. This is a fault of the tool, not of the call.", error=True
        )


@asynccontextmanager
async def _kept(keeper: Keeper | None, step: Step) -> AsyncIterator[None]:
    """Let the keeper look before and after a call that changes things; a command may change anything."""
    if keeper is None or step.tool is None or step.tool.parallel:
        yield
        return
    if step.runs:
        await asyncio.to_thread(keeper.begin)
    try:
        yield
    finally:
        await asyncio.shield(asyncio.to_thread(keeper.finish))


def _skip(way: Corridor, step: Step, outcome: Outcome) -> None:
    """Answer a call that does not run."""
    way.emit(CallBegan(way.of, step.block, step.name, step.title))
    _finish(way, step, outcome, 0.0)


def _finish(way: Corridor, step: Step, outcome: Outcome, seconds: float) -> None:
    fact = way.session.result(
        way.of,
        step.block,
        noted(way.session.folded, step.use, outcome.content),
        error=outcome.error,
        human=clean_json(outcome.human),
        about=clean_json(outcome.about),
        stored=outcome.stored,
    )
    noticed = getattr(step.tool, "recorded", None)
    if noticed is not None:
        noticed(outcome, way.parts.place, fact.seq)
    way.emit(CallEnded(way.of, step.block, step.name, step.title, fact, seconds, step.denied))


def _answered(way: Corridor, block: int) -> bool:
    exchange = way.session.folded.find(way.of)
    return exchange is not None and block in exchange.results


def _rough_title(use: ToolUse) -> str:
    """A title for a call that could not be read: its first string."""
    return next((str(value) for value in use.input.values() if isinstance(value, str)), "")[:200]


def text_of(content: Sequence[Block]) -> str:
    """The texts of a result, joined."""
    return "\n".join(block.text for block in content if isinstance(block, Text))
