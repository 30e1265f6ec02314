"""`makeroom permissions check`: how command lines would be judged, without running any of them.

    permissions check [--wall on|off] [flags]

reads command lines from standard input and prints one JSON object for each: the command, the verdict
("allow", "ask" or "deny"), why, the rule that decided, and the rule that "always" would add (null where there
is none). A line that is a JSON string stands for a command with line ends. Flags are those of a session: -C
DIR, --permission-mode, --allowedTools, --disallowedTools, --yolo. Settings and stored rules count as in a
session; without `--wall on` a line is judged as where commands cannot be walled in.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from msgspec.structs import replace

from agent.app import permission_store
from agent.errors import UsageError
from agent.permissions import PermissionRules, Verdict, judge_call
from tools.access import command_access
from tools.base import ToolError
from tools.text import escaped

from .arguments import parse
from .command_words import OneLineParser, asks_for_help
from .launch import run_setup, with_errors_told

_TOOL = "bash"


def run_permissions(words: list[str]) -> int:
    """Run `permissions` with these words. Exit code 0, 2 for bad usage, 6 for invalid settings."""
    if not words or asks_for_help(words):
        sys.stdout.write(__doc__ or "")
        return 0
    if words[0] != "check":
        sys.stderr.write(f"makeroom: unknown: permissions {escaped(words[0])}; it is permissions check\n")
        return UsageError.code
    return with_errors_told(partial(check, words[1:], sys.stdin.buffer))


def check(words: list[str], lines: BinaryIO) -> int:
    """Judge each line and print the verdict. Raises UsageError and ConfigError."""
    made = OneLineParser(prog="makeroom permissions check", add_help=False, allow_abbrev=False)
    made.add_argument("--wall", choices=("on", "off"), default="off", dest="sandboxed")
    given, others = made.parse_known_args(words)
    options = parse(others)
    if options.prompt:
        raise UsageError(f"permissions check reads command lines from standard input, not {options.prompt!r}")
    setup = run_setup(options)
    for warning in setup.config.warnings:
        sys.stderr.write(f"{escaped(warning)}\n")
    sandbox = given.sandboxed == "on"
    required = setup.sandbox.mode == "require"
    rules = replace(permission_store(setup).rules, sandboxed=sandbox, sandbox_required=required)
    try:
        for command in _commands(lines):
            sys.stdout.write(json.dumps(_judged(command, rules)) + "\n")
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _commands(lines: BinaryIO) -> Iterator[str]:
    """The command of each line; bytes that are no UTF-8 stay what they are."""
    for line in lines:
        text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
        try:
            found = json.loads(text) if text.lstrip().startswith('"') else text
        except ValueError:
            found = text
        yield found if isinstance(found, str) else text


def _judged(command: str, rules: PermissionRules) -> dict[str, Any]:
    """The verdict on one command, as it is printed."""
    verdict = _verdict(command, rules)
    return {
        "command": command,
        "verdict": verdict.answer,
        "why": verdict.reason(rules.mode),
        "rule": None if verdict.rule is None else str(verdict.rule),
        "always": None if verdict.prefix is None else str(verdict.prefix),
    }


def _verdict(command: str, rules: PermissionRules) -> Verdict:
    if not command.strip():
        return Verdict("allow", "there is no command")
    try:
        access = command_access(command, rules.folder)
    except ToolError as error:
        return Verdict("deny", str(error).partition("\n")[0])
    return judge_call(_TOOL, [access], rules)
