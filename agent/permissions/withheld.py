"""Find the paths and hosts that deny and ask rules withhold from sandboxed commands.

A rule about reading or editing is about the file tools. A command that names no file in its line could do the
same, so the sandbox hides existing paths of such rules from it, or makes them read-only. That is possible for
paths without wildcards, and for directories: `read(secrets/**)`, `edit(migrations/*)`, `read(~/.zshrc)`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .rule_syntax import EDITING, REACHING, READING, Rule
from .rules import PermissionRules


def barred_paths(rules: PermissionRules) -> tuple[list[Path], list[Path]]:
    """Return the existing paths that commands must not read, and those that they must not write."""
    unreadable = [path for path, rule in _barred(rules) if rule.tool == READING]
    return unreadable, [path for path, rule in _barred(rules) if rule.tool == EDITING]


def barring_rule(rules: PermissionRules, action: str, target: str) -> Rule | None:
    """Return the rule that withholds a path or a host from commands, a deny rule if there is one."""
    if action == "reach":
        about_hosts = (rule for rule in (*rules.deny, *rules.ask) if rule.tool == REACHING)
        return next((rule for rule in about_hosts if rule.pattern == target.lower()), None)
    return next((rule for path, rule in _barred(rules) if Path(target).is_relative_to(path)), None)


def reachable_hosts(rules: PermissionRules) -> tuple[str, ...]:
    """Return the hosts that rules allow; none in plan mode, since a request can change things there."""
    hosts = (rule.pattern for rule in rules.allow if rule.tool == REACHING and rules.mode != "plan")
    return tuple(dict.fromkeys(host for host in hosts if host and barring_rule(rules, "reach", host) is None))


def _barred(rules: PermissionRules) -> Iterator[tuple[Path, Rule]]:
    for rule in (*rules.deny, *rules.ask):
        pattern = (rule.pattern or "").removesuffix("/**").removesuffix("/*")
        if rule.tool not in (READING, EDITING) or not pattern or not set(pattern).isdisjoint("*?["):
            continue
        if pattern.startswith("~/"):
            pattern = f"{rules.home}{pattern[1:]}" if rules.home else ""
        path = Path(os.path.realpath(Path(rules.folder) / pattern))
        if pattern and path.exists() and not Path(rules.folder).is_relative_to(path):
            yield path, rule
