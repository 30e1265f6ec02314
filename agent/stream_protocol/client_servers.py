"""MCP servers that live within the client: JSON-RPC in requests of ours, spoken as with any other server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from agent.extensions.mcp import (
    ConnectionLost,
    McpServer,
    ServerFailed,
    ServerLimits,
    read_entry,
    server_words,
)

from .client_channel import ClientChannel, ClientRefused

CLIENT_CALL_TIMEOUT_S = 1_800.0  # of a tool within the client


class ClientConnection(Struct):
    """The way to one server; `deliver` takes what it answers."""

    name: str
    channel: ClientChannel
    deliver: Callable[[Any], None]

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message, and wait for what the client answers. Raises ServerFailed."""
        request = {"subtype": "mcp_message", "server_name": self.name, "message": message}
        try:
            answer = (await self.channel.ask(request)).get("mcp_response")
        except ClientRefused as error:
            raise ConnectionLost(str(error)) from error
        if "id" in message:
            if not isinstance(answer, dict):
                raise ServerFailed(f"{message.get('method')}: the answer is no JSON-RPC response")
            self.deliver({**answer, "id": message["id"]})

    @property
    def hint(self) -> str:
        return ""

    def failure(self, reason: str) -> ServerFailed:
        return ServerFailed(reason)

    def close(self) -> None:
        """Nothing to release: the server belongs to the client."""


def client_servers(names: list[str], channel: ClientChannel) -> tuple[McpServer, ...]:
    """The servers of these names within the client; none is connected yet."""
    words = server_words(names)

    def server(name: str) -> McpServer:
        async def connect(deliver: Callable[[Any], None], lost: Callable[[str], None]) -> ClientConnection:
            return ClientConnection(name, channel, deliver)

        entry = read_entry(name, {"type": "sdk"}, "flag", {})
        return McpServer(entry, words[name], connect, ServerLimits(call_s=CLIENT_CALL_TIMEOUT_S))

    return tuple(map(server, dict.fromkeys(names)))
