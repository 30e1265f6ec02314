"""Where replies come from: the client of the service, or the demo, and what is known of the model."""

from __future__ import annotations

import asyncio
import dataclasses

from agent.app.config import OFFICIAL
from agent.app.setup import RunSetup
from agent.errors import ModelError, ModelNotFound, UsageError
from agent.model.anthropic.client import AnthropicModel

from .catalog import ALIASES, ModelFacts, ModelFactsCache, from_endpoint, from_table, nearest, resolve
from .offline_model import OfflineModel

ASKING = 5.0  # seconds that the models endpoint may take; the table is good enough to go on without


class Provider:
    """One client for one run. `facts` are those of the model in use; `server` is its base URL."""

    def __init__(self, setup: RunSetup) -> None:
        self.facts: ModelFacts = from_table(setup.model, setup.config.official)
        self.server = setup.config.base_url or OFFICIAL
        self.api = AnthropicModel()
        self._setup = setup
        self._offline: OfflineModel | None = None
        self._known = ModelFactsCache(setup.config.cache_dir / "models.json")

    @property
    def official(self) -> bool:
        """Whether every field that we know may be sent. The demo takes them all too."""
        return self._setup.config.official or self._offline is not None

    def connect(self) -> None:
        """Start the demo if it was asked for, and make the client (see AnthropicModel.warm).

        Raises AuthenticationError.
        """
        config = self._setup.config
        if self._setup.options.offline:
            self._offline = OfflineModel.start(self._setup.options.context_window)
            self.server = self._offline.base_url
        key = "offline" if self._offline else config.key
        if key is None and config.token is None and not config.official:
            key = "none"  # a local server asks for no key, the SDK does
        url = None if config.official and not self._offline else self.server
        self.api = AnthropicModel(url, key, config.token, config.timeout, headers=config.custom_headers)
        self.api.warm()

    async def choose(self, name: str) -> None:
        """Use a model: its facts come from the cache on disk, the models endpoint, or the table.

        Raises UsageError where the service itself says that there is no such model.
        """
        model, now = resolve(name), self._setup.clock.now()
        found = None if self._offline else self._known.get(self.server, model, now)
        self.facts = found or await self._ask(model, now)

    async def _ask(self, model: str, now: float) -> ModelFacts:
        try:
            raw = await asyncio.wait_for(self.api.model_facts(model), ASKING)
        except ModelNotFound as error:
            facts = from_table(model, self.official)
            if self.official and not facts.known:
                raise UsageError(unknown_model(model)) from error
            return facts
        except (ModelError, TimeoutError):
            return from_table(model, self.official)
        facts = from_endpoint(model, raw, self.official)
        if self._offline is None:
            self._known.put(self.server, facts, now)
        return facts

    def learn(self, window: int) -> None:
        """A refusal told the window: remember it for this model and server."""
        self.facts = dataclasses.replace(self.facts, window=window)
        if self._offline is None:
            self._known.put(self.server, self.facts, self._setup.clock.now())

    async def close(self) -> None:
        await self.api.close()
        if self._offline is not None:
            self._offline.close()


def unknown_model(name: str) -> str:
    """What to say of a name that no model has."""
    near = nearest(name)
    hint = f"did you mean {near}?" if near else f"give a whole id, or {', '.join(ALIASES)}"
    return f"the service has no model {name!r}; {hint}"
