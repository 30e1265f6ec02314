"""Parse and check the command line: argv -> Options. Reads no file and changes nothing.

Imports little, so that --help is quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any

from agent.app import EFFORT_CHOICES, OUTPUT_FORMATS, Options
from agent.permissions import MODES, SANDBOX_MODES, known_rules
from agent.version import __version__

from .client_flags import add_client_flags, joined_values, settle_client_flags
from .command_words import OneLineParser, Subcommand, find_subcommand, to_count, to_number

# Usage -> purpose, by name.
COMMAND_HELP = {
    "acp": "serve an editor over the Agent Client Protocol",
    "completion SHELL": "print a script that completes the command line in bash, zsh or fish",
    "import claude": "import rules and MCP servers from Claude Code",
    "mcp": "list, add and remove MCP servers",
    "permissions check": "show whether commands would be allowed",
    "recall WORDS": "search the sessions of this directory",
    "replay FILE...": "compare the cost of compaction policies on recorded sessions",
    "sessions": "list, show, search and export sessions",
    "verify [SESSION]": "check that a transcript reproduces the requests that were sent",
}
_COMMANDS = "\n".join(f"  makeroom {usage:<18}  {text}" for usage, text in COMMAND_HELP.items())
EXIT_CODES = f"""\
commands:
{_COMMANDS}

exit codes:
  0 success
  1 error of the agent or the API
  2 usage error
  3 --max-turns or --max-budget-usd reached
  4 the last tool call before the answer was denied
  5 no usable credentials
  6 invalid settings
  75 temporary failure, try again later
  130 interrupted
  141 standard output closed
  143 terminated
