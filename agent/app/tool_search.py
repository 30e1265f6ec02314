"""Defer the tools of MCP servers where they are many and the service can search them.

A deferred tool belongs neither to the prompt nor to the prefix that the cache and thinking are bound to. The
API runs the search itself, and its result names the tools that the model can call from then on:

    tools:     bash, read, ..., mcp, mcp__maps__route (deferred), tool_search_tool_bm25
    assistant: server_tool_use "route", tool_search_tool_result [mcp__maps__route], tool_use mcp__maps__route
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.permissions import FOREIGN_PREFIX
from compact import TokenCounter
from tools.base import Tool
from tools.registry import definitions
from transcripts import to_json_bytes

from .setup import RunSetup
from .web_tools import serves_web_tools

SEARCH_TOOL: Mapping[str, Any] = {
    "type": "tool_search_tool_bm25_20251119",
    "name": "tool_search_tool_bm25",
}


def defers_tools(setup: RunSetup, tools: Iterable[Tool], window: int, counter: TokenCounter) -> bool:
    """Return whether the deferred ones among the tools are offered.

    By default that needs the Anthropic API, and tools of servers that would take a tenth of the window.
    """
    wanted = setup.config.tool_search
    if wanted == "off" or setup.options.offline or setup.config.provider != "anthropic":
        return False
    if wanted == "on":
        return True
    if not serves_web_tools(setup):
        return False
    foreign = [tool for tool in tools if tool.name.startswith(FOREIGN_PREFIX)]
    # If they take more, they are deferred.
    return counter.text(to_json_bytes(list(definitions(foreign))).decode()) > window * 0.1


def sent_definitions(tools: Iterable[Tool]) -> tuple[Mapping[str, Any], ...]:
    """Return the definitions of tools, with the search for the deferred ones if there are any."""
    tools = tuple(tools)
    searched = any(tool.deferred for tool in tools)
    return (*definitions(tools), *((SEARCH_TOOL,) if searched else ()))
