"""One MCP server: connected when it is needed, connected again when it was lost, asked with limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .entries import ServerEntry
from .offer import Offer, ask_offer
from .session import ELICITATION, ConnectionLost, McpSession, Message, ServerFailed

MCP_CONNECT_TIMEOUT_S = 30.0  # MCP_TIMEOUT, in milliseconds, replaces it
SERVER_CALL_TIMEOUT_S = 300.0  # MCP_TOOL_TIMEOUT, in milliseconds, and `timeout` of an entry
MAX_QUESTION_CHARS = 200  # of a server's question that the person is told
MAX_RECONNECTS = 2  # by itself; then at the next call
RECONNECT_WAITS_S = (0.2, 2.0)
CHANGES_WAIT_S = 0.1  # that further notes of changed lists are waited for: servers send bursts
NOT_STARTED = "it was not started yet"
ServerState = Literal["pending", "connected", "failed", "disabled", "needs-auth"]


class NeedsLogin(ServerFailed):
    """A server wants the person to log in."""


class Connection(Protocol):
    """How messages reach one server."""

    async def send(self, message: Message) -> None: ...

    def close(self) -> None: ...

    @property
    def hint(self) -> str:
        """What is known about why it does not answer, to be added to that."""

    def failure(self, reason: str) -> ServerFailed:
        """The error for a reason, with what the connection knows of it."""


# Opens a connection, given what takes messages and what is told that it was lost. Raises ServerFailed.
Opener = Callable[[Callable[[Any], None], Callable[[str], None]], Awaitable[Connection]]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How long a server is waited for, in seconds; whether it may ask the person something."""

    connect_s: float = MCP_CONNECT_TIMEOUT_S
    call_s: float = SERVER_CALL_TIMEOUT_S
    elicits: bool = False

    @classmethod
    def of(cls, environ: Mapping[str, str], elicits: bool) -> ServerLimits:
        """The limits with what the environment says, in milliseconds."""
        connect, call = environ.get("MCP_TIMEOUT", "").strip(), environ.get("MCP_TOOL_TIMEOUT", "").strip()
        return cls(
            float(connect) / 1000 if connect else MCP_CONNECT_TIMEOUT_S,
            float(call) / 1000 if call else SERVER_CALL_TIMEOUT_S,
            elicits,
        )


@dataclass(slots=True)
class Link:
    """The connection that a server has now, if any."""

    session: McpSession | None = None
    connection: Connection | None = None

    async def send(self, message: Message) -> None:
        """Pass a message on. Raises ServerFailed."""
        if self.connection is None:
            raise ConnectionLost("it is not connected")
        await self.connection.send(message)

    async def request(self, method: str, params: Message, progress: Callable[[str], None] | None) -> Message:
        """The result of a request. Raises ServerFailed."""
        if self.session is None:
            raise ConnectionLost("it is not connected")
        return await self.session.request(method, params, progress)

    def drop(self, reason: str) -> None:
        """End it; what waits for an answer fails for this reason."""
        session, connection = self.session, self.connection
        self.session, self.connection = None, None
        if session is not None:
            session.lose(reason or "the connection was closed")
        if connection is not None:
            connection.close()


