"""Ask the user about hosts that a running command wants to reach. Its connections wait for the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tools.sandbox import BlockedAccess, UnblockDecision


class HostQuestions:
    """The questions of one run of a command line, each host once, one question at a time."""

    def __init__(self, ask: Callable[[BlockedAccess], Awaitable[UnblockDecision]]) -> None:
        self._ask = ask
        self._answers: dict[tuple[str, str], asyncio.Task[UnblockDecision]] = {}
        self._turn = asyncio.Lock()
        self._asked_at: float | None = None  # the time of the question that is open
        self._waited_s = 0.0

    async def may_reach(self, host: str, address: str) -> bool:
        """Return whether the user allows a host, or that private address of it."""
        key = (host, address)
        if key not in self._answers:
            self._answers[key] = asyncio.create_task(self._answer(host, address))
        return (await asyncio.shield(self._answers[key])).answer != "no"

    async def _answer(self, host: str, address: str) -> UnblockDecision:
        loop = asyncio.get_running_loop()
        async with self._turn:
            self._asked_at = loop.time()
            try:
                return await self._ask(BlockedAccess("reach", host, waiting=True, address=address))
            finally:
                self._waited_s += loop.time() - self._asked_at
                self._asked_at = None

    def waited_s(self) -> float:
        """Return the seconds that the command has waited for answers."""
        if self._asked_at is None:
            return self._waited_s
        return self._waited_s + asyncio.get_running_loop().time() - self._asked_at

    def denied(self, host: str) -> UnblockDecision | None:
        """Return the answer that denied a host; None if there is none."""
        answers = (
            task.result() for (name, _), task in self._answers.items() if name == host and _is_answered(task)
        )
        return next((answer for answer in answers if answer.answer == "no"), None)

    def close(self) -> None:
        """Withdraw an open question."""
        for task in self._answers.values():
            task.cancel()


def _is_answered(task: asyncio.Task[UnblockDecision]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
