"""Match commands with the patterns of permission rules: `git push`, `npm run *`.

A pattern is used in two ways. An allow rule covers what the pattern says and nothing more: no option that
runs or writes something else. A deny rule applies to the command however it is run: with other options in
between, by any path, in any letter case. In it, a `*` between words stands for any number of them. It may
also be a pipe of patterns: `curl * | sh`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from posixpath import basename, normpath
from typing import NamedTuple

from msgspec import Struct

from .line_reading import Invocation, LineReading
from .parsed_text import CLASS, HOME, MARKS, ONE, SPLIT, STAR, UNSET, is_unknown, program_name
from .program_names import GIT_OPTIONS_WITH_VALUES
from .risky_options import risky_word
from .simple_commands import Words


class Certainty(IntEnum):
    """The certainty with which a pattern applies to a command."""

    NO = 0
    MAYBE = 1
    YES = 2


class CommandPattern(Struct, frozen=True):
    """The first words of a simple command, with `fnmatch` wildcards; no words stand for every command."""

    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> CommandPattern:
        """Read the pattern of a rule. A `*` at its end is dropped, since more words may always follow."""
        words = text.split()
        return cls(tuple(words[:-1] if words[-1:] == ["*"] else words))

    @property
    def program(self) -> str:
        """The name of the program in lower case; "" for any."""
        return self.words[0].casefold() if self.words else ""

    def covers(self, words: Words) -> bool:
        """Return whether a command begins with the pattern and has no option that does something else."""
        pairs = zip(words, self.words, strict=False)
        return (
            len(words) >= len(self.words)
            and all(fnmatchcase(word, text) for word, text in pairs)
            and not (self.words and risky_word(words, self.words))
        )

    def means(self, invocation: Invocation) -> Certainty:
        """Return the certainty with which the pattern applies to a command of a line."""
        if not self.words:
            return Certainty.YES
        return _means(invocation, self._sought)

    def found_in(self, reading: LineReading) -> Certainty:
        """Return the certainty with which a line runs the command, by any means."""
        if not self.words:
            return Certainty.YES
        sought = self._sought
        found = Certainty.MAYBE if reading.opaque or _is_in_code(reading, sought) else Certainty.NO
        for invocation in reading.invocations:
            found = max(found, _means(invocation, sought))
            if found is Certainty.YES:
                break
        return found

    @property
    def _sought(self) -> Words:
        """The words in the form that a reading has: the program in lower case, `~/` as the mark HOME."""
        words = [HOME + word[1:] if word.startswith("~/") else word for word in self.words]
        return [words[0].casefold(), *words[1:]]


class PipePattern(Struct, frozen=True):
    """Patterns of commands of which each reads the output of the one before, directly or through others.

    Most rules have a single pattern. Commands also pass text on through files, so in `curl -o x URL; sh x`
    the certainty of `curl * | sh` is MAYBE.
    """

    stages: tuple[CommandPattern, ...]

    @classmethod
    def parse(cls, text: str) -> PipePattern:
        return cls(tuple(map(CommandPattern.parse, text.split("|"))))

    @property
    def programs(self) -> frozenset[str]:
        """The names of the programs in lower case, without those of patterns for any program."""
        return frozenset(stage.program for stage in self.stages) - {""}

    def means(self, invocation: Invocation) -> Certainty:
        """Return the certainty with which the pattern applies to a command of a line and what it reads."""
        found = self.stages[-1].means(invocation)
        source = invocation.source
        for stage in self.stages[-2::-1]:
            certainty = Certainty.NO
            while source is not None and certainty is Certainty.NO:
                certainty = stage.means(source)
                source = source.source
            found = min(found, certainty)
        return found

    def found_in(self, reading: LineReading) -> Certainty:
        """Return the certainty with which a line runs the commands, by any means."""
        each = min(stage.found_in(reading) for stage in self.stages)
        if len(self.stages) == 1 or each is Certainty.NO:
            return each
        joined = any(self.means(invocation) is Certainty.YES for invocation in reading.invocations)
        return Certainty.YES if joined else Certainty.MAYBE


def _is_in_code(reading: LineReading, sought: Words) -> bool:
    """Return whether code in another language that the line runs contains all of the words."""
    return any(
        all(re.search(rf"(?<![\w.-]){_as_expression(word)}(?![\w-])", text) for word in sought)
        for text in reading.code
    )


@lru_cache(maxsize=256)
def _as_expression(pattern: str) -> str:
    return "".join({"*": r"[^\s'\"]*", "?": "."}.get(char, re.escape(char)) for char in pattern)


def _means(invocation: Invocation, sought: Words) -> Certainty:
    words = list(invocation.words)
    if not words:
        return Certainty.NO
    found = _program_is(words[0], sought[0])
    if found is not Certainty.NO and program_name(words[0]) and len(sought) > 1:
        found = min(found, _arguments_are(words, sought[1:]))
    return found if invocation.sure else min(found, Certainty.MAYBE)


def _program_is(word: str, pattern: str) -> Certainty:
    """Compare a program with the sought one, ignoring its directory and letter case."""
    name = program_name(word)
    if not name:
        return Certainty.MAYBE if word else Certainty.NO
    if name == pattern or (_has_wildcard(pattern) and fnmatchcase(name, pattern)):
        return Certainty.YES
    if "/" not in pattern:
        return Certainty.NO
    if fnmatchcase(normpath(word).casefold(), normpath(pattern)):
        return Certainty.YES
    return Certainty.MAYBE if fnmatchcase(name, basename(pattern)) else Certainty.NO


class _Way(NamedTuple):
    """One way to take a word: the numbers of words and sought words that it consumes, and its certainty."""

    words: int
    found: int
    certainty: Certainty


def _arguments_are(words: Words, sought: Sequence[str]) -> Certainty:
    """Compare the arguments with the sought ones, ignoring options before and between them."""
    with_values = GIT_OPTIONS_WITH_VALUES if program_name(words[0]) == "git" else None
    # Before each word: the certainty by the number of sought words found so far.
    reached = [dict[int, Certainty]() for _ in range(len(words) + 2)]
    reached[1][0] = Certainty.YES
    best = Certainty.NO
    for at, word in enumerate(words[1:], 1):
        following = words[at + 1] if at + 1 < len(words) else ""
        for count in range(len(sought)):
            certainty = reached[at].get(count)
            if certainty is None:
                continue
            for way in _ways(word, following, sought[count], with_values):
                found = min(certainty, way.certainty)
                total = count + way.found
                if total == len(sought):
                    best = max(best, found)
                else:
                    there = reached[at + way.words]
                    there[total] = max(found, there.get(total, Certainty.NO))
        if best is Certainty.YES:
            break
    return best


def _ways(word: str, following: str, pattern: str, with_values: frozenset[str] | None) -> Iterator[_Way]:
    """Yield the ways to take a word; `with_values` are the options that take one, None for any."""
    if is_unknown(word):
        yield from _ways_of_unknown(word, pattern)
        return
    if fnmatchcase(word, pattern):
        yield _Way(words=1, found=1, certainty=Certainty.YES)
    if pattern == "*":
        yield _Way(words=1, found=0, certainty=Certainty.YES)
    if not word.startswith("-"):
        return
    if with_values is None or word not in with_values:
        yield _Way(words=1, found=0, certainty=Certainty.YES)
    if with_values is None or word in with_values:
        yield _Way(words=2, found=0, certainty=Certainty.YES)
        if SPLIT in following and UNSET not in following:
            yield _Way(words=1, found=0, certainty=Certainty.MAYBE)


def _ways_of_unknown(word: str, pattern: str) -> Iterator[_Way]:
    may_be_many = any(mark in word for mark in (SPLIT, STAR, ONE, CLASS))
    if _has_wildcard(pattern) or may_be_many or re.fullmatch(_as_superset(word), pattern, re.DOTALL):
        yield _Way(words=0 if may_be_many else 1, found=1, certainty=Certainty.MAYBE)
    if may_be_many or word[0] == "-" or MARKS.match(word):
        yield _Way(words=1, found=0, certainty=Certainty.MAYBE)
        yield _Way(words=2, found=0, certainty=Certainty.MAYBE)


def _has_wildcard(pattern: str) -> bool:
    return not set(pattern).isdisjoint("*?[")


def _as_superset(word: str) -> str:
    """Return an expression that matches everything that a word with marks may stand for."""
    return "".join(".*" if MARKS.match(char) and char != HOME else re.escape(char) for char in word)
