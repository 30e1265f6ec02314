"""The permission rules in force, and the file of permanent grants for a project.

The file contains rules, and paths that sandboxed commands may write or read:
{allow = [...], sandbox = {...}}.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from agent import shell
from agent.settings_files import MAX_SETTINGS_BYTES, read_settings
from transcripts import ToolUseBlock
from transcripts.storage import locked, read_regular, replace_file

from .modes import Mode
from .rule_syntax import OPENING, Rule, parse_rules
from .rules import PermissionRules
from .sandbox_settings import SandboxSettings, sandbox_entries

SESSION_ORIGIN = "this session"


class PermissionStore:
    """The mode, the rules and the sandbox settings in force, and the calls that were denied.

    `path` is the file of permanent grants, None if there is none. `on_planning` is called when plan mode
    begins (True) and ends (False). `before_plan` is the mode from which it was last entered.
    """

    rules: PermissionRules
    sandbox: SandboxSettings

    def __init__(
        self, rules: PermissionRules, path: Path | None = None, *, sandbox: SandboxSettings | None = None
    ) -> None:
        self.rules = rules
        self.path = path
        self.sandbox = sandbox or SandboxSettings()
        self.denied: list[ToolUseBlock] = []
        self.on_planning: Callable[[bool], None] = lambda planning: None
        self.before_plan: Mode = "manual"

    @property
    def planning(self) -> bool:
        """Return whether the mode is plan mode."""
        return self.rules.mode == "plan"

    def set_mode(self, mode: Mode) -> None:
        before = self.rules.mode
        self.rules = replace(self.rules, mode=mode)
        if mode == "plan" and before != "plan":
            self.before_plan = before
        if (mode == "plan") != (before == "plan"):
            self.on_planning(mode == "plan")

    def leave_plan(self) -> None:
        """Leave plan mode to carry out a plan: back to a mode that never asks, else to manual."""
        if self.planning:
            never_asks = self.before_plan in ("bypassPermissions", "dontAsk")
            self.set_mode(self.before_plan if never_asks else "manual")

    def allow(self, rule: Rule, folder: str = "") -> None:
        """Add an allow rule for this session. An `open` rule notes the programs of its line in `folder`."""
        self.rules = replace(self.rules, allow=(*self.rules.allow, replace(rule, origin=SESSION_ORIGIN)))
        if rule.tool == OPENING and rule.pattern is not None:
            self.rules = self.rules.noting_programs(rule.pattern, folder)

    def deny(self, rule: Rule) -> None:
        """Add a deny rule for this session."""
        self.rules = replace(self.rules, deny=(*self.rules.deny, replace(rule, origin=SESSION_ORIGIN)))

    def ask(self, rule: Rule) -> None:
        """Add an ask rule for this session."""
        self.rules = replace(self.rules, ask=(*self.rules.ask, replace(rule, origin=SESSION_ORIGIN)))

    def allow_always(self, rule: Rule, folder: str = "") -> None:
        """Add an allow rule for this session and permanently for the project. Raises as `store_rule`."""
        self.allow(rule, folder)
        if self.path is not None:
            store_rule(self.path, rule)
            if rule.tool == OPENING:
                self._store_openings(self.path)
            stored = replace(rule, origin=str(self.path))
            self.rules = replace(self.rules, allow=(*self.rules.allow[:-1], stored))

    def _store_openings(self, path: Path) -> None:
        """Store the digests of programs for the `open` rules in the file. Raises OSError."""
        with locked(path):
            lines = {
                rule.pattern for rule in (*self.rules.allow, *stored_rules(path)) if rule.tool == OPENING
            }
            known = {**stored_openings(path), **self.rules.opened}
            kept = {line: programs for line, programs in known.items() if line in lines}
            replace_file(path.with_suffix(".opened"), msgspec.json.encode(kept))

    def remove(self, rule: Rule) -> None:
        """Remove a rule, from the file too if it was granted permanently. Raises as `store_rule`."""
        if self.path is not None and self.is_permanent(rule):
            drop_rule(self.path, rule)
        self.rules = replace(
            self.rules,
            allow=tuple(each for each in self.rules.allow if each is not rule),
            deny=tuple(each for each in self.rules.deny if each is not rule),
            ask=tuple(each for each in self.rules.ask if each is not rule),
        )

    def let_through(self, action: str, *places: str) -> None:
        """Allow sandboxed commands to "write" or "read" paths, now and permanently in the project.

        Raises as `store_rule`.
        """
        self.sandbox = self.sandbox.with_entries({action: places})
        if self.path is not None:
            change_places(self.path, action, add=places)

    def close_again(self, place: str) -> bool:
        """Stop allowing a path in the sandbox; return whether it was allowed. Raises as `store_rule`."""
        found = [name for name in ("write", "read") if place in getattr(self.sandbox, name)]
        for action in found:
            left: tuple[str, ...] = tuple(each for each in getattr(self.sandbox, action) if each != place)
            self.sandbox = replace(self.sandbox, **{action: left})
            if self.path is not None and place in stored_places(self.path).get(action, ()):
                change_places(self.path, action, drop=(place,))
        return bool(found)

    def is_permanent(self, rule: Rule) -> bool:
        """Return whether the user granted the rule permanently in this project."""
        return self.path is not None and rule.origin == str(self.path)


def stored_rules(path: Path) -> tuple[Rule, ...]:
    """Read the rules in the file without the invalid ones, which reading the settings has reported."""
    found: list[Rule] = []
    for text in _rules_in(read_settings(path)):
        with suppress(ValueError):
            found += (replace(rule, origin=str(path)) for rule in parse_rules(text))
    return tuple(found)


def stored_places(path: Path) -> dict[str, Any]:
    """Read the paths that the file allows in the sandbox; none if they are invalid, as with rules."""
    with suppress(ValueError):
        return sandbox_entries(read_settings(path).get("sandbox", {}))
    return {}


def stored_openings(path: Path) -> dict[str, shell.KnownPrograms]:
    """Read what was known of each permanent `open` rule's programs, by its line.

    Files of older versions contain the digest of the programs alone.
    """
    try:
        text = read_regular(path.with_suffix(".opened"), MAX_SETTINGS_BYTES)
        found = msgspec.json.decode(text, type=dict[str, shell.KnownPrograms | str])
    except (OSError, ValueError, RecursionError):
        return {}
    return {
        line: shell.KnownPrograms(known) if isinstance(known, str) else known for line, known in found.items()
    }


def store_rule(path: Path, rule: Rule) -> None:
    """Add an allow rule to the file, atomically.

    Raises ConfigError if the file cannot be read, OSError if it cannot be written.
    """
    with locked(path):
        granted = read_settings(path)
        stored = _rules_in(granted)
        if str(rule) not in stored:
            _write(path, {**granted, "allow": [*stored, str(rule)]})


def drop_rule(path: Path, rule: Rule) -> None:
    """Remove an allow rule from the file; the others stay. Raises as `store_rule`."""
    with locked(path):
        granted = read_settings(path)
        left: list[str] = []
        for text in _rules_in(granted):
            try:
                rules = parse_rules(text)
            except ValueError:
                left.append(text)
            else:
                left += [text] if rule not in rules else [str(each) for each in rules if each != rule]
        _write(path, {**granted, "allow": left})


def change_places(path: Path, action: str, *, add: Iterable[str] = (), drop: tuple[str, ...] = ()) -> None:
    """Add and drop paths that sandboxed commands may "write" or "read". Raises as `store_rule`."""
    with locked(path):
        granted = read_settings(path)
        places = dict(granted.get("sandbox", {}))
        left = [place for place in places.get(action, ()) if place not in drop]
        places[action] = list(dict.fromkeys((*left, *add)))
        _write(path, {**granted, "sandbox": places})


def _rules_in(granted: Mapping[str, Any]) -> list[str]:
    return [str(text) for text in granted.get("allow", [])]


def _write(path: Path, granted: Mapping[str, Any]) -> None:
    text = f"# Permissions that you granted for this project.\n{_toml_list('allow', _rules_in(granted))}"
    places = granted.get("sandbox", {})
    if any(places.values()):
        text += "\n[sandbox]\n" + "".join(_toml_list(name, texts) for name, texts in places.items())
    replace_file(path, text.encode())


def _toml_list(name: str, texts: Sequence[str]) -> str:
    quoted = "".join(f"    {json.dumps(text, ensure_ascii=False)},\n" for text in texts)  # valid TOML too
    return f"{name} = [\n{quoted}]\n"
