"""Parse and check the command line: argv -> Options. Reads no file and changes nothing.

Imports little, so that --help is quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from agent.app.options import OUTPUT_FORMATS, Options
from agent.permissions.modes import MODES
from agent.version import __version__

POLICIES = ("thrifty", "classic", "off")
EXIT_CODES = """\
exit codes:
  0 success             1 agent or API error    2 usage error
  3 --max-turns or --max-budget-usd reached     4 permission denied
  5 no usable credentials                       6 settings invalid
  75 try again later    130 interrupted         141 output closed
  143 terminated

other commands:
  makeroom replay FILE...      what a compaction policy would cost on recorded sessions
  makeroom sessions            list, show, search and export sessions
"""


def main(words: Sequence[str]) -> int:
    """Run the program with these words; returns the exit code. Raises SystemExit as `parse`."""
    options = parse(words)
    from .launch import run  # 120 ms that --help and a mistyped flag save

    return run(options)


def parser() -> argparse.ArgumentParser:
    """The parser; its help is the reference that the README's table is checked against."""
    made = argparse.ArgumentParser(
        prog="makeroom",
        description="A coding agent in your terminal whose context never runs out.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("prompt", nargs="*", help="what to do; with -p also read from standard input")
    made.add_argument("-v", "--version", action="version", version=f"makeroom {__version__}")
    _add_run(made.add_argument_group("running"))
    _add_session(made.add_argument_group("sessions"))
    _add_rights(made.add_argument_group("permissions"))
    return made


def _add_run(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-p", "--print", dest="headless", action="store_true", help="answer once and leave")
    group.add_argument("--output-format", choices=OUTPUT_FORMATS, default="text", help="what -p prints")
    group.add_argument("-m", "--model", help="a model id, or opus, sonnet, haiku")
    group.add_argument("--max-turns", type=_count, metavar="N", help="stop after N requests")
    group.add_argument(
        "--max-budget-usd", type=_dollars, metavar="X", help="stop before a request when X dollars are spent"
    )
    group.add_argument("--policy", choices=POLICIES, help="how room is made (default: thrifty)")
    group.add_argument("--context-window", type=_count, metavar="N", help="take the window to be N tokens")
    group.add_argument(
        "--effort", choices=("low", "medium", "high", "xhigh", "max"), help="how hard to think"
    )
    group.add_argument(
        "--append-system-prompt", default="", metavar="TEXT", help="more for the system prompt"
    )
    group.add_argument("-C", "--cd", dest="folder", metavar="DIR", help="work in DIR")
    group.add_argument("--offline", action="store_true", help="use the built-in rule-based demo model")
    group.add_argument("--plain", "--screen-reader", action="store_true", help="plain lines, no live screen")
    group.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colours")
    group.add_argument("--debug-file", metavar="FILE", help="write a debug log to FILE")


def _add_session(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-c", "--continue", dest="continue_", action="store_true", help="go on with the newest"
    )
    group.add_argument(
        "-r",
        "--resume",
        nargs="?",
        const="",
        metavar="ID",
        help="go on with a session: its id, its name, or a file (also of another agent); bare: choose one",
    )
    group.add_argument(
        "--fork-session",
        action="store_true",
        help="with -c or -r: go on in a copy, the old one stays as it is",
    )
    group.add_argument("--no-session", action="store_true", help="keep no record")


def _add_rights(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--permission-mode", type=_mode, metavar="MODE", help=", ".join(MODES))
    group.add_argument(
        "--dangerously-skip-permissions", "--yolo", dest="skip", action="store_true", help="bypassPermissions"
    )
    for name, verb in (("allowed", "allow"), ("disallowed", "deny")):
        flags = (f"--{name}Tools", f"--{name}-tools")
        group.add_argument(
            *flags,
            dest=f"{name}_tools",
            nargs="+",
            default=[],
            metavar="RULE",
            help=f"{verb}: edit, bash(git *)",
        )


def parse(argv: Sequence[str]) -> Options:
    """The options that argv asks for. Raises SystemExit (2, or 0 for --help and --version)."""
    made = parser()
    given = made.parse_args(argv)
    if given.skip and given.permission_mode not in (None, "bypassPermissions"):
        made.error("--dangerously-skip-permissions contradicts --permission-mode; give one of them")
    if given.continue_ and given.resume is not None:
        made.error("give either --continue or --resume, not both")
    if given.fork_session and not given.continue_ and given.resume is None:
        made.error("--fork-session goes with --continue or --resume: which session is to be copied?")
    if given.no_session and (given.continue_ or given.resume is not None):
        made.error("--no-session keeps no record, so there is nothing to continue")
    if given.output_format != "text" and not given.headless:
        made.error("--output-format goes with -p")
    values = vars(given)
    values["prompt"] = " ".join(values["prompt"])
    values["permission_mode"] = "bypassPermissions" if values.pop("skip") else values["permission_mode"]
    for name in ("allowed_tools", "disallowed_tools"):
        values[name] = _rules(made, values, values[name])
    return Options(**values)


def _rules(made: argparse.ArgumentParser, values: dict[str, Any], words: list[str]) -> tuple[str, ...]:
    """The rules among the words after a --…Tools flag; a last one that is no rule is the prompt."""
    if not words:
        return ()
    from agent.permissions.rules import parse_rules  # 20 ms that --help saves

    if not values["prompt"] and " " in words[-1] and not _is_rule(parse_rules, words[-1]):
        values["prompt"] = words.pop()
    try:
        return tuple(str(rule) for word in words for rule in parse_rules(word))
    except ValueError as error:
        made.error(str(error))


def _is_rule(parse_rules: Callable[[str], object], word: str) -> bool:
    try:
        parse_rules(word)
    except ValueError:
        return False
    return True


def _count(text: str) -> int:
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if number != int(number) or number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(number)


def _dollars(text: str) -> float:
    try:
        number = float(text.removeprefix("$"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no amount above 0")
    return number


def _mode(text: str) -> str:
    mode = "manual" if text == "default" else text
    if mode not in MODES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(MODES)}")
    return mode
