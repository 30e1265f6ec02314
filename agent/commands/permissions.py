"""Show, change and import permission rules: /permissions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent.app import Controller, claude_rules, offered_rules
from agent.events import CommandOutput, Event, Notice
from agent.permissions import MODES, SESSION_ORIGIN, PermissionStore, Rule, explain_line, parse_rules
from tools.access import command_access
from tools.base import ToolError
from transcripts.wording import shorten

from .running import usage_notice
from .setting_menus import RuleRow, mode_words, permission_menu
from .table import usage_of


async def set_permissions(controller: Controller, argument: str) -> Event | None:
    """Run /permissions."""
    context = controller.in_use.context
    store = context.permissions
    if context.sandbox is not None:
        await context.sandbox.check()
    if not argument and controller.chooser is not None:
        menu = permission_menu(store.rules.mode, _rule_rows(store), store.rules.sandboxed)
        row = await controller.chooser.choose(menu)
        if row is None or not row.value:
            return None if row is None else Notice(usage_of("permissions"))
        argument = row.value
    verb, _, rest = argument.partition(" ")
    rest = rest.strip()
    if verb not in ("", "mode", "allow", "deny", "ask", "remove", "import", "explain"):
        return usage_notice("permissions", f"unknown argument {verb!r}")
    try:
        if verb == "explain":
            if not rest:
                return Notice(usage_of("permissions"), "warning")
            access = command_access(rest, context.tool_context.cwd)
            return CommandOutput("\n".join(explain_line("bash", access, store.rules)))
        if verb == "import":
            return _import_rules(controller, rest)
        for text in _change_permissions(store, verb, rest):
            controller.emit(Notice(text))
    except (ValueError, ToolError) as error:
        return Notice(str(error), "warning")
    usage = () if verb else (usage_of("permissions"),)
    return CommandOutput("\n".join((*_permission_lines(store), *usage)))


def _import_rules(controller: Controller, wanted: str) -> Event:
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


def _change_permissions(store: PermissionStore, verb: str, rest: str) -> list[str]:
    """Make the change and return lines about it. Raises ValueError for wrong arguments."""
    if verb == "mode":
        if rest not in MODES:
            raise ValueError(f"unknown mode {rest!r}; the modes are {', '.join(MODES)}")
        store.set_mode(rest)
    elif verb in ("allow", "deny", "ask"):
        adding = {"allow": store.allow, "deny": store.deny, "ask": store.ask}
        for rule in parse_rules(rest, restricting=verb != "allow"):
            adding[verb](rule)
    elif verb == "remove":
        return _remove_rules(store, rest)
    return []


def _remove_rules(store: PermissionStore, text: str) -> list[str]:
    rules = _rules_by_kind(store)
    in_force = {str(rule) for _, rule in rules}
    wanted = {text}
    if text not in in_force:
        with suppress(ValueError):  # text that is not a rule cannot be one of ours
            wanted = {str(rule) for rule in parse_rules(text, restricting=True)}
    if missing := wanted - in_force:
        named = ", ".join(map(repr, sorted(missing)))
        raise ValueError(f"unknown rule {named}; run /permissions to list the rules")
    lines = []
    for kind, rule in rules:
        if str(rule) in wanted and (rule.origin == SESSION_ORIGIN or store.is_permanent(rule)):
            store.remove(rule)
            lines.append(f"removed {kind} {rule} ({_origin(store, rule)})")
        elif str(rule) in wanted:
            lines.append(f"cannot remove {kind} {rule}: remove it from {rule.origin} and restart")
    return list(dict.fromkeys(lines))


def _origin(store: PermissionStore, rule: Rule) -> str:
    return f"always allowed, in {rule.origin}" if store.is_permanent(rule) else rule.origin


def _permission_lines(store: PermissionStore) -> list[str]:
    rules = store.rules
    denied = store.denied[-5:]
    return [
        f"mode   {rules.mode}: {mode_words(rules.mode, rules.sandboxed)}",
        *(f"{row.kind:<5}  {row.rule}  ({row.origin})" for row in _rule_rows(store)),
        *(["recently denied:"] if denied else []),
        *(f"  {call.name}: {_first_argument(call.input)}" for call in denied),
    ]


def _rule_rows(store: PermissionStore) -> list[RuleRow]:
    """Return the rules to show, each once: several may translate one of another program."""
    rows = (RuleRow(kind, str(rule), _origin(store, rule)) for kind, rule in _rules_by_kind(store))
    return list(dict.fromkeys(rows))


def _rules_by_kind(store: PermissionStore) -> list[tuple[str, Rule]]:
    rules = store.rules
    kinds = (("allow", rules.allow), ("deny", rules.deny), ("ask", rules.ask))
    return [(kind, rule) for kind, each in kinds for rule in each]


def _first_argument(arguments: Mapping[str, Any]) -> str:
    """Return the first text among the arguments of a call, shortened."""
    text = next((value for value in arguments.values() if isinstance(value, str)), str(dict(arguments)))
    return shorten(text, 80)
