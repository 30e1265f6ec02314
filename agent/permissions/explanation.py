"""Explain a verdict on a command line, for each of its simple commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent import shell
from transcripts.patterns import lazy_pattern

from .allow_rules import Coverage, CoveredCommand, coverage
from .deny_rules import forbids_command, reading_for
from .rule_syntax import REACHING, Rule
from .rules import READ_ONLY, PermissionRules, judge_call
from .withheld import barring_rule, reachable_hosts

if TYPE_CHECKING:
    from tools.base import Access

_MAX_COMMAND_CHARS = 100
_NAMED_HOST = lazy_pattern(r"(?:\bhttps?://(?:[^@/\s]*@)?|\bgit@)((?:[A-Za-z\d-]+\.)+[A-Za-z\d-]+)")


def explain_line(tool: str, access: Access, rules: PermissionRules) -> list[str]:
    """Return the verdict on a command line, then a line for each simple command with the reason."""
    return _Explanation(tool, access, rules).lines()


class _Explanation:
    """The findings about a command line that `tool` would run."""

    def __init__(self, tool: str, access: Access, rules: PermissionRules) -> None:
        self.tool = tool
        self.target = access.target
        self.rules = rules
        self.verdict = judge_call(tool, [access], rules)
        self.why = self.verdict.reason(rules.mode)
        self.deny = [rule for rule in rules.deny if rule.tool == tool]
        self.reading: shell.LineReading = reading_for(self.deny, access.target, rules.standpoint(access))
        # In plan mode allow rules do not apply.
        allow = [rule for rule in rules.allow if rule.tool == tool and rules.mode != "plan"]
        places = rules.places(access)
        self.covered: Coverage = coverage(access.target, places.cwd, allow, rules.judge)
        irreversible = shell.irreversible_commands(self.reading, places)
        self.effects = {id(each.command): f"it {each.effect}" for each in irreversible}
        self.allowed = self._allowed()

    def lines(self) -> list[str]:
        found = [f"{self.verdict.answer}: {self.why}"]
        if self.verdict.prefix is not None:
            found.append(f'"always" would add {self.verdict.prefix}')
        found += self._rows()
        if self.verdict.cause == "irreversible":
            found.append("  irreversible commands need approval in every mode, and no rule allows them")
        elif self.verdict.cause == "unproved" and not self.covered.commands:
            found.append(f"  only a rule for all of {self.tool} or for exactly this line allows it")
        if self.reading.opaque:
            found.append("  it may run other commands that cannot be determined from the line")
        return found + (self._hosts() if self.verdict.sandboxed and self.verdict.answer != "deny" else [])

    def _hosts(self) -> list[str]:
        """Return a line for each host that the command line names: whether the sandbox lets it be reached."""
        hosts = dict.fromkeys(host.lower() for host in _NAMED_HOST.findall(self.target))
        return [self._about_host(host) for host in hosts]

    def _about_host(self, host: str) -> str:
        barring = barring_rule(self.rules, "reach", host)
        if barring in self.rules.deny:
            return f"  the rule {barring} denies {host}"
        if host in reachable_hosts(self.rules):
            return f"  the rule {REACHING}({host}) lets it reach {host}"
        return f"  the sandbox blocks {host}; you are asked when the command tries to reach it"

    def _rows(self) -> list[str]:
        """Return a row for each distinct command."""
        commands = enumerate(self.reading.invocations)
        pairs = [(each.shown(_MAX_COMMAND_CHARS), self._reason(each, place)) for place, each in commands]
        rows = [(command, reason) for command, reason in dict.fromkeys(pairs) if command][:50]
        width = min(max((len(command) for command, _ in rows), default=0), _MAX_COMMAND_CHARS // 2)
        return [f"  {command:<{width}}  {reason}".rstrip() for command, reason in rows]

    def _reason(self, command: shell.Invocation, place: int) -> str:
        """Return the reason for the verdict on the command at `place` in the reading."""
        reason = self._denied(command) or self.effects.get(id(command), "") or self.allowed.get(place, "")
        is_alone = len(self.reading.invocations) == 1
        if not (reason or self.covered.commands or is_alone or command.holds_more_than_words):
            return ""  # the reason is another command, or how they are combined
        doubts = {each.doubt for each in self.covered.commands if each.rule is None}
        if self.verdict.answer == "allow" and (not reason or reason in doubts):
            doubt = "" if self.why == READ_ONLY else reason  # as for a program outside the sandbox
            return "; ".join(filter(None, (doubt, self.why)))
        if not reason and command.level and self.covered.commands:
            return "another command of the line runs it"
        return reason or self.covered.doubt

    def _denied(self, command: shell.Invocation) -> str:
        for wanted, verb in ((shell.Certainty.YES, "denies"), (shell.Certainty.MAYBE, "may deny")):
            for rule in self.deny:
                if forbids_command(rule, command) is wanted:
                    return f"the rule {rule} {verb} this"
        return ""

    def _allowed(self) -> dict[int, str]:
        """Return the reason why each command is allowed or not, by its place in the reading of the line."""
        commands = self.covered.commands
        if self.covered.rule is not None and not commands:
            reason = _allowed_by(self.covered.rule)
            return dict.fromkeys(range(len(self.reading.invocations)), reason)
        outer = [place for place, each in enumerate(self.reading.invocations) if each.level == 0]
        if len(outer) != len(commands):
            return {}
        return {place: _covering(command) for place, command in zip(outer, commands, strict=True)}


def _covering(command: CoveredCommand) -> str:
    if command.rule is not None:
        return _allowed_by(command.rule)
    return command.doubt or READ_ONLY


def _allowed_by(rule: Rule) -> str:
    return f"the rule {rule} allows this"
