"""`makeroom mcp`: list, add and remove MCP servers.

    mcp list                     every configured server; connects to each (exit code 1 if one fails)
    mcp get NAME                 what is configured about one
    mcp add NAME URL             a server that is reached by http
    mcp add NAME -- COMMAND ...  a server that is a program
    mcp add-json NAME JSON       a server by its entry, as it would stand in .mcp.json
    mcp remove NAME              remove one
    mcp import                   take over the servers that Claude Code has in ~/.claude.json
    mcp login NAME               log in to a server that is reached by http (OAuth, in your browser)
    mcp logout NAME              forget that login

    -s local|project|user        .makeroom/mcp.local.json (the default), .mcp.json, your settings folder
    -t stdio|http|sse            how it is reached, where that does not follow from the rest
    -e KEY=VALUE                 a variable of the program's environment
    -H "NAME: VALUE"             a header of requests to the URL

A value may name a variable of yours: ${TOKEN}, or ${PORT:-80} with a default.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent.app.setup import RunSetup
from agent.errors import UsageError
from agent.extensions import Approvals
from agent.extensions.mcp.entries import Scope, ServerEntry, ServerKind, read_entry
from agent.extensions.mcp.oauth import log_in, open_browser, token_file
from agent.extensions.mcp.remote import MISSING_LIBRARY
from agent.extensions.mcp.scopes import (
    ConfiguredServers,
    McpPlaces,
    configured_entries,
    read_json,
    servers_of_claude,
    store_entry,
)
from agent.extensions.mcp.server import McpServer, ServerState
from agent.extensions.mcp.session import ServerFailed
from agent.extensions.mcp.source import NOT_APPROVED, McpServers, McpSetup, safe_item
from agent.extensions.mcp.stdio import find_program, no_program
from tools.files.text_encoding import pluralize
from tools.truncate import escaped

from .arguments import parse
from .command_words import OneLineParser, asks_for_help
from .launch import run_setup, with_errors_told
from .recall_command import print_text

WRITTEN_SCOPES: tuple[Scope, ...] = ("local", "project", "user")
_IGNORED_LOCAL = "mcp.local.json\n.gitignore\n"  # this file too: nothing of it is for others


def main(words: list[str]) -> int:
    """Run `mcp` with these words. Exit code 0, 1 where a server fails or there is none, 2 for bad usage."""
    if not words or asks_for_help(words):
        return print_text(__doc__ or "")
    if words[0] not in MCP_ACTIONS:
        sys.stderr.write(
            f"makeroom: unknown: mcp {escaped(words[0])}; it is one of {', '.join(MCP_ACTIONS)}\n"
        )
        return UsageError.code
    return with_errors_told(partial(_act, words[0], words[1:]))


def _act(action: str, words: list[str]) -> int:
    given = _parsed(action, words)
    return MCP_ACTIONS[action](run_setup(parse([])), given)


def _parsed(action: str, words: list[str]) -> argparse.Namespace:
    """The words after an action; behind `--` stands a command line as it is."""
    at = words.index("--") if "--" in words else len(words)
    made = OneLineParser(prog=f"makeroom mcp {action}", add_help=False, allow_abbrev=False)
    if action not in ("list", "import"):
        made.add_argument("name")
        made.add_argument("-s", "--scope", choices=WRITTEN_SCOPES)
    if action == "add-json":
        made.add_argument("json")
    if action == "add":
        made.add_argument("-t", "--transport", choices=("stdio", "http", "sse"))
        made.add_argument("-e", "--env", action="append", default=[])
        made.add_argument("-H", "--header", action="append", default=[])
        made.add_argument("target", nargs="*")
    given = made.parse_intermixed_args(words[:at])
    if words[at + 1 :] and action != "add":
        raise UsageError(f"mcp {action} takes no command line")
    given.command = words[at + 1 :]
    return given


def places_of(setup: RunSetup) -> McpPlaces:
    """Where the servers of a run are configured."""
    return McpPlaces(setup.folder, setup.config.user_dir)


def approvals_of(setup: RunSetup) -> Approvals:
    """The decisions about what the project brings."""
    return Approvals(setup.config.state_dir / "approvals.json", setup.folder)


def list_servers(setup: RunSetup, given: argparse.Namespace) -> int:
    """Connect to every server, and tell how that went."""
    found = configured_entries(places_of(setup), setup.environ)
    if not found.entries and not found.warnings:
        return print_text("no MCP servers are configured; makeroom mcp add NAME -- COMMAND adds one")
    states = asyncio.run(_tried_servers(setup))
    print_text("\n".join((*(line for line, _ in states), *found.warnings)))
    return 1 if found.warnings or any(state in ("failed", "needs-auth") for _, state in states) else 0


async def _tried_servers(setup: RunSetup) -> list[tuple[str, ServerState]]:
    """A line about each server and its state, after a try to connect it; all are ended again."""
    approvals = approvals_of(setup)
    source = McpServers(McpSetup(places_of(setup), setup.config.state_dir, approvals.allows))
    try:
        await source.open(setup.folder, setup.environ)
        await asyncio.gather(*(server.begin() for server in source.servers if server.enabled))
        return [(_line(server), server.state) for server in source.servers]
    finally:
        await source.close()


def _line(server: McpServer) -> str:
    tools = pluralize(len(server.offer.tools), "tool")
    how = f"failed: {server.failure}" if server.failure else f"connected, {tools}"
    how = f"off: {NOT_APPROVED}" if server.failure == NOT_APPROVED else how
    return f"{server.entry.name}: {server.entry.shows} ({server.entry.scope}): {how}"


def show_server(setup: RunSetup, given: argparse.Namespace) -> int:
    """What is configured about one server; values of variables and headers are not shown."""
    entry = _known(configured_entries(places_of(setup), setup.environ), given.name)
    lines = [
        f"{entry.name}: {entry.kind}, {entry.shows}",
        f"  scope: {entry.scope} ({places_of(setup).path(entry.scope)})",
    ]
    named = {"variables": entry.raw.get("env"), "headers": entry.raw.get("headers")}
    lines += [
        f"  {what}: {', '.join(found)}" for what, found in named.items() if isinstance(found, dict) and found
    ]
    if entry.timeout_s:
        lines.append(f"  time limit of a call: {entry.timeout_s:g} s")
    if entry.always_load:
        lines.append("  its tools are offered to the model directly (alwaysLoad)")
    lines += [f"  problem: {entry.problem}"] if entry.problem else []
    return print_text("\n".join(lines))


def _known(found: ConfiguredServers, name: str) -> ServerEntry:
    entry = found.named(name)
    if entry is None:
        names = ", ".join(each.name for each in found.entries) or "none"
        raise UsageError(f"there is no MCP server {name!r}; configured are: {names}")
    return entry


def add_written(setup: RunSetup, given: argparse.Namespace) -> int:
    """Add a server by its entry."""
    try:
        raw = json.loads(given.json)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{given.name}: the entry is no JSON: {error}") from error
    if not isinstance(raw, dict):
        raise UsageError(f'{given.name}: an entry has the form {{"command": ..., "args": [...]}}')
    return _add(setup, given, raw)


def add_server(setup: RunSetup, given: argparse.Namespace) -> int:
    """Add a server; what a person adds is approved."""
    return _add(setup, given, _entry(given))


def _add(setup: RunSetup, given: argparse.Namespace, raw: Mapping[str, Any]) -> int:
    scope: Scope = given.scope or "local"
    made = read_entry(given.name, raw, scope, setup.environ)
    if made.problem and "needs the variable" not in made.problem:
        raise UsageError(f"{given.name}: {made.problem}")
    path = places_of(setup).path(scope)
    try:
        replaced = _store(setup, scope, given.name, raw)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    print_text(f"{'replaced' if replaced else 'added'} {given.name} ({made.kind}) in {path}")
    if missing := made.problem or _missing(made, setup):
        sys.stderr.write(f"makeroom: {given.name} cannot start yet: {escaped(missing)}\n")
    return 0


def _missing(entry: ServerEntry, setup: RunSetup) -> str:
    """What a server that was added lacks: it may be installed later, so that the entry stays."""
    if entry.kind == "stdio":
        found = find_program(entry, setup.environ, setup.folder)
        return f"{no_program(entry)}; install it or correct the command" if found is None else ""
    return MISSING_LIBRARY if find_spec("mcp") is None else ""


def _store(setup: RunSetup, scope: Scope, name: str, raw: Mapping[str, Any]) -> bool:
    """Put an entry into the file of a scope, approved; whether it took another's place. Raises OSError."""
    path = places_of(setup).path(scope)
    replaced = store_entry(path, name, raw)
    if scope == "local":
        with suppress(FileExistsError), (path.parent / ".gitignore").open("x") as file:
            file.write(_IGNORED_LOCAL)
    if scope != "user":
        approvals_of(setup).record([safe_item(name, raw)], True)
    return replaced


