"""Reads a record from its file: every good line, what is damaged, and where the good part ends.

Nothing is written. A damaged line between good ones is skipped and reported; what stands behind the last good
line is a torn tail, which the store sets aside before it appends.

Most bytes of a long session are tool outputs that a compaction has cleared or folded. On request their lines
are checked but not parsed: the fact in memory has numbers, flags and `about`, but no content; that is fetched
on demand. The conversation folds to the same messages until a fact is undone or rewound; before that, all
content must be fetched.
"""

from __future__ import annotations

import gc
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field

from transcripts.patterns import lazy_bytes_pattern

from .codec import FORMAT_VERSION, BadLine, decode_line, fact_from_json, parse_line
from .errors import NoSuchSession, StoreError, TranscriptTooNew, Unreadable
from .facts import Compacted, Fact, Opened, Result, Rewound, Undone, UnknownFact
from .folding import Folded, fold, replace_facts
from .storage.disk import DISK, Disk, opened_fd

MAX_LINE_BYTES = 1 << 28  # a longer line is no record: we write at most 50 MB
MAX_RECORDS_IN_LINE = 8  # beginnings of a record that are tried in a damaged line
MIN_LAZY_LINE_BYTES = 2_048  # a shorter line is parsed faster than it is fetched again
_RESULT_HEAD = lazy_bytes_pattern(
    rb'\{"v":%d,"seq":\d{1,15},"ts":"[0-9TZ:.+-]{1,40}","sid":"[^"\\]{0,200}",'
    rb'"kind":"result","of":\d{1,15},"block":\d{1,9},"content":\[' % FORMAT_VERSION
)
_CONTENT_END = b'],"tokens":['
_CHECKSUM = lazy_bytes_pattern(rb',"crc":"([0-9a-f]{8})"\}\r?\n?\Z')
_CHECKSUM_MAX_BYTES = 24
_RESULT_KEYS = {"v", "ts", "sid", "kind", *Result.__struct_fields__}


class DamagedLine(Struct, frozen=True):
    """A line that is no record: its number from 1, its offset in bytes, what is wrong with it."""

    line: int
    offset: int
    why: str


class LazyResults(dict[int, tuple[int, int]]):
    """The results without content in memory: seq -> (offset, length) of the line in the file, in bytes."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.path = path

    def fetch(self, *seqs: int) -> Iterator[Fact]:
        """The whole facts, one after the other. Raises StoreError where the file has changed."""
        assert self.path is not None, "results are left in a file only"
        try:
            with opened_fd(self.path, os.O_RDONLY) as fd:
                for seq in seqs:
                    offset, length = self[seq]
                    fact, _ = decode_line(os.pread(fd, length, offset))
                    if fact.seq != seq:
                        raise BadLine(f"record {seq} is not where it was")
                    yield fact
        except (OSError, BadLine) as error:
            raise StoreError(
                f"{self.path} was changed since it was read ({error}): resume it anew"
            ) from error

    def complete(self, folded: Folded) -> Folded:
        """Return the session with all content. Raises StoreError where the file has changed."""
        if not self:
            return folded
        seqs = [fact.seq for fact in folded.facts if fact.seq in self]
        return replace_facts(folded, dict(zip(seqs, self.fetch(*seqs), strict=True)))


class LoadedTranscript(Struct):
    """The content of a session transcript.

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

    def require_known_format(self) -> None:
        """Raise TranscriptTooNew where a newer version wrote the record: it must not be written to."""
        if self.version > FORMAT_VERSION:
            raise TranscriptTooNew(self.sid, self.version)


def read_transcript(path: Path, disk: Disk = DISK, *, defer: bool = False) -> LoadedTranscript:
    """Load a record; with `defer`, results that the conversation does not show are left in the file.

    Raises NoSuchSession, Unreadable for a link or no regular file, and StoreError where the disk fails.
    """
    try:
        fd = disk.open(str(path), os.O_RDONLY | os.O_NONBLOCK, 0)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise Unreadable(f"{path} is no regular file: it is not read")
        with os.fdopen(fd, "rb", buffering=1 << 20) as file, _without_garbage_collection():
            return _read(file, path, defer)
    except FileNotFoundError as error:
        raise NoSuchSession(f"there is no session file {path}") from error
    except OSError as error:
        if path.is_symlink():
            raise Unreadable(f"{path} is a link: it is not followed, give the file itself") from error
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


