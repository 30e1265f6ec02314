"""How a permission rule is written: `tool` or `tool(pattern)`.

For bash the pattern is the start of a simple command, word by word (`bash(git status)`, `bash(npm run *)`,
also written `npm run:*`); for the other tools a glob over the path, relative to the project.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field

from tools import BUILTIN

from .shell_syntax import Words

FOREIGN_PREFIX = "mcp__"  # of the names of tools that come from servers
_RULE = re.compile(r"([\w-]+)(?:\(([^)]*)\))?", re.ASCII)


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


def pattern_words(pattern: str) -> Words:
    words = pattern.split()
    return words[:-1] if words[-1] == "*" else words
