"""The built-in tools as a source of tools, and the definitions of tools that the model is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from . import BUILTIN
from .base import Arguments, Tool

_OF_THE_CLASS = ("title", "description")  # what a schema says of the class that it was made of


class BuiltinTools:
    """The source of the tools in BUILTIN, in that order. Their modules are loaded by `open`."""

    name = "makeroom"
    _tools: tuple[Tool, ...] = ()

    async def open(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._tools = await asyncio.to_thread(load_builtin_tools)

    def tools(self) -> Sequence[Tool]:
        return self._tools

    async def close(self) -> None:
        """Nothing to release: what the tools start belongs to the session."""


def load_builtin_tools() -> tuple[Tool, ...]:
    """The tools of BUILTIN in its order."""
    return tuple(import_module(f".{name}", __package__).TOOL for name in BUILTIN)


def join_tools(sources: Iterable[tuple[str, Sequence[Tool]]]) -> dict[str, Tool]:
    """The tools of all sources by name, in the order of (name of the source, its tools).

    Raises ValueError where two tools have one name; the text names their sources.
    """
    joined: dict[str, Tool] = {}
    origins: dict[str, str] = {}
    for source, tools in sources:
        for tool in tools:
            if tool.name in joined:
                raise ValueError(f"the tool {tool.name} comes twice: from {origins[tool.name]} and {source}")
            joined[tool.name], origins[tool.name] = tool, source
    return joined


def definitions(tools: Iterable[Tool]) -> tuple[dict[str, Any], ...]:
    """What the record keeps of each tool: what the model is sent, and the tool's kind.

    Byte-stable: keys in a fixed order, without the titles that the schema generator adds.
    """
    return tuple(
        {"name": tool.name, "description": tool.description, "input_schema": schema, "kind": tool.kind}
        for tool in tools
        for schema in (_input_schema(tool.arguments),)
    )


def _input_schema(arguments: type[Arguments] | Mapping[str, Any]) -> dict[str, Any]:
    return dict(arguments if isinstance(arguments, Mapping) else _schema_of(arguments))


@cache
def _schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """The schema of a tool's arguments: 3 ms each, so made once for all sessions of a process."""
    schema = arguments.model_json_schema(schema_generator=_UntitledSchema)
    parts = schema.pop("$defs", {})
    return {key: _whole(value, parts) for key, value in schema.items() if key not in _OF_THE_CLASS}


def _whole(schema: Any, parts: Mapping[str, Any]) -> Any:
    """The schema with its parts in place: not every server follows references."""
    if isinstance(schema, list):
        return [_whole(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if (reference := schema.get("$ref")) is not None:
        part = parts[reference.removeprefix("#/$defs/")]
        return {key: _whole(value, parts) for key, value in part.items() if key not in _OF_THE_CLASS}
    return {key: _whole(value, parts) for key, value in schema.items()}


class _UntitledSchema(GenerateJsonSchema):
    """JSON Schema whose fields have no generated titles."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False
