"""Choose the model, and get its facts from a disk cache, the server or the adapter's catalog."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import asdict, replace

from agent.errors import ModelError, ModelNotFound, UnknownModel
from agent.model_port import Model, ModelFacts
from agent.settings_files import json_object_in
from transcripts.secrets import mask
from transcripts.storage import make_private_folders, replace_file

from .error_mapping import LOCAL
from .server_windows import name_some

DESCRIBE_TIMEOUT_S = 5.0  # without an answer, the catalog is good enough


class ModelFactsCache(Struct, frozen=True):
    """The facts that servers report about models, in a JSON file; a missing or broken file is empty."""

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
        """Store facts for later runs; a cache that cannot be written is not an error."""
        entries = self._read()
        entries[_key(server, facts.id)] = {"at": now, "facts": asdict(facts)}
        try:
            make_private_folders(self.path.parent)
            replace_file(self.path, json.dumps(entries).encode(), durable=False)
        except OSError:
            return

    def _read(self) -> dict[str, Any]:
        return json_object_in(self.path, 1024 * 1024)


def _key(server: str, model: str) -> str:
    """Return the name of an entry, with a password in the URL masked."""
    return f"{mask(server)} {model}"


class ModelSelection:
    """The model in use.

    facts    of the model chosen last; without a cache, each choice asks the server
    checked  whether the server has confirmed that it has this model
    learned  the windows in tokens, by model, named in errors of the server during this run
    """

    def __init__(
        self, model: Model, name: str, now: Callable[[], float], cache: ModelFactsCache | None
    ) -> None:
        self.model = model
        self.facts = model.known_facts(model.catalog.resolve(name))
        self.checked = False
        self.learned: dict[str, int] = {}
        self._now = now
        self._cache = cache

    def for_model(self, name: str) -> ModelSelection:
        """Return a new selection with the same service; this one is not changed."""
        made = ModelSelection(self.model, name=name, now=self._now, cache=self._cache)
        made.learned = self.learned
        return made

    def knows(self, model: str) -> bool:
        """Return whether the service is known to have a model, without asking it."""
        cached = self._cache.get(self.model.server, model, self._now()) if self._cache else None
        return cached is not None or self.model.known_facts(model).known

    async def choose(self, name: str) -> None:
        """Use a model by its id or alias. Raises UnknownModel if the service does not have it."""
        model = self.model.catalog.resolve(name)
        found = self._cache.get(self.model.server, model, self._now()) if self._cache else None
        self.checked = found is not None
        if found is not None and urlsplit(self.model.server).hostname not in LOCAL:
            self.facts = found
            return
        # A server on this machine answers quickly and may have changed; a window learned from it is kept.
        asked = await self._describe(model)
        if asked is None:
            self.facts = found or self.model.known_facts(model)
            return
        self.checked = True
        if found is not None and found.window_source and not asked.window_source:
            asked = replace(asked, window=found.window, window_source=found.window_source)
        self.facts = asked
        self._remember(asked)

    def doubt(self) -> str:
        """Return a warning about a model that is neither known nor confirmed by the server; else ""."""
        if self.facts.known:
            return ""
        catalog = self.model.catalog
        near = catalog.suggest(self.facts.id)
        names = ", ".join(catalog.aliases) or name_some([facts.id for facts in catalog.models])
        hint = f"; did you mean {near}?" if near and near != self.facts.id else ""
        if self.checked:
            return f"{mask(self.model.server)} does not list this model{hint}"
        if not hint and catalog.models:
            hint = f"; known models are {names}"
        return f"cannot ask {mask(self.model.server)} whether it has this model{hint}"

    async def _describe(self, model: str) -> ModelFacts | None:
        """Ask the server about the model; None without an answer. Raises UnknownModel."""
        try:
            return await asyncio.wait_for(self.model.describe(model), DESCRIBE_TIMEOUT_S)
        except ModelNotFound as error:
            catalog = self.model.catalog
            near = catalog.suggest(model, error.listed)
            aliases = ", ".join(catalog.aliases)
            if not near and (error.listed or not aliases):
                raise UnknownModel(str(error), error.listed) from error  # names the available models
            hint = f"did you mean {near}?" if near else f"use a full id, or one of {aliases}"
            if error.listed:
                hint = f"{hint} The server has {name_some(error.listed)}"
            raise UnknownModel(f"unknown model {model!r}; {hint}", error.listed) from error
        except (ModelError, TimeoutError):
            return None

    async def available(self) -> tuple[str, ...]:
        """Return the models of a compatible server; () without an answer, and for the service itself."""
        try:
            return tuple(await asyncio.wait_for(self.model.list_models(), DESCRIBE_TIMEOUT_S))
        except (ModelError, TimeoutError):
            return ()

    def learn_window(self, tokens: int) -> None:
        """Remember the window size that a rejected request has shown, for this model and server."""
        self.facts = replace(self.facts, window=tokens, window_source="an error message of the server")
        self.learned[self.facts.id] = tokens
        self._remember(self.facts)

    def _remember(self, facts: ModelFacts) -> None:
        if self._cache is not None:
            self._cache.put(self.model.server, facts, self._now())
