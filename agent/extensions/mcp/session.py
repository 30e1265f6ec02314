"""One session with an MCP server over any transport: JSON-RPC requests with ids, answers, notifications.

Any message of the server is accepted. Unexpected answers, junk and unknown methods have no effect.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agent.version import __version__

from .failures import ConnectionLost, ServerFailed

MAX_LIST_ITEMS = 5_000
ELICITATION = "elicitation/create"  # the server asks the user something
Message = Mapping[str, Any]


def object_in(found: object) -> dict[str, Any]:
    """Return an object that a server sends, {} for anything else in its place."""
    return found if isinstance(found, dict) else {}


def objects_in(found: object) -> list[dict[str, Any]]:
    """Return the objects of a list that a server sends, [] for anything else in its place."""
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


class McpSession:
    """The pending requests of one connection.

    send      sends a message; returns when it was sent or answered. Raises ServerFailed
    notified  is called with the method and parameters of each notification, and of each declined question
    elicits   the server may ask the user questions, which are declined
    """

    def __init__(
        self,
        send: Callable[[Message], Awaitable[None]],
        notified: Callable[[str, Message], None] = lambda method, params: None,
        elicits: bool = False,
    ) -> None:
        self._send = send
        self._notified = notified
        self._elicits = elicits
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._progress: dict[str, Callable[[str], None]] = {}
        self._idents = itertools.count(1)
        self._answers: set[asyncio.Task[None]] = set()
        self._lost = ""

    async def begin(self) -> Message:
        """Initialize the session; return the server's answer. Raises ServerFailed."""
        greeting = await self.request(
            "initialize",
            {
                "protocolVersion": "2025-11-25",  # servers answer with the newest version that they support
                "capabilities": {"elicitation": {}} if self._elicits else {},
                "clientInfo": {"name": "makeroom", "version": __version__},
            },
        )
        await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return greeting

    async def request(
        self, method: str, params: Message | None = None, progress: Callable[[str], None] | None = None
    ) -> Message:
        """Return the result of a request. Cancelling it cancels it on the server. Raises ServerFailed."""
        if self._lost:
            raise ConnectionLost(self._lost)
        number = next(self._idents)
        ident = str(number)
        given = dict(params or {})
        if progress is not None:
            given["_meta"] = {"progressToken": number}
            self._progress[ident] = progress
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
                answer.exception()  # marks it as retrieved

    async def items(self, method: str, key: str) -> list[Message]:
        """Return all items of a list, page by page. Raises ServerFailed."""
        found: list[Message] = []
        cursor = None
        seen: set[str] = set()
        for _ in range(100):
            page = await self.request(method, {} if cursor is None else {"cursor": cursor})
            found += objects_in(page.get(key))
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or cursor in seen or len(found) >= MAX_LIST_ITEMS:
                break
            seen.add(cursor)
        return found[:MAX_LIST_ITEMS]

    def receive(self, message: Any) -> None:
        """Take a message of the server, or a batch of messages."""
        if isinstance(message, list):
            for each in objects_in(message[:MAX_LIST_ITEMS]):
                self.receive(each)
        elif isinstance(message, dict):
            method = message.get("method")
            if not isinstance(method, str):
                self._settle(message)
                return
            params = object_in(message.get("params"))
            if "id" in message:
                self._requested(message["id"], method, params)
            elif method == "notifications/progress":
                self._report_progress(params)
            else:
                self._notified(method, params)

    def _settle(self, message: Message) -> None:
        """Pass an answer to the pending request."""
        waiting = self._waiting.get(str(message.get("id")))
        if waiting is None or waiting.done():
            return
        error = message.get("error")
        if error is not None:
            reason = error.get("message") if isinstance(error, dict) else error
            waiting.set_exception(ServerFailed(str(reason)[:2_000]))
        else:
            waiting.set_result(object_in(message.get("result")))

    def _report_progress(self, params: Message) -> None:
        report = self._progress.get(str(params.get("progressToken")))
        if report is not None:
            done = f"{params.get('progress')}"
            total = params.get("total")
            progress = f"{done} of {total}" if total else done
            report(f"{progress} {params.get('message') or ''}".strip() + "\n")

    def _requested(self, ident: Any, method: str, params: Message) -> None:
        """Answer a request of the server. Questions are declined."""
        declines = method == ELICITATION and self._elicits
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": ident}
        if method == "ping":
            answer["result"] = {}
        elif declines:
            answer["result"] = {"action": "decline"}
        else:
            answer["error"] = {"code": -32601, "message": f"{method} is not supported"}
        if len(self._answers) < 100:  # more are only pending if the server does not read them
            self._later(answer)
        if declines:
            self._notified(method, params)

    def _later(self, message: Message) -> None:
        """Send a message without waiting for it."""

        async def send() -> None:
            try:
                await self._send(message)
            except ServerFailed as error:
                self.lose(str(error))

        task = asyncio.ensure_future(send())
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    def lose(self, reason: str) -> None:
        """End the session, so that pending requests fail."""
        self._lost = self._lost or reason or "the connection ended"
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionLost(self._lost))
