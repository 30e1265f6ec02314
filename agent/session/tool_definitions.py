"""The tools as a session offers them: the objects by name, and the definitions that the model is sent.

Definitions are byte-stable: keys in a fixed order, titles that the schema generator adds left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tools
from tools.base import Tool


def toolbox() -> dict[str, Tool]:
    """The built-in tools by name, in their order."""
    return {tool.name: tool for tool in tools.load()}


def definitions(box: Mapping[str, Tool]) -> tuple[dict[str, Any], ...]:
    """What the request says of each tool: name, description, input_schema."""
    return tuple(_definition(tool) for tool in box.values())


def _definition(tool: Tool) -> dict[str, Any]:
    schema = _plain(tool.arguments.model_json_schema())
    schema.pop("description", None)
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _plain(value: Any) -> Any:
    """The schema without generated titles."""
    if isinstance(value, dict):
        return {
            key: _plain_properties(item) if key == "properties" else _plain(item)
            for key, item in value.items()
            if not (key == "title" and isinstance(item, str))
        }
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _plain_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties keep their names, `title` among them."""
    return {name: _plain(schema) for name, schema in properties.items()}


def same_tools(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> bool:
    """Whether two lists of definitions are the same to the model."""
    return [dict(tool) for tool in a] == [dict(tool) for tool in b]
