"""May a call go ahead? Pure: what it touches, the mode and the rules in, a verdict out.

Deny beats ask beats allow. What cannot be parsed is asked about. A rule is `tool` or `tool(pattern)`: for
bash the pattern is the start of a simple command, word by word (`bash(git status)`, `bash(npm run *)`,
also written `npm run:*`); for the others a glob over the path, relative to the project.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from tools.access import Access

from .always_allow import RUNNERS, safe_prefix
from .destructive import is_destructive
from .modes import MODES
from .shell_syntax import rough_commands, simple_commands

__all__ = [
    "MODES",
    "Mode",
    "PermissionRules",
    "Rule",
    "Verdict",
    "judge",
    "parse_rule",
    "parse_rules",
    "prefix_of",
]

KNOWN = {"bash", "read", "write", "edit", "compact", "recall"}
Mode = Literal["manual", "acceptEdits", "dontAsk", "bypassPermissions"]
_RULE = re.compile(r"^\s*([A-Za-z_]+)\s*(?:\((.*)\))?\s*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """`pattern` None stands for every use of the tool; `origin` tells where it was set (a file, a flag)."""

    tool: str
    pattern: str | None = None
    origin: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"


@dataclass(frozen=True, slots=True)
class PermissionRules:
    """What was granted and what was forbidden; `session` tells that edits were allowed for the session."""

    mode: Mode = "manual"
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """allow, ask or deny; `why` is one line for the person (or for the model, when denied).

    `prefix` is the rule that "always" would add, or None where nothing shorter than once is safe.
    """

    answer: Literal["allow", "ask", "deny"]
    why: str = ""
    prefix: Rule | None = None


def parse_rule(text: str) -> Rule:
    """A rule from its text. Raises ValueError naming the form."""
    found = _RULE.match(text)
    if not found:
        raise ValueError(
            f"{text!r} is no rule; write a tool, or tool(pattern): bash(git status), edit, write(docs/*)"
        )
    pattern = found[2]
    if pattern is not None:
        pattern = pattern.strip().removesuffix(":*").strip()
    return Rule(found[1].lower(), pattern or None)


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Rules separated by commas or spaces. Raises ValueError where something else stands between them."""
    found = list(re.finditer(r"[A-Za-z_]+(?:\([^)]*\))?", text))
    between = re.sub(r"[A-Za-z_]+(?:\([^)]*\))?", "", text)
    if between.strip(" ,\t") or not found:
        raise ValueError(f"{text!r} holds no rules; write tools or tool(pattern): edit, bash(git status)")
    if unknown := [match[0] for match in found if match[0].split("(")[0].lower() not in KNOWN]:
        raise ValueError(f"{unknown[0]!r} names no tool; {_nearest(unknown[0])}")
    return tuple(parse_rule(match[0]) for match in found)


def _nearest(text: str) -> str:
    name, bracket, rest = text.partition("(")
    near = difflib.get_close_matches(name.lower(), sorted(KNOWN), 1)
    if near:
        return f"did you mean {f'{near[0]}{bracket}{rest}'!r}?"
    return f"the tools are {', '.join(sorted(KNOWN))}"


def judge(tool: str, touches: Sequence[Access], rules: PermissionRules) -> Verdict:
    """The verdict on one call: the strictest over everything that it touches."""
    order = {"allow": 0, "ask": 1, "deny": 2}
    verdicts = [_judge_one(tool, touch, rules) for touch in touches] or [Verdict("allow")]
    verdict = max(verdicts, key=lambda each: order[each.answer])
    if verdict.answer == "ask" and rules.mode == "dontAsk":
        return Verdict("deny", f"not allowed, and the mode is dontAsk: {verdict.why}", verdict.prefix)
    return verdict


def _judge_one(tool: str, touch: Access, rules: PermissionRules) -> Verdict:
    if touch.kind == "none":
        return Verdict("allow")
    for rule in rules.deny:
        if _fits(rule, tool, touch, rules.folder, any_part=True):
            return Verdict("deny", f"the rule {rule} denies this")
    if touch.kind == "run":
        return _judge_run(tool, touch, rules)
    return _judge_path(tool, touch, rules)


