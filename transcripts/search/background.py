"""Update the search index in the background of a session."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread

from ..errors import StoreError
from .filling import IndexFiller
from .index_file import IndexUnavailable, open_database, recorded_sids


def update_index(home: Path, is_over: Callable[[], bool]) -> bool:
    """Update the project's index in small steps, between which searches can use it.

    Blocks; ends early once `is_over` returns True. Returns False only if the index cannot be used.
    """
    with suppress(IndexUnavailable, StoreError):
        sids = recorded_sids(home)
        left: Sequence[str] = sids
        while not is_over():
            with open_database(home) as database:
                until = time.monotonic() + 0.2
                filler = IndexFiller(home, database)
                if filler.forget_all_but(sids):
                    left = sids
                    continue
                left = filler.update(left, until)
                if not left and filler.merge(until):
                    return True
        return True
    return False


class IndexThread:
    """Updates a project's index in the background of a session without delaying it or its end."""

    def __init__(self) -> None:
        self._over = Event()
        self._thread: Thread | None = None

    def begin(self, home: Path) -> None:
        """Start updating, unless the thread is already running."""
        if self._thread is None or not self._thread.is_alive():
            work = partial(update_index, home, self._over.is_set)
            self._thread = Thread(target=work, name="search index", daemon=True)
            self._thread.start()

    def end(self, wait: bool) -> None:
        """Stop soon; with `wait`, return when the thread has ended."""
        self._over.set()
        if wait and self._thread is not None:
            self._thread.join()