"""


@cache
def parser() -> OneLineParser:
    """Return the parser. The reference page of the command line is generated from its help."""
    made = OneLineParser(
        prog="makeroom",
        usage="makeroom [OPTIONS] [PROMPT]\n       makeroom [-C DIR] COMMAND ...",
        description="A coding agent in your terminal whose context never runs out.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("prompt", nargs="*", help="the first prompt; with -p, standard input is added to it")
    made.add_argument("-v", "-V", "--version", action="version", version=f"makeroom {__version__}")
    add = made.add_argument_group("running").add_argument
    add("-p", "--print", dest="headless", action="store_true", help="print the answer and exit")
    add("--output-format", choices=OUTPUT_FORMATS, default="text", help="output format of -p (default: text)")
    add("-m", "--model", help="use this model: an id, or opus, sonnet or haiku")
    add("--max-turns", type=to_count, metavar="N", help="stop after N requests")
    add("--max-budget-usd", type=_dollars, metavar="X", help="send no more requests once X dollars are spent")
    add("--policy", choices=("thrifty", "classic", "off"), help="compaction policy (default: thrifty)")
    add("--context-window", type=to_count, metavar="N", help="set the size of the context window to N tokens")
    add("--effort", choices=EFFORT_CHOICES, help="set how much the model thinks")
    add("--append-system-prompt", default="", metavar="TEXT", help="append TEXT to the system prompt")
    add("-C", "--cd", dest="folder", metavar="DIR", help="change to DIR first")
    purpose = "work in a git worktree of its own, on a branch of the same name; without NAME, in a new one"
    add("--worktree", nargs="?", const="", metavar="NAME", help=purpose)
    add("--offline", action="store_true", help="use the built-in rule-based demo model")
    add("--sample", action="store_true", help="create a sample project in ./makeroom-sample and work there")
    add("--plain", "--screen-reader", action="store_true", help="print plain lines instead of a live screen")
    add("--color", choices=("auto", "always", "never"), default="auto", help="use colours (default: auto)")
    disabled = "disable memory files, hooks, skills, agents and MCP servers"
    add("--safe-mode", action="store_true", help=disabled)
    add("--debug-file", metavar="FILE", help="write a debug log to FILE")
    add = made.add_argument_group("sessions").add_argument
    newest = "resume the newest session, or without -p the newest one that you typed in"
    add("-c", "--continue", dest="continue_", action="store_true", help=newest)
    resuming = "resume a session by id, name or file (of another agent too); without ID, choose one"
    add("-r", "--resume", nargs="?", const="", metavar="ID", help=resuming)
    forking = "with -c or -r: continue in a copy and leave the original unchanged"
    add("--fork-session", action="store_true", help=forking)
    add("--at", type=_fact_number, metavar="ID", help="with -c or -r: fork from this point (such as r57)")
    foreign = "with -c or -r: also continue a session that was not recorded on this machine, in a copy"
    add("--from-elsewhere", action="store_true", help=foreign)
    add("--no-session", "--no-session-persistence", action="store_true", help="do not keep a transcript")
    add = made.add_argument_group("permissions").add_argument
    add("--permission-mode", type=_mode, metavar="MODE", help=", ".join(MODES))
    add(
        "--dangerously-skip-permissions",
        "--yolo",
        dest="skip",
        action="store_true",
        help="same as --permission-mode bypassPermissions",
    )
    add("--sandbox", choices=SANDBOX_MODES, help="sandbox commands (default: auto)")
    for name, verb in (("allowed", "allow"), ("disallowed", "deny")):
        flags = (f"--{name}Tools", f"--{name}-tools")
        about = f"{verb} these calls, such as edit, bash(git *)"
        add(*flags, dest=f"{name}_tools", nargs="+", action="extend", default=[], metavar="RULE", help=about)
    add_client_flags(made)
    return made


def subcommand_of(argv: Sequence[str], names: Collection[str]) -> Subcommand | None:
    """Return the subcommand in argv, None if there is none. Raises SystemExit as `parse` does."""
    return find_subcommand(parser(), argv, names)


def parse(argv: Sequence[str]) -> Options:
    """Return the options in argv. Raises SystemExit (2, or 0 for --help and --version)."""
    made = parser()
    made.line = argv
    given = made.parse_args(joined_values(made, argv))
    for is_wrong, problem in _conflicts(given):
        if is_wrong:
            made.error(problem)
    values = vars(given)
    values["fork_session"] = given.fork_session or given.at is not None
    values["prompt"] = " ".join(values["prompt"])
    if values["permission_mode"] == "auto":
        values["permission_mode"] = "manual"
        values["remarks"] += ("--permission-mode auto is not supported; using manual",)
    values["permission_mode"] = "bypassPermissions" if values.pop("skip") else values["permission_mode"]
    for name in ("allowed_tools", "disallowed_tools"):
        values[name] = _rules(made, values, name)
    settle_client_flags(made, values)
    return Options(**values)


def _conflicts(given: argparse.Namespace) -> Iterator[tuple[bool, str]]:
    """Yield combinations of options that make no sense: whether the command line has it, and the error."""
    continues = given.continue_ or given.resume is not None
    copies = given.fork_session or given.at is not None
    skips = given.skip and given.permission_mode not in (None, "bypassPermissions")
    yield skips, "--dangerously-skip-permissions cannot be used with --permission-mode"
    yield given.continue_ and given.resume is not None, "--continue cannot be used with --resume"
    yield given.fork_session and not continues, "--fork-session requires --continue or --resume"
    yield given.at is not None and not continues, "--at requires --continue or --resume"
    yield given.from_elsewhere and not continues, "--from-elsewhere requires --continue or --resume"
    yield given.from_elsewhere and copies, "--from-elsewhere cannot be used with --fork-session or --at"
    yield given.no_session and continues, "--no-session cannot be used with --continue or --resume"
    yield given.worktree is not None and given.sample, "--worktree cannot be used with --sample"
    for flag, model in (("--model", given.model), ("--fallback-model", given.fallback_model)):
        yield given.offline and model is not None, f"--offline has one model and cannot be used with {flag}"
    is_for_client = given.headless or given.input_format != "text"
    yield given.output_format != "text" and not is_for_client, "--output-format requires -p"


def _rules(made: argparse.ArgumentParser, values: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return the rules among the words after a --…Tools flag. A last word that is not a rule is the prompt.

    Rules about unknown tools become remarks, because clients name the tools of other agents.
    """
    rules: list[str] = []
    words = values[name]
    for place, word in enumerate(words, 1):
        may_be_prompt = not values["prompt"] and place == len(words) and " " in word
        may_be_prompt = may_be_prompt and values["input_format"] == "text"
        try:
            found, unknown = known_rules(word, name == "disallowed_tools") if word.strip(", ") else ((), ())
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


def _fact_number(text: str) -> int:
    digits = text.removeprefix("r").partition(".")[0]
    if not digits.isdecimal() or int(digits) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an id such as r57")
    return int(digits)


def _dollars(text: str) -> float:
    number = to_number(text, text.removeprefix("$"))
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount above 0")
    return number


def _mode(text: str) -> str:
    mode = "manual" if text == "default" else text
    if mode not in (*MODES, "auto"):
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(MODES)}")
    return mode
