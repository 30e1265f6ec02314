"""What becomes of a command line and why, told for each of its simple commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.shell.destructive import ruin_by, ruinous_commands
from agent.shell.line_reading import Invocation, LineReading
from agent.shell.parsed_text import CLASS, HOME, MARKS, ONE, STAR, UNSET
from agent.shell.vital_places import Places

from .allow_rules import Coverage, coverage
from .deny_rules import Denial, forbids_command, reading_for
from .rule_syntax import Rule
from .rules import PermissionRules, judge_call, reason_of, standpoint

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
    allowing = () if rules.mode == "plan" else _about(tool, rules.allow)  # no rule counts there
    covered = coverage(access.target, access.cwd or rules.folder, allowing, rules.reading)
    told = _reasons(tool, reading, covered, access, rules)
    alone = len(reading.invocations) == 1
    told = [
        _deciding(command, found, covered, reason_of(verdict, rules) if verdict.answer == "allow" else "")
        if found or covered.commands or alone or _holds_more_than_words(command)
        else ""  # the reason is that of another command, or of how they are put together
        for command, found in zip(reading.invocations, told, strict=True)
    ]
    rows = list(dict.fromkeys((_shown(each), told[place]) for place, each in enumerate(reading.invocations)))
    rows = [row for row in rows if row[0]][:_MAX_COMMANDS_TOLD]
    width = min(max((len(command) for command, _ in rows), default=0), _MAX_COMMAND_CHARS // 2)
    lines += (f"  {command:<{width}}  {reason}".rstrip() for command, reason in rows)
    ruin = ruin_by(access.target, _places(access, rules))
    if ruin and verdict.why.endswith(ruin):
        lines.append("  no rule allows this: what cannot be made good is asked about in every mode")
    elif covered.doubt and not covered.commands and verdict.why.endswith(covered.doubt):
        lines.append(f"  only a rule for all of {tool} or for exactly this line allows it")
    if reading.opaque:
        lines.append("  it may run more, which cannot be told from the line")
    return lines


def _deciding(command: Invocation, found: str, covered: Coverage, allowing: str) -> str:
    """What decides about a command, where `found` is what is known about it alone, "" for nothing.

    `allowing` is why the line may run, "" where it may not.
    """
    if allowing and (not found or found in _doubts(covered)):
        return "; ".join(filter(None, (found, allowing)))
    if not found and command.level and covered.commands:
        return "another command of the line runs it"
    return found or covered.doubt


def _holds_more_than_words(command: Invocation) -> bool:
    """Whether it holds what no line may that is split into simple commands, by itself."""
    marked = (set(MARKS.findall(word)) - {STAR, ONE, CLASS} for word in command.words)
    files = (target for operator, target in command.redirects if not operator.endswith("&"))
    given = command.stdin is not None and command.source is None
    return given or any(marked) or any(target != "/dev/null" for target in files)


def _doubts(covered: Coverage) -> set[str]:
    return {str(by) for _, by in covered.commands if not isinstance(by, Rule)}


def _places(access: Access, rules: PermissionRules) -> Places:
    return Places(rules.folder, rules.home, access.cwd or rules.folder)


def _about(tool: str, rules: Sequence[Rule]) -> list[Rule]:
    return [rule for rule in rules if rule.tool == tool]


def _reasons(
    tool: str, reading: LineReading, covered: Coverage, access: Access, rules: PermissionRules
) -> list[str]:
    """Why each command of the line is stopped, or let through, "" where nothing is known about it alone."""
    ruin = {id(command): what for command, what in ruinous_commands(reading, _places(access, rules))}
    allowed = _allowed(reading, covered)
    whole = _told(covered.rule) if covered.rule is not None and not covered.commands else ""
    found = []
    for place, command in enumerate(reading.invocations):
        denied = _denied(tool, command, rules)
        stopped = f"it {ruin[id(command)]}" if id(command) in ruin else ""
        found.append(denied or stopped or allowed.get(place, whole))
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
    words = [_word(word) for word in command.words]
    for (operator, target), stream in zip(command.redirects, command.streams, strict=False):
        words.append(f"{stream}{operator}{'' if operator.endswith('&') else ' '}{_word(target)}")
    given = command.stdin is not None and command.source is None and not command.level
    if given and not any("<" in operator for operator, _ in command.redirects):
        words.append("<< …")  # a here-document, or a text
    text = " ".join(words)
    return text if len(text) <= _MAX_COMMAND_CHARS else f"{text[: _MAX_COMMAND_CHARS - 1]}…"


def _word(word: str) -> str:
    return _UNKNOWN_RUN.sub("…", word.translate(_KNOWN_MARKS)) if MARKS.search(word) else _quoted(word)


def _quoted(word: str) -> str:
    return word if word in ("[", "[[") else shlex.quote(word)
