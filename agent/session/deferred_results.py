"""Load the results that a resumed session has left in its transcript, and read its facts beforehand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from transcripts import Folded, LazyResults, Result

from .environment import own_words_sent
from .late_news import telling_facts
from .plan_and_todo import newest_plan, newest_todos
from .session import Session
from .session_replay import count_earlier
from .skill_texts import skills_in_use


def read_all(folded: Folded) -> None:
    """Render the view and read each fact once here, where the event loop does not wait for it."""
    _ = folded.view
    newest_todos(folded)
    newest_plan(folded)
    skills_in_use(folded)
    own_words_sent(folded)
    telling_facts(folded)
    count_earlier(folded)


def load_deferred(session: Session) -> None:
    """Load the results that were left in the file, which is necessary before edits are undone.

    Raises StoreError if the transcript has changed in the meantime.
    """
    session.folded = session.deferred.complete(session.folded)
    session.deferred = LazyResults()


async def fetch_results(session: Session, seqs: Iterable[int]) -> None:
    """Load those of these results that are still in the file, in a thread.

    Raises StoreError if the transcript has changed.
    """
    deferred = session.deferred
    if not (wanted := [seq for seq in seqs if seq in deferred]):
        return
    found = await asyncio.to_thread(lambda: list(deferred.fetch(*wanted)))
    left = session.deferred  # others may have been loaded in the meantime
    session.folded.fill_in(fact for fact in found if isinstance(fact, Result) and fact.seq in left)
    session.deferred = left.without({fact.seq for fact in found})


async def fetch_deferred(session: Session) -> None:
    """Load these results in a thread, since that takes seconds for a session of 50 MB.

    Facts may be added in the meantime. Raises StoreError if the transcript has changed.
    """
    if not session.deferred:
        return
    before = session.folded
    last = before.last_seq
    complete = await asyncio.to_thread(session.deferred.complete, before)
    if session.folded is not before or before.last_seq != last:
        load_deferred(session)
        return
    session.folded = complete
    session.deferred = LazyResults()


async def prepare_rewind(session: Session, to: int) -> None:
    """Load the results that are shown before fact `to`, and fold what a rewind leaves, in a thread.

    Raises StoreError if the transcript has changed.
    """
    if not session.deferred and len(session.folded.facts) < 5_000:  # which are folded in 20 ms
        return
    folded = session.folded

    def shown() -> list[int]:
        earlier = [fact for fact in folded.facts if fact.seq < to]
        return list(session.deferred.shown(earlier).values())

    await fetch_results(session, await asyncio.to_thread(shown))
    await asyncio.to_thread(lambda: read_all(folded.prepare_rewind(to)))
