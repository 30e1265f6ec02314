"""The schemas of tools of servers: which parts are checked here, and which ones are declared. Pure.

A server may send any schema: one with a pattern that takes years to match, with circular references, or of
many megabytes. Only the plain parts are checked here, in a time that is linear in the size of a schema. The
server checks the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tools.base import is_usable_schema
from tools.text import word_set

OPEN_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {}}
MAX_SCHEMA_CHARS = 50_000  # of a schema that is declared or checked; the API counts it with every request
_MAX_DEPTH = 20  # of the parts that are checked
_TYPES = word_set("string number integer object array boolean null")


def schema_text(schema: object) -> str:
    """Return a schema as JSON, cut to MAX_SCHEMA_CHARS."""
    try:
        text = json.dumps(schema, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply)"
    left = len(text) - MAX_SCHEMA_CHARS
    return text if left <= 0 else f"{text[:MAX_SCHEMA_CHARS]}[{left:,} more characters]"


def is_declarable(schema: Mapping[str, Any]) -> bool:
    """Return true if the API accepts a schema for a tool."""
    properties = schema.get("properties", {})
    not_at_top = ("oneOf", "anyOf", "allOf", "not", "enum", "$ref", "if")
    if schema.get("type") != "object" or any(key in schema for key in not_at_top):
        return False
    if not isinstance(properties, dict) or not all(_is_key(name) for name in properties):
        return False
    return _is_small(schema) and is_usable_schema(schema)


def checked_schema(schema: object) -> Mapping[str, Any]:
    """Return the plain parts of a schema, a valid one: types, names, fixed values and alternatives."""
    return (_plain_parts(schema, _MAX_DEPTH) if _is_small(schema) else {}) or OPEN_SCHEMA


def _plain_parts(schema: object, depth: int) -> dict[str, Any]:
    if not isinstance(schema, dict) or depth == 0:
        return {}
    kept: dict[str, Any] = {}
    match schema.get("type"):
        case str(kind) if kind in _TYPES:
            kept["type"] = kind
        case [*kinds] if kinds and all(isinstance(kind, str) and kind in _TYPES for kind in kinds):
            kept["type"] = list(dict.fromkeys(kinds))
    match schema:
        case {"properties": dict(properties)}:
            kept["properties"] = {name: _plain_parts(part, depth - 1) for name, part in properties.items()}
    match schema:
        case {"required": [*names]} if all(isinstance(name, str) for name in names):
            kept["required"] = list(dict.fromkeys(names))
    match schema:
        case {"items": dict(items)}:
            kept["items"] = _plain_parts(items, depth - 1)
    match schema:
        case {"enum": [*values]} if values and not any(isinstance(value, dict | list) for value in values):
            kept["enum"] = values
    match schema:
        case {"anyOf": [_, *_] as parts} | {"oneOf": [_, *_] as parts}:
            kept["anyOf"] = [_plain_parts(part, depth - 1) for part in parts]
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        kept["additionalProperties"] = False
    return kept


def _is_small(schema: object) -> bool:
    try:
        return len(json.dumps(schema, ensure_ascii=False)) <= MAX_SCHEMA_CHARS
    except RecursionError:
        return False


def _is_key(name: object) -> bool:
    """Return true if the API accepts a name for a parameter."""
    plain = str(name).replace("_", "a").replace("-", "a").replace(".", "a")
    return plain.isascii() and plain.isalnum() and len(plain) <= 64
