"""One MCP server: it is connected when needed and reconnected when lost, and its calls have time limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from .entries import ServerEntry, read_entry
from .failures import ConnectionLost, NeedsLogin, ServerFailed
from .names import server_words
from .offer import Offer, ask_offer
from .session import ELICITATION, McpSession, Message

MCP_CONNECT_TIMEOUT_S = 30.0  # MCP_TIMEOUT, in milliseconds, replaces it
SERVER_CALL_TIMEOUT_S = 300.0  # MCP_TOOL_TIMEOUT, in milliseconds, and `timeout` of an entry
RECONNECT_WAITS_S = (0.2, 2.0)  # before it is reconnected automatically; after that at the next call
SEARCH_WAIT_S = 10.0  # of a search, for servers that are being connected
CHANGES_WAIT_S = 0.1  # for further notifications about changed lists, which servers send in bursts
NOT_APPROVED = "this project defines it and it is not approved; approve it with /trust"
ServerState = Literal["pending", "connected", "failed", "disabled", "needs-auth"]


class ServerChange(NamedTuple):
    """An event of a server. "changed": its lists have changed; "asked": it asked a question (declined).

    `reconnects`: it failed and is reconnected automatically.
    """

    kind: Literal["connected", "failed", "changed", "asked"]
    question: str = ""
    reconnects: bool = False


class Connection(Protocol):
    """The transport of messages to one server."""

    async def send(self, message: Message) -> None: ...

    def close(self) -> None: ...

    @property
    def hint(self) -> str:
        """A clause with a possible reason why it does not answer, to append to an error; or ""."""

    def failure(self, reason: str) -> ServerFailed:
        """Return the error for a reason, with the details that the connection knows."""


# Opens a connection, given the receiver of messages and the callback for its loss. Raises ServerFailed.
Opener = Callable[[Callable[[Any], None], Callable[[str], None]], Awaitable[Connection]]


class ServerLimits(Struct, frozen=True):
    """Time limits in seconds, and whether the server may ask the user something."""

    connect_s: float = MCP_CONNECT_TIMEOUT_S
    call_s: float = SERVER_CALL_TIMEOUT_S
    elicits: bool = False

    @classmethod
    def of(cls, environ: Mapping[str, str], elicits: bool) -> ServerLimits:
        """Return the limits with those of the environment, which are in milliseconds."""
        connect = environ.get("MCP_TIMEOUT", "").strip()
        call = environ.get("MCP_TOOL_TIMEOUT", "").strip()
        return cls(
            connect_s=float(connect) / 1000 if connect else MCP_CONNECT_TIMEOUT_S,
            call_s=float(call) / 1000 if call else SERVER_CALL_TIMEOUT_S,
            elicits=elicits,
        )


class Link:
    """One connection to a server with its session: being established, in use, or dropped."""

    def __init__(self) -> None:
        self.session: McpSession | None = None
        self.connection: Connection | None = None

    async def send(self, message: Message) -> None:
        """Send a message. Raises ServerFailed."""
        if self.connection is None:
            raise ConnectionLost("it is not connected")
        await self.connection.send(message)

    async def request(self, method: str, params: Message, progress: Callable[[str], None] | None) -> Message:
        """Return the result of a request. Raises ServerFailed."""
        if self.session is None:
            raise ConnectionLost("it is not connected")
        return await self.session.request(method, params, progress)

    @property
    def hint(self) -> str:
        return self.connection.hint if self.connection is not None else ""

    def failure(self, error: ServerFailed) -> ServerFailed:
        """Return the error with the details that the connection knows."""
        return error if self.connection is None else self.connection.failure(str(error))

    def drop(self, reason: str) -> None:
        """Close it. Pending requests fail with this reason."""
        session = self.session
        connection = self.connection
        self.session = None
        self.connection = None
        if session is not None:
            session.lose(reason or "the connection was closed")
        if connection is not None:
            connection.close()


class McpServer:
    """A server. `word` represents it in the names of its tools.

    changed      is called with its events
    approved     false for a server of the project until the user approves it
    switched_on  false if its entry or the user has disabled it
    failure      the reason why it is not connected, "" while it is
    greeting     its answer to initialize
    """

    def __init__(
        self, entry: ServerEntry, word: str, open: Opener, limits: ServerLimits | None = None
    ) -> None:
        self.entry = entry
        self.word = word
        self.open = open
        self.limits = limits or ServerLimits()
        self.changed: Callable[[McpServer, ServerChange], None] = lambda server, change: None
        self.approved = True
        self.switched_on = not entry.off
        self.failure = f"its entry disables it; /mcp on {entry.name} starts it"
        if self.switched_on:
            self.failure = "it was not started yet"
        self.needs_login = False
        self.greeting: Message = {}
        self.offer = Offer()
        self._link = Link()
        self._begun = False  # it has ever begun to connect
        self._connecting: asyncio.Task[None] | None = None
        self._listing: asyncio.Task[None] | None = None
        self._stale = False  # its lists have changed since they were requested
        self._reconnects = 0

    @property
    def enabled(self) -> bool:
        """True if it may be connected."""
        return self.approved and self.switched_on

    @property
    def state(self) -> ServerState:
        if not self.enabled:
            return "disabled"
        if not self.failure:
            return "connected"
        if not self._begun or (self._connecting is not None and not self._connecting.done()):
            return "pending"
        return "needs-auth" if self.needs_login else "failed"

    def begin(self) -> asyncio.Task[None]:
        """Begin to connect, unless it is connecting or connected."""
        self._begun = True
        if self._connecting is None or (self._connecting.done() and self.failure):
            self._connecting = asyncio.ensure_future(self._connect())
        return self._connecting

    async def ready(self) -> None:
        """Return when it is connected. Raises ServerFailed."""
        if self.enabled and self.failure:
            await asyncio.shield(self.begin())
        if self.failure or not self.enabled:
            raise ServerFailed(self.failure or "it is disabled")

    async def _connect(self, wait: float = 0.0) -> None:
        """Connect, and store a failure in `failure`."""
        await asyncio.sleep(wait)
        link = self._link = Link()
        failure = ""
        try:
            if self.entry.problem:
                raise ServerFailed(self.entry.problem)
            async with asyncio.timeout(self.limits.connect_s):
                await self._open(link)
        except TimeoutError:
            failure = f"no answer within {self.limits.connect_s:g} s{link.hint}"
        except ServerFailed as error:
            cause = link.failure(error)
            failure = str(cause) or "it failed"
            self.needs_login = isinstance(cause, NeedsLogin)
        except BaseException:
            link.drop("it was stopped")
            raise
        self.failure = failure
        if failure:
            link.drop(failure)
        self.changed(self, ServerChange("failed" if failure else "connected"))

    async def _open(self, link: Link) -> None:
        """Open the connection, initialize the session, and ask for the offer. Raises ServerFailed."""
        session = McpSession(link.send, self._notified, self.limits.elicits)
        link.session = session
        link.connection = await self.open(session.receive, lambda why: self._lost(link, why))
        self.needs_login = False
        self.greeting = await session.begin()
        self.offer = await ask_offer(session, self.greeting, self.word)

    async def request(
        self, method: str, params: Message, progress: Callable[[str], None] | None = None
    ) -> Message:
        """Return the result of a request, within the limit of a call. Raises ServerFailed."""
        await self.ready()
        link = self._link
        limit = self.entry.timeout_s or self.limits.call_s
        try:
            async with asyncio.timeout(limit):
                result = await link.request(method, params, progress)
        except TimeoutError:
            raise ServerFailed(f"no answer within {limit:g} s; the call was cancelled") from None
        except ServerFailed as error:
            raise link.failure(error) from error
        self._reconnects = 0
        return result

    def _lost(self, link: Link, why: str) -> None:
        """Reconnect after a connection was lost: twice automatically, then at the next call."""
        if link.session is not None:
            link.session.lose(why)
        if link is not self._link or self.failure:
            return  # connecting reports it
        self.failure = why
        link.drop(why)
        reconnects = self.enabled and self._reconnects < len(RECONNECT_WAITS_S)
        if reconnects:
            wait = RECONNECT_WAITS_S[self._reconnects]
            self._reconnects += 1
            self._connecting = asyncio.ensure_future(self._connect(wait))
        self.changed(self, ServerChange("failed", reconnects=reconnects))

    def _notified(self, method: str, params: Message) -> None:
        if method == ELICITATION:
            self.changed(self, ServerChange("asked", str(params.get("message", ""))[:200]))
        if method.endswith("/list_changed") and not self.failure:
            self._stale = True
            if self._listing is None or self._listing.done():
                self._listing = asyncio.ensure_future(self._list_again())

    async def _list_again(self) -> None:
        """Request the lists again, once for a burst of notifications."""
        before = self.offer
        while self._stale and (session := self._link.session) is not None:
            await asyncio.sleep(CHANGES_WAIT_S)
            self._stale = False
            try:
                async with asyncio.timeout(self.limits.connect_s):
                    self.offer = await ask_offer(session, self.greeting, self.word)
            except (TimeoutError, ServerFailed):
                return  # the lists are unchanged; a lost connection is reported elsewhere
        if self.offer != before:
            self.changed(self, ServerChange("changed"))

    async def reconnect(self) -> None:
        """Reconnect, and store a failure in `failure`."""
        if not self.approved:
            return
        await self.stop()
        self.switched_on = True
        self._reconnects = 0
        await asyncio.shield(self.begin())

    async def toggle(self, enabled: bool) -> None:
        """Enable it, which connects it, or disable it, which stops it."""
        if enabled and not self.enabled:
            await self.reconnect()
        elif not enabled:
            self.switched_on = False
            await self.stop(self._how_to_enable())

    async def approve(self, approved: bool) -> None:
        """Approve it, which begins to connect it, or withdraw the approval, which stops it."""
        if approved == self.approved:
            return
        self.approved = approved
        if not approved:
            await self.stop(NOT_APPROVED)
        elif self.switched_on:
            self.begin()
        else:
            self.failure = self._how_to_enable()

    def _how_to_enable(self) -> str:
        return f"it is disabled; /mcp on {self.entry.name} starts it"

    async def stop(self, why: str = "it was stopped") -> None:
        """Close the connection, or cancel the attempt to establish one."""
        self.failure = why
        tasks = [task for task in (self._connecting, self._listing) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._connecting = None
        self._listing = None
        self._link.drop(why)


def client_servers(names: Iterable[str], open: Callable[[str], Opener], call_s: float) -> list[McpServer]:
    """Return the servers of these names that run in a client; `open` returns the opener of each."""
    distinct = list(dict.fromkeys(names))
    words = server_words(distinct)
    limits = ServerLimits(call_s=call_s)
    return [
        McpServer(
            read_entry(name, {"type": "sdk"}, "flag", {}), word=words[name], open=open(name), limits=limits
        )
        for name in distinct
    ]


async def wait_for(servers: Iterable[McpServer], limit: float) -> None:
    """Wait until the servers are connected or have failed, at most that many seconds."""
    under_way = {server.begin() for server in servers if server.failure and server.enabled}
    if under_way:
        await asyncio.wait(under_way, timeout=limit)
