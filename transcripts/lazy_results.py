"""The shelf: outputs that no view shows stay in the file, and are fetched when somebody asks for them.

Most bytes of a long session are tool outputs under a compaction. Their lines are checked but not parsed:
the fact in memory has the numbers, the flags and what the tool says of it, without content. The
conversation folds to the same messages, until something gives back what was left out: `needed_by` tells,
and then the record has to be read whole.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .codec import VERSION, BadLine, decode, from_raw, parse
from .disk import DISK, Disk
from .edits import ActiveEdits
from .facts import Compacted, Fact, Opened, Result, Rewound, Undone
from .fold import Folded, replaced

SMALL = 2_048  # bytes; a shorter line is parsed faster than it is looked up again
_HEAD = re.compile(
    rb'\{"v":%d,"seq":\d{1,15},"ts":"[0-9TZ:.+-]{1,40}","sid":"[^"\\]{0,200}",'
    rb'"kind":"result","of":\d{1,15},"block":\d{1,9},"content":\[' % VERSION
)
_TOKENS = b'],"tokens":['
_SEAL = re.compile(rb',"crc":"([0-9a-f]{8})"\}\r?\n?\Z')
_FIELDS = {"v", "ts", "sid", "kind", *(field.name for field in fields(Result))}


@dataclass(slots=True)
class LazyResults:
    """Where the facts stand that have no content in memory: seq -> (offset, length) in bytes."""

    path: Path | None = None
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, seq: int) -> bool:
        return seq in self.places

    def needed_by(self, fact: Fact) -> bool:
        """Whether `fact` gives back what lies here, so that the record must be read whole first."""
        return bool(self.places) and isinstance(fact, Undone | Rewound)

    def fetch(self, seq: int, disk: Disk = DISK) -> Fact:
        """The whole fact. Raises KeyError where it is not here, OSError or BadLine where it is lost."""
        return next(self.fetch_all([seq], disk))

    def fetch_all(self, seqs: Iterable[int], disk: Disk = DISK) -> Iterator[Fact]:
        """The whole facts, one after the other, through one descriptor."""
        fd = disk.open(str(self.path), os.O_RDONLY, 0)
        try:
            for seq in seqs:
                offset, length = self.places[seq]
                fact, _ = decode(disk.read(fd, length, offset))
                if fact.seq != seq:
                    raise BadLine(f"record {seq} is not where it was")
                yield fact
        finally:
            os.close(fd)


def stub(line: bytes) -> tuple[Result, str] | None:
    """The result without its content, if the line is a large result in the form that we write.

    The checksum of the whole line is verified. None: parse it in the ordinary way.
    """
    if len(line) < SMALL or (head := _HEAD.match(line)) is None:
        return None
    seal = _SEAL.search(line, len(line) - 24)
    after = line.rfind(_TOKENS, head.end())  # within the notes of a tool it leaves no whole object behind it
    if seal is None or after < 0 or int(seal[1], 16) != zlib.crc32(memoryview(line)[: seal.start()]):
        return None
    try:
        raw = parse(line[: head.end()] + line[after : seal.start()] + b"}")
    except ValueError:
        return None
    if raw["content"] or not raw.keys() <= _FIELDS or not _counted(raw["tokens"]):
        return None
    raw.pop("human", None)
    fact, sid = from_raw(raw)
    return (fact, sid) if isinstance(fact, Result) else None


def _counted(tokens: Any) -> bool:
    """Whether the view can do without the content to know its size."""
    return isinstance(tokens, list) and all(type(n) is int for n in tokens) and sum(tokens) > 0


def reveal(facts: list[Fact], deferred: LazyResults) -> list[Fact]:
    """The facts with every output in place that the conversation shows; those are taken off the shelf."""
    edits, gone = _in_force(facts)
    shown = [
        fact.seq
        for fact in facts
        if isinstance(fact, Result)
        and fact.seq in deferred
        and not any(first <= fact.seq < last for first, last in gone)
        and edits.covering(fact.of) is None
        and "content" not in edits.clears.get((fact.seq, 0), ())
    ]
    whole = dict(zip(shown, deferred.fetch_all(shown), strict=True))
    for seq in shown:
        del deferred.places[seq]
    return [whole.get(fact.seq, fact) for fact in facts] if whole else facts


def _in_force(facts: list[Fact]) -> tuple[ActiveEdits, list[tuple[int, int]]]:
    """The edits that hold at the end, and the stretches first..last - 1 that were rewound away."""
    made: list[Opened | Compacted | Undone] = []
    gone: list[tuple[int, int]] = []
    for fact in facts:
        match fact:
            case Opened() | Compacted() | Undone():
                made.append(fact)
            case Rewound():
                made = [one for one in made if one.seq < fact.to]
                gone.append((fact.to, fact.seq))
    edits, open_ones = ActiveEdits(), dict[str, int]()
    for one in made:
        if isinstance(one, Compacted):
            open_ones[one.id] = one.seq
        elif isinstance(one, Undone):
            if one.id not in open_ones:
                continue
            edits.remove(open_ones.pop(one.id))
        edits.add(one.seq, one.edits)
    return edits, gone


def whole(folded: Folded, deferred: LazyResults | None) -> Folded:
    """The session with everything in place. Raises OSError and BadLine where the record lost something."""
    if not deferred:
        return folded
    away = [fact.seq for fact in folded.facts if fact.seq in deferred]
    fetched = dict(zip(away, deferred.fetch_all(away), strict=True))
    return replaced(folded, fetched)
