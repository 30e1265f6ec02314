"""`makeroom mcp`: list, add and remove MCP servers.

    mcp list                     list the configured servers and connect to each (exit code 1 if one fails)
    mcp get NAME                 show the configuration of a server
    mcp add NAME URL             add a remote server
    mcp add NAME -- COMMAND ...  add a server that is a local program
    mcp add-json NAME JSON       add a server by its entry in the format of .mcp.json
    mcp remove NAME              remove a server
    mcp import                   copy the servers of Claude Code from ~/.claude.json
    mcp login NAME               log in to a remote server (OAuth, in your browser)
    mcp logout NAME              delete that login

    -s local|project|user        the file: .makeroom/mcp.local.json (the default), .mcp.json, or mcp.json in
                                 your settings directory
    -t stdio|http|sse            the transport (default: stdio for a program, http for a URL)
    -e KEY=VALUE                 set an environment variable of the program
    -H "NAME: VALUE"             add a header to requests to the URL

A value may refer to an environment variable: ${TOKEN}, or ${PORT:-80} with a default.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agent.app import RunSetup
from agent.errors import UsageError
from agent.extensions import Approvals
from agent.extensions.mcp import (
    FILE_SCOPES,
    NOT_APPROVED,
    FileScope,
    McpServer,
    McpServers,
    McpSetup,
    ServerEntry,
    ServerFailed,
    ServerFiles,
    log_in,
    log_out,
    missing_requirement,
    open_browser,
    server_item,
)
from tools.text import escaped
from transcripts.wording import cause_of, pluralize

from .arguments import parse
from .command_words import OneLineParser, asks_for_help
from .launch import run_setup, with_errors_reported
from .printing import complain, print_text

TRANSPORTS = ("stdio", "http", "sse")


def run_mcp(words: list[str]) -> int:
    """Run `mcp` with these words. Returns 0, 1 if a server fails, 2 for a usage error."""
    if not words or asks_for_help(words):
        return print_text(__doc__ or "")
    if words[0] not in MCP_ACTIONS:
        return complain(f"unknown command 'mcp {words[0]}'; the commands are {', '.join(MCP_ACTIONS)}")
    return with_errors_reported(partial(_act, words[0], words[1:]))


def _act(action: str, words: list[str]) -> int:
    given = _parsed(action, words)
    return MCP_ACTIONS[action](run_setup(parse([])), given)


def _parsed(action: str, words: list[str]) -> argparse.Namespace:
    """Parse the words after an action, except a command line after `--`."""
    at = words.index("--") if "--" in words else len(words)
    parser = OneLineParser(prog=f"makeroom mcp {action}", add_help=False, allow_abbrev=False)
    if action not in ("list", "import"):
        parser.add_argument("name")
        parser.add_argument("-s", "--scope", choices=FILE_SCOPES)
    if action == "add-json":
        parser.add_argument("json")
    if action == "add":
        parser.add_argument("-t", "--transport", choices=TRANSPORTS)
        parser.add_argument("-e", "--env", action="append", default=[])
        parser.add_argument("-H", "--header", action="append", default=[])
        parser.add_argument("target", nargs="*")
    given = parser.parse_intermixed_args(words[:at])
    if words[at + 1 :] and action != "add":
        raise UsageError(f"mcp {action} takes no words after --")
    given.command = words[at + 1 :]
    return given


def files_of(setup: RunSetup) -> ServerFiles:
    """Return the files that configure the servers of a run."""
    return ServerFiles(setup.folder, setup.config.user_dir)


def approvals_of(setup: RunSetup) -> Approvals:
    """Return the decisions about the extensions of the project."""
    return Approvals(setup.config.approvals_path, setup.folder)


def list_servers(setup: RunSetup, given: argparse.Namespace) -> int:
    """Connect to every server and print a line for each."""
    found = files_of(setup).servers(setup.environ)
    if not found.entries and not found.warnings:
        return print_text("no MCP servers are configured; add one with makeroom mcp add NAME -- COMMAND")
    source = McpServers(
        McpSetup(files_of(setup), state_dir=setup.config.state_dir, approved=approvals_of(setup).allows)
    )
    lines: list[str] = []
    failed = bool(found.warnings)

    async def connect() -> None:
        nonlocal failed
        try:
            await source.open(setup.folder, setup.environ)
            await asyncio.gather(*(server.begin() for server in source.servers if server.enabled))
            lines.extend(map(_line, source.servers))
            failed = failed or any(each.state in ("failed", "needs-auth") for each in source.servers)
        finally:
            await source.close()

    asyncio.run(connect())
    print_text("\n".join((*lines, *found.warnings)))
    return 1 if failed else 0


def _line(server: McpServer) -> str:
    if not server.approved:
        how = f"disabled: {NOT_APPROVED}"
    elif server.failure:
        how = f"failed: {server.failure}"
    else:
        how = f"connected, {pluralize(len(server.offer.tools), 'tool')}"
    return f"{server.entry.name}: {server.entry.shows} ({server.entry.scope}): {how}"


def show_server(setup: RunSetup, given: argparse.Namespace) -> int:
    """Print the configuration of one server, without the values of variables and headers."""
    entry = _known(setup, given.name)
    lines = [f"{entry.name}: {entry.kind}, {entry.shows}"]
    if entry.scope != "flag":
        lines.append(f"  scope: {entry.scope} ({files_of(setup).path(entry.scope)})")
    for label, key in (("variables", "env"), ("headers", "headers")):
        names = entry.raw.get(key)
        if isinstance(names, dict) and names:
            lines.append(f"  {label}: {', '.join(names)}")
    if entry.timeout_s:
        lines.append(f"  timeout of a call: {entry.timeout_s:g} s")
    if entry.always_load:
        lines.append("  always offers its tools to the model (alwaysLoad)")
    if entry.problem:
        lines.append(f"  problem: {entry.problem}")
    return print_text("\n".join(lines))


def _known(setup: RunSetup, name: str) -> ServerEntry:
    """Return the configured server of that name. Raises UsageError."""
    found = files_of(setup).servers(setup.environ)
    entry = found.named(name)
    if entry is None:
        names = ", ".join(each.name for each in found.entries) or "none"
        raise UsageError(f"unknown MCP server {name!r}; configured: {names}")
    return entry


def add_written(setup: RunSetup, given: argparse.Namespace) -> int:
    """Add a server by its entry in JSON."""
    try:
        raw = json.loads(given.json)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot add {given.name}: the entry is not valid JSON: {error}") from error
    if not isinstance(raw, dict):
        raise UsageError(f'cannot add {given.name}: an entry has the form {{"command": ..., "args": [...]}}')
    return _add(setup, given, raw)


def add_server(setup: RunSetup, given: argparse.Namespace) -> int:
    """Add a server, which is thereby approved."""
    return _add(setup, given, _entry(given))


def _add(setup: RunSetup, given: argparse.Namespace, raw: Mapping[str, Any]) -> int:
    scope: FileScope = given.scope or "local"
    files = files_of(setup)
    entry = files.entry(given.name, raw, scope, setup.environ)
    if entry.problem and not entry.may_be_set:
        raise UsageError(f"cannot add {given.name}: {entry.problem}")
    path = files.path(scope)
    try:
        replaced = store_server(setup, scope, given.name, raw)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {cause_of(error)}") from error
    print_text(f"{'replaced' if replaced else 'added'} {given.name} ({entry.kind}): {path}")
    # The program may be installed later, so the entry is kept.
    if missing := entry.problem or missing_requirement(entry, setup.environ, setup.folder):
        sys.stderr.write(f"warning: {given.name} cannot start yet: {escaped(missing)}\n")
    return 0


def store_server(setup: RunSetup, scope: FileScope, name: str, raw: Mapping[str, Any]) -> bool:
    """Write an approved entry to the file of a scope; returns whether it replaced one. Raises OSError."""
    replaced = files_of(setup).store(scope, name, raw)
    if scope != "user":
        approvals_of(setup).record([server_item(name, raw, setup.folder, setup.environ)], True)
    return replaced


def _entry(given: argparse.Namespace) -> dict[str, Any]:
    """Return the entry that the flags describe. Raises UsageError."""
    command = [*given.target, *given.command] if given.command or len(given.target) > 1 else []
    is_url = not command and bool(given.target) and given.target[0].startswith(("http://", "https://"))
    kind = given.transport or ("http" if is_url else "stdio")
    if kind == "stdio":
        line = command or given.target
        if not line:
            raise UsageError("missing URL or command; use mcp add NAME URL, or mcp add NAME -- COMMAND ...")
        if given.header:
            raise UsageError("-H requires a URL; use -e to set variables of a program")
        env = {"env": _pairs(given.env, "=")} if given.env else {}
        return {"command": line[0], "args": line[1:], **env}
    if len(given.target) != 1 or given.command:
        raise UsageError(f"-t {kind} requires one URL; use mcp add -t {kind} NAME URL")
    if given.env:
        raise UsageError("-e requires a program; use -H to add headers for a URL")
    headers = {"headers": _pairs(given.header, ":")} if given.header else {}
    return {"type": kind, "url": given.target[0], **headers}


def _pairs(texts: Sequence[str], sign: str) -> dict[str, str]:
    """Return the pairs of KEY=VALUE or KEY: VALUE. Raises UsageError."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, found, value = text.partition(sign)
        if not name or not found:
            raise UsageError(f"{text.partition('=')[0]!r} does not have the form KEY{sign}VALUE")
        pairs[name.strip()] = value.strip() if sign == ":" else value
    return pairs


