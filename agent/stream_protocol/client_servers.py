"""MCP servers inside the client: their JSON-RPC is sent in requests to the client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from agent.extensions.mcp import ConnectionLost, McpServer, Opener, ServerFailed, client_servers

from .client_channel import ClientChannel, ClientRefused


class ClientConnection(Struct):
    """The connection to one server; `deliver` takes its answers."""

    name: str
    channel: ClientChannel
    deliver: Callable[[Any], None]

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message, and wait for the client's answer. Raises ServerFailed."""
        request = {"subtype": "mcp_message", "server_name": self.name, "message": message}
        try:
            answer = (await self.channel.ask(request)).body.get("mcp_response")
        except ClientRefused as error:
            raise ConnectionLost(str(error)) from error
        if "id" in message:
            if not isinstance(answer, dict):
                raise ServerFailed(f"{message.get('method')}: the answer is not a JSON-RPC response")
            self.deliver({**answer, "id": message["id"]})

    @property
    def hint(self) -> str:
        return ""

    def failure(self, reason: str) -> ServerFailed:
        return ServerFailed(reason)

    def close(self) -> None:
        """Do nothing: the server belongs to the client."""


def servers_within(names: Iterable[str], channel: ClientChannel) -> tuple[McpServer, ...]:
    """Return the servers with these names inside the client, not yet connected."""

    def opener(name: str) -> Opener:
        async def connect(deliver: Callable[[Any], None], lost: Callable[[str], None]) -> ClientConnection:
            return ClientConnection(name, channel=channel, deliver=deliver)

        return connect

    return tuple(client_servers(names, opener, 1_800.0))
