"""What keeps compaction from running away: the circuit breaker, the guard against thrash, exempt stretches.

All of it is read off the record, so that it holds through a restart.
"""

from __future__ import annotations

from transcripts.facts import Compacted, Reply, User
from transcripts.fold import Folded

from .settings import Settings


def broken(folded: Folded, settings: Settings) -> bool:
    """Whether so many summaries in a row have failed that none is asked for until `/compact`."""
    last = max(
        (c.seq for c in folded.compactions if c.layer == "summary" or c.trigger == "manual"), default=0
    )
    failures = sum(1 for each in folded.failures if each.what == "summary" and each.seq > last)
    return failures >= settings.breaker


def thrashing(folded: Folded, settings: Settings) -> bool:
    """Whether summaries follow each other so closely that another one would not help.

    Holds until the person says something: from then on it is another matter.
    """
    summaries = [made.seq for made in folded.compactions if made.layer == "summary"]
    if len(summaries) < settings.thrash_summaries:
        return False
    last = summaries[-1]
    span = summaries[-settings.thrash_summaries], last
    calls = 0
    for fact in reversed(folded.facts):
        if isinstance(fact, User) and fact.source == "user" and fact.seq > last:
            return False
        if fact.seq <= span[0]:
            break
        calls += isinstance(fact, Reply) and fact.seq <= last
    return calls <= settings.thrash_calls


def in_force(folded: Folded) -> list[Compacted]:
    """The compactions that were not undone, oldest first."""
    return [made for made in folded.compactions if made.id not in folded.undone]
