"""The MCP servers of a run as a source of tools: which there are, what is offered, when they start."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from agent.extensions.approvals import ProjectItem
from tools.base import Tool, ToolContext
from tools.inbox import Inbox

from .calls import direct_tool
from .entries import ServerEntry, canonical_bytes, read_entry, server_words, servers_in, variables_in
from .oauth import stored_auth, token_file
from .prompts import (
    AttachedResource,
    CalledPrompt,
    attached_resource,
    find_prompt,
    mentioned_resources,
    prompt_text,
    summaries,
)
from .remote import open_remote
from .scopes import ConfiguredServers, McpPlaces, configured_entries, read_json
from .server import NOT_STARTED, Connection, McpServer, Opener, ServerLimits
from .session import ServerFailed
from .stdio import ServerLog, ServerProcesses, open_stdio
from .tool import SEARCH_WAIT_S, mcp_tool, news_of, wait_for

ITEM_KIND = "MCP server"
ALWAYS_LOAD_WAIT_S = 5.0  # for servers whose tools are offered directly, before the tools are fixed
NOT_APPROVED = "this project brings it, and nobody has approved it: /trust decides"


@dataclass(frozen=True, slots=True)
class McpSetup:
    """What a run has for its servers.

    approved   whether the person has approved an item of the project
    waits      connect before the tools are fixed, so that the first prompt has them
    attended   somebody is there to be asked and told
    mask, tell hide secrets of a text; tell the person a line
    """

    places: McpPlaces
    state_dir: Path
    approved: Callable[[ProjectItem], bool] = lambda item: False
    waits: bool = False
    attended: bool = True
    mask: Callable[[str], str] = str
    tell: Callable[[str], None] = lambda line: None


def item_of(entry_name: str, raw: Mapping[str, Any]) -> ProjectItem:
    """A server of the project as something that the person has to approve."""
    entry = read_entry(entry_name, raw, "project", {})
    named = ", ".join([*dict(raw.get("env") or {}), *dict(raw.get("headers") or {})])
    taken = ", ".join(variables_in(raw))
    more = f"{f' (sets {named})' if named else ''}{f' (takes your {taken})' if taken else ''}"
    return ProjectItem(ITEM_KIND, entry_name, entry.shows + more, canonical_bytes(raw))


def project_servers(folder: Path, environ: Mapping[str, str]) -> Iterable[ProjectItem]:
    """The servers that files in the project's folder bring; see approvals.ItemSource."""
    places = McpPlaces(folder, folder)
    for scope in ("local", "project"):
        path = places.path(scope)
        try:
            found = servers_in(read_json(path), str(path))
        except (OSError, ValueError):
            continue  # whoever reads the servers warns of it
        for name, raw in sorted(found.items()):
            yield safe_item(name, raw)


def safe_item(name: str, raw: Mapping[str, Any]) -> ProjectItem:
    """As `item_of`, for an entry of any form."""
    try:
        return item_of(name, raw)
    except (TypeError, ValueError):
        return ProjectItem(ITEM_KIND, name, "(not readable)", canonical_bytes(raw))


async def _open_connection(
    source: McpServers,
    entry: ServerEntry,
    word: str,
    deliver: Callable[[Any], None],
    lost: Callable[[str], None],
) -> Connection:
    """Start the process of a server, or reach it. Raises ServerFailed."""
    setup, processes = source.setup, source.processes
    if processes is None:
        raise ServerFailed("the program ends")
    if entry.kind != "stdio":
        auth = await asyncio.to_thread(stored_auth, token_file(setup.state_dir, entry), entry)
        return await open_remote(entry, auth, deliver, lost)
    digest = hashlib.sha256(str(setup.places.folder).encode("utf-8", "surrogateescape")).hexdigest()
    path, masks = setup.state_dir / "mcp" / f"{word}-{digest[:8]}.log", entry.masks
    log = ServerLog(path, lambda text: setup.mask(masks.text(text)))
    return await open_stdio(processes, entry, log, deliver, lost)


def told_of(server: McpServer, what: str, attended: bool) -> str:
    """What the person is told of what happened to a server, "" for nothing."""
    if what == "failed":
        remedy = "/mcp shows and reconnects it" if attended else "makeroom mcp list tries it"
        return f": {server.failure}; {remedy}"
    if what == "connected" and (more := len(server.offer.left_out)):
        return f": {more} tools are left out, their names are too long"
    return f" {what}; such questions are declined" if what.startswith("asked") else ""


