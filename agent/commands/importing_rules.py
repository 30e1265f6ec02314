"""`/permissions import`: offer the allow rules of Claude Code's settings files."""

from __future__ import annotations

from agent.app import Controller, claude_rules, offered_rules
from agent.events import CommandOutput, Event, Notice


def import_rules(controller: Controller, wanted: str) -> Event:
    """Allow the named rule, or `all`, permanently in this project; without a name, list the rules.

    Raises ConfigError and OSError if they cannot be stored.
    """
    setup = controller.setup
    store = controller.in_use.context.permissions
    offered = offered_rules(setup.environ, setup.folder, store.rules.allow)
    if not wanted or not offered:
        unusable = claude_rules(setup.environ, setup.folder).unusable
        lines = [f"allow  {rule}  ({rule.origin})" for rule in offered]
        lines += (f"cannot be imported: {line}" for line in unusable)
        end = "Claude Code's settings files contain no allow rules to import"
        if offered:
            end = "/permissions import RULE or /permissions import all to allow them here"
        elif unusable:
            end = "Claude Code's settings files contain no other allow rules"
        return CommandOutput("\n".join([*lines, end])) if lines else Notice(end)
    chosen = [rule for rule in offered if wanted in ("all", str(rule))]
    if not chosen:
        return Notice(f"unknown rule {wanted!r}; run /permissions import to list the rules", "warning")
    for rule in chosen:
        store.allow_always(rule)
    return Notice(f"always allowed in this project: {', '.join(map(str, chosen))}")
