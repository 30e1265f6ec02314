"""Read and write permission rules: `tool`, `tool(pattern)`, or `tool(=line)` for exactly one command line.

For bash the pattern is the start of a simple command, word by word (`bash(git status)`, `bash(npm run *)`,
also written `npm run:*`). A pattern with more than plain words is one whole line (`bash(make > log)`), and in
rules that deny or ask a pipe (`bash(curl * | sh)`). For the other tools it is a glob over the path, relative
to the project. Two names are about the sandbox: `open(line)` runs that command line outside the sandbox,
`net(host)` lets sandboxed commands reach that host, or a port of this machine (`net(localhost:5432)`).
`web_fetch` takes a host or a port of this machine as well: `web_fetch(docs.python.org)`. `web_search`, which
the service runs, takes a host.

Parentheses within a pattern are balanced or escaped with a backslash. A backslash before a parenthesis or
another backslash is doubled. Rules that could never match are rejected.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from agent.client_names import own_name
from tools import BUILTIN, TOOL_NAMES
from tools.guarded import alternatives
from tools.sandbox import host_name, local_port
from tools.text import word_set
from transcripts.patterns import lazy_pattern

EDITING = "edit"  # a rule about this tool is about every tool that writes files
READING = "read"  # a deny rule about this tool is about every tool that reads files
RUNNING = "bash"  # rules about this tool are about the command lines of every tool that runs any
OPENING = "open"  # names rules that run a command line outside the sandbox
REACHING = "net"  # names rules that let sandboxed commands reach a host
WEB_TOOLS = ("web_search", "web_fetch")  # the service has these two; there an allow rule enables one
FOREIGN_PREFIX = "mcp__"  # of the names of MCP servers' tools
_BLANKS = " \t\n"  # separate words in a shell; other white space is part of a word
_MORE_THAN_WORDS = lazy_pattern(r"[;&|<>()'\"\\$`\n]|\A\s*\w+\+?=")
_RESERVED_WORDS = word_set(
    "! [[ { } case coproc do done elif else esac fi for function if in select then until while"
)


class UnknownTool(ValueError):
    """A rule names an unknown tool."""


class UnusableRule(ValueError):
    """A rule cannot match anything, for this reason."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(f"the rule {rule!r} cannot match anything: {reason}")
        self.reason = reason


class Rule(Struct, frozen=True, eq=False):
    """A rule about a tool. A `pattern` of None stands for every use of it.

    origin   the file or flag that defines the rule; ignored when rules are compared
    exact    the pattern is one whole command line, and covers only that line
    granted  the rule comes from a command or skill, so it covers no path that is protected or outside the
             project; ignored when rules are compared
    written  the rule of another program that this one translates, which is shown; ignored likewise
    """

    tool: str
    pattern: str | None = None
    origin: str = ""
    exact: bool = False
    granted: bool = False
    written: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rule):
            return NotImplemented
        return (self.tool, self.pattern, self.exact) == (other.tool, other.pattern, other.exact)

    def __ne__(self, other: object) -> bool:  # the default of Struct compares identities
        return not self == other

    def __hash__(self) -> int:
        return hash((self.tool, self.pattern, self.exact))

    def names(self, tool: str) -> bool:
        """Return whether the rule is about a tool, by its name or that of its server (`mcp__server__*`)."""
        if self.tool == tool or not self.tool.startswith(FOREIGN_PREFIX):
            return self.tool == tool
        if self.tool.endswith("*"):
            return tool.startswith(self.tool[:-1])
        return tool.startswith(f"{self.tool}__")

    def is_exactly(self, line: str) -> bool:
        """Return whether the pattern is exactly this command line, ignoring white space around it."""
        return self.pattern == line.strip(_BLANKS)

    def __str__(self) -> str:
        """Return the rule as it is stored, which `parse_rules` reads, or as another program has it."""
        if self.written:
            return self.written
        if self.pattern is None:
            return self.tool
        text = re.sub(r"\\(?=[\\()]|\Z)", r"\\\\", self.pattern)
        if _closing_bracket(f"({text})", 0) != len(text) + 1:
            text = re.sub(r"[()]", r"\\\g<0>", text)
        return f"{self.tool}({'=' if self.exact else ''}{text})"


class _WrittenRule(NamedTuple):
    """The name of a tool and the text in parentheses, None if there is none."""

    name: str
    pattern: str | None

    def __str__(self) -> str:
        return self.name if self.pattern is None else f"{self.name}({self.pattern})"


def parse_rules(text: str, restricting: bool = False) -> tuple[Rule, ...]:
    """Read rules separated by commas or spaces; those that deny or ask (`restricting`) may contain pipes.

    Raises ValueError if the text is anything else.
    """
    found = list(_written_rules(text))
    if not found:
        raise _no_rules(text)
    return tuple(_rule(each, restricting) for each in found)


