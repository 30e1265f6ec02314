"""`/permissions import`: offer the allow rules of Claude Code's settings files."""

from __future__ import annotations

from agent.app import Controller, claude_rules
from agent.events import CommandOutput, Event, Notice
from agent.permissions import Rule


def import_rules(controller: Controller, wanted: str) -> Event:
    """Allow the named rule, or `all`, permanently in this project; without a name, list the rules.

    Raises ConfigError and OSError if they cannot be stored.
    """
    setup = controller.setup
    store = controller.in_use[1].permissions
    known = set(store.rules.allow)
    found = [rule for rule in claude_rules(setup.environ, setup.folder).allow if rule not in known]
    offered = list({rule: rule for rule in reversed(found)}.values())[::-1]
    if not offered:
        return Notice("there are no allow rules of Claude Code that are not in force here")
    if not wanted:
        rows = "\n".join(f"allow  {rule}  ({rule.origin})" for rule in offered)
        return CommandOutput(
            f"{rows}\n/permissions import RULE or /permissions import all to allow them here"
        )
    chosen = [rule for rule in offered if wanted in ("all", str(rule))]
    if not chosen:
        return Notice(f"unknown rule {wanted!r}; run /permissions import to list the rules", "warning")
    for rule in chosen:
        store.allow_always(rule)
    return Notice(f"always allowed in this project: {_listed(chosen)}")


def _listed(rules: list[Rule]) -> str:
    return ", ".join(map(str, rules))
