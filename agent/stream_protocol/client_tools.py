"""The tools of MCP servers inside the client as a source of tools, and the status of servers for clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent.extensions.mcp import McpServer, direct_tool
from tools.base import Tool

_TOLD_OF_TOOLS = ("name", "description", "annotations")


class ClientTools(Struct):
    """The tools of one server; implements ports.ToolSource."""

    server: McpServer

    @property
    def name(self) -> str:
        return self.server.entry.name

    async def open(self, folder: Path, environ: Mapping[str, str]) -> None:
        """See ports.ToolSource; a server that is already connected is not started again."""
        if self.server.failure:
            await self.server.begin()

    def tools(self) -> Sequence[Tool]:
        """See ports.ToolSource."""
        return [direct_tool(self.server, name) for name in self.server.offer.tools]

    async def close(self) -> None:
        """See ports.ToolSource."""
        await self.server.stop()


def server_status(server: McpServer) -> dict[str, Any]:
    """Return the status of a server for a client, without values of variables and headers."""
    entry = server.entry
    offer = server.offer
    config: dict[str, Any] = {"type": entry.kind, "name": entry.name}
    if entry.kind == "stdio":
        config |= {"command": str(entry.raw.get("command", "")), "args": entry.written_args}
    elif entry.kind != "sdk":
        config["url"] = entry.shows
    status: dict[str, Any] = {
        "name": entry.name,
        "status": server.state,
        "scope": entry.scope,
        "config": config,
    }
    if server.failure:
        return {**status, "error": server.failure}
    tools = [{key: raw[key] for key in _TOLD_OF_TOOLS if key in raw} for raw in offer.tools.values()]
    return {**status, "serverInfo": server.greeting.get("serverInfo") or {}, "tools": tools}


def tool_sizes(server: McpServer, count: Callable[[str], int]) -> list[dict[str, Any]]:
    """Return the tools of a server, each with its size in tokens."""
    return [
        {
            "name": server.offer.names[name],
            "serverName": server.entry.name,
            "tokens": count(json.dumps(raw)),
            "isLoaded": server.entry.kind == "sdk" or server.entry.always_load,
        }
        for name, raw in server.offer.tools.items()
    ]
