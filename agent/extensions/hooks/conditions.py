"""Decide whether a call meets the condition of a hook, a permission rule such as `Bash(git push:*)`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.permissions import PermissionRules, judge_call, translate_rule
from tools.access import command_access
from tools.base import Access, ToolError


def meets(text: str, tool: str, given: Mapping[str, Any], folder: str) -> bool:
    """Return whether a call may meet a condition, a rule that `translate_rule` reads.

    A hook may guard something, so it also runs for a command line that cannot be read.
    """
    rules = translate_rule(text, folder)
    access = _access(tool, given, folder)
    if access is None:
        return any(rule.names(tool) for rule in rules)
    judged = judge_call(tool, [access], PermissionRules("bypassPermissions", deny=rules, folder=folder))
    return judged.answer != "allow"


def _access(tool: str, given: Mapping[str, Any], folder: str) -> Access | None:
    """Return the access of a call that patterns of rules are about; None for other tools."""
    if tool == "bash" and isinstance(line := given.get("command"), str):
        try:
            return command_access(line, folder)
        except ToolError:
            return None  # it does not run
    if tool in ("read", "edit", "write") and isinstance(path := given.get("file_path"), str):
        return Access("read" if tool == "read" else "write", path)
    return None
