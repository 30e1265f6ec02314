"""What is to be done, in order: prompts and commands wait here while another one runs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .completion import is_command


@dataclass(frozen=True, slots=True)
class QueuedInput:
    """One thing to do. `text` may hold chips, `whole` is what it stands for, `shown` is its echo."""

    text: str
    whole: str
    shown: str

    @property
    def is_command(self) -> bool:
        return is_command(self.whole.strip()) or self.whole.lstrip().startswith("!")


class InputQueue:
    """The queue and the one task that works it off. `run` does one item.

    `beside` tells which command lines may run while something else does.
    """

    def __init__(
        self,
        run: Callable[[QueuedInput], Awaitable[None]],
        changed: Callable[[], None],
        beside: Callable[[str], bool] = lambda line: False,
    ) -> None:
        self._run = run
        self._beside_too = beside
        self._changed = changed
        self._items: deque[QueuedInput] = deque()
        self._more = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._beside: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> bool:
        return self._task is not None

    @property
    def queued(self) -> list[QueuedInput]:
        return list(self._items)

    def add(self, item: QueuedInput) -> None:
        """Queue an item; one that only looks runs at once beside what runs."""
        if self._task is not None and item.is_command and self._beside_too(item.whole.strip()):
            task = asyncio.ensure_future(self._run(item))
            self._beside.add(task)
            task.add_done_callback(self._beside.discard)
            return
        self._items.append(item)
        self._more.set()
        self._changed()

    def take_last(self) -> QueuedInput | None:
        """Take the newest waiting item out."""
        return self._items.pop() if self._items else None

    def take_all(self) -> list[QueuedInput]:
        """Take all waiting items out, oldest first."""
        taken, self._items = list(self._items), deque()
        return taken

    def interrupt(self) -> bool:
        """End what runs. False when nothing does."""
        return self._task is not None and self._task.cancel()

    async def go(self) -> None:
        """Work items off, one at a time, until cancelled."""
        while True:
            while not self._items:
                self._more.clear()
                await self._more.wait()
            await self._one(self._items.popleft())

    async def _one(self, item: QueuedInput) -> None:
        self._task = asyncio.ensure_future(self._run(item))
        try:
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()
        finally:
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task])
            self._task = None
            self._changed()
