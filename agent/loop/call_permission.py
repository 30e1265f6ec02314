"""The permission check of a tool call: the user's hook, the permission rules, then a question to the user."""

from __future__ import annotations

import json
from glob import escape
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from agent.errors import AgentError
from agent.events import Emit, Notice
from agent.permissions import MODES, Mode, PermissionStore, Rule, Verdict, judge_call, parse_rules
from agent.ports import Allow, Deny, HookAnswer, HookEvent, PermissionQuestion, PermissionUpdate
from tools.base import Access, Tool, ToolError
from tools.files import FileError
from tools.user_questions import Preview
from transcripts import ToolUseBlock

from .context import TurnContext
from .session_sandbox import SessionSandbox
from .steady_question import ask_steadily
from .uncovered_files import UNCOVERED, find_uncovered

HINT = "Do not repeat the call or work around the denial. Find an allowed approach, or ask."


class ParsedCall(Struct, frozen=True):
    """A call with its tool and its parsed arguments; `access` is everything that it would access."""

    use: ToolUseBlock
    tool: Tool
    title: str
    arguments: Any
    access: tuple[Access, ...]


class Permission(Struct, frozen=True):
    """The answer about one call.

    refusal    the refusal as the model reads it; "" if the call may run
    shown      the refusal as the user reads it, if that is worded differently
    why        the reason alone; "" if there is none other than the user's
    hint       advice to the model after a refusal
    notes      words of the hook and the user for the model, whether or not the call runs
    reason     the user's reason or remark, in their own words
    stop       the user ends the turn
    sandboxed  the command runs in the sandbox
    call       the call with the input to run it with
    """

    refusal: str = ""
    shown: str = ""
    why: str = ""
    hint: str = HINT
    notes: tuple[str, ...] = ()
    reason: str = ""
    stop: bool = False
    sandboxed: bool = False
    call: ParsedCall | None = None


def parse_call(context: TurnContext, use: ToolUseBlock, tool: Tool) -> ParsedCall:
    """Read the input of a call. Raises ToolError."""
    if not use.input.keys() <= tool.parameters().keys():
        use = replace(use, input=tool.with_own_names(use.input))
    arguments = tool.parse(use.input)
    title = tool.title(arguments)
    return ParsedCall(
        use, tool=tool, title=title, arguments=arguments, access=tool.access(arguments, context.tool_context)
    )


async def ask_permission(context: TurnContext, emit: Emit, call: ParsedCall) -> Permission:
    """Ask the hooks, the rules and the user, in this order. Raises ToolError for an invalid changed input."""
    hooked = HookAnswer()
    notes: tuple[str, ...] = ()
    if context.hooks is not None:
        about = {"tool": call.tool.name, "input": dict(call.use.input), "id": call.use.id}
        hooked = await context.hooks.run(HookEvent.PRE_TOOL, about)
        if hooked.veto is not None or hooked.stop is not None:
            reason = hooked.stop if hooked.veto is None else hooked.veto
            refusal = f"A hook denied this call: {reason}"
            return Permission(refusal, why=f"a hook: {reason}", stop=hooked.stop is not None)
        call, notes = _after_hook(context, emit, call, hooked)
    if context.sandbox is not None and any(each.kind == "run" or each.missing for each in call.access):
        await _settle(context.sandbox, emit)
    verdict = judge_call(call.tool.name, call.access, context.permissions.rules)
    if verdict.sandboxed and not verdict.binding:
        verdict = await _as_covered(context, emit, call, verdict)
    if hooked.decision is not None:
        verdict = _with_decision(verdict, hooked.decision, context.permissions.rules.mode)
    if verdict.answer == "deny":
        return _denied(verdict, notes)
    if verdict.answer == "ask":
        question = _question(context, call, verdict)
        needless = question.cause == "edit" and not question.preview.changes
        if not needless or verdict.binding or hooked.decision == "ask":
            return await _ask_user(context, emit, call, question=question, verdict=verdict, notes=notes)
    return Permission(notes=notes, sandboxed=verdict.sandboxed, call=call)