@dataclass(slots=True, eq=False)
class McpServer:
    """A server. `word` stands for it in the names of its tools.

    changed  is told what happens: "connected", "failed", "changed" (its lists), "asked QUESTION"
    failure  why it is not connected, "" while it is
    """

    entry: ServerEntry
    word: str
    open: Opener
    limits: ServerLimits = field(default_factory=ServerLimits)
    changed: Callable[[McpServer, str], None] = lambda server, what: None
    enabled: bool = True
    failure: str = NOT_STARTED
    needs_login: bool = False
    greeting: Message = field(default_factory=dict)  # its answer to initialize
    offer: Offer = field(default_factory=Offer)
    _link: Link = field(default_factory=Link)
    _connecting: asyncio.Task[None] | None = None
    _listing: asyncio.Task[None] | None = None
    _stale: bool = False  # its lists have changed since they were asked for
    _reconnects: int = 0

    @property
    def state(self) -> ServerState:
        if not self.enabled:
            return "disabled"
        if not self.failure:
            return "connected"
        if self.failure == NOT_STARTED or (self._connecting is not None and not self._connecting.done()):
            return "pending"
        return "needs-auth" if self.needs_login else "failed"

    def begin(self) -> asyncio.Task[None]:
        """Begin to connect, unless that is under way or done already."""
        if self._connecting is None or (self._connecting.done() and self.failure):
            self._connecting = asyncio.ensure_future(self._connect())
        return self._connecting

    async def ready(self) -> None:
        """Return when it is connected. Raises ServerFailed."""
        if self.enabled and self.failure:
            await asyncio.shield(self.begin())
        if self.failure or not self.enabled:
            raise ServerFailed(self.failure or "it is switched off")

    async def _connect(self, wait: float = 0.0) -> None:
        """Connect; what goes wrong is kept in `failure`."""
        await asyncio.sleep(wait)
        link, failure = Link(), ""
        session = link.session = McpSession(link.send, self._notified, self.limits.elicits)
        self._link = link
        try:
            if self.entry.problem:
                raise ServerFailed(self.entry.problem)
            async with asyncio.timeout(self.limits.connect_s):
                link.connection = await self.open(session.receive, lambda why: self._lost(link, why))
                self.needs_login = False
                self.greeting = await session.begin()
                self.offer = await ask_offer(session, self.greeting, self.word)
        except TimeoutError:
            hint = link.connection.hint if link.connection is not None else ""
            failure = f"no answer within {self.limits.connect_s:g} s{hint}"
        except ServerFailed as error:
            told = error if link.connection is None else link.connection.failure(str(error))
            failure, self.needs_login = str(told) or "it failed", isinstance(told, NeedsLogin)
        except BaseException:
            link.drop("it was stopped")
            raise
        self.failure = failure
        if failure:
            link.drop(failure)
        self.changed(self, "failed" if failure else "connected")

    async def request(
        self, method: str, params: Message, progress: Callable[[str], None] | None = None
    ) -> Message:
        """The result of a request, within the limit of a call. Raises ServerFailed."""
        await self.ready()
        link, limit = self._link, self.entry.timeout_s or self.limits.call_s
        try:
            async with asyncio.timeout(limit):
                result = await link.request(method, params, progress)
        except TimeoutError:
            raise ServerFailed(f"no answer within {limit:g} s; the call was given up") from None
        except ServerFailed as error:
            raise error if link.connection is None else link.connection.failure(str(error)) from error
        self._reconnects = 0
        return result

    def _lost(self, link: Link, why: str) -> None:
        """A connection has ended by itself: begin again, twice; then at the next call."""
        if link.session is not None:
            link.session.lose(why)
        if link is not self._link or self.failure:
            return  # it is being connected, which tells it
        self.failure = why
        link.drop(why)
        if self.enabled and self._reconnects < MAX_RECONNECTS:
            wait = RECONNECT_WAITS_S[self._reconnects]
            self._reconnects += 1
            self._connecting = asyncio.ensure_future(self._connect(wait))
        self.changed(self, "failed")

    def _notified(self, method: str, params: Message) -> None:
        if method == ELICITATION:
            self.changed(self, f"asked {str(params.get('message', ''))[:MAX_QUESTION_CHARS]}")
        if method.endswith("/list_changed") and not self.failure:
            self._stale = True
            if self._listing is None or self._listing.done():
                self._listing = asyncio.ensure_future(self._list_again())

    async def _list_again(self) -> None:
        """Ask for the lists anew, once for a burst of notes."""
        before = self.offer
        while self._stale and (session := self._link.session) is not None:
            await asyncio.sleep(CHANGES_WAIT_S)
            self._stale = False
            try:
                async with asyncio.timeout(self.limits.connect_s):
                    self.offer = await ask_offer(session, self.greeting, self.word)
            except (TimeoutError, ServerFailed):
                return  # it keeps what it had; a connection that was lost is told elsewhere
        if self.offer != before:
            self.changed(self, "changed")

    async def reconnect(self) -> None:
        """Connect anew; how that went is in `failure`."""
        await self.stop()
        self.enabled, self._reconnects = True, 0
        await asyncio.shield(self.begin())

    async def toggle(self, enabled: bool) -> None:
        """Switch it on, which connects it, or off, which ends it."""
        if enabled and not self.enabled:
            await self.reconnect()
        elif not enabled:
            self.enabled = False
            await self.stop("it is switched off")

    async def stop(self, why: str = "it was stopped") -> None:
        """End the connection, or the try to make one."""
        self.failure = why
        tasks = [task for task in (self._connecting, self._listing) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._connecting, self._listing = None, None
        self._link.drop(why)
