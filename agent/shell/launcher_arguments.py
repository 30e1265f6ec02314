"""Read the arguments of launchers up to the command that they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct, field

from transcripts.patterns import lazy_pattern

from .launcher_tables import SHELL_STARTERS, Launcher
from .parsed_text import MARKS, SPLIT, is_open, is_unknown, program_name
from .simple_commands import Words

ENV_ASSIGNMENT = lazy_pattern(r"[^=]*=")  # as env accepts them
# Options of fish with a value, and their letters; getopt accepts `-cVALUE` and shortened names.
_FISH_VALUES = {
    "command": "c",
    "init-command": "C",
    "debug": "d",
    "debug-output": "o",
    "debug-stack-frames": "D",
    "features": "f",
    "profile": "p",
    "profile-startup": "p",
}
_FISH_OPTION = lazy_pattern(r"-.")
_SCRIPT_IN_CLUSTER = lazy_pattern(r"-[A-Za-z]+?c(.+)", re.DOTALL)
INPUT_FILE = lazy_pattern(r"-|/dev/(?:stdin|fd/\d+)|/proc/(?:self|\d+)/fd/\d+")


class Script(NamedTuple):
    """A shell text that is run, with its `$0`, `$1` and so on."""

    text: str
    arguments: tuple[str, ...] = ()


class Launch(Struct):
    """The commands, scripts and code that a command runs. Marks stand for unknown text.

    commands  simple commands, one of which certainly runs
    possible  simple commands that may run
    scripts   shell texts that it runs
    values    shell texts that it may run, since an option or a setting has them as its value
    files     paths of shell scripts that it runs, with their arguments
    texts     texts that may be expanded, so substitutions in them may run
    code      texts in other languages
    unsure    it runs something unknown
    """

    commands: list[Words] = field(default_factory=list)
    possible: list[Words] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    files: list[Script] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    unsure: bool = False

    def add_value(self, value: str) -> None:
        """Add what the value of an option or a setting may run."""
        self.possible += value_commands(value)
        self.values += value_scripts(value)


def quoted(word: str) -> str:
    return word if MARKS.search(word) else "'" + word.replace("'", "'\\''") + "'"


def run_input(made: Launch, stdin: str | None, arguments: tuple[str, ...] = ()) -> None:
    if stdin is not None and is_open(stdin):
        made.unsure = True
    elif stdin:
        made.scripts.append(Script(stdin, ("sh", *arguments)))


def run_launcher(made: Launch, words: Words, stdin: str | None, launcher: Launcher) -> None:
    name = program_name(words[0])
    starts = command_starts(words, 1, launcher)
    add_commands(made, words, starts)
    if len(words) in starts and name in SHELL_STARTERS:
        run_input(made, stdin)


def add_commands(made: Launch, words: Words, starts: set[int]) -> None:
    """Add the commands that begin at these positions. Some launchers run a single word as a script."""
    for start in sorted(starts - {len(words)}):
        made.commands.append(words[start:])
        if " " in words[start].strip():
            made.add_value(words[start])
            made.scripts.append(Script(words[start], tuple(words[start:])))


def command_starts(words: Words, first: int, launcher: Launcher, *, assigns: bool = True) -> set[int]:
    """Return the positions where the command may begin: after the options and operands of its launcher."""
    found: set[int] = set()
    seen: set[int] = set()
    waiting = [first]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        word = words[at] if at < len(words) else ""
        if word.startswith("-") and word not in ("-", "--"):
            waiting += (at + step for step in _steps(word, launcher))
        elif word == "-" or (assigns and ENV_ASSIGNMENT.match(word)):
            waiting.append(at + 1)
        elif SPLIT in word:
            found.add(at)
        else:
            start = at + launcher.operands + (word == "--")
            found.add(min(start + (words[start : start + 1] == ["--"]), len(words)))
            if is_open(word) and launcher.operands:  # may be an option
                waiting.append(at + 1)
    return found


def _steps(option: str, launcher: Launcher) -> tuple[int, ...]:
    """Return the possible numbers of words that an option takes, including its value."""
    if option.startswith("--"):
        name, sign, _ = option.partition("=")
        if sign:
            return (1,)
        with_value = name in launcher.values or any(each.startswith(name) for each in launcher.values)
        without = name in launcher.flags or any(each.startswith(name) for each in launcher.flags)
        if with_value is without:
            return (1, 2)
        return (2,) if with_value else (1,)
    if option[1:].lstrip("-").isdigit():  # an option of nice
        return (1,)
    for place, letter in enumerate(option[1:], 2):
        if f"-{letter}" in launcher.values:
            return (2,) if place == len(option) else (1,)
        if f"-{letter}" not in launcher.flags:
            return (1, 2)
    return (1,)


def option_values(words: Words, options: frozenset[str]) -> Iterator[str]:
    """Yield the values of options: `-o value`, `-ovalue`, `--long value`, `--long=value`.

    The name of a long option may be shortened, as getopt accepts it.
    """
    if not options:
        return
    for at, word in enumerate(words[1:], 1):
        name, sign, value = word.partition("=")
        is_short_form = len(name) > 3 and any(option.startswith(name) for option in options)
        following = "".join(words[at + 1 : at + 2])
        if name in options or is_short_form:
            yield value if sign else following
        elif re.fullmatch(r"-[A-Za-z]+", word) and f"-{word[-1]}" in options:
            yield following
        if word[:2] in options and len(word) > 2:
            yield word[2:]


def scripts_in_clusters(words: Words) -> Iterator[str]:
    """Yield the scripts that follow `-c` in a word with other letters, such as `-qcSCRIPT`."""
    for word in words[1:]:
        if found := _SCRIPT_IN_CLUSTER.fullmatch(word):
            yield found[1]


def value_commands(value: str) -> Iterator[Words]:
    """Yield the commands that the value of an option or a setting may name: `exec=cmd`, `alias.x=!cmd`."""
    for text in _texts_in(value):
        if words := text.split():
            yield words


def value_scripts(value: str) -> Iterator[str]:
    """Yield the texts in a value that a shell may run as more than one command: `alias.x=!cd a && cmd`."""
    yield from (text for text in _texts_in(value) if " " in text.strip() and not is_open(text))


def _texts_in(value: str) -> list[str]:
    """Return the texts in a value that may be commands."""
    texts = {value, value.rpartition("=")[2], value.partition(":")[2], value.partition("=")[2]}
    return sorted({text.lstrip("!|") for text in texts})


def run_shell(made: Launch, words: Words, stdin: str | None) -> None:
    """Add what a shell runs: the script given by `-c`, a file, or its input."""
    at = 1
    takes_script = False
    reads_input = False
    while at < len(words):
        word = words[at]
        if word in ("-", "--"):
            at += 1
            break
        if word in ("--version", "--help"):
            return
        if not word.startswith(("-", "+")) or is_unknown(word):
            break
        if not word.startswith("--"):
            takes_script = takes_script or (word[0] == "-" and "c" in word)
            reads_input = reads_input or "s" in word
            at += word.count("o") + word.count("O")
        at += 2 if word in ("--rcfile", "--init-file") else 1
    rest = words[at:]
    if rest and is_open(rest[0]):
        made.unsure = True
    elif takes_script:
        made.scripts += [Script(rest[0], tuple(rest[1:]))] if rest else []
    elif rest and not reads_input and not INPUT_FILE.fullmatch(rest[0]):
        made.files.append(Script(rest[0], tuple(rest)))
        made.commands.append(rest)
    else:
        run_input(made, stdin, tuple(rest))


def run_fish(made: Launch, words: Words, stdin: str | None) -> None:
    """Add what fish runs: the scripts of `-C` and `-c`, which may be repeated, else a file or its input."""
    at = 1
    has_command = False
    while at < len(words) and _FISH_OPTION.match(words[at]) and not is_unknown(words[at]):
        word = words[at]
        at += 1
        if word == "--":
            break
        option, value = _fish_option(word)
        if option and value is None:
            value = "".join(words[at : at + 1])
            at += 1
        if option in ("c", "C"):
            made.scripts.append(Script(value or ""))
            has_command = has_command or option == "c"
    if not has_command or (at < len(words) and is_unknown(words[at])):  # which may be another -c
        run_shell(made, [words[0], "--", *words[at:]], stdin)


def _fish_option(word: str) -> tuple[str, str | None]:
    """Return the letter of an option that takes a value, and its value; None if that is the next word.

    The letter is "" for other options. The name of a long option may be shortened.
    """
    if word.startswith("--"):
        name, sign, value = word.removeprefix("--").partition("=")
        letter = next((each for full, each in _FISH_VALUES.items() if full.startswith(name)), "")
        return letter, value if sign else None
    found = re.search(f"[{''.join(_FISH_VALUES.values())}]", word)
    if found is None:
        return "", None
    return found[0], word[found.end() :] or None
