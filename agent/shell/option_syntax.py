"""Split the arguments of a program by a list of its allowed options. Pure.

Options that are not on the list may do anything. That includes abbreviated ones, and each letter of a bundle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from .simple_commands import Glob


class NotProved(Exception):
    """A command is not known to be read-only. The text, for users, contains the word and the reason."""


class SetTrap(NotProved):
    """A read-only command runs a program that the repository names, which no rule for it covers."""


class Options(Struct, frozen=True, dict=True):
    """The options that a program may have, in addition to "--".

    flags     letters without a value
    valued    letters with a value, in the same word or the next
    attached  letters with an optional value, in the same word only
    words     long options: `name`, `name=` with a value, `name=?` with an optional value in the same word
    numbers   `-5` is an option
    """

    flags: str = ""
    valued: str = ""
    attached: str = ""
    words: str = ""
    numbers: bool = False

    @cached_property
    def long(self) -> Mapping[str, str]:
        """The kind of value ("", "=" or "=?") by the name of each long option."""
        return {word.rstrip("=?"): word[len(word.rstrip("=?")) :] for word in self.words.split()}

    def __or__(self, other: Options) -> Options:
        return Options(
            flags=self.flags + other.flags,
            valued=self.valued + other.valued,
            attached=self.attached + other.attached,
            words=f"{self.words} {other.words}",
            numbers=self.numbers or other.numbers,
        )


class SplitArguments(Struct):
    """The values of options by name ("" for no value), and the other words in order."""

    options: dict[str, list[str]] = field(default_factory=dict)
    operands: list[str] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        return not self.options.keys().isdisjoint(names)

    def values(self, *names: str) -> list[str]:
        return [value for name in names for value in self.options.get(name, ())]


def split_arguments(arguments: Sequence[str], allowed: Options) -> SplitArguments:
    """Split arguments into options and operands. Raises NotProved for an option that is not allowed."""
    split = SplitArguments()
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        if word == "--":
            split.operands += reversed(waiting)
            break
        if isinstance(word, Glob) and word.startswith("-"):
            _take_glob(split, word, allowed)
        elif word == "-" or not word.startswith("-"):
            split.operands.append(word)
        elif word.startswith("--"):
            _take_long(split, word, allowed, waiting)
        else:
            _take_letters(split, word, allowed, waiting)
    return split


def _take_glob(split: SplitArguments, word: Glob, allowed: Options) -> None:
    """Take a glob as an operand. After `--name=` it may only match files named like this option."""
    name, _, value = word.pattern.removeprefix("--").partition("=")
    takes_names = name in ("include", "exclude", "exclude-dir", "glob", "iglob", "ignore", "hide")
    if not takes_names or name not in allowed.long:
        raise NotProved(f"{word} may match a file named like an option")
    split.options.setdefault(name, []).append(value)


def _take_long(split: SplitArguments, word: str, allowed: Options, waiting: list[str]) -> None:
    name, equals, value = word[2:].partition("=")
    kind = allowed.long.get(name)
    if kind is None or (equals and not kind):
        raise NotProved(f"{word.partition('=')[0]} is not known to be read-only")
    if kind == "=" and not equals:
        value = _next_word(word, waiting)
    split.options.setdefault(name, []).append(value)


def _take_letters(split: SplitArguments, word: str, allowed: Options, waiting: list[str]) -> None:
    if allowed.numbers and _is_number(word):
        split.options.setdefault("number", []).append(word[1:])
        return
    for at, letter in enumerate(word[1:], 1):
        if letter in allowed.attached:
            split.options.setdefault(letter, []).append(word[at + 1 :])
        elif letter in allowed.flags:
            split.options.setdefault(letter, []).append("")
            continue
        elif letter in allowed.valued:
            split.options.setdefault(letter, []).append(word[at + 1 :] or _next_word(f"-{letter}", waiting))
        else:
            raise NotProved(f"-{letter} is not known to be read-only")
        return


def _is_number(word: str) -> bool:
    return word[1:].isascii() and word[1:].isdigit()


def _next_word(option: str, waiting: list[str]) -> str:
    """Return the value of an option. Raises NotProved if it looks like an option, as versions differ."""
    if not waiting:
        raise NotProved(f"{option} has no value")
    value = waiting.pop()
    is_option = value.startswith("-") and value != "-" and not _is_number(value)
    if is_option or isinstance(value, Glob):
        raise NotProved(f"{value} is not a known value of {option}")
    return value
