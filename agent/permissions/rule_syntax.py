"""How a permission rule is written: `tool`, `tool(pattern)`, or `tool(=line)` for exactly one command line.

For bash the pattern is the start of a simple command, word by word (`bash(git status)`, `bash(npm run *)`,
also written `npm run:*`); what holds more than plain words is one whole line (`bash(make > log)`). For the
other tools it is a glob over the path, relative to the project. Two more are about the wall: `open(line)`
lets that command line out of it, `net(host)` lets walled commands reach that host. `web_search` and
`web_fetch`, which the service runs, take a host: `web_fetch(docs.python.org)`.

Brackets within a pattern come in pairs or behind a backslash; a backslash before a bracket or another one is
doubled. What could never match is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.formatting import own_name
from agent.shell.simple_commands import Words
from tools import BUILTIN, CONDITIONAL
from tools.files.text_encoding import word_set
from tools.network.network_hosts import host_name

EDITING = "edit"  # a rule about this tool is about every tool that writes files
READING = "read"  # a deny rule about this tool is about every tool that reads files
RUNNING = "bash"  # rules about this tool are about the command lines of every tool that runs any
OPENING = "open"  # what a rule is called that lets a command line out of the wall
REACHING = "net"  # ... that lets walled commands reach a host
WEB_TOOLS = ("web_search", "web_fetch")  # which the service runs; an allow rule switches one on
FOREIGN_PREFIX = "mcp__"  # of the names of tools that come from servers
_BLANKS = " \t\n"  # that a shell passes over; other blanks are parts of words
_TOOL_WORD = re.compile(r"[\w-]+\*?", re.ASCII)
_BLANK = re.compile(r"[ ,\t]*")
_ESCAPED = re.compile(r"\\([\\()])")
_TO_ESCAPE = re.compile(r"\\(?=[\\()]|\Z)")
_BRACKET = re.compile(r"\\.|[()]", re.DOTALL)
_NAMES = (*BUILTIN, *CONDITIONAL, OPENING, REACHING, *WEB_TOOLS)
_CLAUDE_CODE_NAMES = {name.replace("_", ""): name for name in WEB_TOOLS}  # as Claude Code writes them
_MORE_THAN_WORDS = re.compile(r"[;&|<>()'\"\\$`\n]|\A\s*\w+\+?=")
_PATTERN_WILDCARD = re.compile(r"[*?]")
_RESERVED_WORDS = word_set(
    "! [[ { } case coproc do done elif else esac fi for function if in select then until while"
)
_WEB_PORT = re.compile(r":(?:80|443)\Z")


class UnknownTool(ValueError):
    """A rule names a tool that there is not."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about a tool. `pattern` None stands for every use of it; `origin` tells where the rule was set
    (a file, a flag) and does not count when rules are compared.

    exact    the pattern is one whole command line, and covers that one alone
    granted  it was taken by a command or skill, and stands for no path outside the project or protected
    """

    tool: str
    pattern: str | None = None
    origin: str = field(default="", compare=False)
    exact: bool = False
    granted: bool = field(default=False, compare=False)

    def names(self, tool: str) -> bool:
        """Whether the rule is about a tool: one of that name, or of a server, `mcp__server__*`."""
        if self.tool == tool or not self.tool.startswith(FOREIGN_PREFIX):
            return self.tool == tool
        if self.tool.endswith("*"):
            return tool.startswith(self.tool[:-1])
        return tool.startswith(f"{self.tool}__")

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


def known_rules(text: str) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """The rules about tools that there are, and a line about each other tool that the text names.

    Raises ValueError for what is no list of rules, and for rules that cannot match anything.
    """
    found: list[Rule] = []
    others: list[str] = []
    for name, pattern in _written_rules(text):
        try:
            found.append(_rule(name, pattern))
        except UnknownTool as error:
            others.append(f"{error}; the rule is left out")
    return tuple(found), tuple(others)


def exact_rule(tool: str, line: str) -> Rule:
    """The rule for this very command line."""
    return Rule(tool, line.strip(_BLANKS), exact=True)


def is_exactly(rule: Rule, line: str) -> bool:
    """Whether the pattern of a rule is this very command line, the blanks around it apart."""
    return rule.pattern == line.strip(_BLANKS)


def _written_rules(text: str) -> Iterator[tuple[str, str | None]]:
    """Name and pattern of each rule, as written. Raises ValueError for what is no rule."""
    blank = _BLANK.match(text)
    at = blank.end() if blank else 0
    while at < len(text):
        name = _TOOL_WORD.match(text, at)
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
    lower = _CLAUDE_CODE_NAMES.get(written_name.lower(), written_name.lower())  # in any letter case
    name = lower if lower in _NAMES else own_name(written_name)
    whole = written_name if written is None else f"{written_name}({written})"
    is_foreign = name.startswith(FOREIGN_PREFIX) and name != FOREIGN_PREFIX
    if name not in _NAMES and not is_foreign:
        raise UnknownTool(f"{whole!r} names no tool; {_nearest(whole)}")
    try:
        return _checked_rule(name, written)
    except ValueError as error:
        raise ValueError(f"the rule {whole!r} cannot match anything: {error}") from None


def _checked_rule(name: str, written: str | None) -> Rule:
    """Raises ValueError, with the reason and what to write instead, for what could never match."""
    if written is None:
        if name in (OPENING, REACHING):
            raise ValueError(f"{name} takes {'a command line' if name == OPENING else 'a host'} in brackets")
        return Rule(name)
    pattern = written.strip(_BLANKS)
    exact = pattern.startswith("=") and name in ("bash", OPENING)
    pattern = pattern[1:] if exact else pattern if name == OPENING else pattern.removesuffix(":*")
    pattern = _ESCAPED.sub(r"\1", pattern).strip(_BLANKS)
    if not pattern.split() or "\0" in pattern:
        raise ValueError(f"nothing stands in its brackets; write {name} for all of {name}")
    if name == "bash":
        return Rule(name, pattern, exact=exact or _is_whole_line(pattern))
    if name == REACHING or name in WEB_TOOLS:
        return Rule(name, host_name(_WEB_PORT.sub("", pattern.removeprefix("domain:"))))
    return Rule(name, pattern if name == OPENING or name not in BUILTIN else _path_pattern(pattern))


def _is_whole_line(pattern: str) -> bool:
    """Whether a pattern, as it holds more than a command's words, is a whole line. Raises ValueError."""
    if (first := pattern.split()[0]) in _RESERVED_WORDS:
        raise ValueError(f"{first!r} is a word of the shell, no program")
    if not _MORE_THAN_WORDS.search(pattern):
        return False
    if _PATTERN_WILDCARD.search(pattern):
        raise ValueError(
            "it holds more than the words of one command; write those alone, as in bash(git push), or one"
            " whole line without wildcards, as in bash(make > log)"
        )
    return True


def _path_pattern(pattern: str) -> str:
    """The pattern as paths are compared with it: whole, or relative to the project. Raises ValueError."""
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
    near = difflib.get_close_matches(name.lower(), sorted(_NAMES), 1)
    if near:
        return f"did you mean {f'{near[0]}{bracket}{rest}'!r}?"
    return f"the tools are {', '.join(sorted(BUILTIN))}"


def pattern_words(pattern: str) -> Words:
    words = pattern.split()
    return words[:-1] if words[-1] == "*" else words