async def _ask_user(
    context: TurnContext,
    emit: Emit,
    call: ParsedCall,
    question: PermissionQuestion,
    verdict: Verdict,
    notes: tuple[str, ...],
) -> Permission:
    """Ask the user, and carry out what the answer grants. Raises ToolError for an invalid changed input."""
    answer = await ask_steadily(context, question)
    if isinstance(answer, Deny):
        return replace(_refused(answer), notes=notes)
    _grant(context, emit, question, verdict, answer)
    remark = answer.remark
    notes = (*notes, remark_note(remark)) if remark else notes
    if context.permissions.planning:  # the user may have switched to plan mode before answering
        verdict = judge_call(call.tool.name, call.access, context.permissions.rules)
        if verdict.answer == "deny":
            return _denied(verdict, notes)
    if answer.updated_input not in (None, call.use.input):
        return replace(_with_input_of(context, call, answer, notes), reason=remark)
    return Permission(notes=notes, sandboxed=verdict.sandboxed, call=call, reason=remark)


async def _as_covered(context: TurnContext, emit: Emit, call: ParsedCall, verdict: Verdict) -> Verdict:
    """Return the verdict, or one that needs approval if `/rewind` could not undo what the call may do."""
    rules = context.permissions.rules
    if (
        context.checkpoints is None
        or not (verdict.answer == "allow" or (verdict.answer == "ask" and rules.asks_sandboxed))
        or rules.mode in ("plan", "bypassPermissions")
        or rules.sandbox_read_only
    ):
        return verdict
    asked = judge_call(call.tool.name, call.access, replace(rules, asks_sandboxed=True))
    if asked.answer == "allow":
        return verdict
    found = await find_uncovered(context, emit, call.access)
    if not found.why or (found.why == UNCOVERED and rules.mode != "manual"):
        return verdict
    why = found.why if verdict.answer == "allow" else f"{verdict.why}; {found.why}"
    if rules.mode == "dontAsk":
        why = f"it needs approval, and the mode is dontAsk: {why}"
    # One question for both: the sandbox would block the command when it has done a part.
    return replace(asked, why=why, sandboxed=not found.held)


def _with_decision(verdict: Verdict, decision: Literal["allow", "ask"], mode: Mode) -> Verdict:
    """Return the verdict with the hook's decision, which can replace a question unless that is binding."""
    if verdict.answer == "deny" or (verdict.binding and decision == "allow"):
        return verdict
    if decision == "ask" and mode == "dontAsk":
        return replace(verdict, answer="deny", why="a hook requires approval, and the mode is dontAsk")
    return replace(verdict, answer=decision, why=verdict.why or "a hook requires approval")


def _after_hook(
    context: TurnContext, emit: Emit, call: ParsedCall, hooked: HookAnswer
) -> tuple[ParsedCall, tuple[str, ...]]:
    """Return the call with the hook's changes, and the notes about them for the model. Raises ToolError."""
    notes = (f"[a hook before this call says: {hooked.words}]",) if hooked.words else ()
    if hooked.updated_input in (None, call.use.input):
        return call, notes
    assert hooked.updated_input is not None
    try:
        changed = parse_call(context, replace(call.use, input=hooked.updated_input), call.tool)
    except (FileError, ToolError) as error:
        raise ToolError(f"A hook changed the input of this call to an invalid one: {error}") from error
    notice = f"a hook changed the input of this call to {_shown(changed)}"
    emit(Notice(f"{call.tool.name}: {notice}"))
    return changed, (*notes, f"[{notice}]")


def _with_input_of(
    context: TurnContext, call: ParsedCall, answer: Allow, notes: tuple[str, ...]
) -> Permission:
    """Return the permission for a call with the user's changed input, to which deny rules apply as well."""
    assert answer.updated_input is not None
    changed = parse_call(context, replace(call.use, input=answer.updated_input), call.tool)
    verdict = judge_call(call.tool.name, changed.access, context.permissions.rules)
    notes = (*notes, f"[the user changed the input of this call to {_shown(changed)}]")
    if verdict.answer == "deny":
        return _denied(verdict, notes)
    return Permission(notes=notes, sandboxed=verdict.sandboxed, call=changed)


def _shown(call: ParsedCall) -> str:
    return json.dumps(dict(call.use.input), ensure_ascii=False, default=str)


