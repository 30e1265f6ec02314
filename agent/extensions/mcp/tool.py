"""The tool `mcp`, with which the model finds and calls the tools of servers.

Its definition names the configured servers, not their tools. So a server that is connected late, or changes
its tools, does not change the prefix of requests. Agents may be restricted to some tools of servers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, field
from msgspec.structs import asdict, replace

from agent.permissions import FOREIGN_PREFIX, Rule
from tools.base import Access, Tool, ToolCall, ToolContext, ToolError, ToolResult, no_access, text_result
from tools.parameters import Arguments
from tools.text import printable
from transcripts import check_shape

from .calls import CheckedCall, call_title, checked_call, description_of, resource_tool, server_tool
from .failures import ServerFailed
from .names import meant_call
from .schemas import schema_text
from .server import SEARCH_WAIT_S, McpServer, wait_for

MAX_LISTED_RESOURCES = 100
MAX_LISTED_TOOLS = 100  # in the note about a server, which every request contains, and in errors
MAX_LINE_CHARS = 1_000  # of a resource


class McpArguments(Arguments):
    """The parameters of `mcp`."""

    action: Literal["search", "describe", "call", "read"]
    server: str = ""
    tool: str = ""
    arguments: Annotated[dict[str, Any], Meta(description="call: the tool's arguments")] = field(
        default_factory=dict
    )
    query: Annotated[str, Meta(description="search: words; empty lists all tools")] = ""
    uri: Annotated[str, Meta(description="read: a resource's URI; empty lists them")] = ""


def mcp_tool(servers: Sequence[McpServer]) -> Tool:
    """Return the tool for these servers, which may be connected later. Its description names them."""
    names = ", ".join(server.entry.name for server in servers if server.enabled) or "none so far"
    return Tool(
        name="mcp",
        description=(
            f"Tools and resources of MCP servers: {names}. A note lists a server's tools once it is"
            " connected. search finds tools, describe returns a tool's parameters, call runs it, read"
            " returns a resource."
        ),
        arguments=McpArguments,
        kind="other",
        title=_title,
        access=_access,
        run=partial(_run, servers),
        resolve=partial(_resolve, servers),
        shown_as=_shown_as,
    )


def _title(arguments: McpArguments) -> str:
    words = (arguments.action, arguments.server, arguments.tool or arguments.query or arguments.uri)
    return " ".join(filter(None, words))


def _shown_as(arguments: McpArguments) -> tuple[str, str]:
    """Return the name and title of a call as they are once it is resolved."""
    name, given = meant_call("mcp", asdict(arguments))
    return (name, _title(arguments)) if name == "mcp" else (name, call_title(given))


def _access(arguments: McpArguments, context: ToolContext) -> tuple[Access, ...]:
    """Return the access of an unresolved call, which identifies a denied one."""
    name = meant_call("mcp", asdict(arguments)).name
    return no_access(arguments, context) if name == "mcp" else (Access("server", name),)


async def _resolve(servers: Sequence[McpServer], name: str, given: Mapping[str, Any]) -> CheckedCall | None:
    """Return the call of a server's tool that a call stands for; None for a question about servers.

    A call of `mcp__server__tool` by that name is accepted too. Raises ToolError.
    """
    if name.lower().startswith(FOREIGN_PREFIX):
        given = {"action": "call", "tool": name, "arguments": given}
    server = str(given.get("server", ""))
    action = given.get("action")
    uri = str(given.get("uri") or "")
    if action == "read" and uri:
        found = _server(servers, server, uri)
        return CheckedCall(resource_tool(found), {"uri": uri.removeprefix(f"@{found.entry.name}:")})
    if action != "call":
        return None
    arguments = _object(given.get("arguments") or {})
    if arguments is None:
        raise ToolError("arguments must be a JSON object.")
    tool = await _find_server_tool(servers, server, str(given.get("tool", "")))
    return checked_call(tool, arguments)


def _object(arguments: object) -> dict[str, Any] | None:
    """Return the arguments, given as an object or as its text; None if they are not an object."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
            check_shape(arguments)
        except (ValueError, RecursionError):
            return None
    return arguments if isinstance(arguments, dict) else None


async def _find_server_tool(servers: Sequence[McpServer], server: str, tool: str) -> Tool:
    """Return the tool of a server by its name there or its full name. Raises ToolError."""
    if tool.lower().startswith(FOREIGN_PREFIX):
        word, _, tool = tool[len(FOREIGN_PREFIX) :].partition("__")
        server = server or word
    elif not server and "/" in tool:
        server, _, tool = tool.partition("/")
    found = _server(servers, server, tool)
    try:
        await found.ready()
    except ServerFailed as error:
        raise ToolError(
            f"The MCP server {found.entry.name} is not connected: {printable(str(error))}"
        ) from error
    names = found.offer.names
    if tool not in names:
        full = f"{FOREIGN_PREFIX}{found.word}__{tool}".lower()
        near = next((name for name, known in names.items() if known.lower() == full), None)
        if near is None:
            raise ToolError(f"{found.entry.name} has no tool {tool!r}. It has: {_listed_names(names)}.")
        tool = near
    return server_tool(found, tool)


