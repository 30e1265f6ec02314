"""Distinguish subcommands from prompts: `makeroom -C DIR sessions list`, and commands of other agents.

Also contains the parser that reports errors of a command line in one line.

Imports nothing slow. Reads no files and changes nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from agent import ui
from transcripts.patterns import lazy_pattern

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# First words of commands that other agents have, or that begin with a slash here. None of them is a likely
# prompt by itself.
FOREIGN_COMMANDS = frozenset({
    "agents", "auth", "compact", "completion", "config", "context", "continue", "cost", "doctor", "exec",
    "export", "features", "hooks", "init", "install", "list", "login", "logout", "logs", "migrate-installer",
    "models", "plugin", "plugins", "resume", "rewind", "serve", "session", "setup-token", "show", "skills",
    "stats", "status", "uninstall", "update", "upgrade", "usage",
})  # fmt: skip
# The second words of such commands. Any other second word makes a sentence: "update the readme".
COMMAND_VERBS = frozenset({
    "add", "add-json", "check", "delete", "disable", "edit", "enable", "export", "get", "init", "install",
    "json", "list", "login", "logout", "path", "remove", "reset", "rm", "run", "serve", "set", "show",
    "status", "uninstall", "unset", "update",
})  # fmt: skip
ELSEWHERE = {
    "config": "use /config in a session",
    "doctor": "use makeroom -p /doctor",
    "resume": "use makeroom --resume",
    "continue": "use makeroom --continue",
    "export": "use makeroom sessions export ID",
    "init": "use /init in a session",
    "logs": "use --debug-file FILE",
    **dict.fromkeys(
        ("compact", "context", "hooks", "rewind", "skills", "status"), "use it with a slash in a session"
    ),
    **dict.fromkeys(("cost", "stats", "usage"), "use /cost in a session"),
    "session": "use makeroom sessions",
    "show": "use makeroom sessions show ID, or makeroom recall ID",
    "list": "use makeroom sessions",
    "models": "use /model in a session",
    "login": "set ANTHROPIC_API_KEY instead",
    "auth": "set ANTHROPIC_API_KEY instead",
    **dict.fromkeys(("update", "upgrade"), "upgrade with the tool that installed makeroom, such as uv"),
}
OWN_WORDS = ("help", "version")  # commands without a module
USAGE_CODE = 2  # the exit code of every usage error
OF_THE_LIBRARY = ("argument ", "unknown option ", "the following ")  # messages without a remedy
HEADLESS_FLAGS = frozenset(("-p", "--print", "--input-format"))
_ID = lazy_pattern(r"(?=.*\d)r?[\da-f][\da-f./r-]*")  # of a session or a fact: 3f2a91c4, r57, 3f2a/r57
_WANTS_RESULT = lazy_pattern(r"--(?:in|out)put-format[= ](?:stream-)?json\b")
# Commands that take a command line, whose options are not those of makeroom.
TAKE_COMMAND_LINES = ("mcp", "permissions")


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports errors in one line without the usage, and suggests a flag for a misspelt one.

    If the command `line` asks for JSON output, it also writes a result for the program that waits for one.
    """

    line: Sequence[str] = ()

    @property
    def actions_by_flag(self) -> dict[str, argparse.Action]:
        """Return the action of argparse for every spelling of every option."""
        return {flag: action for action in self._actions for flag in action.option_strings}

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help. Raises OSError, which argparse ignores."""
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        wrong = message.removeprefix("unrecognized arguments: ")
        if wrong != message and (flag := wrong.split()[0].partition("=")[0]).startswith("-"):
            shown = (each for each in self._actions if each.help != argparse.SUPPRESS)
            flags = {name.lstrip("-"): name for each in shown for name in each.option_strings}
            near = get_close_matches(flag.lstrip("-"), flags, 1)  # without the dashes, which all flags share
            message = f"unknown option {flag}{f': did you mean {flags[near[0]]}?' if near else ''}"
        more = f" (see {self.prog} --help)" if message.startswith(OF_THE_LIBRARY) else ""
        if _WANTS_RESULT.search(" ".join(self.line)):
            write_refusal(message)
        self.exit(USAGE_CODE, f"error: {message}{more}\n")


def to_number(text: str, digits: str) -> float:
    """Return the number in the digits of an argument. Raises ArgumentTypeError, which names the argument."""
    try:
        return float(digits)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def to_count(text: str) -> int:
    """Return a positive whole number. Raises ArgumentTypeError."""
    number = to_number(text, text.replace("_", ""))
    if not number.is_integer() or number < 1:  # infinity and nan are not integers
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(number)


def write_refusal(error: str, session: str = "") -> None:
    """Write the result of a run that could not start, for the program that waits for it."""
    sys.stdout.write(f"{ui.json_line(ui.refused_result(error, session))}\n")


class Subcommand(NamedTuple):
    """A subcommand with its own words, and the directory to run it in ("": the current one)."""

    name: str
    words: list[str]
    folder: str = ""


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether the words of a subcommand ask for its help, leaving aside those after `--`."""
    own = words[: words.index("--")] if "--" in words else words
    return words[:1] == ["help"] or not {"-h", "--help"}.isdisjoint(own)


