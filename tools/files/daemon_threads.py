"""Run blocking work in threads that delay neither the session nor exiting if they hang.

Executors of the standard library would wait at exit for a thread that hangs in a dead mount.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


MAX_LIMITS = 6  # time limits in a row for work that computes


class FileSystemSilent(TimeoutError):
    """The work waited for the file system for its whole time limit."""


class WorkTooLong(TimeoutError):
    """The work was still computing after MAX_LIMITS time limits."""


# Idle threads take the next work item.
_idle_threads: list[SimpleQueue[Callable[[], None]]] = []
os.register_at_fork(after_in_child=_idle_threads.clear)


_MIN_CPU_SHARE = 0.01  # of a time limit, from which work computes rather than waits; a hanging call uses none


async def in_daemon_thread(timeout_s: float, work: Callable[[threading.Event], T]) -> T:
    """Run blocking work in a daemon thread. It gets an event that is set once its result is not needed.

    Raises FileSystemSilent if it waits for `timeout_s`, WorkTooLong if it computes for much longer, and the
    exceptions of the work.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    abandoned = threading.Event()
    clock = _ThreadClock()

    def act() -> None:
        clock.start()
        try:
            settle = functools.partial(done.set_result, work(abandoned))
        except BaseException as error:  # noqa: BLE001 - raised again where the future is awaited
            settle = functools.partial(done.set_exception, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: done.done() or settle())

    _submit(act)
    try:
        for _ in range(MAX_LIMITS):
            await asyncio.wait([done], timeout=timeout_s)
            if done.done():
                return done.result()
            if clock.lap() < _MIN_CPU_SHARE * timeout_s:
                raise FileSystemSilent(f"no answer within {timeout_s:g} s")
        raise WorkTooLong(f"not done after {MAX_LIMITS * timeout_s:g} s")
    finally:
        abandoned.set()
        done.cancel()


class _ThreadClock:
    """The CPU time of the thread that called `start`; without such clocks (macOS) none is measured."""

    def __init__(self) -> None:
        self._clock: int | None = None
        self._last = 0.0

    def start(self) -> None:
        if sys.platform == "linux":
            clock = time.pthread_getcpuclockid(threading.get_ident())
            self._last = time.clock_gettime(clock)
            self._clock = clock

    def lap(self) -> float:
        """Return the seconds of CPU since the last call or the start."""
        if self._clock is None:
            return 0.0
        before = self._last
        self._last = time.clock_gettime(self._clock)
        return self._last - before


def _submit(work: Callable[[], None]) -> None:
    try:
        inbox = _idle_threads.pop()
    except IndexError:
        inbox = SimpleQueue()
        threading.Thread(target=_serve, args=(inbox,), name="makeroom-files", daemon=True).start()
    inbox.put(work)


def _serve(inbox: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        inbox.get()()
        _idle_threads.append(inbox)
