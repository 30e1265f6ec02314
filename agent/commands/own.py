"""Commands that the person runs: `!command`, and `!!command`, of which the model does not hear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.events import CommandOutput, Notice
from agent.loop.tool_executor import text_of
from tools.arguments import parse
from tools.base import ToolCall, ToolError

if TYPE_CHECKING:
    from agent.app.controller import Controller


async def run_own(agent: Controller, line: str) -> None:
    """Run a command line of the person's; no permission is needed for one's own words."""
    private = line.startswith("!!")
    command = line.lstrip("!").strip()
    _, context = agent.in_use
    tool = context.tools["bash"]
    if not command:
        agent.emit(Notice("write the command behind the !"))
        return
    agent.own_commands += 1
    try:
        outcome = await tool.run(
            parse(tool, {"command": command}), ToolCall(context.tool_context, f"own.{agent.own_commands}")
        )
    except ToolError as error:
        agent.emit(Notice(str(error), "error"))
        return
    text = text_of(outcome.content)
    agent.emit(CommandOutput(text))
    if not private:
        agent.after_prompt.append(f"<command-of-the-user>\n$ {command}\n{text}\n</command-of-the-user>")
