"""Reads our own transcripts: prompts, replies, results and metadata, without what was compacted or rewound.

The facts are folded first, so that rewound stretches are gone; compactions, requests and failures are left
out, for a replay makes its own.
"""

from __future__ import annotations

from dataclasses import replace

from transcripts.codec import BadLine, decode_line
from transcripts.facts import Fact, Metadata, Reply, Result, User
from transcripts.fold import Folded

from .recording import Count, ImportedSession, Sample


def recognizes(sample: Sample) -> bool:
    """Whether the lines are numbered facts with a checksum."""
    return any({"v", "seq", "sid", "kind", "crc"} <= raw.keys() for raw in sample.objects)


def read_session(text: str, count: Count) -> ImportedSession:
    """Prompts, complete replies, their results and the metadata (pins), numbered anew from 1."""
    folded, damaged, skipped = Folded(), 0, 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            folded.apply(decode_line(line.encode())[0])
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
    return ImportedSession("makeroom", tuple(facts), damaged + folded.conversation.orphans, skipped)


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
