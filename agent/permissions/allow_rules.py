"""Whether a command line may run by the allow rules: each simple command by any of them, or as a reading one.

A rule that stands for all of a tool or for exactly one line covers the line as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

from .rule_syntax import Rule, is_exactly, pattern_words
from .shell_syntax import Words, parse_simple_commands


class ReadingJudge(Protocol):
    """Knows which commands only read: by their words, and by the files and programs that these mean."""

    def doubts(self, line: str, folder: str) -> list[tuple[Words, str]] | None:
        """Each simple command of a line, run in `folder`, with the doubt whether it only reads: "" for a
        proof. None where the line is not parsed.
        """


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was found about a line: `doubt` is "" where it may run, else why not.

    rule      that covers it, or the first of its commands that need one
    commands  each simple command with the rule that covers it, or else the doubt whether it only reads, ""
              for none; () for a line that was not parsed, or is covered as a whole
    """

    doubt: str = ""
    rule: Rule | None = None
    commands: tuple[tuple[Words, Rule | str], ...] = ()


def coverage(line: str, folder: str, rules: Sequence[Rule], judge: ReadingJudge | None) -> Coverage:
    """How rules that allow a tool cover a line that it would run in `folder`."""
    for rule in rules:
        if rule.pattern is None or is_exactly(rule, line):
            return Coverage(rule=rule)
    doubts = _doubts(line, folder, judge)
    if doubts is None:
        return Coverage("it is no plain line of commands")
    commands = tuple((words, _covering(words, rules) or doubt if doubt else "") for words, doubt in doubts)
    first_doubt = next((by for _, by in commands if isinstance(by, str) and by), "")
    return Coverage(first_doubt, next((by for _, by in commands if isinstance(by, Rule)), None), commands)


def _doubts(line: str, folder: str, judge: ReadingJudge | None) -> list[tuple[Words, str]] | None:
    if judge is not None:
        return judge.doubts(line, folder)
    commands = parse_simple_commands(line)
    return None if commands is None else [(words, "it runs a command") for words in commands]


def _covering(words: Words, rules: Sequence[Rule]) -> Rule | None:
    return next((rule for rule in rules if not rule.exact and _covers(rule.pattern or "", words)), None)


def _covers(pattern: str, words: Words) -> bool:
    """Whether the pattern of an allow rule covers a simple command."""
    wanted = pattern_words(pattern)
    if wanted == ["git"] and words[1:] and words[1].startswith("-"):
        return False  # git -c, --exec-path and their like name programs to run
    return len(words) >= len(wanted) and all(fnmatchcase(w, p) for w, p in zip(words, wanted, strict=False))
