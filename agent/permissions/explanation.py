"""Explain a verdict on a command line, for each of its simple commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.shell import Certainty, Invocation, LineReading, irreversible_commands, irreversible_effect

from .allow_rules import Coverage, CoveredCommand, coverage
from .deny_rules import forbids_command, reading_for
from .rule_syntax import Rule
from .rules import PermissionRules, Verdict, judge_call

if TYPE_CHECKING:
    from tools.base import Access


def explain_line(tool: str, access: Access, rules: PermissionRules) -> list[str]:
    """Return lines about a command line: the verdict, and each simple command with what decides about it."""
    verdict = judge_call(tool, [access], rules)
    lines = [f"{verdict.answer}: {verdict.reason(rules.mode)}"]
    if verdict.prefix is not None:
        lines.append(f'"always" would add {verdict.prefix}')
    reading = reading_for(_about(tool, rules.deny), access.target, rules.standpoint(access))
    allowing = () if rules.mode == "plan" else _about(tool, rules.allow)  # no rule counts there
    covered = coverage(access.target, access.cwd or rules.folder, allowing, rules.reading)
    lines += _rows(reading, _reasons(tool, reading, covered, access, rules, verdict))
    effect = irreversible_effect(access.target, rules.places(access))
    if effect and verdict.why.endswith(effect):
        lines.append("  no rule allows this: what cannot be made good is asked about in every mode")
    elif covered.doubt and not covered.commands and verdict.why.endswith(covered.doubt):
        lines.append(f"  only a rule for all of {tool} or for exactly this line allows it")
    if reading.opaque:
        lines.append("  it may run more, which cannot be told from the line")
    return lines


def _rows(reading: LineReading, reasons: Sequence[str]) -> list[str]:
    """One row for each command that is not like one before it."""
    max_chars = 100  # of a command
    pairs = zip(reading.invocations, reasons, strict=True)
    rows = list(dict.fromkeys((command.shown(max_chars), reason) for command, reason in pairs))
    rows = [(command, reason) for command, reason in rows if command][:50]
    width = min(max((len(command) for command, _ in rows), default=0), max_chars // 2)
    return [f"  {command:<{width}}  {reason}".rstrip() for command, reason in rows]


def _about(tool: str, rules: Sequence[Rule]) -> list[Rule]:
    return [rule for rule in rules if rule.tool == tool]


def _reasons(
    tool: str,
    reading: LineReading,
    covered: Coverage,
    access: Access,
    rules: PermissionRules,
    verdict: Verdict,
) -> list[str]:
    """Return what decides about each command of the line."""
    allowing = verdict.reason(rules.mode) if verdict.answer == "allow" else ""
    is_alone = len(reading.invocations) == 1
    found = []
    for command, known in zip(
        reading.invocations, _known(tool, reading, covered, access, rules), strict=True
    ):
        if known or covered.commands or is_alone or command.holds_more_than_words:
            found.append(_deciding(command, known, covered, allowing))
        else:
            found.append("")  # the reason is that of another command, or of how they are put together
    return found


def _deciding(command: Invocation, known: str, covered: Coverage, allowing: str) -> str:
    """Return what decides about a command; `known` is what is known about it alone, "" for nothing.

    `allowing` is why the line may run, "" where it may not.
    """
    doubts = {each.doubt for each in covered.commands if each.rule is None}
    if allowing and (not known or known in doubts):
        return "; ".join(filter(None, (known, allowing)))
    if not known and command.level and covered.commands:
        return "another command of the line runs it"
    return known or covered.doubt


def _known(
    tool: str, reading: LineReading, covered: Coverage, access: Access, rules: PermissionRules
) -> list[str]:
    """Return why each command is stopped, or let through, "" where nothing is known about it alone."""
    irreversible = irreversible_commands(reading, rules.places(access))
    effects = {id(each.command): f"it {each.effect}" for each in irreversible}
    allowed = _allowed(reading, covered)
    is_whole = covered.rule is not None and not covered.commands
    whole = f"the rule {covered.rule} allows this" if is_whole else ""
    found = []
    for place, command in enumerate(reading.invocations):
        denied = _denied(tool, command, rules)
        found.append(denied or effects.get(id(command), "") or allowed.get(place, whole))
    return found


def _denied(tool: str, command: Invocation, rules: PermissionRules) -> str:
    deny = _about(tool, rules.deny)
    for wanted, verb in ((Certainty.YES, "denies"), (Certainty.MAYBE, "may deny")):
        for rule in deny:
            if forbids_command(rule, command) is wanted:
                return f"the rule {rule} {verb} this"
    return ""


def _allowed(reading: LineReading, covered: Coverage) -> dict[int, str]:
    """Return what allows each command, or why nothing does, by its place in the reading of the line."""
    outer = [place for place, each in enumerate(reading.invocations) if each.level == 0]
    if len(outer) != len(covered.commands):
        return {}
    return {place: _told(command) for place, command in zip(outer, covered.commands, strict=True)}


def _told(command: CoveredCommand) -> str:
    if command.rule is not None:
        return f"the rule {command.rule} allows this"
    return command.doubt or "it only reads"