def _entry(given: argparse.Namespace) -> dict[str, Any]:
    """The entry that was asked for. Raises UsageError."""
    command = [*given.target, *given.command] if given.command or len(given.target) > 1 else []
    is_url = not command and bool(given.target) and given.target[0].startswith(("http://", "https://"))
    kind: ServerKind = given.transport or ("http" if is_url else "stdio")
    if kind == "stdio":
        line = command or given.target
        if not line:
            raise UsageError("mcp add NAME URL, or mcp add NAME -- COMMAND ARGUMENTS")
        if given.header:
            raise UsageError("-H goes with a URL; a program takes variables, by -e")
        env = {"env": _pairs(given.env, "=")} if given.env else {}
        return {"command": line[0], "args": line[1:], **env}
    if len(given.target) != 1 or given.command:
        raise UsageError(f"mcp add -t {kind} NAME URL")
    if given.env:
        raise UsageError("-e goes with a program; a URL takes headers, by -H")
    headers = {"headers": _pairs(given.header, ":")} if given.header else {}
    return {"type": kind, "url": given.target[0], **headers}


def _pairs(texts: Sequence[str], sign: str) -> Mapping[str, str]:
    found = [text.partition(sign) for text in texts]
    if wrong := next(
        (text for text, split in zip(texts, found, strict=True) if not split[0] or not split[1]), None
    ):
        raise UsageError(f"{wrong.partition('=')[0]!r}: it has the form KEY{sign}VALUE")
    return {name.strip(): value.strip() if sign == ":" else value for name, _, value in found}


