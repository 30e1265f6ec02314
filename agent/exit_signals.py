"""End a run on SIGINT, SIGTERM and SIGHUP: the faces without a screen share this."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def cancel_on_signals(task: asyncio.Future[Any], signalled: list[int]) -> None:
    """Cancel the task on a signal, and append the exit code that follows from it to `signalled`.

    The first signal of a kind ends the run; the same one again has its default effect.
    """
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        signalled.append(128 + number)
        task.cancel()
        loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)


async def run_until_signal(work: Coroutine[Any, Any, int], signalled: list[int]) -> int:
    """Return the exit code of a piece of work, or the one that follows from a signal that ended it."""
    task = asyncio.ensure_future(work)
    cancel_on_signals(task, signalled)
    try:
        return await task
    except asyncio.CancelledError:
        return signalled[0] if signalled else 130
