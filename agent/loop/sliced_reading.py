"""Read what compaction keeps about a session, in slices between which keys are handled.

After a long session was resumed, that takes seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from agent.session import Session, fetch_results
from compact import Preparation, TokenCounter
from transcripts import StoreError

SLICE_S = 0.01  # of work between which other tasks run


async def track_blocks(session: Session, counter: TokenCounter) -> None:
    """Update the tracker of a session's blocks, and what a local summary needs."""
    await read_results(session)
    await in_slices(Preparation(session.folded).between_turns(counter))


async def read_for_plan(session: Session) -> None:
    """Read the parts of a session that every plan needs."""
    await read_results(session)
    await in_slices(Preparation(session.folded).of_plan())


async def account_for_all(session: Session) -> None:
    """Prepare a local summary of the whole session."""
    await in_slices(Preparation(session.folded).of_local_summary())


class _ResultsRead(Struct):
    """The memory of a fold that the results which summaries read were loaded; a rewind discards it."""

    done: bool = False


async def read_results(session: Session) -> None:
    """Load the results that summaries read, before anything is made of them.

    New results are in memory, and what summaries read of the others becomes less.
    """
    read = session.folded.memo(_ResultsRead)
    if session.deferred and not read.done:
        with suppress(StoreError):  # the summary says less
            await fetch_results(session, Preparation(session.folded).results_read())
            read.done = True


async def in_slices(steps: Iterator[None]) -> None:
    """Take all steps, and let other tasks run after each slice."""
    now = asyncio.get_running_loop().time
    began = now()
    for _ in steps:
        if now() - began >= SLICE_S:
            await asyncio.sleep(0)
            began = now()
