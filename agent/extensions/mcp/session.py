"""One connection to an MCP server: JSON-RPC requests with ids, answers, notifications; over any transport.

Whatever the other side sends is taken: an answer to nothing, junk and unknown methods change nothing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agent.version import __version__

MCP_PROTOCOL = "2025-11-25"  # servers answer with the newest that they know
MAX_LIST_PAGES = 100
MAX_LIST_ITEMS = 5_000
MAX_WAITING_ANSWERS = 100  # to requests of a server that does not take them
METHOD_NOT_FOUND = -32601
ELICITATION = "elicitation/create"  # the server asks the person something
MAX_TOLD_ERROR_CHARS = 2_000
Message = Mapping[str, Any]


class ServerFailed(Exception):
    """A server did not do what it was asked for; the text says why."""


class ConnectionLost(ServerFailed):
    """The connection to a server has ended."""


class McpSession:
    """The requests under way over one connection.

    send      passes a message on; returns when it is on its way, or answered. Raises ServerFailed
    notified  is told of each notification, and of questions that were declined: method and parameters
    elicits   the server may ask the person something; it is declined
    """

    def __init__(
        self,
        send: Callable[[Message], Awaitable[None]],
        notified: Callable[[str, Message], None] = lambda method, params: None,
        elicits: bool = False,
    ) -> None:
        self._send, self._notified, self._elicits = send, notified, elicits
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._progress: dict[str, Callable[[str], None]] = {}
        self._idents = itertools.count(1)
        self._answers: set[asyncio.Task[None]] = set()
        self._lost = ""

    async def begin(self) -> Message:
        """Shake hands; the server's greeting. Raises ServerFailed."""
        capabilities: Message = {"elicitation": {}} if self._elicits else {}
        about = {"name": "makeroom", "version": __version__}
        greeting = await self.request(
            "initialize",
            {"protocolVersion": MCP_PROTOCOL, "capabilities": capabilities, "clientInfo": about},
        )
        await self.notify("notifications/initialized")
        return greeting

    async def request(
        self, method: str, params: Message | None = None, progress: Callable[[str], None] | None = None
    ) -> Message:
        """The result of a request. When cancelled, the server is told. Raises ServerFailed."""
        if self._lost:
            raise ConnectionLost(self._lost)
        number = next(self._idents)
        ident, given = str(number), dict(params or {})
        if progress is not None:
            given["_meta"], self._progress[ident] = {"progressToken": number}, progress
        answer = self._waiting[ident] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": given})
            result: Message = await answer
            return result
        except asyncio.CancelledError:
            if method != "initialize" and not self._lost:
                about = {"requestId": number, "reason": "no longer wanted"}
                self._later({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": about})
            raise
        finally:
            self._waiting.pop(ident, None)
            self._progress.pop(ident, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # it was taken note of

    async def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification. Raises ServerFailed."""
        await self._send({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    async def items(self, method: str, key: str) -> list[Message]:
        """All items of a list, page by page. Raises ServerFailed."""
        found: list[Message] = []
        cursor, seen = None, set[str]()
        for _ in range(MAX_LIST_PAGES):
            page = await self.request(method, {} if cursor is None else {"cursor": cursor})
            items = page.get(key)
            found += [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or cursor in seen or len(found) >= MAX_LIST_ITEMS:
                break
            seen.add(cursor)
        return found[:MAX_LIST_ITEMS]

    def receive(self, message: Any) -> None:
        """Take in what the server sent, or a batch of that."""
        if isinstance(message, list):
            for each in message[:MAX_LIST_ITEMS]:
                if isinstance(each, dict):
                    self.receive(each)
        elif isinstance(message, dict) and isinstance(method := message.get("method"), str):
            params = message.get("params")
            params = params if isinstance(params, dict) else {}
            if "id" in message:
                if len(self._answers) < MAX_WAITING_ANSWERS:
                    self._later(self._answer(message["id"], method))
                if method == ELICITATION and self._elicits:
                    self._notified(method, params)
            elif method == "notifications/progress":
                self._tell_progress(params)
            else:
                self._notified(method, params)
        elif isinstance(message, dict):
            self._settle(message)

    def _settle(self, message: Message) -> None:
        waiting = self._waiting.get(str(message.get("id")))
        if waiting is None or waiting.done():
            return
        if (error := message.get("error")) is not None:
            told = error.get("message") if isinstance(error, dict) else error
            waiting.set_exception(ServerFailed(str(told)[:MAX_TOLD_ERROR_CHARS]))
        else:
            result = message.get("result")
            waiting.set_result(result if isinstance(result, dict) else {})

    def _tell_progress(self, params: Message) -> None:
        tell = self._progress.get(str(params.get("progressToken")))
        if tell is not None:
            done, total = params.get("progress"), params.get("total")
            told = f"{done} of {total}" if total else f"{done}"
            tell(f"{told} {params.get('message') or ''}".strip() + "\n")

    def _answer(self, ident: Any, method: str) -> Message:
        """The answer to a request of the server."""
        if method == "ping":
            return {"jsonrpc": "2.0", "id": ident, "result": {}}
        if method == ELICITATION and self._elicits:
            return {"jsonrpc": "2.0", "id": ident, "result": {"action": "decline"}}
        error = {"code": METHOD_NOT_FOUND, "message": f"{method} is not supported"}
        return {"jsonrpc": "2.0", "id": ident, "error": error}

    def _later(self, message: Message) -> None:
        """Send without being waited for."""

        async def send() -> None:
            try:
                await self._send(message)
            except ServerFailed as error:
                self.lose(str(error))

        task = asyncio.ensure_future(send())
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    def lose(self, reason: str) -> None:
        """The connection has ended: what waits fails."""
        self._lost = self._lost or reason or "the connection ended"
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionLost(self._lost))
