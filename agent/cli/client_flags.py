"""The flags of programs that run makeroom as they would run Claude Code: SDKs, editors, wrappers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from agent.formatting import own_name
from tools import BUILTIN, CONDITIONAL
from transcripts.patterns import lazy_pattern

from .command_words import OneLineParser

SETTING_SOURCES = ("user", "project", "local")
# Flags that change nothing here; the number of values that each takes.
IGNORED_FLAGS: dict[str, int | str] = {
    "--task-budget": 1,
    "--include-hook-events": 0,
    "--plugin-dir": 1,
    "--debug": "?",
    "-d": "?",
    "--debug-to-stderr": 0,
    "--mcp-debug": 0,
    "--bare": 0,
    "--name": 1,
    "--channels": 1,
}
_UUID = lazy_pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class _Ignored(argparse.Action):
    """Keeps a remark that the flag has no effect."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        remarks = (*namespace.remarks, f"{option} has no effect here")
        namespace.remarks = tuple(dict.fromkeys(remarks))


def add_client_flags(made: argparse.ArgumentParser) -> None:
    """Add the flags to a parser that has those for people already."""
    add = made.add_argument_group("for programs that run makeroom").add_argument
    add("--input-format", choices=("text", "stream-json"), default="text", help="stream-json: JSON lines")
    add("--verbose", action="store_true", help="no effect: stream-json tells everything anyway")
    add("--session-id", type=_uuid, metavar="UUID", help="the id of a new session")
    add("--system-prompt", metavar="TEXT", help="in place of ours; what tools promise stays")
    add("--system-prompt-file", metavar="FILE", help="the same, from a file")
    add("--append-system-prompt-file", metavar="FILE", help="more for the system prompt, from a file")
    add("--tools", metavar="LIST", help='the tools to offer: Bash,Read or default; "" for none')
    add("--permission-prompt-tool", metavar="stdio", help="stdio: the client answers permission questions")
    add(
        "--allow-dangerously-skip-permissions",
        dest="may_bypass",
        action="store_true",
        help="permit a later switch to bypassPermissions",
    )
    add("--fallback-model", metavar="MODEL", help="where --model stays overloaded")
    several: Any = {"nargs": "+", "action": "extend", "default": []}
    add("--add-dir", dest="add_dirs", metavar="DIR", help="work in DIR as well", **several)
    add("--settings", metavar="FILE|JSON", help="more settings")
    add("--setting-sources", metavar="LIST", help='files to read: user,project,local; "" for none')
    add("--mcp-config", metavar="FILE|JSON", help="MCP servers", **several)
    add("--strict-mcp-config", action="store_true", help="no MCP servers but those of --mcp-config")
    partial = "with stream-json: the events of the API as they come"
    add("--include-partial-messages", dest="partial_messages", action="store_true", help=partial)
    add("--replay-user-messages", action="store_true", help="with stream-json: repeat what came in")
    add("--json-schema", metavar="JSON", help="the answer is an object of this JSON Schema")
    add("--thinking", choices=("adaptive", "enabled", "disabled"), help="whether the model thinks first")
    add("--max-thinking-tokens", type=_tokens, metavar="N", help="0: no thinking")
    shown = "whether replies come with a summary of their thinking"
    add("--thinking-display", choices=("summarized", "omitted"), help=shown)
    add("--agents", default="", metavar="JSON", help='define agents: {"NAME": {"description", "prompt"}}')
    add("--betas", metavar="LIST", help="names of beta features for the API")
    for flag, count in IGNORED_FLAGS.items():
        more: Any = {"nargs": count} if count != 1 else {}
        add(flag, action=_Ignored, dest="remarks", default=(), help=argparse.SUPPRESS, **more)


def joined_values(made: OneLineParser, argv: Sequence[str]) -> list[str]:
    """argv with each long flag that takes one value in one word with it, so that it may begin with a dash."""
    flags = made.actions_by_flag
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*words, word, *rest]
        action = flags.get(word)
        takes_one = action is not None and action.nargs is None and word.startswith("--")
        if takes_one and rest and rest[0] not in flags and rest[0] != "--":
            word = f"{word}={rest.pop(0)}"
        words.append(word)
    return words


def settle_client_flags(made: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    """Check the parsed flags against each other and turn them into values of Options. Exits with code 2."""
    streams = values["input_format"] == "stream-json"
    if streams and values["output_format"] != "stream-json":
        made.error("--input-format stream-json goes with --output-format stream-json")
    values["headless"] = values["headless"] or streams
    if streams and values["prompt"]:
        made.error("with --input-format stream-json the prompts come from standard input")
    asks = values.pop("permission_prompt_tool")
    if asks not in (None, "stdio"):
        made.error(f"--permission-prompt-tool {asks}: only stdio is supported")
    if asks and not streams:
        made.error("--permission-prompt-tool stdio goes with --input-format stream-json")
    values["asks_client"] = bool(asks)
    continues = values["continue_"] or values["resume"] is not None
    if values["session_id"] and continues and not values["fork_session"]:
        made.error("--session-id with --continue or --resume goes with --fork-session")
    if values["system_prompt"] is not None and values["system_prompt_file"] is not None:
        made.error("give either --system-prompt or --system-prompt-file, not both")
    _settle_thinking(values)
    _settle_lists(made, values, streams)
    values.pop("verbose")


def _settle_thinking(values: dict[str, Any]) -> None:
    budget = values.pop("max_thinking_tokens")
    thinking = values["thinking"]
    if thinking is not None:
        values["thinking"] = thinking != "disabled"
    elif budget is not None:
        values["thinking"] = budget > 0


def _settle_lists(made: argparse.ArgumentParser, values: dict[str, Any], streams: bool) -> None:
    for name in ("add_dirs", "mcp_config"):
        if not (values["prompt"] or streams) and len(values[name]) > 1 and _is_prompt(values[name][-1]):
            values["prompt"] = values[name].pop()
        values[name] = tuple(values[name])
    sources = values["setting_sources"]
    if sources is not None:
        values["setting_sources"] = _items(sources)
        if unknown := set(values["setting_sources"]) - set(SETTING_SOURCES):
            made.error(f"--setting-sources: {min(unknown)!r} is none of {', '.join(SETTING_SOURCES)}")
    values["betas"] = _items(values["betas"] or "")
    if (tools := values["tools"]) is not None:
        names = _items(tools)
        offered = (*BUILTIN, *CONDITIONAL)
        known = tuple(name for name in map(own_name, names) if name in offered)
        values["tools"] = None if names == ("default",) else known
        unknown_names = [name for name in names if own_name(name) not in (*offered, "default")]
        if unknown_names:
            values["remarks"] += (f"--tools: there is no tool {', '.join(unknown_names)} here",)


def _is_prompt(word: str) -> bool:
    """Return whether the last word behind a flag that takes paths looks like words to the model instead."""
    return " " in word and not word.lstrip().startswith(("/", ".", "~", "{"))


def _items(text: str) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"[,\s]+", text)))


def _uuid(text: str) -> str:
    if not _UUID.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no UUID")
    return text.lower()


def _tokens(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tokens")
    return int(text)