def _judge_run(tool: str, touch: Access, rules: PermissionRules) -> Verdict:
    if is_destructive(touch.target):
        return Verdict("ask", "it removes a whole home, or a folder of the system")
    if rules.mode == "bypassPermissions" or any(
        _fits(rule, tool, touch, rules.folder) for rule in rules.allow
    ):
        return Verdict("allow")
    return Verdict("ask", "it runs a command", prefix_of(tool, touch.target))


def _judge_path(tool: str, touch: Access, rules: PermissionRules) -> Verdict:
    inside = not touch.outside and not touch.protected
    if rules.mode == "bypassPermissions" or (touch.kind == "read" and inside):
        return Verdict("allow")
    if touch.protected and touch.kind == "write":
        return Verdict("ask", "a protected place")
    if any(_fits(rule, tool, touch, rules.folder) for rule in rules.allow):
        return Verdict("allow")
    if touch.kind == "write" and inside and rules.mode == "acceptEdits":
        return Verdict("allow")
    why = (
        "outside the project"
        if touch.outside
        else "a protected place"
        if touch.protected
        else "it writes a file"
    )
    return Verdict("ask", why, Rule(tool, None) if inside else None)


def _fits(rule: Rule, tool: str, touch: Access, folder: str, any_part: bool = False) -> bool:
    if rule.tool != tool:
        return False
    if touch.kind == "run":
        return _forbids(rule, touch.target) if any_part else _covers(rule, touch.target)
    if rule.pattern is None:
        return any_part or not (touch.outside or touch.protected)
    relative = touch.target.removeprefix(folder.rstrip("/") + "/")
    return fnmatchcase(touch.target, rule.pattern) or fnmatchcase(relative, rule.pattern)


def _covers(rule: Rule, command: str) -> bool:
    """Whether an allow rule covers a command line: every simple command in it, or the very line."""
    if rule.pattern is None:
        return True
    simple = simple_commands(command)
    if simple is None:
        return rule.pattern == command.strip()
    wanted = _wanted(rule.pattern)
    return bool(simple) and all(_starts(words, wanted) for words in simple)


def _starts(words: Sequence[str], wanted: Sequence[str]) -> bool:
    if wanted == ["git"] and words[1:] and words[1].startswith("-"):
        return False  # git -c, --exec-path and their like name programs to run
    return len(words) >= len(wanted) and all(fnmatchcase(w, p) for w, p in zip(words, wanted, strict=False))


def _forbids(rule: Rule, command: str) -> bool:
    """Whether a deny rule is meant: by any command of the line, whoever runs it and whatever options it has.

    What cannot be parsed, and what is handed to a program that runs it, is looked through word by word.
    """
    if rule.pattern is None or rule.pattern == command.strip():
        return True
    wanted = _wanted(rule.pattern)
    simple = simple_commands(command)
    if simple is not None and not any(map(_runs_others, simple)):
        return any(_names(words, wanted) for words in simple)
    tails = (words[at:] for words in rough_commands(command) for at in range(len(words)))
    return any(_names(tail, wanted) for tail in tails)


def _runs_others(words: Sequence[str]) -> bool:
    return words[0].rpartition("/")[2] in RUNNERS or "=" in words[0]


def _names(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether words are the wanted ones: the program by any path, its options passed over."""
    if not wanted:
        return True
    if not (fnmatchcase(words[0], wanted[0]) or fnmatchcase(words[0].rpartition("/")[2], wanted[0])):
        return False
    reached = {1}
    for pattern in wanted[1:]:
        for at in range(min(reached, default=len(words)), len(words)):
            if at in reached and words[at].startswith("-"):
                reached |= {at + 1, at + 2}
        reached = {at + 1 for at in reached if at < len(words) and fnmatchcase(words[at], pattern)}
    return bool(reached)


def _wanted(pattern: str) -> list[str]:
    words = pattern.split()
    return words[:-1] if words[-1] == "*" else words


def prefix_of(tool: str, command: str) -> Rule | None:
    """The rule that "always" adds: the first word or two; None where that would be too broad."""
    words = safe_prefix(command)
    return None if words is None else Rule(tool, words)
