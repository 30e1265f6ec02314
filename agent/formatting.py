"""Format durations, numbers, dates and keys, translate tool names for clients, recognize commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from tools import BUILTIN, CONDITIONAL
from tools.text import NO_OUTPUT
from transcripts.patterns import lazy_pattern

# Tools whose name in Claude Code is not ours in CamelCase.
CLIENT_NAMES: Mapping[str, str] = {
    "task": "Agent",
    "todo": "TodoWrite",
    "ask_user": "AskUserQuestion",
    "exit_plan": "ExitPlanMode",
    "skill": "Skill",
}
# Common names of the default keys of actions; `keybindings.toml` may bind others.
KEY_NAMES: Mapping[str, str] = {
    "submit": "Enter",
    "newline": "Shift+Enter, Alt+Enter, Ctrl-J",
    "complete": "Tab",
    "editor": "Ctrl-G",
    "image": "Ctrl-V",
    "stash": "Ctrl-S",
    "interrupt": "Ctrl-C",
    "leave": "Ctrl-D",
    "mode": "Shift+Tab",
    "background": "Ctrl-B",
    "tasks": "Ctrl-T",
    "redraw": "Ctrl-L",
    "outputs": "Ctrl-O",
    "suspend": "Ctrl-Z",
    "model": "Alt+P",
    "effort": "Alt+T",
}
_NAMED_ACTION = lazy_pattern(r"\{(\w+)\}")
_OWN_NAMES = {name.lower(): own for own, name in CLIENT_NAMES.items()}


def with_keys(text: str, names: Mapping[str, str], gap: str = "; ") -> str:
    """Replace the actions in braces by their keys; drop parts (between gaps) with an action without a key."""
    indent = text[: len(text) - len(text.lstrip())]
    parts = [part for part in text.strip().split(gap) if all(names[it] for it in _NAMED_ACTION.findall(part))]
    return indent + _NAMED_ACTION.sub(lambda found: names[found[1]], gap.join(parts))


def unquoted(path: str) -> str:
    """Return a typed path without the quotes around it."""
    return path[1:-1] if len(path) > 1 and path[0] in "\"'" and path[-1] == path[0] else path


def client_name(tool: str) -> str:
    """Return the name of a tool as clients and hooks know it: `Bash`, `Read`, `Edit`, `WebFetch`."""
    if tool in CLIENT_NAMES:
        return CLIENT_NAMES[tool]
    return "".join(word.capitalize() for word in tool.split("_")) if tool in BUILTIN else tool


def own_name(tool: str) -> str:
    """Return our name of a built-in tool for a client's name in any letter case; others are unchanged."""
    name = tool.lower()
    name = _OWN_NAMES.get(name, name)
    names = (*BUILTIN, *CONDITIONAL)
    return name if name in names else next((own for own in names if own.replace("_", "") == name), tool)


def client_output(tool: str, text: str) -> dict[str, Any] | None:
    """Return the output of a call in the form that clients and hooks know; None for tools without one."""
    if client_name(tool) != "Bash":
        return None
    text = "" if text == NO_OUTPUT else text
    return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}


def is_command(text: str, exists: Callable[[str], bool] = os.path.lexists) -> bool:
    """Return whether a line is a slash command and not text that starts with a path: `/usr/lib is slow`."""
    if not text.startswith("/") or "\n" in text.split(" ")[0]:
        return False
    word = text[1:].split(maxsplit=1)[0] if text[1:].strip() and not text[1].isspace() else ""
    return bool(word) and "/" not in word and not exists(f"/{word}")


def format_duration(seconds: float) -> str:
    """Format seconds: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 3 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_count(number: int) -> str:
    """Format a count: `950`, `1.2k`, `48k`, `1.2M`."""
    if number < 1000:
        return str(number)
    if number < 999_500:
        return f"{number / 1000:.1f}k" if number < 9_950 else f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f}M"


def whole_percent(part: int, whole: int) -> int:
    """Return the rounded percentage of `part` in `whole` (more than 0); 100 only if they are equal."""
    rounded = round(100 * part / whole)
    return 99 if rounded == 100 and part < whole else rounded
