"""Read a record from its file: every good line, what is damaged, and where the good part ends.

Nothing is written here. A damaged line between good ones is skipped and reported; what stands behind the
last good line is a torn tail, which the store cuts off and keeps aside before it writes. With `shelve`,
outputs that the conversation does not show any more stay in the file (see shelf.py).
"""

from __future__ import annotations

import gc
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from .codec import VERSION, BadLine, decode
from .disk import DISK, Disk
from .facts import Fact, UnknownFact
from .lazy_results import LazyResults, reveal, stub
from .record_errors import NoSuchSession, RecordUnreadable, StoreError

LONGEST = 1 << 28  # a line longer than this is no record: 50 MB is the largest that we write


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A line that is no record: its number from 1, its place in the file in bytes, what is wrong."""

    line: int
    offset: int
    length: int
    why: str


@dataclass(slots=True)
class LoadedRecord:
    """What a file holds. `facts` are in the order of `seq`, each number once.

    good     where the good part ends, in bytes; `size` of the file. What is between them is torn
    ended    whether the last good line has its newline
    bad      damaged lines between good ones: left where they are
    version  the newest format version met; above codec.VERSION the file may not be written
    shelf    facts whose content was left in the file
    """

    path: Path
    sid: str
    facts: list[Fact] = field(default_factory=list)
    good: int = 0
    size: int = 0
    ended: bool = True
    bad: tuple[DamagedLine, ...] = ()
    version: int = VERSION
    shelf: LazyResults = field(default_factory=LazyResults)

    @property
    def torn(self) -> int:
        """Bytes of the torn tail."""
        return self.size - self.good


def read_record(path: Path, disk: Disk = DISK, *, shelve: bool = False) -> LoadedRecord:
    """Load a record.

    Raises:
        NoSuchSession: there is no such file.
        Refused: a link, or no regular file.
        StoreError: the disk cannot read it.
    """
    try:
        fd = disk.open(str(path), os.O_RDONLY | os.O_NONBLOCK, 0)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise RecordUnreadable(f"{path} is no regular file: it is not read")
        with os.fdopen(fd, "rb", buffering=1 << 20) as file, _uncollected():
            return _read(file, path, shelve)
    except FileNotFoundError as error:
        raise NoSuchSession(f"there is no session file {path}") from error
    except OSError as error:
        if path.is_symlink():
            raise RecordUnreadable(f"{path} is a link: it is not followed, give the file itself") from error
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector: it would look through all facts again, and all of them stay."""
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()


def _read(file: BinaryIO, path: Path, shelve: bool) -> LoadedRecord:
    loaded = LoadedRecord(path, path.stem, shelf=LazyResults(path))
    sids: list[str] = []
    bad: list[DamagedLine] = []
    for number, offset, line in _lines(file):
        loaded.size = offset + len(line)
        if line.isspace() and line.endswith(b"\n"):
            loaded.good, loaded.ended = loaded.size, True
            continue
        try:
            fact, sid = _fact(line, offset, loaded.shelf if shelve else None)
        except BadLine as error:
            bad.append(DamagedLine(number, offset, len(line), str(error)))
            if (found := salvage(line)) is None:
                continue
            fact, sid = found
        loaded.facts.append(fact)
        sids = sids or [sid]
        if isinstance(fact, UnknownFact):
            loaded.version = max(loaded.version, _version(fact))
        loaded.good, loaded.ended = loaded.size, line.endswith(b"\n")
    loaded.sid = sids[0] if sids else loaded.sid
    _put_in_order(loaded, bad)
    if loaded.shelf:
        loaded.facts = reveal(loaded.facts, loaded.shelf)
    return loaded


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """(number, offset, line) of each line; one that is too long comes in pieces, none of them a record."""
    number, offset = 1, 0
    while line := file.readline(LONGEST):
        yield number, offset, line
        offset += len(line)
        number += line.endswith(b"\n")


def _fact(line: bytes, offset: int, deferred: LazyResults | None) -> tuple[Fact, str]:
    if deferred is not None and (found := stub(line)) is not None:
        deferred.places[found[0].seq] = (offset, len(line))
        return found
    return decode(line)


def salvage(line: bytes) -> tuple[Fact, str] | None:
    """The record at the end of a line that begins with something else.

    Zeros of a power loss, or a torn record onto which another program appended. Quotes within a record
    are escaped, so only a true beginning can match, and the checksum confirms it.
    """
    at = len(line)
    for _ in range(8):
        at = line.rfind(b'{"v":', 0, at)
        if at <= 0:
            return None
        try:
            return decode(line[at:])
        except BadLine:
            continue
    return None


def _version(fact: UnknownFact) -> int:
    version = fact.raw.get("v")
    return version if isinstance(version, int) else VERSION


def _put_in_order(loaded: LoadedRecord, bad: list[DamagedLine]) -> None:
    """Sort by number where lines were moved, drop a number that comes again, tell torn from damaged."""
    facts = loaded.facts
    if any(after.seq <= before.seq for before, after in pairwise(facts)):
        unique: dict[int, Fact] = {}
        for fact in facts:
            if unique.setdefault(fact.seq, fact) is not fact:
                bad.append(DamagedLine(0, 0, 0, f"record {fact.seq} comes again: the first one counts"))
        loaded.facts = [unique[seq] for seq in sorted(unique)]
    loaded.bad = tuple(each for each in bad if each.offset < loaded.good)
