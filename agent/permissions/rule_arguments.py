"""Find the arguments of a command that a rule for its program does not cover.

A rule names a program and perhaps its first words, and covers any arguments within the project. Paths hide
in options and assignments too: of `tar -C/etc --file=../a x=/home`, each argument names something outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent import shell
from tools.text import word_set
from transcripts.patterns import lazy_pattern

_STREAMS = word_set("/dev/null /dev/stdin /dev/stdout /dev/stderr /dev/tty")
_ELSEWHERE = lazy_pattern(r"(?:file|unix|tcp|ssh|npipe)://|ext::")  # a connection, or a path in another form
_PATH = lazy_pattern(r"(?:/|~|\.\.(?:/|\Z)).*|.*/\.\.(?:/.*|\Z)", re.DOTALL)
# Builtins of bash that evaluate the subscripts of names in their arguments, and run `$(...)` in them.
_EVALUATING = word_set(
    "test [ printf read unset declare typeset local export readonly let wait mapfile readarray"
)
_LABELLING = word_set("bazel bazelisk buck buck2 pants")  # `//a:b` is a target in the project


def argument_beyond(words: shell.Words, folder: str, judge: shell.ReadingJudge | None) -> str:
    """Return the first argument that names something outside the project or runs code, "" for none."""
    for word in words[1:]:
        if words[0] in _EVALUATING and re.search(r"\[.*(?:\$|`)", word, re.DOTALL):
            return word
        if words[0] in _LABELLING and word.startswith("//"):
            continue
        if any(_is_beyond(part, folder, judge) for part in _parts(word)):
            return word
    return ""


def names_path(pattern: str) -> bool:
    """Return whether a rule names a path outside the project: its author has then thought of paths."""
    return any(_PATH.fullmatch(part) for word in pattern.split() for part in _parts(word))


def _parts(word: str) -> Iterator[str]:
    """Yield the forms in which a word may contain a path: itself, an option's value, a letter's value."""
    yield word
    if word.startswith("-"):
        yield word.partition("=")[2]
        yield word[2:]
    elif re.match(r"\w+=", word):
        yield word.partition("=")[2]


def _is_beyond(part: str, folder: str, judge: shell.ReadingJudge | None) -> bool:
    if not part or part in _STREAMS:
        return False
    if _ELSEWHERE.match(part):
        return True
    if judge is not None:
        return judge.is_outside(part, folder)
    return _PATH.fullmatch(part) is not None
