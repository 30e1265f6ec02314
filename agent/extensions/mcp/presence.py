"""What is known of MCP servers without loading what serves them: whether there are any, who may use which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from agent.extensions.approvals import ProjectItem
from agent.permissions import FOREIGN_PREFIX, Rule
from tools.base import Tool, ToolError

PROJECT_SERVER_FILES = (".makeroom/mcp.local.json", ".mcp.json")
USER_SERVER_FILE = "mcp.json"  # in the folder of the person's settings
SOURCE_MODULE = "agent.extensions.mcp.source"


def may_have_servers(folder: Path, user_dir: Path) -> bool:
    """Whether there is any file that configures servers."""
    return (
        any((folder / name).exists() for name in PROJECT_SERVER_FILES)
        or (user_dir / USER_SERVER_FILE).exists()
    )


def mcp_items(folder: Path, environ: Mapping[str, str]) -> Iterable[ProjectItem]:
    """The servers that the project brings; see approvals.ItemSource."""
    if not any((folder / name).exists() for name in PROJECT_SERVER_FILES):
        return ()
    found: Iterable[ProjectItem] = import_module(SOURCE_MODULE).project_servers(folder, environ)
    return found


def are_tools_of_servers(name: str) -> bool:
    """Whether a name in a list of tools is about tools of servers: `mcp__server`, `mcp__server__tool`."""
    return name.startswith(FOREIGN_PREFIX)


def for_some_tools(tool: Tool, allowed: Sequence[str] | None, denied: Sequence[str]) -> Tool:
    """The tool `mcp` for who may use only some tools of servers; `allowed` None: all but `denied`."""
    whole = tool.resolve
    if whole is None or (allowed is None and not denied):
        return tool

    async def resolve(name: str, given: Mapping[str, Any]) -> tuple[Tool, Mapping[str, Any]] | None:
        found = await whole(name, given)
        if found is None:
            return None
        meant = found[0].name
        fits = allowed is None or any(Rule(each).names(meant) for each in allowed)
        if not fits or any(Rule(each).names(meant) for each in denied):
            raise ToolError(f"You may not use {meant}.")
        return found

    return replace(tool, resolve=resolve)
