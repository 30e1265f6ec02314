"""Restrict the tool `mcp` to some tools of servers, for agents that may not use all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from agent.permissions import FOREIGN_PREFIX, Rule
from tools.base import Tool, ToolError


def restricted_tool(tool: Tool, allowed: Sequence[str] | None, denied: Sequence[str]) -> Tool:
    """Return the tool `mcp` without the tools that `allowed` excludes or `denied` names.

    Only names such as `mcp__server` and `mcp__server__tool` count. Without any in `allowed`, all tools are
    allowed.
    """
    named = [Rule(name) for name in allowed or () if name.startswith(FOREIGN_PREFIX)]
    excluded = [Rule(name) for name in denied if name.startswith(FOREIGN_PREFIX)]
    resolve_all = tool.resolve
    if resolve_all is None or not (named or excluded):
        return tool

    async def resolve(name: str, given: Mapping[str, Any]) -> tuple[Tool, Mapping[str, Any]] | None:
        found = await resolve_all(name, given)
        if found is None:
            return None
        tool_name = found[0].name
        fits = not named or any(rule.names(tool_name) for rule in named)
        if not fits or any(rule.names(tool_name) for rule in excluded):
            raise ToolError(f"You may not use {tool_name}.")
        return found

    return replace(tool, resolve=resolve)
