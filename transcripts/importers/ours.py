"""Our own transcripts: what was said and done in them, without the room that was made meanwhile.

The facts are folded first, so that what was rewound or answered anew is gone; compactions, requests and
refusals are left out, for replay makes its own.
"""

from __future__ import annotations

from dataclasses import replace

from transcripts.codec import BadLine, decode
from transcripts.facts import Fact, Metadata, Reply, Result, User
from transcripts.fold import Folded

from .assembly import Count, ImportedSession
from .lines import Sample


def matches(seen: Sample) -> bool:
    """Whether the lines are numbered facts with a checksum."""
    return any({"v", "seq", "sid", "kind", "crc"} <= raw.keys() for raw in seen.objects)


def load(text: str, count: Count) -> ImportedSession:
    """Users, complete replies, their results and the notes (pins), numbered anew from 1."""
    folded, damaged, skipped = Folded(), 0, 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            folded.apply(decode(line.encode())[0])
        except BadLine:
            damaged += 1
    facts: list[Fact] = []
    numbers: dict[int, int] = {}
    for fact in folded.facts:
        renumbered = _renumber(fact, numbers, len(facts) + 1, count)
        if renumbered is None:
            skipped += 1
        else:
            numbers[fact.seq] = renumbered.seq
            facts.append(renumbered)
    return ImportedSession("makeroom", tuple(facts), True, damaged + folded.orphans, skipped)


def _renumber(fact: Fact, numbers: dict[int, int], seq: int, count: Count) -> Fact | None:
    match fact:
        case User():
            return replace(fact, seq=seq, tokens=count(fact.blocks))
        case Reply(complete=True):
            return replace(fact, seq=seq, tokens=count(fact.blocks), asked=None)
        case Result() if fact.of in numbers:
            return replace(fact, seq=seq, of=numbers[fact.of], tokens=count(fact.content))
        case Metadata():
            return replace(fact, seq=seq)
    return None