def remove_server(setup: RunSetup, given: argparse.Namespace) -> int:
    """Remove a server from the file that configures it."""
    files = files_of(setup)
    scopes: list[FileScope] = [given.scope] if given.scope else []
    if not scopes:
        scopes = [scope for scope in FILE_SCOPES if files.has(scope, given.name)]
    if len(scopes) > 1:
        raise UsageError(f"{given.name} is configured in {' and '.join(scopes)}; choose one with -s")
    for scope in scopes:
        try:
            if files.remove(scope, given.name):
                return print_text(f"removed {given.name} from {files.path(scope)}")
        except OSError as error:
            raise UsageError(f"cannot write {files.path(scope)}: {cause_of(error)}") from error
    entry = _known(setup, given.name)
    where = files.path(entry.scope) if entry.scope != "flag" else "--mcp-config"
    raise UsageError(f"cannot remove {given.name} there: it is configured in {where}")


def import_servers(setup: RunSetup, given: argparse.Namespace) -> int:
    """Copy the servers of ~/.claude.json that are not configured yet."""
    files = files_of(setup)
    lines: list[str] = []
    try:
        for scope, found in files.entries_of_claude(Path.home()).items():
            path = files.path(scope)
            for name, raw in found.items():
                if files.has(scope, name):
                    lines.append(f"skipped {name}: it is already configured in {path}")
                    continue
                store_server(setup, scope, name, raw)
                lines.append(f"added {name} to {path}")
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from error
    return print_text("\n".join(lines) or "~/.claude.json configures no MCP servers")