def _server(servers: Sequence[McpServer], name: str, other: str) -> McpServer:
    """Return the server of that name or word; without a name the only one, or the one with `other`.

    Raises ToolError.
    """
    usable = [server for server in servers if server.enabled]
    if name:
        lowered = name.lower()
        found = [each for each in usable if lowered in (each.entry.name.lower(), each.word.lower())]
    else:
        found = [
            each for each in usable if other in each.offer.names or other.startswith(f"@{each.entry.name}:")
        ]
        if len(found) != 1:
            found = usable if len(usable) == 1 else []
    if not found:
        names = ", ".join(each.entry.name for each in usable) or "none"
        wrong = f"Unknown MCP server {name!r}" if name else "Name the server"
        raise ToolError(f"{wrong}. The servers are: {names}.")
    return found[0]


async def _run(servers: Sequence[McpServer], given: McpArguments, call: ToolCall) -> ToolResult:
    """Answer a question about servers. Calls and reads are resolved to other tools, see `_resolve`."""
    if given.action == "describe":
        tool = await _find_server_tool(servers, given.server, given.tool)
        return text_result(
            f"{tool.name}: {tool.description}\nIts parameters: {printable(schema_text(tool.arguments))}"
        )
    chosen = [_server(servers, given.server, "")] if given.server else [s for s in servers if s.enabled]
    await wait_for(chosen, SEARCH_WAIT_S)
    if given.action == "read":
        return text_result(printable("\n".join(_resource_lines(chosen))) or "No resources.")
    lines = _found_lines(chosen, given.query)
    instructions = chosen[0].greeting.get("instructions") if given.server and not chosen[0].failure else None
    if isinstance(instructions, str) and instructions.strip():
        lines.append(f"[the server says: {printable(instructions[:2_000])}]")
    return text_result(
        "\n".join((*lines, *_unconnected(chosen))) or "No tool matches. Search without words to list all."
    )


class _FoundTool(NamedTuple):
    """A tool that a search found, with its score and its line."""

    score: int
    line: str


def _found_lines(servers: Sequence[McpServer], query: str) -> list[str]:
    """Return a line for each matching tool, best first, and the number of further ones."""
    words = re.findall(r"\w+", query.lower())
    found = []
    for server in servers:
        for name, raw in server.offer.tools.items() if not server.failure else ():
            text = f"{server.entry.name} {name} {raw.get('description', '')}".lower()
            score = sum((word in text) + 2 * (word in name.lower()) for word in words)
            if score or not words:
                described = " ".join(description_of(raw).split())[:160]
                found.append(_FoundTool(score, f"{server.entry.name} {name}: {described}"))
    found.sort(key=lambda each: -each.score)
    lines = [each.line for each in found[:40]]
    more = len(found) - len(lines)
    return [*lines, f"and {more} more; search with words"] if more > 0 else lines


def _resource_lines(servers: Sequence[McpServer]) -> list[str]:
    lines = [
        f"@{server.entry.name}:{raw['uri']} {raw.get('description') or raw.get('name') or ''}"
        for server in servers
        if not server.failure
        for raw in server.offer.resources
    ]
    more = len(lines) - MAX_LISTED_RESOURCES
    lines = [line[:MAX_LINE_CHARS] for line in lines]
    return [*lines[:MAX_LISTED_RESOURCES], f"and {more} more"] if more > 0 else lines


def _unconnected(servers: Sequence[McpServer]) -> list[str]:
    failed = [each for each in servers if each.failure]
    return [f"[{each.entry.name} is {each.state}: {printable(each.failure)}]" for each in failed]


def news_of(server: McpServer) -> str:
    """Return the note for the model about a server that was connected or has changed its tools."""
    names = _listed_names(server.offer.names) or "none"
    more = f" Resources: {len(server.offer.resources)}." if server.offer.resources else ""
    return f"MCP server {server.entry.name} connected: {names}.{more}"


def _listed_names(names: Collection[str]) -> str:
    """Return the names of a server's tools, and how many more there are."""
    more = len(names) - MAX_LISTED_TOOLS
    listed = ", ".join(islice(names, MAX_LISTED_TOOLS))
    return f"{listed} and {more:,} more, which search finds" if more > 0 else listed


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
