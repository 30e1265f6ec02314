"""Parse and check the command line: argv -> Options. Reads no file and changes nothing.

Imports little, so that --help is quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from agent.app import EFFORTS, NO_EFFORT, OUTPUT_FORMATS, Options
from agent.permissions import MODES, SANDBOX_MODES, known_rules
from agent.version import __version__

from .client_flags import add_client_flags, joined_values, settle_client_flags
from .command_words import OneLineParser, Subcommand, find_subcommand

EXIT_CODES = """\
exit codes:
  0 success             1 agent or API error    2 usage error
  3 --max-turns or --max-budget-usd reached
  4 permission denied to the last call before the answer
  5 no usable credentials                       6 settings invalid
  75 try again later    130 interrupted         141 output closed
  143 terminated

other commands:
  makeroom mcp                 list, add and remove MCP servers
  makeroom permissions check   how command lines would be judged
  makeroom recall WORDS        search the sessions of this folder
  makeroom replay FILE...      what policies would cost on recorded sessions
  makeroom sessions            list, show, search and export sessions
  makeroom verify [SESSION]    check that a record gives what was sent
"""


@cache
def parser() -> OneLineParser:
    """The parser; its help is the reference that the README's table is checked against."""
    made = OneLineParser(
        prog="makeroom",
        usage="makeroom [options] [prompt]\n       makeroom [-C DIR] command ...",
        description="A coding agent in your terminal whose context never runs out.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("prompt", nargs="*", help="what to do; with -p also read from standard input")
    made.add_argument("-v", "-V", "--version", action="version", version=f"makeroom {__version__}")
    add = made.add_argument_group("running").add_argument
    add("-p", "--print", dest="headless", action="store_true", help="answer once and leave")
    add("--output-format", choices=OUTPUT_FORMATS, default="text", help="what -p prints")
    add("-m", "--model", help="a model id, or opus, sonnet, haiku")
    add("--max-turns", type=_count, metavar="N", help="stop after N requests")
    add("--max-budget-usd", type=_dollars, metavar="X", help="stop before a request when X dollars are spent")
    add("--policy", choices=("thrifty", "classic", "off"), help="how room is made (default: thrifty)")
    add("--context-window", type=_count, metavar="N", help="take the window to be N tokens")
    add("--effort", choices=(NO_EFFORT, *EFFORTS), help="how hard to think")
    add("--append-system-prompt", default="", metavar="TEXT", help="more for the system prompt")
    add("-C", "--cd", dest="folder", metavar="DIR", help="work in DIR")
    add("--offline", action="store_true", help="use the built-in rule-based demo model")
    add("--sample", action="store_true", help="work in a small project made to try it on: ./makeroom-sample")
    add("--plain", "--screen-reader", action="store_true", help="plain lines, no live screen")
    add("--color", choices=("auto", "always", "never"), default="auto", help="colours")
    add("--safe-mode", action="store_true", help="no memory files, hooks, skills, agents, MCP servers")
    add("--debug-file", metavar="FILE", help="write a debug log to FILE")
    add = made.add_argument_group("sessions").add_argument
    add("-c", "--continue", dest="continue_", action="store_true", help="go on with the newest")
    resuming = "go on with a session: its id, its name, or a file (also of another agent); bare: choose one"
    add("-r", "--resume", nargs="?", const="", metavar="ID", help=resuming)
    forking = "with -c or -r: go on in a copy, the old one stays as it is"
    add("--fork-session", action="store_true", help=forking)
    add("--at", type=_fact_number, metavar="ID", help="with -c or -r: go on in a copy from there (r57)")
    add("--no-session", "--no-session-persistence", action="store_true", help="keep no record")
    add = made.add_argument_group("permissions").add_argument
    add("--permission-mode", type=_mode, metavar="MODE", help=", ".join(MODES))
    add(
        "--dangerously-skip-permissions", "--yolo", dest="skip", action="store_true", help="bypassPermissions"
    )
    add("--sandbox", choices=SANDBOX_MODES, help="wall commands in (default: auto)")
    for name, verb in (("allowed", "allow"), ("disallowed", "deny")):
        flags = (f"--{name}Tools", f"--{name}-tools")
        told = f"{verb}: edit, bash(git *)"
        add(*flags, dest=f"{name}_tools", nargs="+", action="extend", default=[], metavar="RULE", help=told)
    add_client_flags(made)
    return made


def subcommand_of(argv: Sequence[str], names: Collection[str]) -> Subcommand | None:
    """The subcommand that argv asks for, None where it is none. Raises SystemExit as `parse` does."""
    return find_subcommand(parser(), argv, names)


def parse(argv: Sequence[str]) -> Options:
    """The options that argv asks for. Raises SystemExit (2, or 0 for --help and --version)."""
    made = parser()
    made.line = argv
    given = made.parse_args(joined_values(made, argv))
    continues = given.continue_ or given.resume is not None
    if given.skip and given.permission_mode not in (None, "bypassPermissions"):
        made.error("--dangerously-skip-permissions contradicts --permission-mode; give one of them")
    if given.continue_ and given.resume is not None:
        made.error("give either --continue or --resume, not both")
    if given.fork_session and not continues:
        made.error("--fork-session goes with --continue or --resume: which session is to be copied?")
    if given.at is not None and not continues:
        made.error("--at goes with --continue or --resume: at a moment of which session?")
    if given.no_session and continues:
        made.error("--no-session keeps no record, so there is nothing to continue")
    if given.output_format != "text" and not given.headless and given.input_format == "text":
        made.error("--output-format goes with -p")
    values = vars(given)
    values["fork_session"] = given.fork_session or given.at is not None
    values["prompt"] = " ".join(values["prompt"])
    if values["permission_mode"] == "auto":
        values["permission_mode"] = "manual"
        values["remarks"] += ("--permission-mode auto is not known here: the mode is default",)
    values["permission_mode"] = "bypassPermissions" if values.pop("skip") else values["permission_mode"]
    for name in ("allowed_tools", "disallowed_tools"):
        values[name] = _rules(made, values, values[name])
    settle_client_flags(made, values)
    return Options(**values)


def _rules(made: argparse.ArgumentParser, values: dict[str, Any], words: list[str]) -> tuple[str, ...]:
    """The rules among the words after a --…Tools flag; a last one that is no rule is the prompt.

    Rules about tools that there are not here become remarks: clients name the tools of other agents.
    """
    rules: list[str] = []
    for place, word in enumerate(words, 1):
        may_be_prompt = not values["prompt"] and place == len(words) and " " in word
        may_be_prompt = may_be_prompt and values["input_format"] == "text"
        try:
            found, unknown = known_rules(word) if word.strip(", ") else ((), ())
        except ValueError as error:
            if not may_be_prompt:
                made.error(str(error))
            values["prompt"] = word
            continue
        if unknown and not found and may_be_prompt:
            values["prompt"] = word
            continue
        rules += map(str, found)
        values["remarks"] += unknown
    return tuple(rules)


def _number(text: str, digits: str) -> float:
    try:
        return float(digits)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def _count(text: str) -> int:
    number = _number(text, text.replace("_", ""))
    if number != int(number) or number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(number)


def _fact_number(text: str) -> int:
    digits = text.removeprefix("r").partition(".")[0]
    if not digits.isdecimal() or int(digits) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no recall id such as r57")
    return int(digits)


def _dollars(text: str) -> float:
    number = _number(text, text.removeprefix("$"))
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no amount above 0")
    return number


def _mode(text: str) -> str:
    mode = "manual" if text == "default" else text
    if mode not in (*MODES, "auto"):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(MODES)}")
    return mode
