"""Read and write permission rules: `tool`, `tool(pattern)`, or `tool(=line)` for exactly one command line.

For bash the pattern is the start of a simple command, word by word (`bash(git status)`, `bash(npm run *)`,
also written `npm run:*`); what holds more than plain words is one whole line (`bash(make > log)`). For the
other tools it is a glob over the path, relative to the project. Two more are about the sandbox: `open(line)`
lets that command line out of it, `net(host)` lets sandboxed commands reach that host. `web_search` and
`web_fetch`, which the service runs, take a host: `web_fetch(docs.python.org)`.

Brackets within a pattern come in pairs or behind a backslash; a backslash before a bracket or another one is
doubled. What could never match is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from agent.formatting import own_name
from tools import BUILTIN, CONDITIONAL
from tools.sandbox import host_name
from tools.text import word_set

EDITING = "edit"  # a rule about this tool is about every tool that writes files
READING = "read"  # a deny rule about this tool is about every tool that reads files
RUNNING = "bash"  # rules about this tool are about the command lines of every tool that runs any
OPENING = "open"  # what a rule is called that lets a command line out of the sandbox
REACHING = "net"  # ... that lets sandboxed commands reach a host
WEB_TOOLS = ("web_search", "web_fetch")  # which the service runs; an allow rule switches one on
FOREIGN_PREFIX = "mcp__"  # of the names of tools that come from servers
_BLANKS = " \t\n"  # that a shell passes over; other blanks are parts of words
_RESERVED_WORDS = word_set(
    "! [[ { } case coproc do done elif else esac fi for function if in select then until while"
)


class UnknownTool(ValueError):
    """A rule names a tool that there is not."""


class Rule(Struct, frozen=True, eq=False):
    """A rule about a tool. `pattern` None stands for every use of it.

    origin   where the rule was set (a file, a flag); it does not count when rules are compared
    exact    the pattern is one whole command line, and covers that one alone
    granted  it was taken by a command or skill, and stands for no path outside the project or protected;
             it does not count either when rules are compared
    """

    tool: str
    pattern: str | None = None
    origin: str = ""
    exact: bool = False
    granted: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rule):
            return NotImplemented
        return (self.tool, self.pattern, self.exact) == (other.tool, other.pattern, other.exact)

    def __ne__(self, other: object) -> bool:  # else Struct compares identities
        return not self == other

    def __hash__(self) -> int:
        return hash((self.tool, self.pattern, self.exact))

    def names(self, tool: str) -> bool:
        """Return whether the rule is about a tool: one of that name, or of a server, `mcp__server__*`."""
        if self.tool == tool or not self.tool.startswith(FOREIGN_PREFIX):
            return self.tool == tool
        if self.tool.endswith("*"):
            return tool.startswith(self.tool[:-1])
        return tool.startswith(f"{self.tool}__")

    def is_exactly(self, line: str) -> bool:
        """Return whether the pattern is this very command line, the blanks around it apart."""
        return self.pattern == line.strip(_BLANKS)

    def __str__(self) -> str:
        """The rule as it is stored; `parse_rules` reads the same rule from it."""
        if self.pattern is None:
            return self.tool
        text = re.sub(r"\\(?=[\\()]|\Z)", r"\\\\", self.pattern)
        if _closing_bracket(f"({text})", 0) != len(text) + 1:
            text = re.sub(r"[()]", r"\\\g<0>", text)
        return f"{self.tool}({'=' if self.exact else ''}{text})"


class _WrittenRule(NamedTuple):
    """The name of a tool and the text in its brackets, None where it has none."""

    name: str
    pattern: str | None

    def __str__(self) -> str:
        return self.name if self.pattern is None else f"{self.name}({self.pattern})"


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Read rules separated by commas or spaces. Raises ValueError for anything else."""
    found = list(_written_rules(text))
    if not found:
        raise _no_rules(text)
    return tuple(map(_rule, found))


