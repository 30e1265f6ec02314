"""Tell a subcommand from a prompt: `makeroom -C DIR sessions list`, and commands that only other agents have.

Also the parser of command lines that make no sense: it says so in one line.

Imports nothing that is slow; reads no file and changes nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import NamedTuple, NoReturn

from agent import ui
from transcripts.patterns import lazy_pattern

# First words of commands that other agents have, or that begin with a slash here. Nobody means one of them
# alone as a prompt.
FOREIGN_COMMANDS = frozenset({
    "agents", "auth", "compact", "completion", "config", "context", "continue", "cost", "doctor", "exec",
    "export", "features", "hooks", "init", "install", "list", "login", "logout", "logs", "migrate-installer",
    "models", "plugin", "plugins", "resume", "rewind", "serve", "session", "setup-token", "skills", "stats",
    "status", "uninstall", "update", "upgrade", "usage",
})  # fmt: skip
# What follows them there. Any other second word makes a sentence: "update the readme".
COMMAND_VERBS = frozenset({
    "add", "add-json", "check", "delete", "disable", "edit", "enable", "export", "get", "init", "install",
    "json", "list", "login", "logout", "path", "remove", "reset", "rm", "run", "serve", "set", "show",
    "status", "uninstall", "unset", "update",
})  # fmt: skip
ELSEWHERE = {
    "config": "/config shows the settings",
    "doctor": "makeroom -p /doctor looks for what is missing",
    "resume": "makeroom --resume goes on with a session",
    "continue": "makeroom -c goes on with the newest session",
    "export": "makeroom sessions export ID writes a session down",
    "init": "/init has the model write AGENTS.md",
    "logs": "--debug-file FILE keeps one",
    **dict.fromkeys(("compact", "context", "hooks", "rewind", "skills", "status"), "it begins with a slash"),
    **dict.fromkeys(("cost", "stats", "usage"), "/cost shows what a session has cost"),
    "session": "makeroom sessions lists the sessions",
    "list": "makeroom sessions lists the sessions",
    "models": "/model shows and changes the model",
    "login": "set ANTHROPIC_API_KEY instead",
    "auth": "set ANTHROPIC_API_KEY instead",
    **dict.fromkeys(("update", "upgrade"), "pipx or uv upgrades it where they installed it; see --help"),
}
OWN_WORDS = ("help", "version")  # commands that have no module
USAGE_CODE = 2  # as of any command line that makes no sense
MIN_LIKENESS = 0.8  # of a misspelt subcommand
OF_THE_LIBRARY = ("argument ", "unrecognized ", "the following ")  # messages that do not tell what to do
UNKNOWN_WORDS = "unrecognized arguments: "  # as argparse begins what it says of them
HEADLESS_FLAGS = frozenset(("-p", "--print", "--input-format"))
CD_FLAGS = ("-C", "--cd")
_WANTS_RESULT = lazy_pattern(r"--(?:in|out)put-format[= ](?:stream-)?json\b")
# These are given command lines, whose options are not ours.
TAKE_COMMAND_LINES = ("mcp", "permissions")


class OneLineParser(argparse.ArgumentParser):
    """A parser that tells what is wrong in one line, without the usage; of a misspelt flag what was meant.

    A program that waits for the result of the command `line` gets one.
    """

    line: Sequence[str] = ()

    @property
    def actions_by_flag(self) -> dict[str, argparse.Action]:
        """Every spelling of every option, and what argparse does at it."""
        return {flag: action for action in self._actions for flag in action.option_strings}

    def error(self, message: str) -> NoReturn:
        wrong = message.removeprefix(UNKNOWN_WORDS)
        if wrong != message and (flag := wrong.split()[0].partition("=")[0]).startswith("-"):
            shown = (each for each in self._actions if each.help != argparse.SUPPRESS)
            flags = {name.lstrip("-"): name for each in shown for name in each.option_strings}
            near = get_close_matches(flag.lstrip("-"), flags, 1)  # the dashes are alike in all
            message = f"unrecognized option {flag}{f': did you mean {flags[near[0]]}?' if near else ''}"
        more = f" ({self.prog} --help lists the options)" if message.startswith(OF_THE_LIBRARY) else ""
        if _WANTS_RESULT.search(" ".join(self.line)):
            write_refusal(message)
        self.exit(USAGE_CODE, f"{self.prog}: {message}{more}\n")


def write_refusal(error: str, session: str = "") -> None:
    """The result of a run that could not begin, for the program that waits for it."""
    sys.stdout.write(f"{ui.json_line(ui.refused_result(error, session))}\n")


class Subcommand(NamedTuple):
    """A subcommand with its own words, to be run in `folder` ("": the current one)."""

    name: str
    words: list[str]
    folder: str = ""


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether the words of a subcommand, as far as they are its own, ask how it is used."""
    own = words[: words.index("--")] if "--" in words else words
    return words[:1] == ["help"] or not {"-h", "--help"}.isdisjoint(own)


def find_subcommand(made: OneLineParser, argv: Sequence[str], names: Collection[str]) -> Subcommand | None:
    """The subcommand that argv asks for; None where it is none: a prompt, or only options.

    Exits with code 2 where it cannot be meant as it stands.
    """
    at = _first_positional(made, argv)
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
        what = f"{before[0]} does not go with the command {name!r}; quote the words if they are a prompt"
        made.exit(USAGE_CODE, f"makeroom: {what}\n")
    if name not in TAKE_COMMAND_LINES:
        folder = _take_folder(after) or folder
    return Subcommand(name, words=after, folder=folder)


def _first_positional(made: OneLineParser, argv: Sequence[str]) -> int | None:
    """The place of the first word that is no option and no value of one; None without, or behind `--`."""
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
    """The value of the last -C among the words, which are then without it; "" for none."""
    folder = ""
    at = 0
    while at < len(words) and words[at] != "--":
        name, given, value = words[at].partition("=")
        if name in CD_FLAGS and (given or at + 1 < len(words)):
            folder = value if given else words[at + 1]
            del words[at : at + 1 + (not given)]
        else:
            at += 1
    return folder


def _refuse_foreign(made: argparse.ArgumentParser, words: Sequence[str], names: Collection[str]) -> None:
    """Exit with code 2 for what looks like a command, and is none here."""
    first = words[0]
    second = words[1] if len(words) > 1 else ""
    alone = not second or second.startswith("-")
    if not (alone or second in COMMAND_VERBS) or first in OWN_WORDS or any(map(str.isspace, first)):
        return
    ours = (*names, *OWN_WORDS)
    if near := [*_nearest(first, ours), *_nearest(first, FOREIGN_COMMANDS)]:
        hint = f"did you mean {near[0]!r}?" if near[0] in ours else ELSEWHERE.get(near[0], "see --help")
        prompt = f"as a prompt: makeroom -- {' '.join(words)}"
        made.exit(USAGE_CODE, f"makeroom: there is no command {first!r}: {hint} ({prompt})\n")


def _nearest(word: str, known: Collection[str]) -> list[str]:
    """Return the word that was probably meant: letters in another order first."""
    same_letters = [each for each in known if sorted(each) == sorted(word)]
    return [*same_letters, *get_close_matches(word, known, 1, MIN_LIKENESS)]
