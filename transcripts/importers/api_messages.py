"""Reads Messages API messages: one object a line or a list of them, {"role", "content", "timestamp"?}."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .recording import (
    Count,
    FactAssembly,
    ImportedSession,
    Sample,
    content_blocks,
    parse_objects,
    parse_time,
)

_MESSAGE_ROLES = ("user", "assistant")


def recognizes(sample: Sample) -> bool:
    """Whether the objects are messages."""
    found = [raw for raw in _listed(sample.whole) or sample.objects if isinstance(raw, Mapping)]
    return any(raw.get("role") in _MESSAGE_ROLES and "content" in raw for raw in found)


def read_session(text: str, count: Count) -> ImportedSession:
    """The conversation; lines with another role (a system prompt) are skipped."""
    assembly = FactAssembly(count)
    for raw in _messages(text, assembly):
        blocks = content_blocks(raw.get("content"))
        if raw.get("role") not in _MESSAGE_ROLES:
            assembly.skipped += 1
        elif blocks is None:
            assembly.damaged += 1
        else:
            assembly.message(raw["role"], blocks, parse_time(raw.get("timestamp", raw.get("ts"))))
    return assembly.finish("messages")


def _messages(text: str, assembly: FactAssembly) -> list[dict[str, Any]]:
    try:
        listed = _listed(json.loads(text))
    except (ValueError, RecursionError):
        listed = []
    if listed:
        return [raw for raw in listed if isinstance(raw, dict)]
    found, assembly.damaged = parse_objects(text)
    return found


def _listed(whole: Any) -> list[Any]:
    if isinstance(whole, Mapping):
        whole = whole.get("messages")
    return whole if isinstance(whole, list) else []
