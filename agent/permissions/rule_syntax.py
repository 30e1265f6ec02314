"""How a permission rule is written: `tool`, `tool(pattern)`, or `tool(=line)` for exactly one command line.

For bash the pattern is the start of a simple command, word by word (`bash(git status)`, `bash(npm run *)`,
also written `npm run:*`); for the other tools a glob over the path, relative to the project. Brackets within
a pattern come in pairs or behind a backslash; a backslash before a bracket or another one is doubled.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools import BUILTIN

from .shell_syntax import Words

FOREIGN_PREFIX = "mcp__"  # of the names of tools that come from servers
_BLANKS = " \t\n"  # that a shell passes over; other blanks are parts of words
_NAME = re.compile(r"[\w-]+", re.ASCII)
_BLANK = re.compile(r"[ ,\t]*")
_ESCAPED = re.compile(r"\\([\\()])")
_TO_ESCAPE = re.compile(r"\\(?=[\\()]|\Z)")
_BRACKET = re.compile(r"\\.|[()]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about a tool. `pattern` None stands for every use of it; `origin` tells where the rule was set
    (a file, a flag) and does not count when rules are compared.

    exact  the pattern is one whole command line, and covers that one alone
    """

    tool: str
    pattern: str | None = None
    origin: str = field(default="", compare=False)
    exact: bool = False

    def __str__(self) -> str:
        """The rule as it is stored; `parse_rules` reads the same rule from it."""
        if self.pattern is None:
            return self.tool
        text = _TO_ESCAPE.sub(r"\\\\", self.pattern)
        if _closing_bracket(f"({text})", 0) != len(text) + 1:
            text = re.sub(r"[()]", r"\\\g<0>", text)
        return f"{self.tool}({'=' if self.exact else ''}{text})"


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Rules separated by commas or spaces. Raises ValueError for anything else, and for unknown tools."""
    found = list(_written_rules(text))
    if not found:
        raise _no_rules(text)
    return tuple(_rule(name, pattern) for name, pattern in found)


def is_exactly(rule: Rule, line: str) -> bool:
    """Whether the pattern of a rule is this very command line, the blanks around it apart."""
    return rule.pattern == line.strip(_BLANKS)


def _written_rules(text: str) -> Iterator[tuple[str, str | None]]:
    """Name and pattern of each rule, as written. Raises ValueError for what is no rule."""
    blank = _BLANK.match(text)
    at = blank.end() if blank else 0
    while at < len(text):
        name = _NAME.match(text, at)
        if name is None:
            raise _no_rules(text)
        at, pattern = name.end(), None
        if text.startswith("(", at):
            end = _closing_bracket(text, at)
            if end < 0:
                raise _no_rules(text)
            pattern, at = text[at + 1 : end], end + 1
        yield name[0], pattern
        blank = _BLANK.match(text, at)
        at = blank.end() if blank else at


def _closing_bracket(text: str, start: int) -> int:
    """Where the bracket at `start` closes: at its pair, else at the first that closes any; -1: nowhere."""
    depth = 0
    for match in _BRACKET.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return text.find(")", start)


def _rule(written_name: str, written: str | None) -> Rule:
    name = written_name.lower() if written_name.lower() in BUILTIN else written_name  # in any letter case
    is_foreign = name.startswith(FOREIGN_PREFIX) and name != FOREIGN_PREFIX
    if name not in BUILTIN and not is_foreign:
        whole = written_name if written is None else f"{written_name}({written})"
        raise ValueError(f"{whole!r} names no tool; {_nearest(whole)}")
    pattern = (written or "").strip(_BLANKS)
    exact = pattern.startswith("=")
    pattern = (pattern[1:] if exact else pattern.removesuffix(":*")).strip(_BLANKS)
    return Rule(name, _ESCAPED.sub(r"\1", pattern) or None, exact=exact and bool(pattern))


def _no_rules(text: str) -> ValueError:
    return ValueError(f"{text!r} holds no rules; write tools or tool(pattern): edit, bash(git status)")


def _nearest(text: str) -> str:
    name, bracket, rest = text.partition("(")
    near = difflib.get_close_matches(name.lower(), sorted(BUILTIN), 1)
    if near:
        return f"did you mean {f'{near[0]}{bracket}{rest}'!r}?"
    return f"the tools are {', '.join(sorted(BUILTIN))}"


def pattern_words(pattern: str) -> Words:
    words = pattern.split()
    return words[:-1] if words[-1] == "*" else words
