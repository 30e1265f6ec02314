"""What is known of a model: its window, its longest output, what it takes. Pure, but for the cache file.

Comes from the models endpoint, kept on disk for a day; where that is missing or silent, from this table;
and for a model that neither knows, from the base URL: the official one is taken to know everything, any
other server nothing. An unknown model is treated as one that binds thinking to its prefix.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from transcripts.disk import make_private
from transcripts.masking import mask

DEFAULT = "claude-sonnet-5-5"
ALIASES = {"opus": "claude-opus-5-5", "sonnet": DEFAULT, "haiku": "claude-haiku-5-5"}
FRESH = 86_400.0  # seconds that an answer of the models endpoint is taken for true


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """window: input tokens; max_output: tokens; thinking: "adaptive" or None; the rest: may be sent.

    `binds` tells that thinking is bound to the prefix that it was produced on.
    """

    id: str
    window: int = 200_000
    max_output: int = 32_000
    thinking: str | None = None
    binds: bool = True
    effort: bool = False
    cache: bool = False
    eager: bool = False
    known: bool = True


def _claude(id: str, window: int = 1_000_000, max_output: int = 128_000, binds: bool = True) -> ModelFacts:
    return ModelFacts(id, window, max_output, "adaptive", binds, effort=True, cache=True, eager=True)


# Windows and limits as the service's model overview of November 2026 gives them.
TABLE: tuple[ModelFacts, ...] = (
    _claude("claude-opus-5-5"),
    _claude("claude-sonnet-5-5"),
    _claude("claude-haiku-5-5"),
    _claude("claude-fable-5-1"),
    _claude("claude-fable-5-2"),
    _claude("claude-mythos-5-1"),
    _claude("claude-mythos-5-2"),
    _claude("claude-opus-5", binds=False),
    _claude("claude-sonnet-5", binds=False),
    _claude("claude-fable-5", binds=False),
    _claude("claude-opus-4-8", binds=False),
    _claude("claude-opus-4-7", binds=False),
    _claude("claude-opus-4-6", binds=False),
    _claude("claude-sonnet-4-6", binds=False),
    replace(_claude("claude-haiku-4-5", 200_000, 64_000, binds=False), thinking=None, effort=False),
    replace(_claude("claude-sonnet-4-5", 200_000, 64_000, binds=False), thinking=None, effort=False),
    replace(_claude("claude-opus-4-5", 200_000, 64_000, binds=False), thinking=None),
)
_DATED = re.compile(r"-\d{8}$")


def resolve(name: str) -> str:
    """The model id that a name or an alias stands for."""
    return ALIASES.get(name.strip().lower(), name.strip())


def nearest(name: str) -> str:
    """The known model or alias that a name most resembles, "" where none does."""
    known = [*ALIASES, *(facts.id for facts in TABLE)]
    return next(iter(difflib.get_close_matches(name.strip().lower(), known, 1, 0.7)), "")


def from_table(model: str, official: bool) -> ModelFacts:
    """What we know without asking; `official` is whether the base URL is the service's own."""
    plain = _DATED.sub("", model)
    for facts in TABLE:
        if facts.id == plain:
            return (
                facts if official else replace(facts, effort=False, thinking=None, cache=False, eager=False)
            )
    if official:
        return replace(_claude(model, 200_000, 32_000), known=False)
    return ModelFacts(model, known=False)


def from_endpoint(model: str, raw: Mapping[str, Any], official: bool) -> ModelFacts:
    """The table's facts, corrected by what the models endpoint said. What it is silent on stays."""
    facts = from_table(model, official)
    window, longest = raw.get("max_input_tokens"), raw.get("max_tokens")
    if isinstance(window, int) and window > 0:
        facts = replace(facts, window=window, known=True)
    if isinstance(longest, int) and longest > 0:
        facts = replace(facts, max_output=longest)
    capabilities = raw.get("capabilities")
    if not isinstance(capabilities, Mapping):
        return facts
    types = _under(capabilities, "thinking", "types")
    adaptive = _under(types, "adaptive").get("supported") is True
    effort = any(_under(capabilities, "effort", level).get("supported") is True for level in ("low", "high"))
    effort = effort or _under(capabilities, "effort").get("supported") is True
    return replace(
        facts, thinking="adaptive" if adaptive else None, effort=effort, cache=True, eager=official
    )


def _under(raw: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for name in path:
        found = raw.get(name)
        raw = found if isinstance(found, Mapping) else {}
    return raw


@dataclass(frozen=True, slots=True)
class ModelFactsCache:
    """The cache of model facts: one JSON file; a broken or missing one is empty."""

    path: Path

    def get(self, base_url: str, model: str, now: float) -> ModelFacts | None:
        entry = self._read().get(_entry(base_url, model))
        if not isinstance(entry, dict) or not 0 <= now - entry.get("at", 0) < FRESH:
            return None
        try:
            return ModelFacts(**entry["facts"])
        except (KeyError, TypeError):
            return None

    def put(self, base_url: str, facts: ModelFacts, now: float) -> None:
        """Keep facts for next time; a cache that cannot be written is no fault."""
        entries = self._read()
        entries[_entry(base_url, facts.id)] = {"at": now, "facts": asdict(facts)}
        try:
            make_private(self.path.parent)
            fresh = self.path.with_suffix(".tmp")
            fresh.write_text(json.dumps(entries), "utf-8")
            fresh.replace(self.path)
        except OSError:
            return

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _entry(base_url: str, model: str) -> str:
    """The name of an entry: an address may hold a password, which has no place in a cache."""
    return f"{mask(base_url)} {model}"
