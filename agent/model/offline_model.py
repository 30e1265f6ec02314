"""The embedded offline model as `--offline` runs it: a loopback server in a thread of this process."""

from __future__ import annotations

from dataclasses import dataclass

from agent.offline.brain import Brain
from agent.offline.server import Server, ServerOptions

PACE = 0.004  # seconds before each delta of the demo, so that it looks alive


@dataclass(frozen=True, slots=True)
class OfflineModel:
    """A running server; `close` ends it."""

    server: Server

    @classmethod
    def start(cls, window: int | None, pace: float = PACE) -> OfflineModel:
        """Start it with a context window in tokens (None: its own)."""
        server = Server(Brain(), ServerOptions(window=window, delay=pace, keep_requests=False))
        server.start()
        return cls(server)

    @property
    def base_url(self) -> str:
        return self.server.base_url

    def close(self) -> None:
        self.server.close()
