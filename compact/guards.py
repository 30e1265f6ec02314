"""What keeps compaction from running away: the circuit breaker, the guard against thrash, exempt stretches.

All of it is read off the record, so that it holds through a restart.
"""

from __future__ import annotations

from dataclasses import dataclass

from transcripts.facts import Clear, Compacted, Fold, Reply, User
from transcripts.fold import Folded

from .plan import Situation
from .settings import CompactSettings


def summaries_broken(folded: Folded, settings: CompactSettings) -> bool:
    """Whether so many summaries in a row have failed that none is asked for until `/compact`."""
    last = max(
        (c.seq for c in folded.compactions if c.layer == "summary" or c.trigger == "manual"), default=0
    )
    failures = sum(1 for each in folded.failures if each.what == "summary" and each.seq > last)
    return failures >= settings.breaker


def thrashing(folded: Folded, settings: CompactSettings) -> bool:
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


@dataclass(frozen=True, slots=True)
class Exemptions:
    """What the person brought back: automatic layers leave it alone until the window forces them.

    clears  (seq, block, field) of single pieces; ranges (first, last) of facts that were folded
    """

    clears: frozenset[tuple[int, int, str]] = frozenset()
    ranges: tuple[tuple[int, int], ...] = ()

    def holds(self, seq: int, block: int, field: str) -> bool:
        """Whether a piece is exempt."""
        return (seq, block, field) in self.clears or self.within(seq, seq)

    def within(self, first: int, last: int) -> bool:
        """Whether any of the facts first..last is exempt."""
        return any(start <= last and first <= end for start, end in self.ranges)


def exemptions(situation: Situation) -> Exemptions:
    """What is exempt now: nothing where the window leaves no choice."""
    folded = situation.folded
    if not folded.undone or situation.pressed:
        return Exemptions()
    undone = [edit for made in folded.compactions if made.id in folded.undone for edit in made.edits]
    clears = frozenset((edit.seq, edit.block, edit.field) for edit in undone if isinstance(edit, Clear))
    folds = [edit for edit in undone if isinstance(edit, Fold) and not _folded_again(folded, edit)]
    return Exemptions(clears, tuple((edit.first, edit.last) for edit in folds))


def _folded_again(folded: Folded, fold: Fold) -> bool:
    """Whether a fold that was asked for since then, or that is wider, stands over an undone one."""
    wider = folded.edits.covering(fold.first)
    return wider is not None and wider.last >= fold.last


def in_force(folded: Folded) -> list[Compacted]:
    """The compactions that were not undone, oldest first."""
    return [made for made in folded.compactions if made.id not in folded.undone]
