"""`makeroom permissions check`: show whether command lines would be allowed, without running them.

    permissions check [--sandboxed on|off] [OPTIONS] [COMMAND]

Prints a JSON object: the command, the verdict ("allow", "ask" or "deny"), the reason, the rule that decided,
the rule that "always allow" would add (null if there is none), and whether a sandbox is assumed (sessions
usually have one). Without COMMAND, reads command lines from standard input and prints an object for each. A
line that is a JSON string is a command that may contain line breaks. COMMAND is one quoted word, or all that
follows the options.

    --sandboxed on|off           judge the lines with or without a sandbox (default: off)
    OPTIONS                      options of a session: -C DIR, --permission-mode, --allowedTools,
                                 --disallowedTools, --yolo

Settings and stored rules apply as in a session.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from msgspec.structs import replace

from agent.app import permission_store
from agent.permissions import PermissionRules, Verdict, barred_paths, barring_globs, judge_call
from tools.access import command_access
from tools.base import ToolError
from tools.guarded import search_of_project
from tools.text import escaped

from .arguments import parse, parser
from .command_words import OneLineParser, asks_for_help, first_positional
from .launch import run_setup, with_errors_reported
from .printing import complain, print_text

_SANDBOXED = ("--sandboxed", "--wall")


def run_permissions(words: list[str]) -> int:
    """Run `permissions` with these words. Returns 0, 2 for a usage error, 6 for invalid settings."""
    words = [*words[:1], *_with_command_apart(words[1:])]
    if not words or asks_for_help(words):
        return print_text(__doc__ or "")
    if words[0] != "check":
        return complain(f"unknown command 'permissions {words[0]}'; use permissions check")
    return with_errors_reported(partial(check, words[1:], sys.stdin.buffer))


def check(words: list[str], lines: BinaryIO) -> int:
    """Print the verdict on each line. Raises UsageError and ConfigError."""
    made = OneLineParser(prog="makeroom permissions check", add_help=False, allow_abbrev=False)
    made.add_argument(*_SANDBOXED, choices=("on", "off"), default="off")
    given, others = made.parse_known_args(words)
    options = parse(others)
    setup = run_setup(options)
    for warning in setup.config.warnings:
        sys.stderr.write(f"{escaped(warning)}\n")
    sandbox = given.sandboxed == "on"
    required = setup.sandbox.mode == "require"
    rules = replace(permission_store(setup).rules, sandboxed=sandbox, sandbox_required=required)
    rules = _with_withheld_files(rules)
    for command in [options.prompt] if options.prompt else _commands(lines):
        print_text(json.dumps(_judged(command, rules)), raw=True)
    return 0


def _with_command_apart(words: list[str]) -> list[str]:
    """Return the words with those of the command as one after `--`, since they may look like options."""
    made = OneLineParser(parents=[parser()], add_help=False)
    made.add_argument(*_SANDBOXED)
    at = first_positional(made, words)
    if at is None or not words[at + 1 :]:
        return words
    return [*words[:at], "--", shlex.join(words[at:])]


def _with_withheld_files(rules: PermissionRules) -> PermissionRules:
    """Return the rules with the files that they withhold, which a sandbox is assumed to hide."""
    globs = barring_globs(rules)
    search = search_of_project(rules.folder)
    if globs:
        search.look_for(globs)
        search.find()
    barred = barred_paths(rules, search.matching(globs))
    return replace(rules, withheld=barred.withheld, hides_files=rules.sandboxed, real_path=os.path.realpath)


def _commands(lines: BinaryIO) -> Iterator[str]:
    """Yield the command of each line; bytes that are not UTF-8 are kept."""
    for line in lines:
        text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
        try:
            found = json.loads(text) if text.lstrip().startswith('"') else text
        except ValueError:
            found = text
        yield found if isinstance(found, str) else text


def _judged(command: str, rules: PermissionRules) -> dict[str, Any]:
    """Return the verdict on one command as the object to print."""
    verdict = _verdict(command, rules)
    return {
        "command": command,
        "verdict": verdict.answer,
        "why": verdict.reason(rules.mode),
        "rule": None if verdict.rule is None else str(verdict.rule),
        "always": None if verdict.prefix is None else str(verdict.prefix),
        "sandboxed": rules.sandboxed,
    }


def _verdict(command: str, rules: PermissionRules) -> Verdict:
    if not command.strip():
        return Verdict("allow", "the line is empty")
    try:
        access = command_access(command, rules.folder)
    except ToolError as error:
        return Verdict("deny", str(error).partition("\n")[0])
    return judge_call("bash", [access], rules)