def log_in_to(setup: RunSetup, given: argparse.Namespace) -> int:
    """Log in to a server with the browser."""
    entry = _remote(setup, given.name)
    item = server_item(entry.name, entry.raw, setup.folder, setup.environ)
    if entry.scope not in ("flag", "user") and not approvals_of(setup).allows(item):
        raise UsageError(f"cannot log in to {entry.name}: {NOT_APPROVED}")
    try:
        asyncio.run(log_in(setup.config.state_dir, entry, _show_address))
    except ServerFailed as error:
        raise UsageError(f"cannot log in to {entry.name}: {error}") from error
    return print_text(f"logged in to {entry.name}")


async def _show_address(address: str, take: Callable[[str], bool]) -> None:
    """Open the browser; at a terminal, the user may paste the address that the login ends at."""
    print_text(f"Open this address to log in:\n\n  {address}\n")
    await asyncio.to_thread(open_browser, address)
    if sys.stdin.isatty():
        print_text("If your browser runs on another machine, paste the URL that it was redirected to:")
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), lambda: take(sys.stdin.readline()))


def _remote(setup: RunSetup, name: str) -> ServerEntry:
    entry = _known(setup, name)
    if entry.kind == "stdio" or entry.problem:
        raise UsageError(f"cannot log in to {name}: {entry.problem or 'it is a local program'}")
    return entry


def log_out_of(setup: RunSetup, given: argparse.Namespace) -> int:
    """Delete the tokens for a server."""
    entry = _remote(setup, given.name)
    try:
        found = log_out(setup.config.state_dir, entry)
    except OSError as error:
        raise UsageError(f"cannot delete {error.filename}: {cause_of(error)}") from error
    return print_text(f"logged out of {given.name}" if found else f"not logged in to {given.name}")


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
