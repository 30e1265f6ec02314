"""What deny rules say about a command line: it is denied, it may be, or they do not mean it.

A rule means its command by whatever means it is run, with any options, by any path. Where the line does not
tell what it runs, a rule with a pattern may mean it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from posixpath import basename, normpath

from agent.shell.launches import is_unknown, program_name
from agent.shell.line_reading import Invocation, LineReading, read_line
from agent.shell.parsed_text import CLASS, HOME, MARKS, ONE, SPLIT, STAR, UNSET
from agent.shell.program_names import GIT_OPTIONS_WITH_VALUES, Standpoint, with_other_names
from agent.shell.simple_commands import Words

from .rule_syntax import Rule, is_exactly, pattern_words

_WILDCARD = re.compile(r"[*?[]")
# Of programs whose other options take none, or take it with `=`.
_OPTIONS_WITH_VALUES = {"git": GIT_OPTIONS_WITH_VALUES}


class Denial(IntEnum):
    """How surely a rule means a line."""

    NO = 0
    MAYBE = 1
    YES = 2


def denial_of(rules: Sequence[Rule], line: str, seen: Standpoint | None = None) -> tuple[Denial, Rule | None]:
    """What the deny rules of the tool that runs commands say about a line, and the rule that says so.

    Without a standpoint programs are known by their names in the line alone.
    """
    found: tuple[Denial, Rule | None] = (Denial.NO, None)
    reading = reading_for(rules, line, seen)
    for rule in rules:
        said = forbids(rule, line, reading)
        if said is Denial.YES:
            return said, rule
        if said > found[0]:
            found = (said, rule)
    return found


def reading_for(rules: Sequence[Rule], line: str, seen: Standpoint | None) -> LineReading:
    """What a line runs, with the other names of its programs as far as deny rules may mean them."""
    reading = read_line(line)
    if seen is None or all(rule.pattern is None or rule.exact for rule in rules):
        return reading
    wanted = (_wanted_words(rule)[:1] for rule in rules)
    return with_other_names(reading, seen, frozenset(word for words in wanted for word in words))


def forbids(rule: Rule, line: str, reading: LineReading) -> Denial:
    """Whether any command of the line is meant by a deny rule."""
    if rule.pattern is None or is_exactly(rule, line):
        return Denial.YES
    wanted = _wanted_words(rule)
    if rule.exact or not wanted:
        return Denial.NO if rule.exact else Denial.YES
    found = Denial.MAYBE if reading.opaque or _is_in_code(reading, wanted) else Denial.NO
    for invocation in reading.invocations:
        said = _meant(invocation, wanted)
        if said is Denial.YES:
            return said
        found = max(found, said)
    return found


def forbids_command(rule: Rule, invocation: Invocation) -> Denial:
    """Whether one command of a line is meant by a deny rule."""
    if rule.pattern is None:
        return Denial.YES
    wanted = _wanted_words(rule)
    return Denial.NO if rule.exact else _meant(invocation, wanted) if wanted else Denial.YES


def _wanted_words(rule: Rule) -> Words:
    words = pattern_words(rule.pattern or "*")
    words = [HOME + word[1:] if word.startswith("~/") else word for word in words]
    return [words[0].casefold(), *words[1:]] if words else []


def _is_in_code(reading: LineReading, wanted: Words) -> bool:
    """Whether code in another language that the line runs holds all words of a rule."""
    return any(
        all(re.search(rf"(?<![\w.-]){_as_expression(word)}(?![\w-])", text) for word in wanted)
        for text in reading.code
    )


@lru_cache(maxsize=256)
def _as_expression(pattern: str) -> str:
    return "".join({"*": r"[^\s'\"]*", "?": "."}.get(char, re.escape(char)) for char in pattern)


def _meant(invocation: Invocation, wanted: Words) -> Denial:
    words = list(invocation.words)
    if not words:
        return Denial.NO
    said = _program_is(words[0], wanted[0])
    if said is not Denial.NO and program_name(words[0]) and len(wanted) > 1:
        said = min(said, _arguments_are(words, wanted[1:]))
    return said if invocation.sure else min(said, Denial.MAYBE)


def _program_is(word: str, pattern: str) -> Denial:
    """Whether the program is the wanted one, by any path and in any letter case."""
    name = program_name(word)
    if not name:
        return Denial.MAYBE if word else Denial.NO
    if name == pattern or (_WILDCARD.search(pattern) and fnmatchcase(name, pattern)):
        return Denial.YES
    if "/" not in pattern:
        return Denial.NO
    if fnmatchcase(normpath(word).casefold(), normpath(pattern)):
        return Denial.YES
    return Denial.MAYBE if fnmatchcase(name, basename(pattern)) else Denial.NO


def _arguments_are(words: Words, wanted: Words) -> Denial:
    """Whether the arguments begin with the wanted ones, options before and between them ignored."""
    with_values = _OPTIONS_WITH_VALUES.get(program_name(words[0]))
    reached = [dict[int, Denial]() for _ in range(len(words) + 2)]  # how many were found before each word
    reached[1][0] = Denial.YES
    best = Denial.NO
    for at, word in enumerate(words[1:], 1):
        for count in range(len(wanted)):
            if (said := reached[at].get(count, Denial.NO)) is Denial.NO:
                continue
            following = words[at + 1] if at + 1 < len(words) else ""
            for step, more, match in _ways(word, following, wanted[count], with_values):
                if count + more == len(wanted):
                    best = max(best, min(said, match))
                else:
                    _raise(reached[at + step], count + more, min(said, match))
        if best is Denial.YES:
            break
    return best


def _ways(
    word: str, following: str, pattern: str, with_values: frozenset[str] | None
) -> Iterator[tuple[int, int, Denial]]:
    """How a word may be taken: the words and the wanted words that are then passed, and how surely."""
    if not is_unknown(word):
        if fnmatchcase(word, pattern):
            yield 1, 1, Denial.YES
        if word.startswith("-"):
            if with_values is None or word not in with_values:
                yield 1, 0, Denial.YES
            if with_values is None or word in with_values:
                yield 2, 0, Denial.YES
                if SPLIT in following and UNSET not in following:
                    yield 1, 0, Denial.MAYBE
        return
    many = SPLIT in word or STAR in word or ONE in word or CLASS in word
    if _WILDCARD.search(pattern) or many or re.fullmatch(_as_superset(word), pattern, re.DOTALL):
        yield 0 if many else 1, 1, Denial.MAYBE
    if many or word[0] == "-" or MARKS.match(word):
        yield 1, 0, Denial.MAYBE
        yield 2, 0, Denial.MAYBE


def _as_superset(word: str) -> str:
    """An expression for everything that a word with marks may stand for."""
    return "".join(".*" if MARKS.match(char) and char != HOME else re.escape(char) for char in word)


def _raise(reached: dict[int, Denial], count: int, said: Denial) -> None:
    reached[count] = max(said, reached.get(count, Denial.NO))
