"""The command /mcp: the MCP servers of this run, their state and their tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agent.app import Controller
from agent.errors import UsageError
from agent.events import CommandOutput, Event, Notice
from agent.extensions.mcp import McpServer, ServerFailed, log_in, open_browser
from agent.version import program_name
from transcripts.wording import pluralize, shorten

from .context import deferred_line
from .running import usage_notice


async def show_mcp(controller: Controller, argument: str) -> Event | None:
    """Run /mcp."""
    source = controller.services.mcp
    if source is not None:
        await source.settle_approvals()
    if source is None or not source.servers:
        add = f"{program_name()} mcp add NAME -- COMMAND"
        return Notice(f"no MCP servers are configured; add one with {add}, then restart")
    if not source.setup.attended:  # they have not been started yet
        await source.settle()
    action, _, name = argument.partition(" ")
    if not action:
        lines = [line for server in source.servers for line in server_lines(server)]
        return CommandOutput("\n".join((*lines, *deferred_line(controller.services.tools.values()))))
    server = source.named(name.strip())
    if action not in ("reconnect", "on", "off", "login"):
        return usage_notice("mcp", f"unknown argument {action!r}")
    if not name.strip():
        return usage_notice("mcp")
    if server is None:
        names = ", ".join(each.entry.name for each in source.servers)
        return Notice(f"unknown MCP server {name.strip()!r}; configured: {names}", "warning")
    if not source.is_approved(server.entry):
        return Notice(f"{server.entry.name}: {server.failure}", "warning")
    source.accept_files(server.entry)
    if action == "login":
        await _log_in(controller, server, source.setup.state_dir)
    if action in ("reconnect", "login"):
        await server.reconnect()
    else:
        await server.toggle(action == "on")
    return CommandOutput("\n".join(server_lines(server)))


async def _log_in(controller: Controller, server: McpServer, state_dir: Path) -> None:
    """Log in with the browser. Raises UsageError."""
    if server.entry.kind == "stdio":
        raise UsageError(f"cannot log in to {server.entry.name}: it is a local program")

    async def show(address: str, take: Callable[[str], bool]) -> None:
        controller.emit(CommandOutput(f"Open this address to log in:\n\n{address}"))
        await asyncio.to_thread(open_browser, address)

    try:
        await log_in(state_dir, server.entry, show)
    except ServerFailed as error:
        raise UsageError(f"cannot log in to {server.entry.name}: {error}") from error


def server_lines(server: McpServer) -> list[str]:
    """Return lines with the state of a server and the names of its tools."""
    entry = server.entry
    offer = server.offer
    state = "connecting" if server.state == "pending" else server.state
    how = state if server.state in ("connected", "pending") else f"{state}: {server.failure}"
    lines = [f"{entry.name} ({entry.kind}, {entry.scope}): {how}"]
    if server.failure:
        return lines
    names = shorten(", ".join(offer.names), 200)
    lines.append(f"  {pluralize(len(offer.tools), 'tool')}: {names}")
    counts = {"prompt": len(offer.prompts), "resource": len(offer.resources)}
    more = ", ".join(pluralize(count, kind) for kind, count in counts.items() if count)
    return [*lines, f"  {more}"] if more else lines
