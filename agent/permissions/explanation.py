"""What becomes of a command line and why, told for each of its simple commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .allow_rules import Coverage, coverage
from .deny_rules import Denial, forbids_command, reading_for
from .destructive import ruinous_commands
from .line_reading import Invocation, LineReading
from .rule_syntax import Rule
from .rules import PermissionRules, judge_call, reason_of, standpoint
from .shell_values import CLASS, HOME, MARKS, ONE, STAR, UNSET
from .vital_places import Places

if TYPE_CHECKING:
    from tools.base import Access

_MAX_COMMANDS_TOLD = 50
_MAX_COMMAND_CHARS = 100
_KNOWN_MARKS = str.maketrans({UNSET: "", HOME: "~", STAR: "*", ONE: "?", CLASS: "[…]"})
_UNKNOWN_RUN = re.compile(f"{MARKS.pattern}+")


def explanation(tool: str, access: Access, rules: PermissionRules) -> list[str]:
    """Lines about a command line: the verdict, and each simple command with what decides about it."""
    verdict = judge_call(tool, [access], rules)
    lines = [f"{verdict.answer}: {reason_of(verdict, rules)}"]
    if verdict.prefix is not None:
        lines.append(f'"always" would add {verdict.prefix}')
    reading = reading_for(_about(tool, rules.deny), access.target, standpoint(access, rules))
    covered = coverage(access.target, access.cwd or rules.folder, _about(tool, rules.allow), rules.reading)
    told = _reasons(tool, reading, covered, access, rules)
    rows = list(dict.fromkeys((_shown(each), told[place]) for place, each in enumerate(reading.invocations)))
    rows = [row for row in rows if row[0]][:_MAX_COMMANDS_TOLD]
    width = min(max((len(command) for command, _ in rows), default=0), _MAX_COMMAND_CHARS // 2)
    lines += (f"  {command:<{width}}  {reason}".rstrip() for command, reason in rows)
    if covered.doubt and not covered.commands:
        lines.append(f"  {covered.doubt}: only a rule for all of {tool} or for exactly this line allows it")
    if reading.opaque:
        lines.append("  it may run more, which cannot be told from the line")
    return lines


def _about(tool: str, rules: Sequence[Rule]) -> list[Rule]:
    return [rule for rule in rules if rule.tool == tool]


def _reasons(
    tool: str, reading: LineReading, covered: Coverage, access: Access, rules: PermissionRules
) -> list[str]:
    """Why each command of the line is stopped, or let through, "" where nothing is known about it alone."""
    places = Places(rules.folder, rules.home, access.cwd or rules.folder)
    ruin = {id(command): what for command, what in ruinous_commands(reading, places)}
    allowed = _allowed(reading, covered)
    found = []
    for place, command in enumerate(reading.invocations):
        denied = _denied(tool, command, rules)
        stopped = f"it {ruin[id(command)]}" if id(command) in ruin else ""
        found.append(denied or stopped or allowed.get(place, ""))
    return found


def _denied(tool: str, command: Invocation, rules: PermissionRules) -> str:
    said = [(forbids_command(rule, command), rule) for rule in _about(tool, rules.deny)]
    for wanted, text in (
        (Denial.YES, "the rule {} denies this"),
        (Denial.MAYBE, "the rule {} may deny this"),
    ):
        for answer, rule in said:
            if answer is wanted:
                return text.format(rule)
    return ""


def _allowed(reading: LineReading, covered: Coverage) -> dict[int, str]:
    """What allows each command, or why nothing does, by its place in the reading of the line."""
    outer = [place for place, each in enumerate(reading.invocations) if each.level == 0]
    if len(outer) != len(covered.commands):
        return {}
    return {place: _told(by) for place, (_, by) in zip(outer, covered.commands, strict=True)}


def _told(by: Rule | str) -> str:
    if isinstance(by, Rule):
        return f"the rule {by} allows this"
    return by or "it only reads"


def _shown(command: Invocation) -> str:
    """A command as people write it; `…` stands for what is not known."""
    words = (word.translate(_KNOWN_MARKS) if MARKS.search(word) else _quoted(word) for word in command.words)
    text = " ".join(_UNKNOWN_RUN.sub("…", word) for word in words)
    return text if len(text) <= _MAX_COMMAND_CHARS else f"{text[: _MAX_COMMAND_CHARS - 1]}…"


def _quoted(word: str) -> str:
    return word if word in ("[", "[[") else shlex.quote(word)
