"""Whether a call may go ahead: what it accesses, the mode and the rules give a verdict. Pure.

Deny beats ask, ask beats allow. What cannot be parsed is asked about. A rule is `tool` or `tool(pattern)`.
For bash the pattern is the start of a simple command, word by word (`bash(git status)`, `bash(npm run *)`,
also written `npm run:*`); for the other tools a glob over the path, relative to the project.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, get_args

from tools import BUILTIN

from .always_allow import RUNNERS, safe_prefix
from .destructive import is_destructive
from .shell_syntax import Words, find_possible_commands, parse_simple_commands

if TYPE_CHECKING:
    from tools.base import Access

Mode = Literal["manual", "acceptEdits", "dontAsk", "bypassPermissions"]
MODES: tuple[Mode, ...] = get_args(Mode)
FOREIGN_PREFIX = "mcp__"  # of the names of tools that come from servers
_RULE = re.compile(r"([\w-]+)(?:\(([^)]*)\))?", re.ASCII)
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about a tool. `pattern` None stands for every use of it; `origin` tells where the rule was set
    (a file, a flag) and does not count when rules are compared.
    """

    tool: str
    pattern: str | None = None
    origin: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"


@dataclass(frozen=True, slots=True)
class PermissionRules:
    """The mode and the rules in force in the project `folder`, a real path."""

    mode: Mode = "manual"
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """allow, ask or deny; `why` is one line for the user (or for the model, when denied).

    `prefix` is the rule that "always" would add, or None where the call may only be allowed once.
    """

    answer: Literal["allow", "ask", "deny"]
    why: str = ""
    prefix: Rule | None = None


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Rules separated by commas or spaces. Raises ValueError for anything else, and for unknown tools."""
    found = list(_RULE.finditer(text))
    if _RULE.sub("", text).strip(" ,\t") or not found:
        raise ValueError(f"{text!r} holds no rules; write tools or tool(pattern): edit, bash(git status)")
    rules = []
    for match in found:
        name = match[1].lower() if match[1].lower() in BUILTIN else match[1]  # those in any letter case
        is_foreign = name.startswith(FOREIGN_PREFIX) and name != FOREIGN_PREFIX
        if name not in BUILTIN and not is_foreign:
            raise ValueError(f"{match[0]!r} names no tool; {_nearest(match[0])}")
        pattern = (match[2] or "").strip().removesuffix(":*").strip()
        rules.append(Rule(name, pattern or None))
    return tuple(rules)


def _nearest(text: str) -> str:
    name, bracket, rest = text.partition("(")
    near = difflib.get_close_matches(name.lower(), sorted(BUILTIN), 1)
    if near:
        return f"did you mean {f'{near[0]}{bracket}{rest}'!r}?"
    return f"the tools are {', '.join(sorted(BUILTIN))}"


def judge_call(tool: str, accesses: Sequence[Access], rules: PermissionRules) -> Verdict:
    """The verdict on one call: the strictest over everything that it accesses."""
    verdict = Verdict("allow")
    for access in accesses:
        found = _judge_access(tool, access, rules)
        if _STRICTNESS[found.answer] > _STRICTNESS[verdict.answer]:
            verdict = found
    if verdict.answer == "ask" and rules.mode == "dontAsk":
        return Verdict("deny", f"not allowed, and the mode is dontAsk: {verdict.why}")
    return verdict


def _judge_access(tool: str, access: Access, rules: PermissionRules) -> Verdict:
    if access.kind == "none":
        return Verdict("allow")
    for rule in rules.deny:
        if rule.tool == tool and _denies(rule, access, rules.folder):
            return Verdict("deny", f"the rule {rule} denies this")
    allowed = any(rule.tool == tool and _allows(rule, access, rules.folder) for rule in rules.allow)
    if access.kind == "run":
        return _judge_command(tool, access.target, rules.mode, allowed)
    return _judge_path(tool, access, rules.mode, allowed)


def _judge_command(tool: str, line: str, mode: Mode, allowed: bool) -> Verdict:
    if is_destructive(line):
        return Verdict("ask", "it removes a whole home, or a folder of the system")
    if allowed or mode == "bypassPermissions":
        return Verdict("allow")
    prefix = safe_prefix(line)
    return Verdict("ask", "it runs a command", None if prefix is None else Rule(tool, prefix))


def _judge_path(tool: str, access: Access, mode: Mode, allowed: bool) -> Verdict:
    """`allowed` tells that a rule allows it, which never holds for writing to a protected place."""
    inside = not access.outside and not access.protected
    if mode == "bypassPermissions" or (access.kind == "read" and inside):
        return Verdict("allow")
    if access.protected and access.kind == "write":
        return Verdict("ask", "a protected place")
    if allowed or (inside and access.kind == "write" and mode == "acceptEdits"):
        return Verdict("allow")
    if access.kind == "network":
        return Verdict("ask", "it reaches the network", Rule(tool, access.target))
    if inside:
        return Verdict("ask", "it writes a file", Rule(tool))
    return Verdict("ask", "outside the project" if access.outside else "a protected place")


def _denies(rule: Rule, access: Access, folder: str) -> bool:
    if access.kind == "run":
        return _forbids(rule, access.target)
    return rule.pattern is None or _path_matches(rule.pattern, access.target, folder)


def _allows(rule: Rule, access: Access, folder: str) -> bool:
    if access.kind == "run":
        return _covers(rule, access.target)
    if rule.pattern is None:
        return not (access.outside or access.protected)
    return _path_matches(rule.pattern, access.target, folder)


def _path_matches(pattern: str, path: str, folder: str) -> bool:
    relative = path.removeprefix(folder.rstrip("/") + "/")
    return fnmatchcase(path, pattern) or fnmatchcase(relative, pattern)


def _covers(rule: Rule, line: str) -> bool:
    """Whether an allow rule covers a command line: every simple command in it, or exactly this line."""
    if rule.pattern is None:
        return True
    commands = parse_simple_commands(line)
    if commands is None:
        return rule.pattern == line.strip()
    wanted = _pattern_words(rule.pattern)
    return all(_starts_with(words, wanted) for words in commands)


def _starts_with(words: Words, wanted: Words) -> bool:
    if wanted == ["git"] and words[1:] and words[1].startswith("-"):
        return False  # git -c, --exec-path and their like name programs to run
    return len(words) >= len(wanted) and all(fnmatchcase(w, p) for w, p in zip(words, wanted, strict=False))


def _forbids(rule: Rule, line: str) -> bool:
    """Whether any command of the line is meant by a deny rule, by whatever means it is run, with any options.

    What cannot be parsed, and what is passed to a program that runs it, is searched from every word on.
    """
    if rule.pattern is None or rule.pattern == line.strip():
        return True
    wanted = _pattern_words(rule.pattern)
    commands = parse_simple_commands(line)
    if commands is not None and not any(map(_runs_others, commands)):
        return any(_is_call_of(words, wanted) for words in commands)
    tails = (words[at:] for words in find_possible_commands(line) for at in range(len(words)))
    return any(_is_call_of(tail, wanted) for tail in tails)


def _runs_others(words: Words) -> bool:
    return words[0].rpartition("/")[2] in RUNNERS or "=" in words[0]


def _is_call_of(words: Words, wanted: Words) -> bool:
    """Whether a command is the wanted one: the program by any path, options between the words ignored."""
    if not wanted:
        return True
    if not (fnmatchcase(words[0], wanted[0]) or fnmatchcase(words[0].rpartition("/")[2], wanted[0])):
        return False
    reached = {1}  # where the next wanted word may stand
    for pattern in wanted[1:]:
        for at in range(1, len(words)):
            if at in reached and words[at].startswith("-"):
                reached |= {at + 1, at + 2}  # an option, with or without a value of its own
        reached = {at + 1 for at in reached if at < len(words) and fnmatchcase(words[at], pattern)}
    return bool(reached)


def _pattern_words(pattern: str) -> Words:
    words = pattern.split()
    return words[:-1] if words[-1] == "*" else words
