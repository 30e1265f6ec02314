"""The tools of servers as tools of ours: `mcp__server__tool`, judged, run and recorded under that name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from agent.permissions import FOREIGN_PREFIX
from tools.base import Access, Tool, ToolCall, ToolContext, ToolError, ToolResult
from tools.text import printable
from tools.user_questions import Preview

from .failures import ServerFailed
from .offer import RESOURCES
from .results import ResultPlace, mcp_result, resource_result
from .schemas import OPEN_SCHEMA, checked_schema, is_declarable, schema_text
from .server import McpServer
from .session import Message

MAX_MCP_TITLE_CHARS = 200
MAX_DESCRIPTION_CHARS = 4_000


def server_tool(server: McpServer, name: str) -> Tool:
    """Return the tool of a server as a tool of ours."""
    raw = server.offer.tools[name]
    schema = raw.get("inputSchema")
    return Tool(
        name=server.offer.names[name],
        description=description_of(raw),
        arguments=schema if isinstance(schema, dict) else OPEN_SCHEMA,
        checked=checked_schema(schema),
        kind="other",
        title=call_title,
        preview=_preview,
        access=partial(_access, server.offer.names[name]),
        run=partial(_call, server, name),
    )


def direct_tool(server: McpServer, name: str) -> Tool:
    """Return the tool with a schema that the API accepts, since an invalid one would fail every request.

    Other schemas are put in the description instead, and the server checks the arguments.
    """
    tool = server_tool(server, name)
    schema = tool.arguments if isinstance(tool.arguments, Mapping) else OPEN_SCHEMA
    if is_declarable(schema):
        return tool
    described = f"{tool.description}\nIts arguments: {schema_text(schema)}"
    return replace(tool, description=described[:MAX_DESCRIPTION_CHARS], arguments=OPEN_SCHEMA)


def deferred_tool(server: McpServer, name: str) -> Tool:
    """Return the tool as one that the service loads when the model has searched for it.

    Agents call it through `mcp`, which their definitions can restrict.
    """
    return replace(direct_tool(server, name), deferred=True, for_agents=False)


def resource_tool(server: McpServer) -> Tool:
    """Return a tool that reads a resource of the server."""
    name = f"{FOREIGN_PREFIX}{server.word}__{RESOURCES}"
    return Tool(
        name=name,
        description="",
        arguments={"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]},
        kind="other",
        title=lambda arguments: str(arguments.get("uri", ""))[:MAX_MCP_TITLE_CHARS],
        preview=lambda arguments, context: Preview(text=str(arguments.get("uri", ""))),
        access=partial(_access, name),
        run=partial(_read, server, name),
    )


def description_of(raw: Message) -> str:
    """Return the server's description of a tool, without invisible characters."""
    text = str(raw.get("description") or raw.get("title") or raw.get("name") or "")
    return printable(text)[:MAX_DESCRIPTION_CHARS] or "(no description)"


class CheckedCall(NamedTuple):
    """A tool of a server, and arguments that match its schema."""

    tool: Tool
    arguments: Mapping[str, Any]


def checked_call(tool: Tool, given: Mapping[str, Any]) -> CheckedCall:
    """Return a call with arguments that match the tool's schema. Raises ToolError with the schema."""
    try:
        return CheckedCall(tool, tool.parse(given))
    except ToolError as error:
        raise ToolError(f"{error}\nIts schema: {schema_text(tool.arguments)}") from None


def call_title(arguments: object) -> str:
    """Return the arguments of a call in one line."""
    return json.dumps(arguments, ensure_ascii=False, default=str)[:MAX_MCP_TITLE_CHARS]


def _preview(arguments: object, context: ToolContext) -> Preview:
    """Return all the arguments, one on each line if they are many."""
    indent = 2 if len(call_title(arguments)) == MAX_MCP_TITLE_CHARS else None
    return Preview(text=json.dumps(arguments, ensure_ascii=False, default=str, indent=indent))


def _access(name: str, arguments: object, context: ToolContext) -> tuple[Access, ...]:
    """Return the tool itself as the access, since a server may do anything and rules name its tools."""
    return (Access("server", name),)


async def _call(server: McpServer, name: str, arguments: Mapping[str, Any], call: ToolCall) -> ToolResult:
    given = {"name": name, "arguments": dict(arguments)}
    answer = await _asked(server, "tools/call", given, call)
    about = {"tool": server.offer.names.get(name, name)}
    return await mcp_result(answer, _place(server, call), about)


async def _read(server: McpServer, name: str, arguments: Mapping[str, Any], call: ToolCall) -> ToolResult:
    answer = await _asked(server, "resources/read", {"uri": arguments["uri"]}, call)
    return await resource_result(answer, _place(server, call), {"tool": name})


def _place(server: McpServer, call: ToolCall) -> ResultPlace:
    return ResultPlace(entry=server.entry, context=call.context, ident=call.ident)


async def _asked(server: McpServer, method: str, params: Message, call: ToolCall) -> Message:
    """Return the server's answer. Raises ToolError."""
    try:
        return await server.request(method, params, call.progress)
    except ServerFailed as error:
        raise ToolError(f"MCP server {server.entry.name}: {printable(str(error))}") from error
