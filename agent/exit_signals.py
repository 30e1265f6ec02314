"""End a run on SIGINT, SIGTERM and SIGHUP: the faces without a screen share this."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


class ExitSignal:
    """The signal that ends a run. `code` is the exit code that follows from it, 0 if none has arrived."""

    def __init__(self) -> None:
        self.code = 0

    def cancel_on_arrival(self, task: asyncio.Future[Any]) -> None:
        """Cancel the task on the first signal of a kind; the same one again has its default effect."""
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            self.code = self.code or 128 + number
            task.cancel()
            loop.remove_signal_handler(number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)


async def run_until_signal(work: Coroutine[Any, Any, int], ending: ExitSignal) -> int:
    """Return the exit code of a piece of work, or the one that follows from a signal that ended it."""
    task = asyncio.ensure_future(work)
    ending.cancel_on_arrival(task)
    try:
        return await task
    except asyncio.CancelledError:
        return ending.code or 130
