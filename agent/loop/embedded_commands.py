"""Run the command lines in the text of a command or skill, with the permissions and sandbox of any call."""

from __future__ import annotations

from agent.events import Emit
from compact import joined_text
from tools.base import ToolCall, ToolError, ToolResult, text_result
from tools.files import FileError
from transcripts import ToolUseBlock

from .call_permission import ParsedCall, ask_permission, parse_call
from .call_questions import CallQuestions
from .changed_files import checkpointed
from .context import TurnContext

MAX_EMBEDDED_CHARS = 10_000  # of the output of one line
RUNNING_TOOL = "bash"


class StoppedByUser(Exception):
    """The user denied a command line and ends the use of the command or skill."""


async def embedded_output(context: TurnContext, emit: Emit, line: str, ident: str) -> str:
    """Return the output of a line, or the reason why there is none. Raises StoppedByUser.

    `ident` is an id for the call that is unique in the session.
    """
    tool = context.tools.get(RUNNING_TOOL)
    if tool is None:
        return f"[not run: {line}: {RUNNING_TOOL} is not available here]"
    given = {"command": line, "timeout": 10_000}
    try:
        call = parse_call(context, ToolUseBlock(ident, name=RUNNING_TOOL, input=given), tool)
        permission = await ask_permission(context, emit, call)
        if permission.stop:
            raise StoppedByUser
        if permission.refusal or permission.call is None:
            return f"[not run: {line}: {permission.refusal or 'it was refused'}]"
        questions = CallQuestions(context, emit=emit, call=permission.call)
        ask = questions.ask_about_access if permission.sandboxed else None
        running = ToolCall(context.tool_context, ident, sandboxed=permission.sandboxed, ask_to_leave=ask)
        result = await _run(context, emit, permission.call, running)
        if questions.stop:
            raise StoppedByUser
    except (FileError, ToolError, OSError) as error:
        result = text_result(str(error), error=True)
    text = joined_text(result.content).strip("\n")
    if (left := len(text) - MAX_EMBEDDED_CHARS) > 0:
        text = f"{text[:MAX_EMBEDDED_CHARS]}\n[{left:,} more characters omitted]"
    return text


async def _run(context: TurnContext, emit: Emit, call: ParsedCall, running: ToolCall) -> ToolResult:
    """Run a call where the session's commands run, and leave the current directory unchanged."""
    tools = context.tool_context
    here = context.tool_context.cwd
    try:
        if context.checkpoints is None or context.permissions.rules.only_reads(call.access[0]):
            return await call.tool.run(call.arguments, running)
        async with checkpointed(context.checkpoints, emit, tools):
            return await call.tool.run(call.arguments, running)
    finally:
        tools.cwd = here
