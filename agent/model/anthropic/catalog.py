"""The facts about Anthropic's models: windows, output limits, features. Pure.

The models endpoint corrects the table. For a model that neither lists, the base URL decides: the Anthropic
API is assumed to support every feature, any other server none. An unknown model is assumed to bind thinking
to its prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from agent.model_port import ModelCatalog, ModelFacts, is_believable
from transcripts.patterns import lazy_pattern

from .clouds import listed_name


def _claude(
    id: str, window: int = 1_000_000, max_output: int = 128_000, binds: bool = True, system_role: bool = False
) -> ModelFacts:
    return ModelFacts(
        id,
        window=window,
        max_output=max_output,
        thinking=True,
        binds=binds,
        effort=True,
        cache=True,
        eager=True,
        system_role=system_role,
        diagnoses=True,
    )


# Windows and limits from Anthropic's model overview of November 2026.
CATALOG = ModelCatalog(
    default="claude-sonnet-5-5",
    aliases={"opus": "claude-opus-5-5", "sonnet": "claude-sonnet-5-5", "haiku": "claude-haiku-5-5"},
    models=(
        _claude("claude-opus-5-5", system_role=True),
        _claude("claude-sonnet-5-5", system_role=True),
        _claude("claude-haiku-5-5", system_role=True),
        _claude("claude-fable-5-1", system_role=True),
        _claude("claude-fable-5-2", system_role=True),
        _claude("claude-mythos-5-1"),
        _claude("claude-mythos-5-2"),
        _claude("claude-opus-5", binds=False, system_role=True),
        _claude("claude-sonnet-5", binds=False),
        _claude("claude-fable-5", binds=False, system_role=True),
        _claude("claude-opus-4-8", binds=False, system_role=True),
        _claude("claude-opus-4-7", binds=False),
        _claude("claude-opus-4-6", binds=False),
        _claude("claude-sonnet-4-6", binds=False),
        replace(_claude("claude-haiku-4-5", 200_000, 64_000, binds=False), thinking=False, effort=False),
        replace(_claude("claude-sonnet-4-5", 200_000, 64_000, binds=False), thinking=False, effort=False),
        replace(_claude("claude-opus-4-5", 200_000, 64_000, binds=False), thinking=False),
    ),
)
_DATE = lazy_pattern(r"\d{4}-\d\d-\d\d(?!\d)")
_DATE_SUFFIX = lazy_pattern(r"-\d{8}$")


def facts_from_catalog(model: str, official: bool) -> ModelFacts:
    """Return the facts known without a request; `official`: the base URL is the Anthropic API's own."""
    undated = _DATE_SUFFIX.sub("", listed_name(model))
    known = next((facts for facts in CATALOG.models if facts.id == undated), None)
    if known is not None:
        known = replace(known, id=model)
        if official:
            return known
        off = dict.fromkeys(("effort", "thinking", "cache", "eager", "system_role", "diagnoses"), False)
        return replace(known, **off)
    return (
        replace(_claude(model, 200_000, 32_000), known=False) if official else ModelFacts(model, known=False)
    )


def facts_from_endpoint(facts: ModelFacts, answer: Mapping[str, Any], official: bool) -> ModelFacts:
    """Return the facts about a model, corrected by the response of the models endpoint.

    Missing and implausible values change nothing.
    """
    window = answer.get("max_input_tokens")
    max_output = answer.get("max_tokens")
    if is_believable(window):
        facts = replace(facts, window=window, window_source="/v1/models: max_input_tokens", known=True)
    if is_believable(max_output):
        facts = replace(facts, max_output=max_output)
    retires_at = answer.get("retires_at")
    if isinstance(retires_at, str) and _DATE.match(retires_at):
        facts = replace(facts, retires_on=retires_at[:10])
    capabilities = answer.get("capabilities")
    if not isinstance(capabilities, Mapping):
        return facts
    adaptive = _supports(capabilities, "thinking", "types", "adaptive")
    effort = any(_supports(capabilities, "effort", *level) for level in ((), ("low",), ("high",)))
    return replace(facts, thinking=adaptive, effort=effort, cache=True, eager=official)


def _supports(raw: Any, *path: str) -> bool:
    """Return whether the capability at a path of keys is supported."""
    for name in (*path, "supported"):
        raw = raw.get(name) if isinstance(raw, Mapping) else None
    return raw is True