def _read(file: BinaryIO, path: Path, defer: bool) -> LoadedTranscript:
    loaded = LoadedTranscript(path, path.stem, lazy_results=LazyResults(path))
    damaged: list[DamagedLine] = []
    places: list[tuple[int, int]] = []
    for number, offset, line in _lines(file):
        loaded.size = offset + len(line)
        if line.isspace() and line.endswith(b"\n"):
            loaded.whole_size = loaded.size
            loaded.ends_with_newline = True
            continue
        try:
            if (lazy := parse_without_content(line) if defer else None) is not None:
                loaded.lazy_results.setdefault(lazy[0].seq, (offset, len(line)))
            fact, sid = lazy or decode_line(line)
        except BadLine as error:
            damaged.append(DamagedLine(number, offset=offset, why=str(error)))
            if (found := _record_at_end(line)) is None:
                continue
            fact, sid = found
        loaded.sid = loaded.sid if loaded.facts else sid
        loaded.facts.append(fact)
        places.append((number, offset))
        if isinstance(fact, UnknownFact):
            version = fact.raw.get("v")
            loaded.version = max(loaded.version, version if isinstance(version, int) else 0)
        loaded.whole_size = loaded.size
        loaded.ends_with_newline = line.endswith(b"\n")
    damaged += _put_in_order(loaded, places)
    damaged.sort(key=lambda each: each.line)
    loaded.damaged = tuple(each for each in damaged if each.offset < loaded.whole_size)
    if loaded.lazy_results:
        loaded.facts = fetch_shown(loaded.facts, loaded.lazy_results)
    return loaded


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """(number, offset, line) of each line; one that is too long comes in pieces, none of them a record."""
    number = 1
    offset = 0
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


def _put_in_order(loaded: LoadedTranscript, places: list[tuple[int, int]]) -> Iterator[DamagedLine]:
    """Sort the facts by seq where lines were moved; of several with one seq the first counts.

    The same record again does no harm. `places` are the (number, offset) of the facts' lines.
    """
    facts = loaded.facts
    if any(after.seq <= before.seq for before, after in pairwise(facts)):
        unique: dict[int, Fact] = {}
        for fact, (number, offset) in zip(facts, places, strict=True):
            if unique.setdefault(fact.seq, fact) != fact:
                why = f"record {fact.seq} comes again with other words: the first one counts"
                yield DamagedLine(number, offset=offset, why=why)
        loaded.facts = [unique[seq] for seq in sorted(unique)]


def parse_without_content(line: bytes) -> tuple[Result, str] | None:
    """The fact, without its content, of a line that is a large result in the form that we write; its sid.

    The checksum of the whole line is verified. None for any other line.
    """
    if len(line) < MIN_LAZY_LINE_BYTES or (head := _RESULT_HEAD.match(line)) is None:
        return None
    checksum = _CHECKSUM.search(line, len(line) - _CHECKSUM_MAX_BYTES)
    end = line.rfind(_CONTENT_END, head.end())  # one within `about` would leave no valid JSON behind it
    if checksum is None or end < 0:
        return None
    if int(checksum[1], 16) != zlib.crc32(memoryview(line)[: checksum.start()]):
        return None
    try:
        raw = parse_line(line[: head.end()] + line[end : checksum.start()] + b"}")
    except ValueError:
        return None
    if raw["content"] or not raw.keys() <= _RESULT_KEYS:
        return None
    tokens = raw["tokens"]  # the size must be known without the content
    if not isinstance(tokens, list) or any(type(count) is not int for count in tokens) or sum(tokens) <= 0:
        return None
    raw.pop("human", None)
    fact, sid = fact_from_json(raw)
    return (fact, sid) if isinstance(fact, Result) else None


def fetch_shown(facts: list[Fact], lazy_results: LazyResults) -> list[Fact]:
    """The facts with the content of every result that the conversation shows; those are lazy no longer."""
    edits = fold(fact for fact in facts if isinstance(fact, Opened | Compacted | Undone | Rewound)).edits
    rewound = [range(fact.to, fact.seq) for fact in facts if isinstance(fact, Rewound)]
    shown = [
        fact.seq
        for fact in facts
        if isinstance(fact, Result)
        and fact.seq in lazy_results
        and not any(fact.seq in stretch for stretch in rewound)
        and edits.covering(fact.of) is None
        and "content" not in edits.clears.get((fact.seq, 0), ())
    ]
    whole = dict(zip(shown, lazy_results.fetch(*shown), strict=True))
    for seq in shown:
        del lazy_results[seq]
    return [whole.get(fact.seq, fact) for fact in facts]
