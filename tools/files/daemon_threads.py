"""Run blocking work in threads that delay neither the session nor exiting if they hang.

Executors of the standard library would wait at exit for a thread that hangs in a dead mount.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class FileSystemSilent(TimeoutError):
    """The work exceeded its time limit."""


# Idle threads take the next work item.
_idle_threads: list[SimpleQueue[Callable[[], None]]] = []
os.register_at_fork(after_in_child=_idle_threads.clear)


async def in_daemon_thread(timeout_s: float, work: Callable[[threading.Event], T]) -> T:
    """Run blocking work in a daemon thread. It gets an event that is set once its result is not needed.

    Raises FileSystemSilent after `timeout_s`, and the exceptions of the work.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    abandoned = threading.Event()

    def act() -> None:
        try:
            settle = functools.partial(done.set_result, work(abandoned))
        except BaseException as error:  # noqa: BLE001 - raised again where the future is awaited
            settle = functools.partial(done.set_exception, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: done.done() or settle())

    _submit(act)
    try:
        async with asyncio.timeout(timeout_s):
            return await done
    except TimeoutError:
        if not done.cancelled():  # raised by the work, as a network mount may do
            raise
        raise FileSystemSilent(f"no answer within {timeout_s:g} s") from None
    finally:
        abandoned.set()


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
