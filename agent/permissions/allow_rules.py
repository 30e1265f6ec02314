"""Match command lines with allow rules, and find the rule that "always" would add for a line.

Each simple command of a line is covered by a rule or because it is read-only. A rule for a whole tool, or for
exactly one line, covers the line as a whole. A rule for a prefix of words covers arguments inside the
project, unless it names a path itself: `bash(black)` does not cover `black /home`.

"Always" offers the first words of a command if they are in a list: tests, formatters, builds, scripts of
the project, git commands that lose nothing. Any other program (tar, a database shell, a compiler)
could do anything when given other arguments, so only the exact line is offered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from agent import shell
from tools.text import word_set

from .rule_arguments import argument_beyond, names_path
from .rule_syntax import OPENING, RUNNING, Rule, exact_rule, parse_rules

# Programs that may be allowed by name alone: they test, check or format files of the project.
_CHECKERS = word_set(
    "pytest mypy black isort flake8 pylint pyflakes pycodestyle vulture eslint prettier tsc jest vitest"
    " biome standard oxlint gofmt rustfmt clang-format shellcheck shfmt yamllint"
)
# Programs with subcommands, and the subcommands that may be allowed.
_SUBCOMMANDS = {
    "git": "add commit diff log show status blame grep ls-files fetch",
    "npm": "test",
    "pnpm": "test lint build",
    "yarn": "test lint build",
    "bun": "test",
    "cargo": "build check test clippy fmt doc nextest",
    "go": "build test vet fmt",
    "ruff": "check format",
    "mvn": "test compile verify package",
    "gradle": "build test check assemble",
    "cmake": "--build",
    "docker": "ps images",
}
_NAMED_BY_PROJECT = {"make": "", "just": "", "npm": "run", "pnpm": "run", "yarn": "run", "bun": "run"}
# Programs that run one of the others.
_LAUNCHERS = (("python", "-m"), ("python3", "-m"), ("uv", "run"), ("poetry", "run"), ("bundle", "exec"))
_MODULES = word_set("pytest unittest mypy black isort flake8 pylint ruff")
MORE_THAN_WORDS = (
    "it is not known to be read-only: it contains more than plain words (such as ~, $x or > file)"
)


TOO_LONG = "it is not known to be read-only: it is too long to be checked"


class CoveredCommand(Struct, frozen=True):
    """A simple command of a line, with the rule that covers it or the reason why it may not be read-only.

    beyond  the argument that a rule for the program would not cover, "" if there is none
    """

    words: shell.Words
    rule: Rule | None = None
    doubt: str = ""
    beyond: str = ""


class Coverage(Struct, frozen=True):
    """The result of matching a line with the rules. `doubt` is "" if it may run, else the reason why not.

    rule      the rule that covers the line, or the first of its commands that needs one
    commands  the simple commands; () if the line was not parsed, or is covered as a whole
    """

    doubt: str = ""
    rule: Rule | None = None
    commands: tuple[CoveredCommand, ...] = ()


def coverage(line: str, folder: str, rules: Sequence[Rule], judge: shell.ReadingJudge | None) -> Coverage:
    """Match a line that would run in `folder` with the allow rules of the tool that runs it."""
    for rule in rules:
        if rule.pattern is None or (rule.exact and rule.is_exactly(line)):
            return Coverage(rule=rule)
    judged = _judged(line, folder, judge)
    if judged is None:
        return Coverage(TOO_LONG if len(line) > shell.MAX_LINE_CHARS else MORE_THAN_WORDS)
    commands = tuple(_covered(command, folder, rules, judge) for command in judged)
    return Coverage(
        doubt=next((command.doubt for command in commands if command.doubt), ""),
        rule=next((command.rule for command in commands if command.rule is not None), None),
        commands=commands,
    )


def _judged(line: str, folder: str, judge: shell.ReadingJudge | None) -> list[shell.JudgedCommand] | None:
    if judge is not None:
        return judge.judge(line, folder)
    commands = shell.parse_simple_commands(line)
    return (
        None if commands is None else [shell.JudgedCommand(words, "it runs a command") for words in commands]
    )


def _covered(
    command: shell.JudgedCommand, folder: str, rules: Sequence[Rule], judge: shell.ReadingJudge | None
) -> CoveredCommand:
    """Find the rule that covers a command which may not be read-only."""
    if not command.doubt or command.is_trap:
        return CoveredCommand(command.words, doubt=command.doubt)
    beyond = argument_beyond(command.words, folder, judge)
    doubt = command.doubt
    for rule in rules:
        if not rule.exact and shell.CommandPattern.parse(rule.pattern or "").covers(command.words):
            if not beyond or names_path(rule.pattern or ""):
                return CoveredCommand(command.words, rule)
            doubt = f"the rule {rule} does not cover {beyond}, which is not in the project"
    return CoveredCommand(command.words, doubt=doubt, beyond=beyond)


def lasting_rule(line: str, covered: Coverage) -> Rule | None:
    """Return the rule that "always" would add for a line that is not covered, None if it cannot be kept.

    The rule is the prefix that all uncovered commands have in common, else the exact line.
    """
    doubted = [command.words for command in covered.commands if command.doubt]
    beginnings = {lasting_beginning(words) for words in doubted}
    is_beyond = any(command.doubt and command.beyond for command in covered.commands)
    beginning = beginnings.pop() if len(beginnings) == 1 and not is_beyond else None
    if beginning is not None and all(map(shell.CommandPattern.parse(beginning).covers, doubted)):
        return Rule(RUNNING, beginning)
    exact = exact_rule(line)
    can_be_read = len(line) <= 2_000
    return exact if can_be_read and _can_be_kept(exact) else None


def opening_rule(line: str) -> Rule | None:
    """Return the rule that runs exactly this line outside the sandbox; None if no rule can express that."""
    rule = Rule(OPENING, line.strip())
    return rule if _can_be_kept(rule) else None


def lasting_beginning(words: shell.Words) -> str | None:
    """Return the first words of a command that may be allowed with any arguments, None if there are none."""
    if any(isinstance(word, shell.Glob) for word in words[:3]):
        return None
    program = words[0]
    second = words[1] if len(words) > 1 else ""
    if program in _CHECKERS:
        return program
    if second and second in _SUBCOMMANDS.get(program, "").split():
        return f"{program} {second}"
    if program in _NAMED_BY_PROJECT:
        return _script_of_project(words)
    if (program, second) in _LAUNCHERS and len(words) > 2:
        if second == "-m":
            inner = words[2] if words[2] in _MODULES else None
        else:
            inner = lasting_beginning(words[2:])
        return f"{program} {second} {inner}" if inner else None
    return None


def _script_of_project(words: shell.Words) -> str | None:
    """Return `npm run NAME` or `make NAME`, whose commands are defined by the project."""
    named = [words[0], *_NAMED_BY_PROJECT[words[0]].split()]
    name = "".join(words[len(named) : len(named) + 1])
    is_plain = re.fullmatch(r"(?a:[A-Za-z][\w.:+-]*)", name) is not None
    return " ".join([*named, name]) if words[: len(named)] == named and is_plain else None


def _can_be_kept(rule: Rule) -> bool:
    """Return whether reading the written form of the rule gives the same rule."""
    try:
        return parse_rules(str(rule)) == (rule,)
    except ValueError:
        return False
