"""The processes of MCP servers, under a supervisor of their own, which all end with it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.processes import begin_supervisor
from tools.sandbox import Supervisor, SupervisorLost


class ServerProcesses:
    """Starts servers, which all end with `close` or with this process. Belongs to one event loop."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.environ = environ
        self._starting: asyncio.Task[Supervisor] | None = None
        self._closed = False

    @property
    def started(self) -> bool:
        """True once a server has been requested."""
        return self._starting is not None

    async def supervisor(self) -> Supervisor:
        """Return the supervisor; a new one if none runs. Raises SupervisorLost."""
        if self._closed:
            raise SupervisorLost("makeroom is exiting")
        if self._starting is None or self._has_ended(self._starting):
            self._starting = asyncio.ensure_future(
                begin_supervisor(Path(tempfile.mkdtemp(prefix="makeroom-mcp-")), self.environ)
            )
        return await asyncio.shield(self._starting)

    def _has_ended(self, starting: asyncio.Task[Supervisor]) -> bool:
        if not starting.done():
            return False
        return starting.cancelled() or starting.exception() is not None or not starting.result().alive

    async def close(self) -> None:
        """Stop every server, and wait until they have ended."""
        self._closed = True
        if self._starting is None:
            return
        await asyncio.wait({self._starting})
        if not self._starting.cancelled() and self._starting.exception() is None:
            await self._starting.result().close()