def known_rules(text: str) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Read the rules about tools that there are; return them and a line about each other tool that is named.

    Raises ValueError for what is no list of rules, and for rules that cannot match anything.
    """
    found: list[Rule] = []
    others: list[str] = []
    for written in _written_rules(text):
        try:
            found.append(_rule(written))
        except UnknownTool as error:
            others.append(f"{error}; the rule is left out")
    return tuple(found), tuple(others)


def exact_rule(tool: str, line: str) -> Rule:
    """Make the rule for this very command line."""
    return Rule(tool, line.strip(_BLANKS), exact=True)


def _written_rules(text: str) -> Iterator[_WrittenRule]:
    """Yield each rule as it is written. Raises ValueError for what is no rule."""
    at = _end_of_blanks(text, 0)
    while at < len(text):
        name = re.compile(r"[\w-]+\*?", re.ASCII).match(text, at)
        if name is None:
            raise _no_rules(text)
        at = name.end()
        pattern = None
        if text.startswith("(", at):
            end = _closing_bracket(text, at)
            if end < 0:
                raise _no_rules(text)
            pattern = text[at + 1 : end]
            at = end + 1
        yield _WrittenRule(name[0], pattern)
        at = _end_of_blanks(text, at)


def _end_of_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " ,\t":
        at += 1
    return at


def _closing_bracket(text: str, start: int) -> int:
    """Find where the bracket at `start` closes: at its pair, else at the next that closes; -1 for nowhere."""
    depth = 0
    for match in re.compile(r"\\.|[()]", re.DOTALL).finditer(text, start):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return text.find(")", start)


def _rule(written: _WrittenRule) -> Rule:
    lower = written.name.lower()
    # Claude Code writes WebSearch, and names in any letter case.
    lower = {name.replace("_", ""): name for name in WEB_TOOLS}.get(lower, lower)
    known = _tool_names()
    name = lower if lower in known else own_name(written.name)
    is_foreign = name.startswith(FOREIGN_PREFIX) and name != FOREIGN_PREFIX
    if name not in known and not is_foreign:
        raise UnknownTool(f"{str(written)!r} names no tool; {_nearest(str(written))}")
    try:
        return _checked_rule(name, written.pattern)
    except ValueError as error:
        raise ValueError(f"the rule {str(written)!r} cannot match anything: {error}") from None


def _tool_names() -> tuple[str, ...]:
    return (*BUILTIN, *CONDITIONAL, OPENING, REACHING, *WEB_TOOLS)


def _checked_rule(name: str, written: str | None) -> Rule:
    """Check that a rule can match. Raises ValueError, with the reason and what to write instead."""
    if written is None:
        if name in (OPENING, REACHING):
            raise ValueError(f"{name} takes {'a command line' if name == OPENING else 'a host'} in brackets")
        return Rule(name)
    pattern = written.strip(_BLANKS)
    exact = pattern.startswith("=") and name in (RUNNING, OPENING)
    if exact:
        pattern = pattern[1:]
    elif name != OPENING:
        pattern = pattern.removesuffix(":*")
    pattern = re.sub(r"\\([\\()])", r"\1", pattern).strip(_BLANKS)
    if not pattern.split() or "\0" in pattern:
        raise ValueError(f"nothing stands in its brackets; write {name} for all of {name}")
    if name == RUNNING:
        return Rule(name, pattern, exact=exact or _is_whole_line(pattern))
    if name == REACHING or name in WEB_TOOLS:
        return Rule(name, host_name(re.sub(r":(?:80|443)\Z", "", pattern.removeprefix("domain:"))))
    return Rule(name, pattern if name == OPENING or name not in BUILTIN else _path_pattern(pattern))


def _is_whole_line(pattern: str) -> bool:
    """Return whether a pattern is a whole line, as it holds more than words. Raises ValueError."""
    first = pattern.split()[0]
    if first in _RESERVED_WORDS:
        raise ValueError(f"{first!r} is a word of the shell, no program")
    if not re.search(r"[;&|<>()'\"\\$`\n]|\A\s*\w+\+?=", pattern):
        return False
    if re.search(r"[*?]", pattern):
        raise ValueError(
            "it holds more than the words of one command; write those alone, as in bash(git push), or one"
            " whole line without wildcards, as in bash(make > log)"
        )
    return True


def _path_pattern(pattern: str) -> str:
    """Return the pattern as whole or relative paths are compared with it. Raises ValueError."""
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        raise ValueError(
            f"no path ends with a slash; write {pattern.rstrip('/')}/* for what is in the folder"
        )
    if "//" in pattern or {"..", "."} & set(pattern.split("/")):
        raise ValueError("no path holds `//`, `.` or `..` when it is judged; write the path that it leads to")
    return pattern


def _no_rules(text: str) -> ValueError:
    return ValueError(f"{text!r} holds no rules; write tools or tool(pattern): edit, bash(git status)")


def _nearest(text: str) -> str:
    name, bracket, rest = text.partition("(")
    near = difflib.get_close_matches(name.lower(), sorted(_tool_names()), 1)
    if near:
        return f"did you mean {f'{near[0]}{bracket}{rest}'!r}?"
    return f"the tools are {', '.join(sorted(BUILTIN))}"
