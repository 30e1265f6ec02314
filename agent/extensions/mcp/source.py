"""The MCP servers of a run as a source of tools: their start, and the tools that they offer."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from msgspec import Struct

from agent.extensions.approvals import ProjectItem
from agent.ports import CommandSummary
from tools.base import Tool, ToolContext
from tools.processes import Inbox
from transcripts import DataTag, TextBlock, quoted

from .approval import own_files, server_item
from .calls import deferred_tool, direct_tool
from .entries import ServerEntry
from .failures import ServerFailed
from .files import ServerFiles
from .names import server_words
from .oauth import stored_auth
from .processes import ServerProcesses
from .prompts import CalledPrompt, find_prompt, listed_prompts
from .remote import open_remote
from .resources import AttachedResource, attached_resource, mentioned_resources, resource_summaries
from .server import (
    NOT_APPROVED,
    SEARCH_WAIT_S,
    Connection,
    McpServer,
    Opener,
    ServerChange,
    ServerLimits,
    wait_for,
)
from .server_log import ServerLog
from .stdio import open_stdio
from .tool import mcp_tool, news_of

CHANGED_SINCE_START = "a file of the project that it runs has changed"
CHANGED = f"{CHANGED_SINCE_START} since it was approved; approve it with /trust"
MAX_REPORTED_QUESTIONS = 5  # of each server
ALWAYS_LOAD_WAIT_S = 5.0  # for servers whose tools are offered directly, before the tools are fixed


class McpSetup(Struct, frozen=True):
    """The environment of the servers of a run.

    approved    returns whether the user has approved an item of the project
    waits       connect before the tools are fixed, so that the first prompt has them
    attended    a user is present, who can be asked and notified
    of_plugins  returns the servers of plugins that may act now
    mask, tell  mask secrets in a text; show the user a line
    """

    files: ServerFiles
    state_dir: Path
    approved: Callable[[ProjectItem], bool] = lambda item: False
    waits: bool = False
    attended: bool = True
    of_plugins: Callable[[], Sequence[ServerEntry]] = tuple
    mask: Callable[[str], str] = str
    tell: Callable[[str], None] = lambda line: None


class McpServers:
    """All servers of a run; implements ports.ToolSource.

    renew  offers the current tools to the session in use, if possible
    """

    name = "MCP"

    def __init__(self, setup: McpSetup) -> None:
        self.setup = setup
        self.servers: list[McpServer] = []
        self.processes: ServerProcesses | None = None
        self.renew: Callable[[], None] = lambda: None
        self._tools: tuple[Tool, ...] | None = None
        self._inboxes: WeakSet[Inbox] = WeakSet()
        self._closed = False
        self._attached = 0
        self._news: dict[str, str] = {}  # the newest note of each server for the model
        self._reports: dict[str, str] = {}  # the newest report of each server for the user
        self._questions = Counter[str]()
        self._environ: Mapping[str, str] = {}
        self._accepted: dict[str, str] = {}  # the digest of the files of servers of flags and plugins

    async def open(self, folder: Path, environ: Mapping[str, str]) -> None:
        """Read the configuration, and begin to start servers. Raises UsageError for --mcp-config."""
        self.processes = ServerProcesses(folder, environ)
        self._environ = environ
        found = await asyncio.to_thread(self.setup.files.servers, environ)
        for warning in found.warnings:
            self.setup.tell(warning)
        own = [entry for entry in found.entries if entry.kind != "sdk"]
        self._take([*own, *self.setup.of_plugins()], environ)
        if self.setup.waits:
            await wait_for(self.servers, ALWAYS_LOAD_WAIT_S)
        elif self.setup.attended:
            self.begin()
        always = [each for each in self.servers if each.entry.always_load]
        if always:
            await wait_for(always, ALWAYS_LOAD_WAIT_S)

    def _take(self, entries: Sequence[ServerEntry], environ: Mapping[str, str]) -> None:
        words = server_words(entry.name for entry in entries)
        for entry in entries:
            word = words[entry.name]
            limits = ServerLimits.of(environ, self.setup.attended)
            server = McpServer(entry, word=word, open=self.opener(entry, word), limits=limits)
            server.changed = self._changed
            if not self.is_approved(entry):
                server.approved = False
                server.failure = NOT_APPROVED
            for remark in entry.remarks if server.enabled else ():
                self.setup.tell(f"MCP server {entry.name}: {remark}")
            self.servers.append(server)

    def is_approved(self, entry: ServerEntry) -> bool:
        """Return true if a server may be started: approved, or the user's own and not in the project."""
        if entry.scope == "flag" or entry.is_of_plugin:
            return True
        if entry.scope == "user" and not own_files(entry, self.setup.files.folder, self._environ):
            return True
        item = server_item(entry.name, entry.raw, self.setup.files.folder, self._environ)
        return self.setup.approved(item)

    def accept_files(self, entry: ServerEntry) -> None:
        """Let a server that a flag or a plugin defines run its files as they are now."""
        self._accepted.pop(entry.name, None)

    def _require_unchanged(self, entry: ServerEntry) -> None:
        """Raise ServerFailed if a command may have changed a file of the project that a server runs."""
        if not self.is_approved(entry):
            raise ServerFailed(CHANGED)
        if entry.scope != "flag" and not entry.is_of_plugin:
            return
        files = own_files(entry, self.setup.files.folder, self._environ)
        if self._accepted.setdefault(entry.name, files) != files:
            raise ServerFailed(f"{CHANGED_SINCE_START}; run /mcp reconnect {entry.name} to start it")

    def opener(self, entry: ServerEntry, word: str) -> Opener:
        """Return the function that opens a connection to a server."""
        return partial(self._open, entry, word)

    async def _open(
        self,
        entry: ServerEntry,
        word: str,
        deliver: Callable[[Any], None],
        lost: Callable[[str], None],
    ) -> Connection:
        """Start the process of a server, or connect to it. Raises ServerFailed."""
        if self.processes is None:
            raise ServerFailed("makeroom is exiting")
        await asyncio.to_thread(self._require_unchanged, entry)
        if entry.kind != "stdio":
            auth = await asyncio.to_thread(stored_auth, self.setup.state_dir, entry)
            return await open_remote(entry, auth, deliver, lost)
        return await open_stdio(self.processes, entry, self._log(entry, word), deliver, lost)

    def _log(self, entry: ServerEntry, word: str) -> ServerLog:
        folder = str(self.setup.files.folder)
        digest = hashlib.sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()
        path = self.setup.state_dir / "mcp" / f"{word}-{digest[:8]}.log"
        return ServerLog(path, entry.masks, self.setup.mask)

    def begin(self) -> None:
        """Begin to connect every server that is not connected."""
        for server in self.servers:
            if server.enabled and server.failure and not self._closed:
                server.begin()

    async def settle(self) -> None:
        """Connect the servers, and wait for them as long as a search does."""
        await wait_for(self.servers, SEARCH_WAIT_S)

    async def settle_approvals(self) -> None:
        """Start servers that have been approved, and stop those that no longer are."""
        for server in self.servers:
            is_approved = self.is_approved(server.entry)
            await server.approve(is_approved)
            if is_approved and server.failure == CHANGED:
                server.begin()

    def tools(self) -> Sequence[Tool]:
        """See ports.ToolSource: `mcp`, and the tools of the servers that were connected in time.

        Those of servers that are not always loaded are deferred, for services that can search them.
        """
        if self._tools is None and self.servers:
            connected = [each for each in self.servers if not each.failure]
            always = [each for each in connected if each.entry.always_load]
            others = [each for each in connected if not each.entry.always_load]
            direct = [direct_tool(server, name) for server in always for name in server.offer.tools]
            found = [deferred_tool(server, name) for server in others for name in server.offer.tools]
            self._tools = (mcp_tool(self.servers), *direct, *found)
        return self._tools or ()

    def forget_tools(self) -> None:
        """Decide again which tools are offered directly when `tools` is called next."""
        self._tools = None

    def attach(self, inbox: Inbox) -> None:
        """Report the tools of servers to a session, now and when they change."""
        self._inboxes.add(inbox)
        for server in self.servers:
            if server.enabled and not server.failure:
                key = f"mcp {server.entry.name}"
                self._news[key] = news_of(server)
                inbox.post(_as_data(self._news[key]), key)

    def _changed(self, server: McpServer, change: ServerChange) -> None:
        """Report the current tools to the model, and failures to the user."""
        self._tell_model(server, change)
        name = server.entry.name
        before = self._reports.get(name, "")
        report = self._report(server, change)
        if change.kind in ("failed", "connected"):
            self._reports[name] = report
        repeated = change.kind == "failed" and report == before  # only report it for the first attempt
        if report and not repeated and not self._closed:
            self.setup.tell(f"MCP server {name}{report}")

    def _tell_model(self, server: McpServer, change: ServerChange) -> None:
        key = f"mcp {server.entry.name}"
        news = news_of(server)
        before = self._news.get(key)
        for inbox in self._inboxes:
            if change.kind == "failed" and key in inbox.waiting:
                inbox.withdraw(key)
                self._news.pop(key, None)
            elif change.kind in ("connected", "changed") and news != before:  # not for every reconnection
                inbox.post(_as_data(news), key)
                self._news[key] = news

    def _report(self, server: McpServer, change: ServerChange) -> str:
        """Return the report of a change for the user, without the server's name; "" for none."""
        if change.kind == "failed" and server.entry.problem:
            return f": {server.failure}; restart makeroom after you correct this"
        if change.reconnects:
            return f": {server.failure}; reconnecting"
        if change.kind == "failed":
            retry = f"/mcp reconnect {server.entry.name} to try again"
            remedy = retry if self.setup.attended else "`makeroom mcp list` to test it"
            return f": {server.failure}; run {remedy}"
        if change.kind == "asked":
            return self._question_report(server.entry.name, change.question)
        more = len(server.offer.left_out)
        if change.kind == "connected" and more:
            return f": {more} tools are not available, since their names are too long"
        return ""

    def _question_report(self, name: str, question: str) -> str:
        """Return the report of a declined question; "" after the first few of a server."""
        self._questions[name] += 1
        if self._questions[name] > MAX_REPORTED_QUESTIONS:
            return ""
        last = "; more will not be reported" if self._questions[name] == MAX_REPORTED_QUESTIONS else ""
        return f" asked {question} (declined: questions of servers are not supported{last})"

    def live_lines(self) -> list[str]:
        """Return the notes to repeat to the model after its history was replaced."""
        return [news_of(server) for server in self.servers if server.enabled and not server.failure]

    async def called(self, line: str) -> CalledPrompt | None:
        """Return the prompt of a server that a line calls. Waits for a server that is not connected yet."""
        if line.startswith("/mcp__"):
            word = line.removeprefix("/mcp__").partition("__")[0].lower()
            await wait_for([each for each in self.servers if each.word.lower() == word], SEARCH_WAIT_S)
        return find_prompt(self.servers, line)

    async def mentioned(self, text: str, context: ToolContext) -> list[AttachedResource]:
        """Read the resources that a prompt mentions."""
        found = []
        for server, uri in mentioned_resources(self.servers, text):
            self._attached += 1
            found.append(await attached_resource(server, uri, context, f"prompt.{self._attached}"))
        return found

    def summaries(self) -> list[CommandSummary]:
        """List prompts and resources, for completion."""
        prompts = [CommandSummary(name, prompt.summary) for name, prompt in listed_prompts(self.servers)]
        return [*prompts, *(CommandSummary(*each) for each in resource_summaries(self.servers))]

    def named(self, name: str) -> McpServer | None:
        return next((each for each in self.servers if name in (each.entry.name, each.word)), None)

    async def close(self) -> None:
        """Stop every server."""
        self._closed = True
        await asyncio.gather(*(server.stop() for server in self.servers))
        if self.processes is not None:
            await self.processes.close()


def _as_data(news: str) -> TextBlock:
    """Mark news of a server for the model: the names in it are the server's."""
    return TextBlock(quoted(news, DataTag.MCP_SERVER))
