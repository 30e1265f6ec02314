"""The one tool `mcp`, through which the model finds and calls the tools of servers.

Its definition names the configured servers, not what they offer, so that a server which is connected late, or
changes what it has, leaves the prefix of every request as it is.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field

from agent.permissions import FOREIGN_PREFIX
from tools.base import Access, Tool, ToolCall, ToolContext, ToolError, ToolResult, no_access, text_result
from tools.parameters import Arguments
from transcripts.messages import check_shape

from .calls import checked_call, description_of, resource_tool, server_tool
from .entries import meant_call
from .server import McpServer
from .session import ServerFailed

MCP_TOOL = "mcp"
SEARCH_WAIT_S = 10.0  # for servers that are being connected
MAX_FOUND_TOOLS = 40
MAX_FOUND_DESCRIPTION_CHARS = 160
MAX_LISTED_RESOURCES = 100
MAX_INSTRUCTIONS_CHARS = 2_000  # of a server, which a search of it alone shows


class McpArguments(Arguments):
    """The parameters of `mcp`."""

    action: Literal["search", "describe", "call", "read"]
    server: str = ""
    tool: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict, description="call: for the tool")
    query: str = Field("", description="search: words; none lists all")
    uri: str = Field("", description="read: of a resource; none lists them")


def mcp_tool(servers: Sequence[McpServer]) -> Tool:
    """The tool for these servers, which may be connected later; they are named in its description."""
    names = ", ".join(server.entry.name for server in servers if server.enabled) or "none so far"
    return Tool(
        name=MCP_TOOL,
        description=(
            f"Tools and resources of MCP servers: {names}. You are told a server's tools once it is"
            " connected. search finds tools, describe gives one's parameters, call runs it, read gets a"
            " resource."
        ),
        arguments=McpArguments,
        kind="other",
        title=_title,
        access=_access,
        run=partial(_run, servers),
        resolve=partial(_resolve, servers),
    )


def _title(arguments: McpArguments) -> str:
    words = (arguments.action, arguments.server, arguments.tool or arguments.query or arguments.uri)
    return " ".join(filter(None, words))


def _access(arguments: McpArguments, context: ToolContext) -> tuple[Access, ...]:
    """What a call would use that is not resolved: one that was refused is known by it."""
    name, _ = meant_call(MCP_TOOL, arguments.model_dump())
    return no_access(arguments, context) if name == MCP_TOOL else (Access("server", name),)


async def _resolve(
    servers: Sequence[McpServer], name: str, given: Mapping[str, Any]
) -> tuple[Tool, Mapping[str, Any]] | None:
    """The tool that a call stands for, with its arguments; None where it asks about servers only.

    Raises ToolError. A call of `mcp__server__tool` by that name is taken too.
    """
    if name.lower().startswith(FOREIGN_PREFIX):
        given = {"action": "call", "tool": name, "arguments": given}
    arguments = given.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
            check_shape(arguments)
        except (ValueError, RecursionError):
            arguments = None
    if given.get("action") == "read" and given.get("uri"):
        server = _server(servers, str(given.get("server", "")), str(given["uri"]))
        uri = str(given["uri"]).removeprefix(f"@{server.entry.name}:")
        return resource_tool(server), {"uri": uri}
    if given.get("action") != "call":
        return None
    if not isinstance(arguments, dict):
        raise ToolError("arguments has to be a JSON object.")
    tool = await find_server_tool(servers, str(given.get("server", "")), str(given.get("tool", "")))
    return checked_call(tool, arguments)


async def find_server_tool(servers: Sequence[McpServer], server: str, tool: str) -> Tool:
    """The tool of a server by its name there or by its full name. Raises ToolError."""
    if tool.lower().startswith(FOREIGN_PREFIX):
        word, _, tool = tool[len(FOREIGN_PREFIX) :].partition("__")
        server = server or word
    elif not server and "/" in tool:
        server, _, tool = tool.partition("/")
    found = _server(servers, server, tool)
    try:
        await found.ready()
    except ServerFailed as error:
        raise ToolError(f"The MCP server {found.entry.name} is not connected: {error}") from error
    full = f"{FOREIGN_PREFIX}{found.word}__{tool}".lower()
    near = (name for name, known in found.offer.names.items() if known.lower() == full)
    name = tool if tool in found.offer.names else next(near, "")
    if not name:
        raise ToolError(f"{found.entry.name} has no tool {tool!r}. It has: {', '.join(found.offer.names)}.")
    return server_tool(found, name)


def _server(servers: Sequence[McpServer], name: str, other: str) -> McpServer:
    """The server of that name or word; without a name the only one, or the one that has `other`."""
    usable = [server for server in servers if server.enabled]
    lowered = name.lower()
    found = [each for each in usable if lowered in (each.entry.name.lower(), each.word.lower())]
    if not name:
        known = [
            each for each in usable if other in each.offer.names or other.startswith(f"@{each.entry.name}:")
        ]
        found = known if len(known) == 1 else usable if len(usable) == 1 else []
    if not found:
        names = ", ".join(each.entry.name for each in usable) or "none"
        wrong = f"There is no MCP server {name!r}" if name else "Name the server"
        raise ToolError(f"{wrong}. The servers are: {names}.")
    return found[0]


async def _run(servers: Sequence[McpServer], given: McpArguments, call: ToolCall) -> ToolResult:
    """Answer what is only about servers; calls and resources are tools of their own: see `_resolve`."""
    if given.action == "describe":
        tool = await find_server_tool(servers, given.server, given.tool)
        schema = json.dumps(tool.arguments, ensure_ascii=False)
        return text_result(f"{tool.name}: {tool.description}\nIts parameters: {schema}")
    chosen = [_server(servers, given.server, "")] if given.server else [s for s in servers if s.enabled]
    await wait_for(chosen, SEARCH_WAIT_S)
    if given.action == "read":
        return text_result("\n".join(_resource_lines(chosen)) or "There are no resources.")
    lines = list(_found_lines(chosen, given.query))
    said = chosen[0].greeting.get("instructions") if given.server and not chosen[0].failure else None
    if isinstance(said, str) and said.strip():
        lines.append(f"[the server says: {said[:MAX_INSTRUCTIONS_CHARS]}]")
    return text_result("\n".join((*lines, *_unconnected(chosen))) or "No tool fits; search without words.")


async def wait_for(servers: Iterable[McpServer], limit: float) -> None:
    """Wait until the servers are connected or have failed, at most so many seconds."""
    under_way = {server.begin() for server in servers if server.failure and server.enabled}
    if under_way:
        await asyncio.wait(under_way, timeout=limit)


def _found_lines(servers: Sequence[McpServer], query: str) -> list[str]:
    """A line for each tool that fits, the best first; then how many more there are."""
    words = re.findall(r"\w+", query.lower())
    ranked = []
    for server in servers:
        for name, raw in server.offer.tools.items() if not server.failure else ():
            text = f"{server.entry.name} {name} {raw.get('description', '')}".lower()
            score = sum((word in text) + 2 * (word in name.lower()) for word in words)
            if score or not words:
                told = " ".join(description_of(raw).split())[:MAX_FOUND_DESCRIPTION_CHARS]
                ranked.append((-score, f"{server.entry.name} {name}: {told}"))
    ranked.sort(key=lambda each: each[0])
    lines = [line for _, line in ranked[:MAX_FOUND_TOOLS]]
    more = len(ranked) - len(lines)
    return [*lines, f"and {more} more; search with words"] if more > 0 else lines


def _resource_lines(servers: Sequence[McpServer]) -> list[str]:
    found = [(server, raw) for server in servers if not server.failure for raw in server.offer.resources]
    lines = [
        f"@{server.entry.name}:{raw.get('uri', '')} {raw.get('description') or raw.get('name') or ''}"
        for server, raw in found[:MAX_LISTED_RESOURCES]
    ]
    more = len(found) - len(lines)
    return [*lines, f"and {more} more"] if more > 0 else lines


def _unconnected(servers: Sequence[McpServer]) -> list[str]:
    return [f"[{each.entry.name} is {each.state}: {each.failure}]" for each in servers if each.failure]


def news_of(server: McpServer) -> str:
    """What the model is told of a server that was connected, or has changed its tools."""
    names = ", ".join(server.offer.names) or "none"
    more = f" Resources: {len(server.offer.resources)}." if server.offer.resources else ""
    return f"MCP server {server.entry.name} connected: {names}.{more}"
