"""Match command lines with deny rules: a line is denied, may be denied, or is not.

A rule applies to its command however it is run: with any options, by any path, and by a shell script or a
recipe of the project that the line runs. If it cannot be determined what a line runs, a rule with a pattern
may apply. This applies to the line alone: nearly every script contains something that cannot be determined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agent import shell

from .rule_syntax import READING, Rule


class Denial(NamedTuple):
    """The certainty with which deny rules apply to an access, and the rule that applies.

    path  the file that the rule withholds, for a rule about files; "" for one about commands
    """

    certainty: shell.Certainty
    rule: Rule | None = None
    path: str = ""

    @property
    def doubt(self) -> str:
        """Return why the rule may apply, in words."""
        if not self.path:
            return f"it may run a command that the rule {self.rule} denies"
        verb = "read" if self.rule is not None and self.rule.tool == READING else "change"
        return f"it may {verb} {self.path}, which the rule {self.rule} denies"


def denial_of(rules: Sequence[Rule], line: str, seen: shell.Standpoint | None = None) -> Denial:
    """Match a command line against the deny rules of the tool that runs commands.

    Without a standpoint, programs are only recognized by their names in the line.
    """
    found = _denial_of_line(rules, line, seen)
    if found.certainty is shell.Certainty.YES or seen is None or not rules:
        return found
    for text, places in shell.lines_behind(line, seen.places, seen.files):
        in_script = _denial_of_line(rules, text, shell.Standpoint(places, seen.files))
        if in_script.certainty is shell.Certainty.YES:
            return in_script
    return found


def denial_of_files(
    withheld: Mapping[str, Rule],
    line: str,
    seen: shell.Standpoint,
    *,
    only_reads: bool,
    resolve: Callable[[str], str],
) -> Denial:
    """Match a command line against rules about files, by the existing paths that these withhold.

    A line that names a file may change it, unless it is proved read-only (`only_reads`). `resolve` returns
    the target of a path through links.
    """
    found = Denial(shell.Certainty.NO)
    texts = [(line, seen.places), *shell.lines_behind(line, seen.places, seen.files)]
    for text, places in texts:
        for path, certainty in shell.files_named_in(text, places, withheld.keys(), resolve):
            rule = withheld[path]
            if rule.tool != READING:
                certainty = shell.Certainty.NO if only_reads else shell.Certainty.MAYBE
            if text is not line and certainty is not shell.Certainty.YES:
                continue  # nearly every script contains something that cannot be determined
            if certainty > found.certainty:
                found = Denial(certainty, rule, path.removeprefix(f"{places.folder}/"))
    return found


def _denial_of_line(rules: Sequence[Rule], line: str, seen: shell.Standpoint | None) -> Denial:
    found = Denial(shell.Certainty.NO)
    reading = reading_for(rules, line, seen)
    for rule in rules:
        certainty = _forbids(rule, line, reading)
        if certainty > found.certainty:
            found = Denial(certainty, rule)
        if certainty is shell.Certainty.YES:
            break
    return found


def reading_for(rules: Sequence[Rule], line: str, seen: shell.Standpoint | None) -> shell.LineReading:
    """Read a line. Other names of its programs are added where deny rules may apply to them."""
    reading = shell.read_line(line)
    if seen is None or all(rule.pattern is None or rule.exact for rule in rules):
        return reading
    programs = frozenset[str]().union(*(_pattern(rule).programs for rule in rules))
    return shell.with_other_names(reading, seen, programs)


def _forbids(rule: Rule, line: str, reading: shell.LineReading) -> shell.Certainty:
    """Return the certainty that a deny rule covers some command of the line."""
    if rule.pattern is None or rule.is_exactly(line):
        return shell.Certainty.YES
    return shell.Certainty.NO if rule.exact else _pattern(rule).found_in(reading)


def forbids_command(rule: Rule, invocation: shell.Invocation) -> shell.Certainty:
    """Return the certainty that a deny rule covers this one command of a line, with what it reads from."""
    if rule.pattern is None:
        return shell.Certainty.YES
    return shell.Certainty.NO if rule.exact else _pattern(rule).means(invocation)


def _pattern(rule: Rule) -> shell.PipePattern:
    return shell.PipePattern.parse(rule.pattern or "")
