"""Reads a record from its file: every good line, what is damaged, and where the good part ends.

Nothing is written. A damaged line between good ones is skipped and reported; what stands behind the last good
line is a torn tail, which the store sets aside before it appends.
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

from .codec import FORMAT_VERSION, BadLine, decode_line
from .disk import DISK, Disk
from .facts import Fact, UnknownFact
from .lazy_results import LazyResults, fetch_shown, parse_without_content
from .record_errors import NoSuchSession, RecordUnreadable, StoreError

MAX_LINE_BYTES = 1 << 28  # a longer line is no record: we write at most 50 MB
MAX_RECORDS_IN_LINE = 8  # beginnings of a record that are tried in a damaged line


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A line that is no record: its number from 1, its offset in bytes, what is wrong with it."""

    line: int
    offset: int
    why: str


@dataclass(slots=True)
class LoadedRecord:
    """What a file holds.

    facts              in the order of `seq`, each number once
    whole_size         where the last good line ends, in bytes
    size               of the file; what lies between the two is torn
    ends_with_newline  whether the last good line does
    damaged            damaged lines between good ones, left where they are
    version            the newest format version in it; above codec.FORMAT_VERSION it must not be written to
    lazy_results       the results whose content was left in the file
    """

    path: Path
    sid: str
    facts: list[Fact] = field(default_factory=list)
    whole_size: int = 0
    size: int = 0
    ends_with_newline: bool = True
    damaged: tuple[DamagedLine, ...] = ()
    version: int = FORMAT_VERSION
    lazy_results: LazyResults = field(default_factory=LazyResults)

    @property
    def torn_size(self) -> int:
        """Bytes behind the last good line."""
        return self.size - self.whole_size


def read_record(path: Path, disk: Disk = DISK, *, defer: bool = False) -> LoadedRecord:
    """Load a record; with `defer`, results that the conversation does not show are left in the file.

    Raises NoSuchSession, RecordUnreadable for a link or no regular file, and StoreError where the disk fails.
    """
    try:
        fd = disk.open(str(path), os.O_RDONLY | os.O_NONBLOCK, 0)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise RecordUnreadable(f"{path} is no regular file: it is not read")
        with os.fdopen(fd, "rb", buffering=1 << 20) as file, _without_garbage_collection():
            return _read(file, path, defer)
    except FileNotFoundError as error:
        raise NoSuchSession(f"there is no session file {path}") from error
    except OSError as error:
        if path.is_symlink():
            raise RecordUnreadable(f"{path} is a link: it is not followed, give the file itself") from error
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """The collector would look through all facts again and again, and all of them stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read(file: BinaryIO, path: Path, defer: bool) -> LoadedRecord:
    loaded = LoadedRecord(path, path.stem, lazy_results=LazyResults(path))
    damaged: list[DamagedLine] = []
    for number, offset, line in _lines(file):
        loaded.size = offset + len(line)
        if line.isspace() and line.endswith(b"\n"):
            loaded.whole_size, loaded.ends_with_newline = loaded.size, True
            continue
        try:
            if (lazy := parse_without_content(line) if defer else None) is not None:
                loaded.lazy_results[lazy[0].seq] = (offset, len(line))
            fact, sid = lazy or decode_line(line)
        except BadLine as error:
            damaged.append(DamagedLine(number, offset, str(error)))
            if (found := _record_at_end(line)) is None:
                continue
            fact, sid = found
        loaded.sid = loaded.sid if loaded.facts else sid
        loaded.facts.append(fact)
        if isinstance(fact, UnknownFact):
            version = fact.raw.get("v")
            loaded.version = max(loaded.version, version if isinstance(version, int) else 0)
        loaded.whole_size, loaded.ends_with_newline = loaded.size, line.endswith(b"\n")
    _put_in_order(loaded, damaged)
    loaded.damaged = tuple(each for each in damaged if each.offset < loaded.whole_size)
    if loaded.lazy_results:
        loaded.facts = fetch_shown(loaded.facts, loaded.lazy_results)
    return loaded


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """(number, offset, line) of each line; one that is too long comes in pieces, none of them a record."""
    number, offset = 1, 0
    while line := file.readline(MAX_LINE_BYTES):
        yield number, offset, line
        offset += len(line)
        number += line.endswith(b"\n")


def _record_at_end(line: bytes) -> tuple[Fact, str] | None:
    """The record at the end of a line that begins with something else.

    That is: zeros of a power loss, or a torn record onto which another program appended. Quotes within a
    record are escaped, so only a true beginning can match, and the checksum confirms it.
    """
    at = len(line)
    for _ in range(MAX_RECORDS_IN_LINE):
        at = line.rfind(b'{"v":', 0, at)
        if at <= 0:
            return None
        try:
            return decode_line(line[at:])
        except BadLine:
            continue
    return None


def _put_in_order(loaded: LoadedRecord, damaged: list[DamagedLine]) -> None:
    """Sort the facts by seq where lines were moved; of several with one seq the first counts."""
    facts = loaded.facts
    if any(after.seq <= before.seq for before, after in pairwise(facts)):
        unique: dict[int, Fact] = {}
        for fact in facts:
            if unique.setdefault(fact.seq, fact) is not fact:
                damaged.append(DamagedLine(0, 0, f"record {fact.seq} comes again: the first one counts"))
        loaded.facts = [unique[seq] for seq in sorted(unique)]
