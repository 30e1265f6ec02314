"""Find out how large the window of a compatible server is: each kind tells it in a place of its own.

vLLM and gateways say it in their list of models, llama.cpp there or in /props, Ollama in /api/ps of what is
loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import product
from typing import Any

from agent.model_port import ModelFacts, is_believable

# Fields of an entry in a list of models, or below its "meta": vLLM, OpenRouter and Together, Groq, LM Studio,
# Anthropic, llama.cpp (whose `n_ctx_train` is what the model was trained with, not what there is room for).
WINDOW_FIELDS = (
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
    "n_ctx",
)

Get = Callable[[str], Awaitable[Any]]
"""From a path at the root of a server to the JSON value there, None where there is none."""


async def with_window(facts: ModelFacts, get: Get, entries: list[dict[str, Any]] | None = None) -> ModelFacts:
    """The facts with the window that a server tells, where it tells one.

    `entries` is its list of models where that is known already, else it is asked for.
    """
    if entries is None:
        listed = await get("/v1/models")
        found = listed.get("data") if isinstance(listed, dict) else None
        entries = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    for entry in entries:
        if _is_named(entry, facts.id):
            meta = entry.get("meta")
            for name, about in product(WINDOW_FIELDS, (entry, meta if isinstance(meta, dict) else {})):
                if size := _tokens(about.get(name)):
                    return replace(facts, window=size, window_source=f"/v1/models: {name}", known=True)
    props, loaded = await asyncio.gather(get("/props"), get("/api/ps"))
    generation = props.get("default_generation_settings") if isinstance(props, dict) else None
    if size := _tokens(generation.get("n_ctx") if isinstance(generation, dict) else None):
        return replace(facts, window=size, window_source="/props: n_ctx", known=True)
    models = loaded.get("models") if isinstance(loaded, dict) else None
    if not isinstance(models, list):
        return facts
    facts = replace(facts, cuts_silently=True)  # it is Ollama
    for entry in models:
        if (
            isinstance(entry, dict)
            and _is_named(entry, facts.id)
            and (size := _tokens(entry.get("context_length")))
        ):
            return replace(facts, window=size, window_source="/api/ps: context_length", known=True)
    return facts


def _is_named(entry: dict[str, Any], model: str) -> bool:
    names = {entry.get(name) for name in ("id", "name", "model") if isinstance(entry.get(name), str)}
    return bool(names & {model, f"{model}:latest"})


def _tokens(value: Any) -> int:
    return value if is_believable(value) else 0
