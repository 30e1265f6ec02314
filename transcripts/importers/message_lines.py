"""Messages of the Messages API, one object a line, or one list of them: {"role", "content", "timestamp"?}."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .assembly import Count, FactAssembly, ImportedSession, content_blocks
from .lines import Sample, objects, seconds

_ROLES = ("user", "assistant")


def matches(seen: Sample) -> bool:
    """Whether the objects are messages."""
    found = _listed(seen.whole) or seen.objects
    return any(raw.get("role") in _ROLES and "content" in raw for raw in found if isinstance(raw, Mapping))


def load(text: str, count: Count) -> ImportedSession:
    """The conversation; lines with another role (a system prompt) are skipped."""
    assembly = FactAssembly(count)
    for raw in _messages(text, assembly):
        blocks = content_blocks(raw.get("content"))
        if raw.get("role") not in _ROLES:
            assembly.skipped += 1
        elif blocks is None:
            assembly.damaged += 1
        else:
            assembly.message(raw["role"], blocks, seconds(raw.get("timestamp", raw.get("ts"))))
    return assembly.done("messages")


def _messages(text: str, assembly: FactAssembly) -> list[dict[str, Any]]:
    try:
        listed = _listed(json.loads(text))
    except (ValueError, RecursionError):
        listed = []
    if listed:
        return [raw for raw in listed if isinstance(raw, dict)]
    found, assembly.damaged = objects(text)
    return found


def _listed(whole: Any) -> list[Any]:
    if isinstance(whole, Mapping):
        whole = whole.get("messages")
    return whole if isinstance(whole, list) else []
