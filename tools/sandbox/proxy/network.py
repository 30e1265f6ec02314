"""The network of sandboxed commands: a proxy to the allowed hosts, and the allowed ports of this machine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from .hosts import local_port
from .local_ports import LocalPorts
from .server import NetworkProxy, start_proxy


class SandboxNetwork(Struct):
    """The network that a session's commands can use. Belongs to one event loop.

    environ       may name a proxy for the user's own connections
    proxy         None before the first `use`, and if its socket cannot be made: commands have no network then
    port_sockets  the sockets of the allowed ports, each named for its port
    """

    environ: Mapping[str, str]
    proxy: NetworkProxy | None = None
    port_sockets: tuple[Path, ...] = ()
    _folder: Path | None = None
    _ports: LocalPorts | None = None

    async def use(self, targets: Iterable[str]) -> bool:
        """Allow these hosts and `localhost:PORT`s only. Returns whether sockets came or went."""
        targets = tuple(targets)
        before = (self.proxy, self.port_sockets)
        with suppress(OSError):  # without the socket, the command reports that it cannot connect
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="makeroom-net-"))
                self.proxy = await start_proxy(self._folder / "proxy", environ=self.environ)
            if self.proxy is not None:
                self.proxy.use_hosts(targets)
                ports = [port for target in targets if (port := local_port(target))]
                if ports and self._ports is None:
                    self._ports = LocalPorts(self._folder / "ports")
                if self._ports is not None:
                    await self._ports.use(ports)
        if self._ports is not None:
            self.port_sockets = self._ports.sockets
        return (self.proxy, self.port_sockets) != before

    async def close(self) -> None:
        """End every connection, and remove the sockets."""
        if self.proxy is not None:
            await self.proxy.close()
        if self._ports is not None:
            await self._ports.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