@dataclass(slots=True, eq=False)
class McpServers:
    """All servers of a run; implements ports.ToolSource."""

    setup: McpSetup
    servers: list[McpServer] = field(default_factory=list)
    name: str = "MCP"
    processes: ServerProcesses | None = None
    renew: Callable[[], None] = lambda: None  # offers the session in use what there is now, where it may
    _tools: tuple[Tool, ...] | None = None
    _inboxes: WeakSet[Inbox] = field(default_factory=WeakSet)
    _environ: Mapping[str, str] = field(default_factory=dict)
    _closed: bool = False
    _attached: int = 0
    _told: dict[str, str] = field(default_factory=dict)  # the newest news of each server
    _said: dict[str, str] = field(default_factory=dict)  # the newest failure that the person was told of each

    async def open(self, folder: Path, environ: Mapping[str, str]) -> None:
        """Read what is configured. Servers are started beside; raises UsageError for --mcp-config."""
        self._environ = environ
        self.processes = ServerProcesses(folder, environ)
        found = await asyncio.to_thread(configured_entries, self.setup.places, environ)
        self._take(found)
        if self.setup.waits:
            await wait_for(self.servers, ALWAYS_LOAD_WAIT_S)
        elif self.setup.attended:
            self.begin()
        always = [each for each in self.servers if each.entry.always_load]
        if always:
            await wait_for(always, ALWAYS_LOAD_WAIT_S)

    def _take(self, found: ConfiguredServers) -> None:
        for warning in found.warnings:
            self.setup.tell(warning)
        entries = [entry for entry in found.entries if entry.kind != "sdk"]
        words = server_words(entry.name for entry in entries)
        for entry in entries:
            server = McpServer(entry, words[entry.name], self.opener(entry, words[entry.name]))
            server.limits = ServerLimits.of(self._environ, self.setup.attended)
            server.changed = self._changed
            if not self.is_approved(entry):
                server.enabled, server.failure = False, NOT_APPROVED
            for remark in entry.remarks if server.enabled else ():
                self.setup.tell(f"MCP server {entry.name}: {remark}")
            self.servers.append(server)

    def is_approved(self, entry: ServerEntry) -> bool:
        """Whether a server may be started: it is the person's own, or was approved."""
        if entry.scope in ("flag", "user"):
            return True
        return self.setup.approved(safe_item(entry.name, entry.raw))

    def opener(self, entry: ServerEntry, word: str) -> Opener:
        """How a connection to this server is opened."""
        return partial(_open_connection, self, entry, word)

    def begin(self) -> None:
        """Connect every server, beside what else goes on; those that are connected stay so."""
        for server in self.servers:
            if server.enabled and server.failure and not self._closed:
                server.begin()

    async def settle_approvals(self) -> None:
        """Switch on what was approved meanwhile, and off what no longer is."""
        for server in self.servers:
            approved = self.is_approved(server.entry)
            if approved and server.failure == NOT_APPROVED:
                server.enabled, server.failure = True, NOT_STARTED
                server.begin()
            elif not approved and server.failure != NOT_APPROVED:
                server.enabled = False
                await server.stop(NOT_APPROVED)

    def tools(self) -> Sequence[Tool]:
        """See ports.ToolSource: `mcp`, and the tools of servers that are always loaded and were in time."""
        if self._tools is None and self.servers:
            direct = [each for each in self.servers if each.entry.always_load and not each.failure]
            found = [direct_tool(server, name) for server in direct for name in server.offer.tools]
            self._tools = (mcp_tool(self.servers), *found)
        return self._tools or ()

    def forget_tools(self) -> None:
        """Decide anew what is offered directly when `tools` is called next."""
        self._tools = None

    def attach(self, inbox: Inbox) -> None:
        """Have a session told what it can use, now and from now on."""
        self._inboxes.add(inbox)
        for server in self.servers:
            if server.enabled and not server.failure:
                key = f"mcp {server.entry.name}"
                self._told[key] = news_of(server)
                inbox.post(self._told[key], key)

    def _changed(self, server: McpServer, what: str) -> None:
        """Tell the model what it can use now, and the person what went wrong."""
        key = f"mcp {server.entry.name}"
        text, before = news_of(server), self._told.get(key)
        for inbox in self._inboxes:
            if what == "failed" and key in inbox.waiting:
                inbox.withdraw(key)
                self._told.pop(key, None)
            elif what in ("connected", "changed") and text != before:  # not for every reconnection
                inbox.post(text, key)
                self._told[key] = text
        told, said = told_of(server, what, self.setup.attended), self._said.get(server.entry.name)
        self._said[server.entry.name] = told if what in ("failed", "connected") else said or ""
        if not self._closed and told and (what != "failed" or told != said):  # not for every new try
            self.setup.tell(f"MCP server {server.entry.name}{told}")

    def live_lines(self) -> list[str]:
        """What the model is told again after its history was replaced."""
        return [news_of(server) for server in self.servers if server.enabled and not server.failure]

    async def called(self, line: str) -> CalledPrompt | None:
        """The prompt of a server that a line calls; a server that is not connected yet is waited for."""
        if line.startswith("/mcp__"):
            word = line.removeprefix("/mcp__").partition("__")[0].lower()
            await wait_for([each for each in self.servers if each.word.lower() == word], SEARCH_WAIT_S)
        return find_prompt(self.servers, line)

    prompt_text = staticmethod(prompt_text)

    async def mentioned(self, text: str, context: ToolContext) -> list[AttachedResource]:
        """What becomes of the resources that a prompt mentions."""
        found = []
        for server, uri in mentioned_resources(self.servers, text):
            self._attached += 1
            found.append(await attached_resource(server, uri, context, f"prompt.{self._attached}"))
        return found

    def summaries(self) -> list[tuple[str, str]]:
        """(name, summary) of prompts and resources, for completion."""
        return summaries(self.servers)

    def named(self, name: str) -> McpServer | None:
        return next((each for each in self.servers if name in (each.entry.name, each.word)), None)

    async def close(self) -> None:
        """End every server."""
        self._closed = True
        await asyncio.gather(*(server.stop() for server in self.servers))
        if self.processes is not None:
            await self.processes.close()
