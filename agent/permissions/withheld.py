"""Find the paths and hosts that deny and ask rules withhold from sandboxed commands.

A rule about reading or editing is about the file tools. A command that names no file in its line could do the
same, so the sandbox hides existing paths of such rules from it, or makes them read-only:

    read(secrets/**), read(~/.zshrc)    the directory, the file
    read(*.pem), edit(db/*/schema.rb)   whatever matches in the project, except in installed packages
    read(*), edit(~/work/*.txt)         nothing: that is the whole project, or outside of it
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from .rule_syntax import EDITING, REACHING, READING, Rule
from .rules import PermissionRules

_WILDCARDS = "*?["


def barring_globs(rules: PermissionRules) -> frozenset[str]:
    """Return the globs of rules whose paths have to be searched for in the project."""
    return frozenset(glob for glob, _ in _globs(rules))


def barred_paths(rules: PermissionRules, matching: Iterable[str] = ()) -> tuple[list[Path], list[Path]]:
    """Return the existing paths that commands must not read, and those that they must not write.

    `matching` are the paths in the project that match `barring_globs`.
    """
    barred = [*_barred(rules), *_barred_by_globs(rules, matching)]
    unreadable = [path for path, rule in barred if rule.tool == READING]
    return unreadable, [path for path, rule in barred if rule.tool == EDITING]


def barring_rule(rules: PermissionRules, action: str, target: str) -> Rule | None:
    """Return the rule that withholds a path or a host from commands, a deny rule if there is one."""
    if action == "reach":
        about_hosts = (rule for rule in (*rules.deny, *rules.ask) if rule.tool == REACHING)
        return next((rule for rule in about_hosts if rule.pattern == target.lower()), None)
    named = (rule for path, rule in _barred(rules) if Path(target).is_relative_to(path))
    above = (str(path) for path in (Path(target), *Path(target).parents) if path.is_relative_to(rules.folder))
    return next(chain(named, (rule for _, rule in _barred_by_globs(rules, above))), None)


def reachable_hosts(rules: PermissionRules) -> tuple[str, ...]:
    """Return the hosts that rules allow; none in plan mode, since a request can change things there."""
    hosts = (rule.pattern for rule in rules.allow if rule.tool == REACHING and rules.mode != "plan")
    return tuple(dict.fromkeys(host for host in hosts if host and barring_rule(rules, "reach", host) is None))


def _barred(rules: PermissionRules) -> Iterator[tuple[Path, Rule]]:
    """Yield the existing paths that rules name without wildcards."""
    for rule, pattern in _withholding(rules):
        if not set(pattern).isdisjoint(_WILDCARDS):
            continue
        if pattern.startswith("~/"):
            pattern = f"{rules.home}{pattern[1:]}" if rules.home else ""
        path = Path(os.path.realpath(Path(rules.folder) / pattern))
        if pattern and path.exists() and not Path(rules.folder).is_relative_to(path):
            yield path, rule


def _barred_by_globs(rules: PermissionRules, matching: Iterable[str]) -> Iterator[tuple[Path, Rule]]:
    """Yield the paths that globs withhold, without those below them."""
    globs = list(_globs(rules))
    barred = set[tuple[str, str]]()
    for path in matching:
        for glob, rule in globs:
            if path == rules.folder or not rules.path_matches(glob, path):
                continue
            if not any((rule.tool, str(place)) in barred for place in (Path(path), *Path(path).parents)):
                barred.add((rule.tool, path))
                yield Path(os.path.realpath(path)), rule


def _globs(rules: PermissionRules) -> Iterator[tuple[str, Rule]]:
    """Yield the globs of rules that can match in the project, except those that match all of it."""
    for rule, pattern in _withholding(rules):
        has_name = bool(pattern.rpartition("/")[2].strip("*?."))
        if has_name and not set(pattern).isdisjoint(_WILDCARDS) and not pattern.startswith("~/"):
            yield pattern, rule


def _withholding(rules: PermissionRules) -> Iterator[tuple[Rule, str]]:
    """Yield the rules about files, each with the pattern of the files and directories to withhold."""
    for rule in (*rules.deny, *rules.ask):
        pattern = rule.pattern or ""
        while pattern.endswith(("/**", "/*")):
            pattern = pattern.removesuffix("/**").removesuffix("/*")
        if rule.tool in (READING, EDITING) and pattern:
            yield rule, pattern
