"""Run one call of a tool, without the executor around it."""

from typing import Any

from tools.base import Tool, ToolCall, ToolResult


async def run_tool(tool: Tool, arguments: Any, call: ToolCall) -> ToolResult:
    """Return the result of a call with parsed arguments, as a coroutine that `asyncio.run` takes."""
    return await tool.run(arguments, call)
