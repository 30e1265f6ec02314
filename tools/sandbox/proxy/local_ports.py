"""Let sandboxed commands reach single ports of this machine that the user allowed: `net(localhost:5432)`.

The sandbox has a loopback interface of its own. Its relay listens there on the same port, and joins each
connection to a Unix socket of this process, which is named for the port and leads to it. Data is not
inspected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from .host_connection import HostConnection
from .relaying import ClientEnd, close_writer, pass_on


class LocalPorts:
    """The sockets for allowed ports, in a private directory. Belongs to one event loop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[int, asyncio.Server] = {}
        self._joined: set[asyncio.Task[None]] = set()

    @property
    def sockets(self) -> tuple[Path, ...]:
        """The paths of the sockets, each named for its port."""
        return tuple(self._folder / str(port) for port in sorted(self._servers))

    async def use(self, ports: Iterable[int]) -> None:
        """Allow these ports only. Raises OSError if a socket cannot be made."""
        wanted = set(ports)
        for port in self._servers.keys() - wanted:
            self._servers.pop(port).close()
            (self._folder / str(port)).unlink(missing_ok=True)
        for port in wanted - self._servers.keys():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            path = self._folder / str(port)
            self._servers[port] = await asyncio.start_unix_server(partial(self._accept, port), path)

    async def close(self) -> None:
        """Allow no port, and end all connections."""
        await self.use(())
        for task in self._joined:
            task.cancel()
        await asyncio.gather(*self._joined, return_exceptions=True)

    def _accept(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._joined) >= 256:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._join(port, ClientEnd(reader, writer)))
        self._joined.add(task)
        task.add_done_callback(self._joined.discard)

    async def _join(self, port: int, client: ClientEnd) -> None:
        """Join one connection to the port until both ends are done. It is closed if nothing listens there."""
        try:
            for address in ("127.0.0.1", "::1"):  # a server on "localhost" may use either
                with suppress(ConnectionRefusedError):
                    reader, writer = await asyncio.open_connection(address, port)
                    try:
                        return await pass_on(client, HostConnection(reader, writer), None)
                    finally:
                        await close_writer(writer)
        except OSError:
            pass  # the other end notices
        finally:
            await close_writer(client.writer)
