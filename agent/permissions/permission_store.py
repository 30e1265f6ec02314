"""The permission rules in force, and those that the user granted permanently for a project, in a file."""

from __future__ import annotations

import hashlib
import json
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.errors import ConfigError
from transcripts.disk import make_private_folders, replace_file

from .rule_syntax import Rule, parse_rules
from .rules import Mode, PermissionRules

SESSION_ORIGIN = "this session"


@dataclass(slots=True)
class PermissionStore:
    """The mode and rules now in force, and the calls that were denied.

    `path` is the file of the rules granted permanently, None where there is none.
    """

    rules: PermissionRules
    path: Path | None = None
    denied: list[dict[str, object]] = field(default_factory=list)

    def set_mode(self, mode: Mode) -> None:
        self.rules = replace(self.rules, mode=mode)

    def allow(self, rule: Rule) -> None:
        """Allow for this session."""
        self.rules = replace(self.rules, allow=(*self.rules.allow, replace(rule, origin=SESSION_ORIGIN)))

    def deny(self, rule: Rule) -> None:
        """Deny for this session."""
        self.rules = replace(self.rules, deny=(*self.rules.deny, replace(rule, origin=SESSION_ORIGIN)))

    def allow_always(self, rule: Rule) -> None:
        """Allow permanently in this project. Raises as `store_rule`, after allowing it for this session."""
        self.allow(rule)
        if self.path is not None:
            store_rule(self.path, rule)
            stored = replace(rule, origin=str(self.path))
            self.rules = replace(self.rules, allow=(*self.rules.allow[:-1], stored))

    def remove(self, rule: Rule) -> None:
        """Remove a rule, from the file too where it was granted permanently. Raises as `store_rule`."""
        if self.is_permanent(rule) and self.path is not None:
            drop_rule(self.path, rule)
        allow = tuple(each for each in self.rules.allow if each is not rule)
        deny = tuple(each for each in self.rules.deny if each is not rule)
        self.rules = replace(self.rules, allow=allow, deny=deny)

    def is_permanent(self, rule: Rule) -> bool:
        """Whether the user granted the rule permanently in this project."""
        return self.path is not None and rule.origin == str(self.path)


def permissions_path(user_dir: Path, folder: Path) -> Path:
    """The file of the rules granted permanently in the project `folder`."""
    name = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return user_dir / "projects" / f"{name}.toml"


def stored_rules(path: Path) -> tuple[Rule, ...]:
    """The rules in the file now. Invalid ones are left out: reading the settings has warned of them."""
    found: list[Rule] = []
    for text in _read(path):
        with suppress(ValueError):
            found += (replace(rule, origin=str(path)) for rule in parse_rules(text))
    return tuple(found)


def store_rule(path: Path, rule: Rule) -> None:
    """Add an allow rule to the file, atomically.

    Raises ConfigError for a file that cannot be read, OSError for one that cannot be written.
    """
    known = _read(path)
    if str(rule) not in known:
        make_private_folders(path.parent)
        _write(path, [*known, str(rule)])


def drop_rule(path: Path, rule: Rule) -> None:
    """Remove an allow rule from the file; the others stay. Raises as `store_rule`."""
    left: list[str] = []
    for text in _read(path):
        try:
            rules = parse_rules(text)
        except ValueError:
            left.append(text)
        else:
            left += [text] if rule not in rules else [str(each) for each in rules if each != rule]
    _write(path, left)


def _read(path: Path) -> list[str]:
    try:
        return [str(text) for text in tomllib.loads(path.read_text("utf-8")).get("allow", [])]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}; correct it or move it away") from error


def _write(path: Path, rules: list[str]) -> None:
    quoted = "".join(f"    {json.dumps(rule, ensure_ascii=False)},\n" for rule in rules)  # as TOML quotes too
    replace_file(path, f"# Commands that you allowed for this project.\nallow = [\n{quoted}]\n".encode())
