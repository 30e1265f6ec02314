"""Read the permission rules in Claude Code's settings files.

Its `deny` and `ask` rules can only restrict makeroom, so they are always in force, even those of a checkout.
A file or list that cannot be read may contain such rules, so makeroom does not start, as with its own
settings. Its `allow` rules are not in force: they were granted to another program. `/permissions import` and
`makeroom import claude` offer them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.permissions import (
    Rule,
    UnknownTool,
    UnreadableRule,
    UnusableRule,
    known_rules,
    translate_rule,
    with_our_path,
)
from agent.settings_files import MAX_SETTINGS_BYTES, claude_folder, json_object
from transcripts.storage import read_regular
from transcripts.wording import cause_of

MANAGED_FOLDER = Path(
    "/Library/Application Support/ClaudeCode" if sys.platform == "darwin" else "/etc/claude-code"
)


class ClaudeRules(Struct):
    """The rules of all files, each with its file as origin.

    allow     in force in Claude Code, but not here: of the user's own files, not of the checkout's
    unusable  a line about each allow rule that cannot be used here
    warnings  about restrictions that have no counterpart here
    faults    about files, lists and rules that cannot be read, with the remedy
    """

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    unusable: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class _Restrictions(Struct):
    """The rules of one list, lines about those without a counterpart here, and about unreadable ones."""

    rules: list[Rule] = []
    problems: list[str] = []
    faults: list[str] = []


def claude_rules(
    environ: Mapping[str, str],
    folder: Path,
    reads: Callable[[str], bool] = lambda source: True,
    managed: Path = MANAGED_FOLDER,
) -> ClaudeRules:
    """Return the rules for the project `folder` of the managed files and of the sources to read."""
    found = ClaudeRules()
    restrictions: dict[str, list[Rule]] = {"deny": [], "ask": []}
    for path, source in _files(environ, folder, managed):
        if source != "managed" and not reads(source):
            continue
        try:
            permissions = _permissions_in(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            why = cause_of(error)
            why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else why
            text = f"cannot read {path}: {why}. It may deny something: correct or remove it."
            found.faults = (*found.faults, text)
            continue
        for kind, rules_of_kind in restrictions.items():
            made = _restrictions(permissions.get(kind), path, folder)
            rules_of_kind += made.rules
            found.warnings += tuple(f"{path}: cannot apply {kind} {problem}" for problem in made.problems)
            found.faults += tuple(f"{path}: permissions.{kind}: {fault}" for fault in made.faults)
        if source == "project":
            problems = _not_granted(permissions.get("allow"))
        else:
            rules, problems = _allowed(permissions.get("allow"), path)
            found.allow = (*found.allow, *rules)
        found.unusable += tuple(f"{problem} ({path})" for problem in problems)
    found.deny = tuple(restrictions["deny"])
    found.ask = tuple(restrictions["ask"])
    return found


def offered_rules(environ: Mapping[str, str], folder: Path, known: Iterable[Rule]) -> list[Rule]:
    """Return the allow rules that are not known here, each once, of the most specific file."""
    others = set(known)
    found = [rule for rule in claude_rules(environ, folder).allow if rule not in others]
    return list({rule: rule for rule in found}.values())  # of equal rules the last


def _files(environ: Mapping[str, str], folder: Path, managed: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files that may exist, with their sources."""
    places = [
        (managed / "managed-settings.json", "managed"),
        *((path, "managed") for path in sorted(managed.glob("managed-settings.d/*.json"))),
        (claude_folder(environ) / "settings.json", "user"),
        (folder / ".claude" / "settings.json", "project"),
        (folder / ".claude" / "settings.local.json", "local"),
    ]
    seen: set[Path] = set()
    for path, source in places:
        if path not in seen:
            seen.add(path)  # started in the home directory, the user's file is the project's too
            yield path, source


def _permissions_in(path: Path) -> Mapping[str, Any]:
    """Return the table of permissions in a file. Raises OSError and ValueError."""
    permissions = json_object(read_regular(path, MAX_SETTINGS_BYTES) or b"{}").get("permissions", {})
    if not isinstance(permissions, dict):
        raise ValueError("`permissions` is not an object")
    return permissions


def _restrictions(texts: Any, path: Path, folder: Path) -> _Restrictions:
    """Return the rules in one list of a file, and lines about those that cannot be used."""
    made = _Restrictions()
    if texts is None:
        return made
    if not isinstance(texts, list):
        made.faults.append("must be a list of rules. Correct or remove it.")
        return made
    missing: dict[str, None] = {}
    unusable: dict[str, list[str]] = {}  # rules by the reason
    for text in map(str, texts):
        try:
            made.rules += (replace(rule, origin=str(path)) for rule in translate_rule(text, str(folder)))
        except UnknownTool as error:
            missing[str(error)] = None
        except UnreadableRule as error:
            made.faults.append(f"{text}: {error}. Correct or remove it.")
        except UnusableRule as error:
            unusable.setdefault(error.reason, []).append(text)
        except ValueError as error:
            unusable.setdefault(str(error), []).append(text)
    made.problems += (f"{', '.join(rules)}: {reason}" for reason, rules in unusable.items())
    if missing:
        made.problems.append(f"rules about {', '.join(missing)}: makeroom has no such tool")
    return made


def _not_granted(texts: Any) -> list[str]:
    """Return a line about each allow rule of a checkout."""
    why = "a checkout cannot grant permissions; see /permissions allow"
    return [f"{text}: {why}" for text in texts] if isinstance(texts, list) else []


def _allowed(texts: Any, path: Path) -> tuple[list[Rule], list[str]]:
    """Return the allow rules in a list that mean the same here, and a line about each other one.

    A translation could allow more.
    """
    rules: list[Rule] = []
    problems: list[str] = []
    for text in texts if isinstance(texts, list) else ():
        try:
            found, unknown = known_rules(with_our_path(str(text)))
        except ValueError as error:
            problems.append(f"{text}: {error}")
            continue
        rules += (replace(rule, origin=str(path)) for rule in found)
        problems += unknown
    return rules, problems