def find_subcommand(made: OneLineParser, argv: Sequence[str], names: Collection[str]) -> Subcommand | None:
    """Return the subcommand in argv, None for a prompt or options alone.

    Exits with code 2 if the subcommand is unknown or follows options that it does not take.
    """
    at = first_positional(made, argv)
    if at is None or any(word.partition("=")[0] in HEADLESS_FLAGS for word in argv[:at]):
        return None
    name = argv[at]
    before = list(argv[:at])
    after = list(argv[at + 1 :])
    if name not in names:
        _refuse_foreign(made, argv[at:], names)
        return None
    folder = _take_folder(before)
    if before:
        error = f"{before[0]} cannot be used with the command {name!r}; quote the words if they are a prompt"
        made.exit(USAGE_CODE, f"error: {error}\n")
    if name not in TAKE_COMMAND_LINES:
        folder = _take_folder(after) or folder
    return Subcommand(name, words=after, folder=folder)


def first_positional(made: OneLineParser, argv: Sequence[str]) -> int | None:
    """Return the index of the first word before `--` that is neither an option nor its value, or None."""
    flags = made.actions_by_flag
    at = 0
    while at < len(argv):
        word = argv[at]
        if word == "--":
            return None
        if not word.startswith("-") or word == "-":
            return at
        name, given, _ = word.partition("=")
        action = flags.get(name)
        at += 1
        if action is None or given or action.nargs == 0:
            continue
        if action.nargs is None:
            at += 1
        elif action.nargs == "+":
            while at < len(argv) and not argv[at].startswith("-"):
                at += 1
        elif at < len(argv) and not argv[at].startswith("-"):
            at += 1
    return None


def _take_folder(words: list[str]) -> str:
    """Remove each -C from the words; returns the value of the last one, "" if there is none."""
    folder = ""
    at = 0
    while at < len(words) and words[at] != "--":
        name, given, value = words[at].partition("=")
        if name in ("-C", "--cd") and (given or at + 1 < len(words)):
            folder = value if given else words[at + 1]
            del words[at : at + 1 + (not given)]
        else:
            at += 1
    return folder


def _refuse_foreign(made: argparse.ArgumentParser, words: Sequence[str], names: Collection[str]) -> None:
    """Exit with code 2 if the words look like a command that does not exist."""
    first = words[0]
    second = words[1] if len(words) > 1 else ""
    alone = not second or second.startswith("-")
    has_id = len(words) == 2 and _ID.fullmatch(second) is not None
    if not (alone or has_id or second in COMMAND_VERBS) or first in OWN_WORDS or any(map(str.isspace, first)):
        return
    ours = (*names, *OWN_WORDS)
    if near := [*_nearest(first, ours), *_nearest(first, FOREIGN_COMMANDS)]:
        hint = f"did you mean {near[0]!r}?" if near[0] in ours else ELSEWHERE.get(near[0], "see --help")
        prompt = f"to send it as a prompt: makeroom -- {' '.join(words)}"
        made.exit(USAGE_CODE, f"error: unknown command {first!r}: {hint} ({prompt})\n")


def _nearest(word: str, known: Collection[str]) -> list[str]:
    """Return the most similar known word, one with the same letters first; [] if none is similar."""
    same_letters = [each for each in known if sorted(each) == sorted(word)]
    return [*same_letters, *get_close_matches(word, known, n=1, cutoff=0.8)]