async def _settle(sandbox: SessionSandbox, emit: Emit) -> None:
    """Adapt the sandbox to the current settings, and show a warning if its kind has changed."""
    if not sandbox.tools.folder.is_dir():
        return  # it was moved: there can be no sandbox, and the tool reports that no command can run
    before = sandbox.level
    await sandbox.settle()
    if sandbox.level != before and before != "none" and sandbox.permissions.sandbox.mode != "off":
        emit(Notice(f"the sandbox for commands has changed to {sandbox.line}", "warning"))
    if sandbox.unheld not in ("", sandbox.warned):
        emit(Notice(sandbox.unheld, "warning"))
    sandbox.warned = sandbox.unheld


def _question(context: TurnContext, call: ParsedCall, verdict: Verdict) -> PermissionQuestion:
    prefix = str(verdict.prefix) if verdict.prefix is not None else None
    runs = any(access.kind == "run" for access in call.access)
    return PermissionQuestion(
        call.tool.name,
        title=call.title,
        access=call.access,
        why=verdict.why,
        cause=verdict.cause,
        prefix=prefix,
        preview=preview_of(context, call),
        call=call.use.id,
        input=call.use.input,
        once=verdict.once,
        outside=runs and context.permissions.rules.sandboxed and not verdict.sandboxed,
    )


def preview_of(context: TurnContext, call: ParsedCall) -> Preview:
    """Return the preview of a call that needs the user's approval."""
    preview = call.tool.preview
    if preview is not None:
        return preview(call.arguments, context.tool_context)
    commands = (access.target for access in call.access if access.kind == "run")
    return Preview(text=next(commands, call.title))


def _denied(verdict: Verdict, notes: tuple[str, ...] = ()) -> Permission:
    return Permission(f"Permission denied: {verdict.why}.", why=verdict.why, notes=notes)


def remark_note(remark: str) -> str:
    """Return the note that gives the model the words with which the user approved a call."""
    return f"The user approved this call and says: {remark}"


def _refused(answer: Deny) -> Permission:
    reason = f": {answer.reason}" if answer.reason else "."
    if answer.unattended:
        return Permission(f"Permission denied{reason}", why=answer.reason, stop=answer.stop)
    return Permission(
        refusal=f"The user denied this call{reason}",
        shown=f"You denied this call{reason}",
        hint="Follow the user's reason." if answer.reason else HINT,
        reason=answer.reason,
        stop=answer.stop,
    )


def _grant(
    context: TurnContext, emit: Emit, question: PermissionQuestion, verdict: Verdict, answer: Allow
) -> None:
    if answer.scope == "session" and not verdict.once:
        for rule in rules_for_session(question, verdict):
            context.permissions.allow(rule, question.access[0].cwd if question.access else "")
    elif answer.scope == "always" and verdict.prefix is not None:
        grant_always(context, emit, verdict.prefix, question.access[0].cwd if question.access else "")
    for update in answer.updates:
        follow_update(context.permissions, update)


def follow_update(permissions: PermissionStore, update: PermissionUpdate) -> None:
    """Change the permissions for the rest of the session. Bypassing them is never granted this way."""
    for text in update.allow:
        for rule in parse_rules(text):
            permissions.allow(rule)
    for text in update.deny:
        for rule in parse_rules(text):
            permissions.deny(rule)
    if update.mode in MODES and update.mode != "bypassPermissions":
        permissions.set_mode(update.mode)


def grant_always(context: TurnContext, emit: Emit, rule: Rule, folder: str = "") -> None:
    """Allow a rule permanently in this project, and show that; `folder` is the directory of its command."""
    try:
        context.permissions.allow_always(rule, folder)
    except (AgentError, OSError) as error:
        emit(Notice(f"cannot save {rule}, which is now allowed for this session only: {error}", "warning"))
    else:
        emit(Notice(f"{rule} is now always allowed in this project (saved in {context.permissions.path})"))


def rules_for_session(question: PermissionQuestion, verdict: Verdict) -> list[Rule]:
    """Return the rules that "for this session" grants: the rule that was shown, else the paths or the tool.

    A command without a rule gets none: it needs approval each time.
    """
    if verdict.prefix is not None:
        return [verdict.prefix]
    if any(each.kind == "run" for each in question.access):
        return []
    paths = [escape(each.target) for each in question.access if each.outside or each.protected]
    return [Rule(question.tool, path) for path in paths] or [Rule(question.tool)]