def known_rules(text: str, restricting: bool = False) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Read the rules about known tools; return them, and a message for each rule about an unknown tool.

    Rules that deny or ask (`restricting`) may contain pipes. Raises ValueError for a text that is not a rule,
    and for rules that cannot match anything.
    """
    found: list[Rule] = []
    others: list[str] = []
    for written in _written_rules(text):
        try:
            found.append(_rule(written, restricting))
        except UnknownTool as error:
            others.append(f"{error} (the rule is ignored)")
    return tuple(found), tuple(others)


def exact_rule(line: str) -> Rule:
    """Return the rule for exactly this command line."""
    return Rule(RUNNING, line.strip(_BLANKS), exact=True)


def _written_rules(text: str) -> Iterator[_WrittenRule]:
    """Yield each rule as it is written. Raises ValueError for text that is not a rule."""
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
    """Return the position of the parenthesis that closes the one at `start`, -1 if there is none.

    Without a balanced one, it is the next that closes.
    """
    depth = 0
    for match in re.compile(r"\\.|[()]", re.DOTALL).finditer(text, start):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return text.find(")", start)


def _rule(written: _WrittenRule, restricting: bool) -> Rule:
    lower = written.name.lower()
    # Claude Code writes WebSearch, and accepts names in any letter case.
    lower = {name.replace("_", ""): name for name in WEB_TOOLS}.get(lower, lower)
    tools = _tool_names()
    name = lower if lower in tools else own_name(written.name)
    is_foreign = name.startswith(FOREIGN_PREFIX) and name != FOREIGN_PREFIX
    if name not in tools and not is_foreign:
        raise UnknownTool(f"unknown tool in the rule {str(written)!r}; {_nearest(str(written))}")
    try:
        return _checked_rule(name, written.pattern, restricting)
    except ValueError as error:
        raise UnusableRule(str(written), str(error)) from None


def _tool_names() -> tuple[str, ...]:
    return (*TOOL_NAMES, OPENING, REACHING, *WEB_TOOLS)


def _checked_rule(name: str, written: str | None, restricting: bool) -> Rule:
    """Return a rule that can match. Raises ValueError with the reason and a correction if it cannot."""
    if written is None:
        if name in (OPENING, REACHING):
            argument = "a command line" if name == OPENING else "a host"
            raise ValueError(f"{name} takes {argument} in parentheses")
        return Rule(name)
    pattern = written.strip(_BLANKS)
    exact = pattern.startswith("=") and name in (RUNNING, OPENING)
    if exact:
        pattern = pattern[1:]
    elif name != OPENING:
        pattern = pattern.removesuffix(":*")
    pattern = re.sub(r"\\([\\()])", r"\1", pattern).strip(_BLANKS)
    if not pattern.split() or "\0" in pattern:
        raise ValueError(f"its parentheses are empty; write {name} for every use of {name}")
    if name == RUNNING:
        is_pipe = restricting and not exact and _is_pipe(pattern)
        return Rule(name, pattern, exact=exact or (not is_pipe and _is_whole_line(pattern)))
    if name == REACHING or name in WEB_TOOLS:
        pattern = pattern.removeprefix("domain:").lower()  # as Claude Code writes it
        if name != WEB_TOOLS[0] and (port := local_port(pattern)):
            return Rule(name, f"localhost:{port}")
        return Rule(name, host_name(re.sub(r":(?:80|443)\Z", "", pattern)))
    return Rule(name, pattern if name == OPENING or name not in BUILTIN else _path_pattern(pattern))


def _is_pipe(pattern: str) -> bool:
    """Return whether a pattern consists of the words of several commands with pipes between them."""
    stages = pattern.split("|")
    return len(stages) > 1 and all(stage.split() and not _MORE_THAN_WORDS.search(stage) for stage in stages)


def _is_whole_line(pattern: str) -> bool:
    """Return whether a pattern is a whole line: it contains more than plain words. Raises ValueError."""
    first = pattern.split()[0]
    if first in _RESERVED_WORDS:
        raise ValueError(f"{first!r} is a reserved word of the shell, not a program")
    if not _MORE_THAN_WORDS.search(pattern):
        return False
    if re.search(r"[*?]", pattern):
        raise ValueError(
            "it contains more than the words of one command; write only those, as in bash(git push), or one"
            " whole line without wildcards, as in bash(make > log)"
        )
    return True


def _path_pattern(pattern: str) -> str:
    """Return the pattern in the form that absolute and relative paths match. Raises ValueError."""
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        raise ValueError(f"paths do not end with a slash; write {pattern.rstrip('/')}/* for the files in it")
    if "//" in pattern or {"..", "."} & set(pattern.split("/")):
        raise ValueError("paths are resolved before they match; write it without `//`, `.` and `..`")
    alternatives(pattern)  # or there are too many
    return pattern


def _no_rules(text: str) -> ValueError:
    return ValueError(f"{text!r} is not a rule; write tool or tool(pattern): edit, bash(git status)")


def _nearest(text: str) -> str:
    name, bracket, rest = text.partition("(")
    near = difflib.get_close_matches(name.lower(), sorted(_tool_names()), 1)
    if near:
        return f"did you mean {f'{near[0]}{bracket}{rest}'!r}?"
    return f"the tools are {', '.join(sorted(BUILTIN))}"
