"""Bring the search index up to date behind a session."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread

from ..errors import StoreError
from .filling import IndexFiller
from .index_file import IndexUnavailable, open_database, recorded_sids


def update_index(home: Path, is_over: Callable[[], bool]) -> bool:
    """Bring the project's index up to date, a little at a time so that searches come in between.

    Blocks; ends early once `is_over`. Returns False only where the index cannot be used.
    """
    with suppress(IndexUnavailable, StoreError):
        sids = recorded_sids(home)
        while not is_over():
            with open_database(home) as database:
                until = time.monotonic() + 0.2
                filler = IndexFiller(home, database)
                if filler.forget_all_but(sids):
                    continue
                if not filler.update(sids, until) and filler.merge(until):
                    return True
        return True
    return False


class IndexThread:
    """Brings a project's index up to date behind a session, which neither waits for it nor ends late."""

    def __init__(self) -> None:
        self._over = Event()
        self._thread: Thread | None = None

    def begin(self, home: Path) -> None:
        """Begin, unless it is at work already."""
        if self._thread is None or not self._thread.is_alive():
            work = partial(update_index, home, self._over.is_set)
            self._thread = Thread(target=work, name="search index", daemon=True)
            self._thread.start()

    def end(self, wait: bool) -> None:
        """End it soon; with `wait`, return when it has ended."""
        self._over.set()
        if wait and self._thread is not None:
            self._thread.join()
