"""The command that shows and changes what is allowed and forbidden: /permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.events import CommandOutput, Notice
from agent.permissions.permission_store import SESSION_ORIGIN, PermissionStore
from agent.permissions.rules import MODES, Rule, parse_rules

if TYPE_CHECKING:
    from agent.app.controller import Controller

WORDS = "`mode NAME`, `allow RULE`, `deny RULE` and `remove RULE`"


async def permissions(agent: Controller, argument: str) -> None:
    """Show the permission mode and rules, and where each was set.

    `mode NAME` changes the mode, `allow RULE` and `deny RULE` add a rule for now,
    `remove RULE` takes one off.
    """
    grants = agent.in_use[1].permissions
    verb, _, rest = argument.partition(" ")
    try:
        for words in _changed(grants, verb, rest.strip()):
            agent.emit(Notice(words))
    except ValueError as error:
        agent.emit(Notice(str(error), "warning"))
        return
    agent.emit(CommandOutput("\n".join(_listed(grants))))


def _changed(permissions: PermissionStore, verb: str, rest: str) -> list[str]:
    """Do what was asked for; returns what is to be told. Raises ValueError saying what can be asked for."""
    if verb == "mode":
        if rest not in MODES:
            raise ValueError(f"the modes are {', '.join(MODES)}")
        permissions.set_mode(rest)
    elif verb == "allow":
        _each(permissions.allow, rest)
    elif verb == "deny":
        _each(permissions.deny, rest)
    elif verb == "remove":
        return _removed(permissions, rest)
    elif verb:
        raise ValueError(f"/permissions has {WORDS}, not {verb!r}")
    return []


def _each(add: Callable[[Rule], None], text: str) -> None:
    for rule in parse_rules(text):
        add(rule)


def _removed(permissions: PermissionStore, text: str) -> list[str]:
    rules = (*permissions.rules.allow, *permissions.rules.deny)
    wanted = {text} if text in map(str, rules) else {str(rule) for rule in parse_rules(text)}
    found = [rule for rule in rules if str(rule) in wanted]
    if missing := wanted - set(map(str, found)):
        raise ValueError(f"no rule here is {', '.join(sorted(missing))}; /permissions lists them")
    return [_remove(permissions, rule) for rule in found]


def _remove(permissions: PermissionStore, rule: Rule) -> str:
    kind = "deny" if any(rule is each for each in permissions.rules.deny) else "allow"
    if rule.origin == SESSION_ORIGIN or permissions.is_permanent(rule):
        permissions.remove(rule)
        return f"removed: {kind} {rule} ({_where(permissions, rule)})"
    return f"not removed: {kind} {rule} stands in {rule.origin}; take it out there and start again"


def _where(permissions: PermissionStore, rule: Rule) -> str:
    return f"granted for good in {rule.origin}" if permissions.is_permanent(rule) else rule.origin


def _listed(permissions: PermissionStore) -> list[str]:
    rules = permissions.rules
    lines = [f"mode   {rules.mode}"]
    lines += [f"allow  {rule}  ({_where(permissions, rule)})" for rule in rules.allow]
    lines += [f"deny   {rule}  ({_where(permissions, rule)})" for rule in rules.deny]
    return lines + [
        f"denied {call['tool_name']}: {_brief(call['tool_input'])}" for call in permissions.denied[-5:]
    ]


def _brief(value: object) -> str:
    strings = [word for word in value.values() if isinstance(word, str)] if isinstance(value, dict) else []
    text = strings[0] if strings else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
