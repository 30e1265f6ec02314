"""What kind of work a tool does, as a record tells it: the reader needs no table of tool names.

A tool declares its kind, and `Opened.tools` keeps it beside the definition that the model was sent. Records
of versions that kept no kind, and recordings of other agents, are read by the names below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast, get_args

ToolKind = Literal["reads", "writes", "runs", "recalls", "asks", "other"]
"""reads: shows a file. writes: changes a file. runs: executes a command. recalls: shows earlier text again.
asks: puts something to the person or to the program. other: none of these."""
TOOL_KINDS: tuple[ToolKind, ...] = get_args(ToolKind)

_KIND_OF_UNDECLARED: dict[str, ToolKind] = {
    **dict.fromkeys(("read", "view", "open", "cat"), "reads"),
    **dict.fromkeys(
        ("write", "edit", "multiedit", "notebookedit", "create", "str_replace_based_edit_tool"), "writes"
    ),
    **dict.fromkeys(("bash", "shell", "run", "execute"), "runs"),
    "recall": "recalls",
    "compact": "asks",
}


def tool_kind(name: str, definitions: Iterable[Mapping[str, Any]] = ()) -> ToolKind:
    """The kind that the definition of a tool declares; for one that declares none, by its name."""
    declared = next((tool.get("kind") for tool in definitions if tool.get("name") == name), None)
    if declared in TOOL_KINDS:
        return cast("ToolKind", declared)
    return _KIND_OF_UNDECLARED.get(name.lower(), "other")
