"""MCP servers that live within the client: JSON-RPC in requests of ours."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.errors import UsageError
from agent.version import __version__

from .client_channel import ClientChannel, ClientRefused

MCP_PROTOCOL = "2025-06-18"
MCP_CONNECT_TIMEOUT_S = 30.0
MAX_TOOL_PAGES = 100  # of one list


class ServerFailed(Exception):
    """A server did not do what it was asked for; the text says why."""


@dataclass(slots=True)
class ClientServer:
    """One server within the client. `enabled` False: its tools refuse; `failure`: "" once it is connected."""

    name: str
    channel: ClientChannel
    enabled: bool = True
    failure: str = "it was not asked yet"
    info: Mapping[str, Any] = field(default_factory=dict)
    tools: list[Mapping[str, Any]] = field(default_factory=list)
    _idents: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def connect(self) -> None:
        """Shake hands and list the tools; a failure is kept in `failure`."""
        begun = {
            "protocolVersion": MCP_PROTOCOL,
            "capabilities": {},
            "clientInfo": {"name": "makeroom", "version": __version__},
        }
        try:
            async with asyncio.timeout(MCP_CONNECT_TIMEOUT_S):
                greeting = await self.request("initialize", begun)
                self.info = greeting.get("serverInfo") or {}
                await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
                self.tools = await self._list()
        except TimeoutError:
            self.failure = f"no answer within {MCP_CONNECT_TIMEOUT_S:.0f} s"
        except (ClientRefused, ServerFailed) as error:
            self.failure = str(error)
        else:
            self.failure = ""

    async def _list(self) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        cursor: Any = None
        for _ in range(MAX_TOOL_PAGES):
            page = await self.request("tools/list", {} if cursor is None else {"cursor": cursor})
            found += [tool for tool in page.get("tools") or () if isinstance(tool, dict) and tool.get("name")]
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        return found

    async def request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The result of a JSON-RPC request. Raises ClientRefused and ServerFailed."""
        message = {"jsonrpc": "2.0", "id": next(self._idents), "method": method, "params": params}
        answer = (await self._send(message)).get("mcp_response")
        if not isinstance(answer, dict):
            raise ServerFailed(f"{method}: the answer is no JSON-RPC response")
        if (error := answer.get("error")) is not None:
            told = error.get("message") if isinstance(error, dict) else error
            raise ServerFailed(f"{method}: {told}")
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    async def _send(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        request = {"subtype": "mcp_message", "server_name": self.name, "message": message}
        return await self.channel.ask(request)

    @property
    def state(self) -> str:
        """ "connected", "failed" or "disabled"."""
        return "disabled" if not self.enabled else "failed" if self.failure else "connected"

    def status(self) -> dict[str, Any]:
        """What a client is told of the server when it asks."""
        config = {"type": "sdk", "name": self.name}
        told: dict[str, Any] = {"name": self.name, "status": self.state, "config": config}
        if self.failure:
            return {**told, "error": self.failure}
        shown = ("name", "description", "annotations")
        tools = [{key: tool[key] for key in shown if key in tool} for tool in self.tools]
        return {**told, "serverInfo": dict(self.info), "tools": tools}


def configured_servers(texts: Sequence[str], folder: Path) -> dict[str, Mapping[str, Any]]:
    """The servers that --mcp-config names, JSON or files, with what is said of each. Raises UsageError."""
    found: dict[str, Mapping[str, Any]] = {}
    for text in texts:
        given = text.strip()
        try:
            data = given if given.startswith("{") else (folder / Path(given).expanduser()).read_text("utf-8")
            raw = json.loads(data)
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"--mcp-config {given[:200]}: {error}") from error
        servers = raw.get("mcpServers") if isinstance(raw, dict) else None
        if not isinstance(servers, dict) or not all(isinstance(one, dict) for one in servers.values()):
            raise UsageError('--mcp-config: it has the form {"mcpServers": {"name": {...}}}')
        found |= servers
    return found
