"""Translate our names of tools, and their outputs, into those that clients and hooks know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools import TOOL_NAMES
from tools.text import NO_OUTPUT

# Tools whose name in Claude Code is not ours in CamelCase.
CLIENT_NAMES: Mapping[str, str] = {
    "task": "Agent",
    "todo": "TodoWrite",
    "ask_user": "AskUserQuestion",
    "exit_plan": "ExitPlanMode",
    "skill": "Skill",
}
_OWN_NAMES = {name.lower(): own for own, name in CLIENT_NAMES.items()}


def client_name(tool: str) -> str:
    """Return the name of a tool as clients and hooks know it: `Bash`, `Read`, `Edit`, `WebFetch`."""
    if tool in CLIENT_NAMES:
        return CLIENT_NAMES[tool]
    return "".join(word.capitalize() for word in tool.split("_")) if tool in TOOL_NAMES else tool


def own_name(tool: str) -> str:
    """Return our name of a built-in tool for a client's name in any letter case; others are unchanged."""
    name = tool.lower()
    name = _OWN_NAMES.get(name, name)
    known = (own for own in TOOL_NAMES if own.replace("_", "") == name)
    return name if name in TOOL_NAMES else next(known, tool)


def client_output(tool: str, text: str) -> dict[str, Any] | None:
    """Return the output of a call in the form that clients and hooks know; None for tools without one."""
    if client_name(tool) != "Bash":
        return None
    text = "" if text == NO_OUTPUT else text
    return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
