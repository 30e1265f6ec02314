"""The flags for programs that run makeroom like Claude Code: SDKs, editors, wrappers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from agent.client_names import own_name
from tools import TOOL_NAMES
from transcripts.patterns import lazy_pattern

from .command_words import OneLineParser

SETTING_SOURCES = ("user", "project", "local")
# Flags without effect -> the number of values that each takes.
IGNORED_FLAGS: dict[str, int | str] = {
    "--task-budget": 1,
    "--include-hook-events": 0,
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
    """Record a remark that the flag has no effect."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        remarks = (*namespace.remarks, f"{option} has no effect in makeroom")
        namespace.remarks = tuple(dict.fromkeys(remarks))


def add_client_flags(made: argparse.ArgumentParser) -> None:
    """Add the flags for programs to a parser that has the flags for users."""
    add = made.add_argument_group("for programs that run makeroom").add_argument
    add(
        "--input-format",
        choices=("text", "stream-json"),
        default="text",
        help="format of standard input; stream-json: JSON lines",
    )
    add("--verbose", action="store_true", help="accepted without effect: stream-json is always verbose")
    add("--session-id", type=_uuid, metavar="UUID", help="use this id for the new session")
    add("--system-prompt", metavar="TEXT", help="replace the system prompt (tool rules are kept)")
    add("--system-prompt-file", metavar="FILE", help="replace the system prompt with the text of FILE")
    add("--append-system-prompt-file", metavar="FILE", help="append the text of FILE to the system prompt")
    offered = 'offer only these tools, such as Bash,Read; "default" offers the default ones, "" none'
    add("--tools", metavar="LIST", help=offered)
    add("--permission-prompt-tool", metavar="stdio", help="stdio: send permission requests to the client")
    add(
        "--allow-dangerously-skip-permissions",
        dest="may_bypass",
        action="store_true",
        help="allow the client to switch to bypassPermissions",
    )
    add("--fallback-model", metavar="MODEL", help="use MODEL while --model is overloaded")
    several: Any = {"nargs": "+", "action": "extend", "default": []}
    add("--add-dir", dest="add_dirs", metavar="DIR", help="also allow work in DIR", **several)
    load = "load the plugin in DIR, without approval"
    add("--plugin-dir", dest="plugin_dirs", metavar="DIR", action="append", default=[], help=load)
    add("--settings", metavar="FILE|JSON", help="load additional settings")
    add("--setting-sources", metavar="LIST", help='settings files to read: user,project,local; "" for none')
    add("--mcp-config", metavar="FILE|JSON", help="load MCP servers", **several)
    add("--strict-mcp-config", action="store_true", help="use only the MCP servers of --mcp-config")
    partial = "with stream-json: include the streaming events of the API"
    add("--include-partial-messages", dest="partial_messages", action="store_true", help=partial)
    add("--replay-user-messages", action="store_true", help="with stream-json: echo the user messages")
    add("--json-schema", metavar="JSON", help="answer with an object of this JSON Schema")
    add("--thinking", choices=("adaptive", "enabled", "disabled"), help="enable or disable thinking")
    add("--max-thinking-tokens", type=_tokens, metavar="N", help="0 disables thinking")
    shown = "include or omit summaries of the thinking"
    add("--thinking-display", choices=("summarized", "omitted"), help=shown)
    add("--agents", default="", metavar="JSON", help='define agents: {"NAME": {"description", "prompt"}}')
    add("--betas", metavar="LIST", help="enable these beta features of the API")
    for flag, count in IGNORED_FLAGS.items():
        more: Any = {"nargs": count} if count != 1 else {}
        add(flag, action=_Ignored, dest="remarks", default=(), help=argparse.SUPPRESS, **more)


def joined_values(made: OneLineParser, argv: Sequence[str]) -> list[str]:
    """Join each long flag that takes one value with its value, so that the value may begin with a dash."""
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
    """Check the parsed flags and convert them to values of Options. Exits with code 2 if they conflict."""
    streams = values["input_format"] == "stream-json"
    if streams and values["output_format"] != "stream-json":
        made.error("--input-format stream-json requires --output-format stream-json")
    values["headless"] = values["headless"] or streams
    if streams and values["prompt"]:
        made.error("--input-format stream-json reads prompts from standard input and takes no other prompt")
    asks = values.pop("permission_prompt_tool")
    if asks not in (None, "stdio"):
        made.error(f"--permission-prompt-tool supports only stdio, not {asks!r}")
    if asks and not streams:
        made.error("--permission-prompt-tool stdio requires --input-format stream-json")
    values["asks_client"] = bool(asks)
    continues = values["continue_"] or values["resume"] is not None
    if values["session_id"] and continues and not values["fork_session"]:
        made.error("--session-id with --continue or --resume requires --fork-session")
    if values["system_prompt"] is not None and values["system_prompt_file"] is not None:
        made.error("--system-prompt cannot be used with --system-prompt-file")
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
    values["plugin_dirs"] = tuple(values["plugin_dirs"])
    sources = values["setting_sources"]
    if sources is not None:
        values["setting_sources"] = _items(sources)
        if unknown := set(values["setting_sources"]) - set(SETTING_SOURCES):
            made.error(f"--setting-sources: {min(unknown)!r} is not one of {', '.join(SETTING_SOURCES)}")
    values["betas"] = _items(values["betas"] or "")
    if (tools := values["tools"]) is not None:
        names = _items(tools)
        offered = TOOL_NAMES
        own_names = tuple(name for name in map(own_name, names) if name in offered)
        values["tools"] = None if names == ("default",) else own_names
        unknown_names = [name for name in names if own_name(name) not in (*offered, "default")]
        if unknown_names:
            values["remarks"] += (f"--tools: unknown tool {', '.join(unknown_names)} (ignored)",)


def _is_prompt(word: str) -> bool:
    """Return whether the last word after a flag that takes paths looks like a prompt."""
    return " " in word and not word.lstrip().startswith(("/", ".", "~", "{"))


def _items(text: str) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"[,\s]+", text)))


def _uuid(text: str) -> str:
    if not _UUID.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a UUID")
    return text.lower()


def _tokens(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens")
    return int(text)
