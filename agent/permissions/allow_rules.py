"""Whether a command line may run by the allow rules, and which rule a person could add.

Each simple command may be covered by any rule, or as one that only reads. A rule that stands for all of a
tool or for exactly one line covers the line as a whole.

"Always" offers the beginning of a command from a list of those that may be: tests, formatters, builds,
scripts of the project, what git does without loss. Whatever is not there (tar, the shell of a database, a
compiler) could do anything with the next arguments: for it the very line is offered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agent.shell.read_only import ReadingJudge, Trap
from agent.shell.risky_options import risky_word
from agent.shell.simple_commands import Glob, Words, parse_simple_commands
from tools.files.text_encoding import word_set

from .rule_syntax import Rule, exact_rule, is_exactly, parse_rules, pattern_words

# Programs for which the name is enough: they test, check or format what is in the project.
_CHECKERS = word_set(
    "pytest mypy black isort flake8 pylint pyright pyflakes pycodestyle bandit vulture eslint prettier"
    " tsc jest vitest mocha ava tap stylelint biome standard oxlint gofmt goimports golangci-lint"
    " staticcheck rustfmt clang-format clang-tidy cppcheck shellcheck shfmt rubocop rspec standardrb"
    " phpunit phpstan ktlint swiftlint swiftformat hlint ormolu yamllint markdownlint hadolint tflint"
    " ctest ninja tox"
)
# Programs whose second word says what they do, with the words that may be allowed.
_SUBCOMMANDS = {
    "git": "add commit diff log show status blame grep ls-files fetch",
    "npm": "test",
    "pnpm": "test lint build",
    "yarn": "test lint build",
    "bun": "test",
    "deno": "test fmt lint check",
    "cargo": "build check test clippy fmt doc nextest",
    "go": "build test vet fmt",
    "ruff": "check format",
    "pre-commit": "run",
    "mix": "test format compile credo",
    "swift": "build test",
    "dotnet": "build test format",
    "mvn": "test compile verify package",
    "gradle": "build test check assemble",
    "bundle": "check",
    "rake": "test spec",
    "rails": "test",
    "terraform": "fmt validate",
    "zig": "build test fmt",
    "stack": "build test",
    "cabal": "build test",
    "sbt": "test compile",
    "bazel": "build test",
    "cmake": "--build",
    "docker": "ps images",
    "meson": "compile test",
}
_NAMED_BY_PROJECT = {"make": "", "just": "", "npm": "run", "pnpm": "run", "yarn": "run", "bun": "run"}
# Programs that run one of the others.
_LAUNCHERS = (("python", "-m"), ("python3", "-m"), ("uv", "run"), ("poetry", "run"), ("bundle", "exec"))
_MODULES = word_set("pytest unittest mypy black isort flake8 pylint ruff")
MORE_THAN_WORDS = "it holds more than plain words, such as ~, $x or > file"
_PLAIN_NAME = re.compile(r"[A-Za-z][\w.:+-]*", re.ASCII)
_MAX_KEPT_CHARS = 2_000  # of a line that is kept as a rule: people have to read it


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
        if rule.pattern is None or (rule.exact and is_exactly(rule, line)):
            return Coverage(rule=rule)
    doubts = _doubts(line, folder, judge)
    if doubts is None:
        return Coverage(MORE_THAN_WORDS)
    commands = tuple((words, _covering(words, doubt, rules) or doubt) for words, doubt in doubts)
    first_doubt = next((by for _, by in commands if isinstance(by, str) and by), "")
    return Coverage(first_doubt, next((by for _, by in commands if isinstance(by, Rule)), None), commands)


def _doubts(line: str, folder: str, judge: ReadingJudge | None) -> list[tuple[Words, str]] | None:
    if judge is not None:
        return judge.doubts(line, folder)
    commands = parse_simple_commands(line)
    return None if commands is None else [(words, "it runs a command") for words in commands]


def _covering(words: Words, doubt: str, rules: Sequence[Rule]) -> Rule | None:
    """The rule that lets a command run in spite of the doubt."""
    if not doubt or isinstance(doubt, Trap):
        return None
    return next((rule for rule in rules if not rule.exact and covers(rule.pattern or "", words)), None)


def covers(pattern: str, words: Words) -> bool:
    """Whether the pattern of an allow rule covers a simple command: `*` any, other words a beginning."""
    wanted = pattern_words(pattern)
    if not wanted:
        return True
    pairs = zip(words, wanted, strict=False)
    return (
        len(words) >= len(wanted)
        and all(fnmatchcase(word, text) for word, text in pairs)
        and not risky_word(words, wanted)
    )


def lasting_rule(tool: str, line: str, covered: Coverage) -> Rule | None:
    """The rule that "always" would add for a line that is not covered; None where there is none.

    It covers the line: by the one beginning that every command in doubt has, or as a whole.
    """
    doubted = [words for words, by in covered.commands if isinstance(by, str) and by]
    beginnings = {lasting_beginning(words) for words in doubted}
    beginning = beginnings.pop() if len(beginnings) == 1 else None
    if beginning is not None and all(covers(beginning, words) for words in doubted):
        return Rule(tool, beginning)
    whole = exact_rule(tool, line)
    return whole if len(line) <= _MAX_KEPT_CHARS and _can_be_kept(whole) else None


def lasting_beginning(words: Words) -> str | None:
    """The first words of a command that may always be allowed whatever follows; None: there are none."""
    program, *rest = words
    second = rest[0] if rest else ""
    if any(isinstance(word, Glob) for word in words[:3]):
        return None
    if program in _CHECKERS:
        return program
    if second and second in _SUBCOMMANDS.get(program, "").split():
        return f"{program} {second}"
    if program in _NAMED_BY_PROJECT:
        named = [program, *_NAMED_BY_PROJECT[program].split()]
        names = words[len(named) : len(named) + 1]
        plain = words[: len(named)] == named and all(map(_PLAIN_NAME.fullmatch, names))
        return " ".join([*named, *names]) if names and plain else None
    if (program, second) in _LAUNCHERS and len(words) > 2:
        module = words[2] if words[2] in _MODULES else None
        inner = module if second == "-m" else lasting_beginning(words[2:])
        return f"{program} {second} {inner}" if inner else None
    return None


def _can_be_kept(rule: Rule) -> bool:
    """Whether the rule is the same once it is read back from its written form."""
    try:
        return parse_rules(str(rule)) == (rule,)
    except ValueError:
        return False
