"""Whether a deny rule means a command line: by whatever means the program is run, with any options."""

from __future__ import annotations

from fnmatch import fnmatchcase

from .always_allow import RUNNERS
from .rule_syntax import Rule, is_exactly, pattern_words
from .shell_syntax import Words, find_possible_commands, parse_simple_commands


def forbids(rule: Rule, line: str) -> bool:
    """Whether any command of the line is meant by a deny rule, by whatever means it is run, with any options.

    What cannot be parsed, and what is passed to a program that runs it, is searched from every word on.
    """
    if rule.pattern is None or is_exactly(rule, line):
        return True
    if rule.exact:
        return False
    wanted = pattern_words(rule.pattern)
    commands = parse_simple_commands(line)
    if commands is not None and not any(map(_runs_others, commands)):
        return any(_is_call_of(words, wanted) for words in commands)
    tails = (words[at:] for words in find_possible_commands(line) for at in range(len(words)))
    return any(_is_call_of(tail, wanted) for tail in tails)


def _runs_others(words: Words) -> bool:
    return words[0].rpartition("/")[2] in RUNNERS or "=" in words[0]


def _is_call_of(words: Words, wanted: Words) -> bool:
    """Whether a command is the wanted one: the program by any path, options between the words ignored."""
    if not wanted:
        return True
    if not (fnmatchcase(words[0], wanted[0]) or fnmatchcase(words[0].rpartition("/")[2], wanted[0])):
        return False
    reached = {1}  # where the next wanted word may stand
    for pattern in wanted[1:]:
        for at in range(1, len(words)):
            if at in reached and words[at].startswith("-"):
                reached |= {at + 1, at + 2}  # an option, with or without a value of its own
        reached = {at + 1 for at in reached if at < len(words) and fnmatchcase(words[at], pattern)}
    return bool(reached)