def remove_server(setup: RunSetup, given: argparse.Namespace) -> int:
    """Remove a server from the file that has it."""
    places = places_of(setup)
    scopes = [given.scope] if given.scope else [s for s in WRITTEN_SCOPES if _has(places, s, given.name)]
    if len(scopes) > 1:
        raise UsageError(f"{given.name} is configured in {' and '.join(scopes)}; name one with -s")
    try:
        if scopes and store_entry(places.path(scopes[0]), given.name, None):
            return print_text(f"removed {given.name} from {places.path(scopes[0])}")
    except OSError as error:
        raise UsageError(f"{places.path(scopes[0])}: {error.strerror}") from error
    entry = _known(configured_entries(places, setup.environ), given.name)
    raise UsageError(f"{given.name} is not configured there; it is in {places.path(entry.scope)}")


def _has(places: McpPlaces, scope: Scope, name: str) -> bool:
    with suppress(OSError, ValueError):
        return name in (read_json(places.path(scope)).get("mcpServers") or {})
    return False


def import_servers(setup: RunSetup, given: argparse.Namespace) -> int:
    """Take over the servers of ~/.claude.json; those that there are already stay."""
    places, lines = places_of(setup), list[str]()
    try:
        for scope, found in servers_of_claude(Path.home(), setup.folder).items():
            path = places.path(scope)
            for name, raw in found.items():
                if _has(places, scope, name):
                    lines.append(f"{name} is there already, in {path}")
                    continue
                _store(setup, scope, name, raw)
                lines.append(f"added {name} in {path}")
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from error
    return print_text("\n".join(lines) or "~/.claude.json has no MCP servers")


def log_in_to(setup: RunSetup, given: argparse.Namespace) -> int:
    """Log in to a server by the browser."""
    entry = _remote(setup, given.name)
    approvals = approvals_of(setup)
    if entry.scope not in ("flag", "user") and not approvals.allows(safe_item(entry.name, entry.raw)):
        raise UsageError(f"{entry.name}: {NOT_APPROVED}")
    try:
        asyncio.run(log_in(token_file(setup.config.state_dir, entry), entry, _show_address))
    except ServerFailed as error:
        raise UsageError(f"{entry.name}: {error}") from error
    return print_text(f"logged in to {entry.name}")


async def _show_address(address: str, take: Callable[[str], bool]) -> None:
    """Send the person to the browser; the address that it ends at may be pasted."""
    print_text(f"Log in at this address:\n\n  {address}\n")
    await asyncio.to_thread(open_browser, address)
    if sys.stdin.isatty():
        print_text("Where no browser is on this machine, paste the address that it ends at:")
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), lambda: take(sys.stdin.readline()))


def _remote(setup: RunSetup, name: str) -> ServerEntry:
    entry = _known(configured_entries(places_of(setup), setup.environ), name)
    if entry.kind == "stdio" or entry.problem:
        raise UsageError(f"{name}: {entry.problem or 'a program has no login'}")
    return entry


def log_out_of(setup: RunSetup, given: argparse.Namespace) -> int:
    """Forget the tokens for a server."""
    store = token_file(setup.config.state_dir, _remote(setup, given.name))
    try:
        found = store.forget()
    except OSError as error:
        raise UsageError(f"{store.path}: {error.strerror}") from error
    return print_text(f"logged out of {given.name}" if found else f"there is no login to {given.name}")


MCP_ACTIONS: Mapping[str, Callable[[RunSetup, argparse.Namespace], int]] = {
    "list": list_servers,
    "get": show_server,
    "add": add_server,
    "add-json": add_written,
    "remove": remove_server,
    "import": import_servers,
    "login": log_in_to,
    "logout": log_out_of,
}
