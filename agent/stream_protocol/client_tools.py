"""The tools of MCP servers within the client as a source of tools."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agent.permissions.rule_syntax import FOREIGN_PREFIX
from tools.base import Access, Tool, ToolCall, ToolContext, ToolError, ToolResult
from transcripts.messages import Block, ImageBlock, TextBlock

from .client_channel import ClientRefused
from .client_servers import ClientServer, ServerFailed

MCP_CALL_TIMEOUT_S = 1_800.0
MAX_MCP_TEXT_CHARS = 4_000_000  # of one result; more is cut
MAX_MCP_TITLE_CHARS = 200
_UNNAMEABLE = re.compile(r"[^\w-]", re.ASCII)


@dataclass(slots=True)
class ClientTools:
    """The tools of one server; implements ports.ToolSource."""

    server: ClientServer

    @property
    def name(self) -> str:
        return self.server.name

    async def open(self, folder: Path, environ: Mapping[str, str]) -> None:
        """See ports.ToolSource; a server that is connected already is not asked again."""
        if self.server.failure:
            await self.server.connect()

    def tools(self) -> Sequence[Tool]:
        """See ports.ToolSource."""
        return [self._tool(raw) for raw in self.server.tools]

    async def close(self) -> None:
        """Nothing to release: the server belongs to the client."""

    def _tool(self, raw: Mapping[str, Any]) -> Tool:
        name, schema, hints = str(raw["name"]), raw.get("inputSchema"), raw.get("annotations")
        return Tool(
            name=tool_name(self.name, name),
            description=str(raw.get("description") or name),
            arguments=schema if isinstance(schema, dict) else {"type": "object", "properties": {}},
            kind="other",
            title=partial(_title, name),
            access=self._access,
            run=partial(self._call, name),
            parallel=isinstance(hints, dict) and hints.get("readOnlyHint") is True,
        )

    def _access(self, arguments: Any, context: ToolContext) -> tuple[Access, ...]:
        """What a server does cannot be told; rules name its tools."""
        return (Access("network", self.name),)

    async def _call(self, name: str, arguments: Mapping[str, Any], call: ToolCall) -> ToolResult:
        if not self.server.enabled:
            raise ToolError(f"The server {self.name} is switched off.")
        try:
            async with asyncio.timeout(MCP_CALL_TIMEOUT_S):
                given = {"name": name, "arguments": dict(arguments)}
                return mcp_result(await self.server.request("tools/call", given))
        except TimeoutError:
            raise ToolError(f"The server {self.name} gave no answer in time.") from None
        except (ClientRefused, ServerFailed) as error:
            raise ToolError(f"The server {self.name} failed: {error}") from error


def mcp_result(answer: Mapping[str, Any]) -> ToolResult:
    """The result of a call as the model is sent it."""
    content = answer.get("content")
    blocks = [_block(part) for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    if not blocks and (structured := answer.get("structuredContent")) is not None:
        blocks = [TextBlock(json.dumps(structured, ensure_ascii=False))]
    return ToolResult(tuple(blocks) or (TextBlock("(no output)"),), error=answer.get("isError") is True)


def _block(part: Mapping[str, Any]) -> Block:
    match part:
        case {"type": "text", "text": str(text)}:
            left = len(text) - MAX_MCP_TEXT_CHARS
            return TextBlock(
                text if left <= 0 else f"{text[:MAX_MCP_TEXT_CHARS]}\n[{left:,} characters more]"
            )
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            return ImageBlock(kind, data)
        case {"type": "resource", "resource": {"text": str(text)}}:
            return TextBlock(text)
    return TextBlock(json.dumps(part, ensure_ascii=False)[:MAX_MCP_TEXT_CHARS])


def _title(name: str, arguments: Any) -> str:
    return f"{name} {json.dumps(arguments, ensure_ascii=False)}"[:MAX_MCP_TITLE_CHARS]


def tool_name(server: str, tool: str) -> str:
    """The name of a server's tool: mcp__server__tool."""
    return f"{FOREIGN_PREFIX}{_UNNAMEABLE.sub('_', server)}__{_UNNAMEABLE.sub('_', tool)}"


def tool_sizes(server: ClientServer, count: Callable[[str], int]) -> list[dict[str, Any]]:
    """The tools of a server with the tokens that each takes."""
    return [
        {
            "name": tool_name(server.name, str(tool["name"])),
            "serverName": server.name,
            "tokens": count(json.dumps(tool)),
            "isLoaded": True,
        }
        for tool in server.tools
    ]
