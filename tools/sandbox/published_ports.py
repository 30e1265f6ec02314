"""Publish ports that sandboxed commands listen on, as ports of this machine's loopback address.

Sandboxed commands have a network of their own, which the user's browser cannot reach. Their spawner connects
in that network and passes the socket to this process, which relays the data. Only programs on this machine
can connect, and all published ports end with the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from tools.sandbox.proxy.host_connection import HostConnection
from tools.sandbox.proxy.relaying import ClientEnd, close_writer, pass_on

from .command_socket import SupervisorLost
from .supervisor_client import Supervisor


class PublishedPorts:
    """The published ports. Belongs to one event loop."""

    def __init__(self, supervisor: Callable[[], Awaitable[Supervisor]]) -> None:
        self._supervisor = supervisor
        self._servers: dict[int, asyncio.Server] = {}
        self._relayed: dict[asyncio.Task[None], int] = {}

    @property
    def ports(self) -> dict[int, int]:
        """The published port of this machine by the port of sandboxed commands."""
        return {port: server.sockets[0].getsockname()[1] for port, server in self._servers.items()}

    async def publish(self, port: int, outside: int) -> None:
        """Forward the port `outside` of this machine to a port in the sandbox. Raises OSError."""
        await self.withdraw(port)
        self._servers[port] = await asyncio.start_server(partial(self._accept, port), "127.0.0.1", outside)

    async def withdraw(self, port: int) -> bool:
        """Stop publishing a port, and close its connections; return whether it was published."""
        server = self._servers.pop(port, None)
        if server is None:
            return False
        server.close()
        relayed = [task for task, its_port in self._relayed.items() if its_port == port]
        for task in relayed:
            task.cancel()
        await asyncio.gather(*relayed, return_exceptions=True)
        return True

    async def close(self) -> None:
        """Stop publishing all ports. May be called again."""
        for port in [*self._servers]:
            await self.withdraw(port)

    def _accept(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._relayed) >= 256:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._relay(port, ClientEnd(reader, writer)))
        self._relayed[task] = port
        task.add_done_callback(self._relayed.pop)

    async def _relay(self, port: int, client: ClientEnd) -> None:
        """Relay one connection until both ends are done. It is closed if nothing listens in the sandbox."""
        try:
            inner = await (await self._supervisor()).connect(port)
            reader, writer = await asyncio.open_connection(sock=inner)
            try:
                await pass_on(client, HostConnection(reader, writer), None)
            finally:
                await close_writer(writer)
        except (OSError, SupervisorLost):
            pass  # the other end notices
        finally:
            await close_writer(client.writer)
