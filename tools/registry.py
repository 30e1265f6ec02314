"""The built-in tools as a source of tools, and the definitions of tools that the model is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from . import BUILTIN
from .base import Tool


class BuiltinTools:
    """The source of the tools in BUILTIN, in that order. Their modules are loaded by `open`."""

    name = "makeroom"
    _tools: tuple[Tool, ...] = ()

    async def open(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._tools = await asyncio.to_thread(load_builtin_tools)

    def tools(self) -> Sequence[Tool]:
        return self._tools

    async def close(self) -> None:
        """Do nothing: what the tools start belongs to the session."""


def load_builtin_tools() -> tuple[Tool, ...]:
    """Load the tools of BUILTIN, in its order."""
    return tuple(import_module(f".{name}", __package__).TOOL for name in BUILTIN)


def join_tools(sources: Iterable[tuple[str, Sequence[Tool]]]) -> dict[str, Tool]:
    """Return the tools of all sources, given as (name of the source, its tools), by name and in their order.

    Raises ValueError, which names the sources, if two tools have the same name.
    """
    joined: dict[str, Tool] = {}
    origins: dict[str, str] = {}
    for source, tools in sources:
        for tool in tools:
            if tool.name in joined:
                raise ValueError(
                    f"the tool {tool.name} is defined twice: by {origins[tool.name]} and {source}"
                )
            joined[tool.name] = tool
            origins[tool.name] = source
    return joined


def definitions(tools: Iterable[Tool]) -> tuple[dict[str, Any], ...]:
    """Return the definitions to record: those that the model is sent, and the kind of each tool.

    Byte-stable: keys in a fixed order, without the titles that the schema generator adds.
    """
    tools = tuple(tools)
    offered = {tool.name for tool in tools}
    return tuple(
        {
            "name": tool.name,
            "description": tool.described(offered),
            "input_schema": dict(schema),
            "kind": tool.kind,
            **({"defer_loading": True} if tool.deferred else {}),
        }
        for tool in tools
        for schema in (_schema(tool),)
    )


def _schema(tool: Tool) -> Mapping[str, Any]:
    if isinstance(tool.arguments, Mapping):
        return tool.arguments
    return tool.arguments.sent_schema(tool.is_brief)
