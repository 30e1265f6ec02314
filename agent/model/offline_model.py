"""The demo model of `--offline`: a loopback server in a thread of this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.model.anthropic.client import AnthropicModel
from agent.model_port import ModelCatalog
from agent.offline.brain import Brain
from agent.offline.server import Server, ServerOptions

PACE_S = 0.004  # before each delta of the demo, so that it looks alive


@dataclass(slots=True)
class OfflineModel(AnthropicModel):
    """A server that is started by `connect` and ended by `close`."""

    window: int | None = None
    _running: Any = None

    def connect(self) -> None:
        if self._running is None:
            options = ServerOptions(window=self.window, delay=PACE_S, keep_requests=False)
            self._running = Server(Brain(), options)
            self._running.start()
            self.base_url, self.key, self.assume_official = self._running.base_url, "offline", True
        AnthropicModel.connect(self)

    async def close(self) -> None:
        await AnthropicModel.close(self)
        if self._running is not None:
            self._running.close()


def offline_model(window: int | None) -> OfflineModel:
    return OfflineModel(catalog=ModelCatalog("makeroom-offline"), window=window)
