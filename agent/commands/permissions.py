"""The command that shows and changes what is allowed and forbidden: /permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from agent.events import Notice, Said
from agent.permissions.permission_store import HERE, Grants
from agent.permissions.rules import MODES, Mode, Rule, parse_rules

if TYPE_CHECKING:
    from agent.app.controller import Agent

WORDS = "`mode NAME`, `allow RULE`, `deny RULE` and `remove RULE`"


async def permissions(agent: Agent, argument: str) -> None:
    """Show the permission mode and rules, and where each was set.

    `mode NAME` changes the mode, `allow RULE` and `deny RULE` add a rule for now,
    `remove RULE` takes one off.
    """
    grants = agent.in_use[1].grants
    verb, _, rest = argument.partition(" ")
    try:
        for words in _changed(grants, verb, rest.strip()):
            agent.emit(Notice(words))
    except ValueError as error:
        agent.emit(Notice(str(error), "warning"))
        return
    agent.emit(Said("\n".join(_listed(grants))))


def _changed(grants: Grants, verb: str, rest: str) -> list[str]:
    """Do what was asked for; returns what is to be told. Raises ValueError saying what can be asked for."""
    if verb == "mode":
        if rest not in MODES:
            raise ValueError(f"the modes are {', '.join(MODES)}")
        grants.set_mode(cast("Mode", rest))
    elif verb == "allow":
        _each(grants.allow, rest)
    elif verb == "deny":
        _each(grants.deny, rest)
    elif verb == "remove":
        return _removed(grants, rest)
    elif verb:
        raise ValueError(f"/permissions has {WORDS}, not {verb!r}")
    return []


def _each(add: Callable[[Rule], None], text: str) -> None:
    for rule in parse_rules(text):
        add(rule)


def _removed(grants: Grants, text: str) -> list[str]:
    rules = (*grants.rules.allow, *grants.rules.deny)
    wanted = {text} if text in map(str, rules) else {str(rule) for rule in parse_rules(text)}
    found = [rule for rule in rules if str(rule) in wanted]
    if missing := wanted - set(map(str, found)):
        raise ValueError(f"no rule here is {', '.join(sorted(missing))}; /permissions lists them")
    return [_remove(grants, rule) for rule in found]


def _remove(grants: Grants, rule: Rule) -> str:
    kind = "deny" if any(rule is each for each in grants.rules.deny) else "allow"
    if rule.origin == HERE or grants.for_good(rule):
        grants.remove(rule)
        return f"removed: {kind} {rule} ({_where(grants, rule)})"
    return f"not removed: {kind} {rule} stands in {rule.origin}; take it out there and start again"


def _where(grants: Grants, rule: Rule) -> str:
    return f"granted for good in {rule.origin}" if grants.for_good(rule) else rule.origin


def _listed(grants: Grants) -> list[str]:
    rules = grants.rules
    lines = [f"mode   {rules.mode}"]
    lines += [f"allow  {rule}  ({_where(grants, rule)})" for rule in rules.allow]
    lines += [f"deny   {rule}  ({_where(grants, rule)})" for rule in rules.deny]
    return lines + [
        f"denied {call['tool_name']}: {_brief(call['tool_input'])}" for call in grants.denied[-5:]
    ]


def _brief(value: object) -> str:
    strings = [word for word in value.values() if isinstance(word, str)] if isinstance(value, dict) else []
    text = strings[0] if strings else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
