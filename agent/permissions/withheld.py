"""Find the paths and hosts that deny and ask rules withhold from sandboxed commands.

A rule about reading or editing is about the file tools. A command that names no file in its line could do the
same, so the sandbox hides existing paths of such rules from it, or makes them read-only:

    read(secrets/**), read(~/.zshrc)    the directory, the file
    read(*.pem), edit(db/*/schema.rb)   whatever matches in the project, except in installed packages
    read(*), edit(~/work/*.txt)         nothing: that is the whole project, or outside of it
"""

# ruff: noqa: PTH110 - unlike os.path, a Path raises errors

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tools.guarded import alternatives

from .rule_syntax import EDITING, REACHING, READING, Rule
from .rules import PermissionRules

_WILDCARDS = "*?["


def barring_globs(rules: PermissionRules) -> frozenset[str]:
    """Return the globs of rules whose paths have to be searched for in the project."""
    return frozenset(glob for glob, _ in _globs(rules))


class BarredPaths(NamedTuple):
    """The existing paths that commands must not read, those that they must not write, and the ways to them.

    ways: directories of the project that lead to unreadable paths. No command may rename them, since the rule
        would no longer match then. Programs cannot rename files from or to them either
    held: those that lead to unwritable paths. They are moved back after a command
    withheld: the unreadable and unwritable paths, each with its rule
    """

    unreadable: list[Path]
    unwritable: list[Path]
    ways: list[Path]
    held: list[Path]
    withheld: tuple[tuple[str, Rule], ...]


def barred_paths(rules: PermissionRules, matching: Iterable[str] = ()) -> BarredPaths:
    """Return the existing paths to withhold; `matching` are paths that match `barring_globs`."""
    barred = [*_barred(rules), *_barred_by_globs(rules, matching)]
    ways: dict[str, dict[Path, None]] = {READING: {}, EDITING: {}}
    for path, rule in barred:
        ways[rule.tool] |= dict.fromkeys(_ways(rules, path, rule))
    return BarredPaths(
        unreadable=[path for path, rule in barred if rule.tool == READING],
        unwritable=[path for path, rule in barred if rule.tool == EDITING],
        ways=[*ways[READING]],
        held=[*ways[EDITING]],
        withheld=tuple((str(path), rule) for path, rule in barred),
    )


def barring_rule(
    rules: PermissionRules, action: str, target: str, matching: Iterable[str] = ()
) -> Rule | None:
    """Return the rule that withholds a path or a host from commands, a deny rule if there is one.

    `matching` is as for `barred_paths`; with it, that includes directories that may not be renamed.
    """
    if action == "reach":
        about_hosts = (rule for rule in (*rules.deny, *rules.ask) if rule.tool == REACHING)
        return next((rule for rule in about_hosts if rule.pattern == target.lower()), None)
    named = (rule for path, rule in _barred(rules) if Path(target).is_relative_to(path))
    above = (str(path) for path in (Path(target), *Path(target).parents) if path.is_relative_to(rules.folder))
    matched = (rule for _, rule in _barred_by_globs(rules, above))
    barred = chain(_barred(rules), _barred_by_globs(rules, matching)) if action == "write" else ()
    hidden = ((path, rule) for path, rule in barred if rule.tool == READING)
    led_to = (rule for path, rule in hidden if Path(target) in _ways(rules, path, rule))
    return next(chain(named, matched, led_to), None)


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
        if pattern and os.path.exists(path) and not Path(rules.folder).is_relative_to(path):
            yield path, rule


def _barred_by_globs(rules: PermissionRules, matching: Iterable[str]) -> Iterator[tuple[Path, Rule]]:
    """Yield the paths that globs withhold, without those below them."""
    globs = list(_globs(rules))
    barred = set[tuple[str, str]]()
    for path in matching:
        for glob, rule in globs:
            if path == rules.folder or not rules.path_matches(glob, path):
                continue
            if any((rule.tool, place) in barred for place in _with_parents(path)):
                continue
            barred.add((rule.tool, path))
            target = os.path.realpath(path)
            if target == path or _may_be_withheld(rules, target) or rules.path_matches(glob, target):
                yield Path(target), rule


def _with_parents(path: str) -> Iterator[str]:
    """Yield a path and those of the directories above it; thousands of Path objects would take long."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _may_be_withheld(rules: PermissionRules, target: str) -> bool:
    """Return whether the target of a link that matches a glob may be withheld.

    A command can make such a link to anything, and without `/usr` no other command would run.
    """
    place = Path(target)
    is_own = any(root and place.is_relative_to(root) for root in (rules.folder, rules.home))
    return is_own and not Path(rules.folder).is_relative_to(place)


def _ways(rules: PermissionRules, path: Path, rule: Rule) -> Iterator[Path]:
    """Yield the directories of the project above a withheld path, if its rule depends on their names."""
    pattern = _stripped(rule.pattern or "")
    while pattern.startswith(("*/", "**/")):
        pattern = pattern.partition("/")[2]
    if "/" in pattern and path.is_relative_to(rules.folder):
        yield from (
            above
            for above in path.parents
            if above != Path(rules.folder) and above.is_relative_to(rules.folder)
        )


def _globs(rules: PermissionRules) -> Iterator[tuple[str, Rule]]:
    """Yield the globs of rules that can match in the project, except those that match all of it."""
    for rule, pattern in _withholding(rules):
        has_name = bool(pattern.removeprefix(f"{rules.folder}/").strip("*?./"))
        if has_name and not set(pattern).isdisjoint(_WILDCARDS) and not pattern.startswith("~/"):
            yield pattern, rule


def _withholding(rules: PermissionRules) -> Iterator[tuple[Rule, str]]:
    """Yield the rules about files, each with the pattern of the files and directories to withhold."""
    for rule in (*rules.deny, *rules.ask):
        if rule.tool in (READING, EDITING):
            stripped = map(_stripped, alternatives(rule.pattern or ""))
            yield from ((rule, pattern) for pattern in dict.fromkeys(stripped) if pattern)


def _stripped(pattern: str) -> str:
    """Return a pattern without the `/*` or `/**` that stands for everything in a directory."""
    while pattern.endswith(("/**", "/*")):
        pattern = pattern.removesuffix("/**").removesuffix("/*")
    return pattern
