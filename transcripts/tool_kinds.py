"""The definition of a tool in a transcript (`Instructed.tools`): what the model sees, and its kind of work.

In transcripts of versions that declared no kinds, and in recordings of other agents, the name of a tool
determines its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast, get_args

ToolKind = Literal["reads", "searches", "writes", "runs", "recalls", "plans", "asks", "instructs", "other"]
"""reads: shows a file. searches: lists files, or shows lines of many. writes: changes a file.
runs: executes a command. recalls: shows earlier text again. plans: keeps a to-do list.
asks: asks the user or makeroom something.
instructs: loads instructions that apply from then on, so that its results are not cleared.
other: none of these."""
TOOL_KINDS: tuple[ToolKind, ...] = get_args(ToolKind)

_DEFERRED_KEY = "defer_loading"
_VISIBLE_KEYS = ("name", "description", "input_schema", _DEFERRED_KEY)  # the kind is only in the transcript
_KIND_BY_NAME: dict[str, ToolKind] = {
    **dict.fromkeys(("read", "view", "open", "cat"), "reads"),
    **dict.fromkeys(("grep", "glob"), "searches"),
    **dict.fromkeys(
        (
            "write",
            "edit",
            "multiedit",
            "notebookedit",
            "create",
            "str_replace_based_edit_tool",
            "apply_patch",
        ),
        "writes",
    ),
    **dict.fromkeys(("bash", "shell", "run", "execute"), "runs"),
    "recall": "recalls",
    **dict.fromkeys(("todo", "todowrite", "update_plan"), "plans"),
    "compact": "asks",
}


def tool_kind(name: str, definitions: Iterable[Mapping[str, Any]] = ()) -> ToolKind:
    """Return the kind that the definition of a tool declares, otherwise the one that its name suggests."""
    declared = next((tool.get("kind") for tool in definitions if tool.get("name") == name), None)
    if declared in TOOL_KINDS:
        return cast("ToolKind", declared)
    return _KIND_BY_NAME.get(name.lower(), "other")


def is_server_tool(definition: Mapping[str, Any]) -> bool:
    """Return whether the API runs a tool itself: its definition is a `type` with settings."""
    return "type" in definition


def is_deferred_tool(definition: Mapping[str, Any]) -> bool:
    """Return whether a tool is not in the prompt until the model has found it by a search of the API."""
    return definition.get(_DEFERRED_KEY) is True


def visible_definition(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a definition that is sent to the model."""
    if is_server_tool(definition):
        return dict(definition)
    return {key: definition[key] for key in _VISIBLE_KEYS if key in definition}


def same_tools(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether two lists of definitions are the same to the model."""
    return [visible_definition(each) for each in a] == [visible_definition(each) for each in b]
