"""The models of a compatible server, and the sizes of their windows.

vLLM and gateways report the window in their list of models, llama.cpp there or in /props, and Ollama in
/api/ps for loaded models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import product
from typing import Any

from msgspec.structs import replace

from agent.errors import ModelNotFound
from agent.model_port import ModelFacts, is_believable

# Fields of an entry in a list of models, or in its "meta": vLLM, OpenRouter and Together, Groq, LM Studio,
# Anthropic, llama.cpp (whose `n_ctx_train` is the window in training, not the available one).
WINDOW_FIELDS = (
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
    "n_ctx",
)

MAX_SUGGESTED_MODELS = 5

Get = Callable[[str], Awaitable[Any]]
"""Gets the JSON value at a path below the root of a server, None if there is none."""


def listed_models(answer: Any) -> list[dict[str, Any]]:
    """Return the entries of a server's list of models that have a usable `id`."""
    found = answer.get("data") if isinstance(answer, dict) else None
    entries = found if isinstance(found, list) else []
    return [each for each in entries if isinstance(each, dict) and _is_model_id(each.get("id"))]


def _is_model_id(value: Any) -> bool:
    # Ids are shown, recorded and sent.
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()


def facts_from_list(known: ModelFacts, entries: list[dict[str, Any]]) -> ModelFacts:
    """Return the known facts about a model, with its id from the server's list; id "" means the only model.

    A gateway may list patterns, and some models have variants. Raises ModelNotFound for an unlisted model.
    """
    ids = [str(entry["id"]) for entry in entries]
    if known.id and (not ids or any("*" in each for each in ids)):
        return known
    wanted = {known.id, known.id.partition(":")[0], f"{known.id}:latest"} if known.id else set(ids)
    found = [entry for entry in entries if entry["id"] in wanted]
    if not found or (not known.id and len(found) > 1):
        which = f"unknown model {known.id!r}" if known.id else "choose a model with --model or OPENAI_MODEL"
        raise ModelNotFound(f"{which}; the server has {name_some(ids)}", ids)
    return replace(known, id=known.id or str(found[0]["id"]), known=True)


def name_some(ids: Sequence[str]) -> str:
    """Return the first few models of a server in words."""
    more = " and others" if len(ids) > MAX_SUGGESTED_MODELS else ""
    return f"{', '.join(sorted(ids)[:MAX_SUGGESTED_MODELS]) or 'none'}{more}"


async def checked_by_list(known: ModelFacts, get: Get) -> ModelFacts:
    """Return the facts about a model for which the server has no page; it may have pages for none.

    llama.cpp answers with its one model under every name. A gateway that lists a Claude model may have more,
    and these by several names. Raises ModelNotFound for a model that the server does not have.
    """
    answer = await get("/v1/models")
    entries = listed_models(answer)
    if [entry.get("owned_by") for entry in entries] == ["llamacpp"]:
        return facts_from_list(ModelFacts("", known=False), entries)
    has_claude = any("claude" in str(entry["id"]).lower() for entry in entries)
    is_whole = isinstance(answer, dict) and not answer.get("has_more")
    return facts_from_list(known, entries) if is_whole and not (known.known and has_claude) else known


async def with_window(facts: ModelFacts, get: Get, entries: list[dict[str, Any]] | None = None) -> ModelFacts:
    """Return the facts with the window that a server reports, if it does.

    `entries` is its list of models if that is already known; otherwise it is requested.
    """
    if entries is None:
        entries = listed_models(await get("/v1/models"))
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
