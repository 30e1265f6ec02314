"""Find the paths that deny and ask rules withhold from sandboxed commands.

A rule about reading or editing is about the file tools. A command that names no file in its line could do the
same, so the sandbox hides existing paths of such rules from it, or makes them read-only. That is possible for
paths without wildcards, and for directories: `read(secrets/**)`, `edit(migrations/*)`, `read(~/.zshrc)`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .rule_syntax import EDITING, READING, Rule
from .rules import PermissionRules


def barred_paths(rules: PermissionRules) -> tuple[list[Path], list[Path]]:
    """Return the existing paths that commands must not read, and those that they must not write."""
    unreadable = [path for path, rule in _barred(rules) if rule.tool == READING]
    return unreadable, [path for path, rule in _barred(rules) if rule.tool == EDITING]


def barring_rule(rules: PermissionRules, target: str) -> Rule | None:
    """Return the rule that withholds a path from commands, a deny rule if there is one."""
    return next((rule for path, rule in _barred(rules) if Path(target).is_relative_to(path)), None)


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
