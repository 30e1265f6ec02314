"""What a person granted and forbade: the rules now in force, and those kept for good for a project."""

from __future__ import annotations

import hashlib
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.errors import ConfigError
from transcripts.disk import make_private, put

from .rules import Mode, PermissionRules, Rule, parse_rules

HERE = "this session"


@dataclass(slots=True)
class PermissionStore:
    """The permission mode and rules now in force; `path` is where an "always" is kept, None for nowhere."""

    rules: PermissionRules
    path: Path | None = None
    denied: list[dict[str, object]] = field(default_factory=list)

    def set_mode(self, mode: Mode) -> None:
        self.rules = replace(self.rules, mode=mode)

    def allow(self, rule: Rule) -> None:
        """Allow for this session."""
        self.rules = replace(self.rules, allow=(*self.rules.allow, replace(rule, origin=HERE)))

    def deny(self, rule: Rule) -> None:
        """Forbid for this session."""
        self.rules = replace(self.rules, deny=(*self.rules.deny, replace(rule, origin=HERE)))

    def allow_for_good(self, rule: Rule) -> None:
        """Allow from now on in this project. Raises as `keep_grant`, having allowed it for this session."""
        self.allow(rule)
        if self.path is not None:
            store_rule(self.path, rule)
            kept = replace(rule, origin=str(self.path))
            self.rules = replace(self.rules, allow=(*self.rules.allow[:-1], kept))

    def remove(self, rule: Rule) -> None:
        """Take off a rule, from the file too where it was granted for good. Raises as `keep_grant`."""
        if self.for_good(rule) and self.path is not None:
            drop_rule(self.path, rule)
        allow = tuple(each for each in self.rules.allow if each is not rule)
        deny = tuple(each for each in self.rules.deny if each is not rule)
        self.rules = replace(self.rules, allow=allow, deny=deny)

    def for_good(self, rule: Rule) -> bool:
        """Whether the rule is one that a person granted for good in this project."""
        return self.path is not None and rule.origin == str(self.path)


def permissions_path(user_dir: Path, folder: Path) -> Path:
    """Where the rules are kept that a person granted for good in a project."""
    name = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return user_dir / "projects" / f"{name}.toml"


def stored_rules(path: Path) -> tuple[Rule, ...]:
    """The rules kept there now; what is no rule was told of when the settings were read."""
    found: list[Rule] = []
    for text in _texts(path):
        with suppress(ValueError):
            found += (replace(rule, origin=str(path)) for rule in parse_rules(text))
    return tuple(found)


def store_rule(path: Path, rule: Rule) -> None:
    """Write one more allow rule down for a project, the file whole or as it was.

    Raises ConfigError for a file that cannot be read, OSError for one that cannot be written.
    """
    known = _texts(path)
    if str(rule) not in known:
        make_private(path.parent)
        _write(path, [*known, str(rule)])


def drop_rule(path: Path, rule: Rule) -> None:
    """Take an allow rule out of the file, the others stay. Raises as `keep_grant`."""
    left: list[str] = []
    for text in _texts(path):
        try:
            rules = parse_rules(text)
        except ValueError:
            left.append(text)
        else:
            left += [text] if rule not in rules else [str(each) for each in rules if each != rule]
    _write(path, left)


def _texts(path: Path) -> list[str]:
    try:
        return [str(text) for text in tomllib.loads(path.read_text("utf-8")).get("allow", [])]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}; correct it or move it away") from error


def _write(path: Path, texts: list[str]) -> None:
    quoted = "".join(f"    {_toml(text)},\n" for text in texts)
    put(path, f"# Commands that you allowed for this project.\nallow = [\n{quoted}]\n".encode())


def _toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
