"""Choose the model, and know it: from a disk cache, the server, or the adapter's catalog."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import asdict, replace

from agent.errors import ModelError, ModelNotFound, UsageError
from agent.model_port import Model, ModelFacts
from transcripts.secrets import mask
from transcripts.storage import make_private_folders, read_regular, replace_file

from .error_mapping import LOCAL

DESCRIBE_TIMEOUT_S = 5.0  # the catalog is good enough to go on without an answer


class ModelFactsCache(Struct, frozen=True):
    """The facts that servers gave about their models, in one JSON file; a missing or broken one is empty."""

    path: Path

    def get(self, server: str, model: str, now: float) -> ModelFacts | None:
        entry = self._read().get(_key(server, model))
        if not isinstance(entry, dict) or not 0 <= now - entry.get("at", 0) < 86_400.0:  # a day
            return None
        try:
            facts = ModelFacts(**entry["facts"])
        except (KeyError, TypeError):
            return None
        return facts if isinstance(facts.thinking, bool) else None  # written by an earlier version

    def put(self, server: str, facts: ModelFacts, now: float) -> None:
        """Keep facts for next time; a cache that cannot be written is no error."""
        entries = self._read()
        entries[_key(server, facts.id)] = {"at": now, "facts": asdict(facts)}
        try:
            make_private_folders(self.path.parent)
            replace_file(self.path, json.dumps(entries).encode())
        except OSError:
            return

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(read_regular(self.path, 1024 * 1024))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def _key(server: str, model: str) -> str:
    """The name of an entry: a URL may hold a password, which must not be written."""
    return f"{mask(server)} {model}"


class ModelSelection:
    """The model in use. `facts` are of the one chosen last; without a cache every choice asks the server.

    `learned` are the windows in tokens, by model, that errors told since the program was started.
    """

    def __init__(
        self, model: Model, name: str, now: Callable[[], float], cache: ModelFactsCache | None
    ) -> None:
        self.model = model
        self.facts = model.known_facts(model.catalog.resolve(name))
        self.learned: dict[str, int] = {}
        self._now = now
        self._cache = cache

    def beside(self, name: str) -> ModelSelection:
        """Another choice of the same service, still to be made; this one stays as it is."""
        made = ModelSelection(self.model, name, self._now, self._cache)
        made.learned = self.learned
        return made

    def knows(self, model: str) -> bool:
        """Return whether the service has such a model, as far as can be told without asking it."""
        cached = self._cache.get(self.model.server, model, self._now()) if self._cache else None
        return cached is not None or self.model.known_facts(model).known

    async def choose(self, name: str) -> None:
        """Use a model by its id or alias.

        Raises UsageError where the service says that there is none such.
        """
        model = self.model.catalog.resolve(name)
        found = self._cache.get(self.model.server, model, self._now()) if self._cache else None
        if found is not None and urlsplit(self.model.server).hostname not in LOCAL:
            self.facts = found
            return
        # A server on this machine answers at once and may have changed; what it taught is not forgotten.
        asked = await self._describe(model)
        if asked is None:
            self.facts = found or self.model.known_facts(model)
            return
        if found is not None and found.window_source and not asked.window_source:
            asked = replace(asked, window=found.window, window_source=found.window_source)
        self.facts = asked
        self._remember(asked)

    async def _describe(self, model: str) -> ModelFacts | None:
        """Ask the server about the model; None where it says nothing. Raises UsageError."""
        try:
            return await asyncio.wait_for(self.model.describe(model), DESCRIBE_TIMEOUT_S)
        except ModelNotFound as error:
            catalog = self.model.catalog
            near = catalog.suggest(model, error.listed)
            aliases = ", ".join(catalog.aliases)
            if not near and (error.listed or not aliases):
                raise UsageError(str(error)) from error  # which lists the models that there are
            hint = f"did you mean {near}?" if near else f"give a whole id, or {aliases}"
            raise UsageError(f"the service has no model {model!r}; {hint}") from error
        except (ModelError, TimeoutError):
            return None

    def learn_window(self, tokens: int) -> None:
        """A rejected request told the size of the window: remember it for this model and server."""
        self.facts = replace(self.facts, window=tokens, window_source="an error of the server")
        self.learned[self.facts.id] = tokens
        self._remember(self.facts)

    def _remember(self, facts: ModelFacts) -> None:
        if self._cache is not None:
            self._cache.put(self.model.server, facts, self._now())
