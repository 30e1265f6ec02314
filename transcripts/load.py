"""Read a transcript from its file: the valid lines, the damaged ones, and the end of the valid part.

Nothing is written. A damaged line between valid ones is skipped and reported. Data after the last valid line
is a torn tail, which the store moves aside before it appends.

Most bytes of a long session are tool outputs that a compaction has cleared or summarized. On request their
lines are checked but not parsed: the fact in memory has numbers, flags and `about`, but no content, which is
fetched on demand. The conversation folds to the same messages until something is undone or rewound; before
that, all content must be fetched.
"""

from __future__ import annotations

import gc
import os
import stat
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field

from transcripts.patterns import lazy_bytes_pattern

from .codec import FORMAT_VERSION, BadLine, decode_line, fact_from_json, parse_line
from .errors import NoSuchSession, StoreError, TranscriptTooNew, Unreadable
from .facts import FACT_TYPES, Compacted, Fact, Metadata, Opened, Result, Rewound, Undone, UnknownFact
from .folding import Folded, fold, replace_facts
from .session_lock import is_session_id
from .storage.disk import DISK, Disk, opened_fd
from .wording import cause_of

MAX_LINE_BYTES = 1 << 28  # a longer line is not a fact: we write at most 50 MB
_RESULT_HEAD = lazy_bytes_pattern(
    rb'\{"v":%d,"seq":\d{1,15},"ts":"[0-9TZ:.+-]{1,40}","sid":"[^"\\]{0,200}",'
    rb'"kind":"result","of":\d{1,15},"block":\d{1,9},"content":\[' % FORMAT_VERSION
)
_CHECKSUM = lazy_bytes_pattern(rb',"crc":"([0-9a-f]{8})"\}\r?\n?\Z')
_RESULT_KEYS = {"v", "ts", "sid", "kind", "prev", "mac", *Result.__struct_fields__}


class DamagedLine(Struct, frozen=True):
    """A line that is not a fact: its number from 1, its offset in bytes, and its defect."""

    line: int
    offset: int
    why: str


class SecondTail(Struct, frozen=True):
    """Facts at the end of a file that continue an earlier fact in another way than those before them.

    Two processes wrote to the file, since no lock kept them apart. `start` and `end` are offsets in bytes.
    """

    line: int
    start: int
    end: int
    facts: tuple[Fact, ...]


class LazyResults(dict[int, tuple[int, int]]):
    """The results whose content is not in memory: seq -> (offset, length) of their line in bytes."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.path = path

    def add(self, places: list[int]) -> None:
        """Add results by (seq, offset, length), one behind the other."""
        self.update(zip(places[::3], zip(places[1::3], places[2::3], strict=True), strict=True))

    def without(self, seqs: Set[int]) -> LazyResults:
        """Return the others; this value may be in use in a thread."""
        others = LazyResults(self.path)
        others.update(self)
        for seq in seqs & others.keys():
            del others[seq]
        return others

    def moved(self, path: Path, by: int = 0) -> LazyResults:
        """Return the same results in a copy of the file, in which their lines are `by` bytes further back."""
        others = LazyResults(path)
        others.update((seq, (offset + by, length)) for seq, (offset, length) in self.items())
        return others

    def shown(self, facts: Sequence[Fact]) -> dict[int, int]:
        """Return those that the conversation of these facts shows: index of the fact -> seq."""
        kinds = (Opened, Compacted, Undone, Rewound)
        changes = [fact for fact in facts if type(fact) in kinds]
        edits = fold(changes).edits
        rewound = [range(fact.to, fact.seq) for fact in changes if type(fact) is Rewound]
        return {
            at: fact.seq
            for at, fact in enumerate(facts)
            if type(fact) is Result
            and fact.seq in self
            and edits.covering(fact.of) is None
            and "content" not in edits.clears.get((fact.seq, 0), ())
            and not any(fact.seq in stretch for stretch in rewound)
        }

    def fetch(self, *seqs: int) -> Iterator[Fact]:
        """Yield the complete facts in the order given. Raises StoreError if the file has changed."""
        assert self.path is not None, "only results in a file are lazy"
        try:
            with opened_fd(self.path, os.O_RDONLY) as fd:
                for seq in seqs:
                    offset, length = self[seq]
                    fact, _ = decode_line(os.pread(fd, length, offset))
                    if fact.seq != seq:
                        raise BadLine(f"fact {seq} is not where it was")
                    yield fact
        except (OSError, BadLine) as error:
            raise StoreError(
                f"{self.path} has changed since it was read ({error}): resume the session again"
            ) from error

    def whole(self, fact: Fact) -> Fact:
        """Return a fact with its content; as it is in memory if the transcript was removed meanwhile."""
        if fact.seq in self:
            with suppress(StoreError):
                return next(self.fetch(fact.seq))
        return fact

    def complete(self, folded: Folded) -> Folded:
        """Return the session with all content. Raises StoreError if the file has changed."""
        if not self:
            return folded
        seqs = [fact.seq for fact in folded.facts if fact.seq in self]
        return replace_facts(folded, dict(zip(seqs, self.fetch(*seqs), strict=True)))


class KnownStart(Struct):
    """The first `size` bytes of a transcript of the session `sid`: `lines` valid lines with these facts.

    `lazy` has (seq, offset, length) of each large result, one behind the other; their content is not known.
    """

    sid: str = ""
    size: int = 0
    lines: int = 0
    facts: list[Fact] = field(default_factory=list)
    lazy: list[int] = field(default_factory=list)


class LoadedTranscript(Struct):
    """The content of a session transcript.

    facts              in the order of `seq`, each number once
    whole_size         the end of the last valid line, in bytes
    size               of the file; the data between `whole_size` and the end is torn
    ends_with_newline  the last valid line ends with a newline
    second_tails       other continuations, which are not in `facts`
    damaged            damaged lines between valid ones, which stay in the file
    version            the newest format version in it; above codec.FORMAT_VERSION it must not be written to
    lazy_results       the results whose content was left in the file
    """

    path: Path
    sid: str
    facts: list[Fact] = field(default_factory=list)
    whole_size: int = 0
    size: int = 0
    ends_with_newline: bool = True
    second_tails: tuple[SecondTail, ...] = ()
    damaged: tuple[DamagedLine, ...] = ()
    version: int = FORMAT_VERSION
    lazy_results: LazyResults = field(default_factory=LazyResults)

    @property
    def torn_size(self) -> int:
        """The number of bytes after the last valid line."""
        return self.size - self.whole_size

    def require_known_format(self) -> None:
        """Raise TranscriptTooNew if a newer version wrote the transcript: it must not be written to."""
        if self.version > FORMAT_VERSION:
            raise TranscriptTooNew(self.sid, self.version)


def read_transcript(
    path: Path, disk: Disk = DISK, *, defer: bool = False, start: KnownStart | None = None
) -> LoadedTranscript:
    """Load a transcript; with `defer`, results that the conversation does not show are left in the file.

    `start` spares reading its beginning (load_cache.py).

    Raises NoSuchSession, Unreadable for anything but a regular file, and StoreError if the disk fails.
    """
    try:
        fd = disk.open(str(path), os.O_RDONLY | os.O_NONBLOCK, 0)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise Unreadable(f"cannot read {path}: it is not a regular file")
        with os.fdopen(fd, "rb", buffering=1 << 20) as file, without_garbage_collection():
            found = _read(file, path, defer, start) if start is not None and defer else None
            return found or _read(file, path, defer, KnownStart()) or LoadedTranscript(path, path.stem)
    except FileNotFoundError as error:
        raise NoSuchSession(f"session file {path} does not exist") from error
    except OSError as error:
        if path.is_symlink():
            raise Unreadable(f"cannot read {path}: it is a symbolic link; give its target") from error
        raise StoreError(f"cannot read {path}: {cause_of(error)}") from error


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector, which would traverse many new objects repeatedly although all stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read(file: BinaryIO, path: Path, defer: bool, start: KnownStart) -> LoadedTranscript | None:
    """Read the lines behind a known start; None if the whole file must be read because of what they are."""
    loaded = LoadedTranscript(path, start.sid or path.stem, lazy_results=LazyResults(path))
    loaded.facts += start.facts
    loaded.size = loaded.whole_size = start.size
    loaded.lazy_results.add(start.lazy)
    damaged: list[DamagedLine] = []
    places: list[tuple[int, int]] = []
    file.seek(start.size)
    for number, offset, line in lines_of(file, start.lines + 1, start.size):
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
            if (found := fact_at_end(line)) is None:
                continue
            fact, sid = decode_line(found)
        if is_session_id(sid):
            loaded.sid = sid  # a copy begins with the lines of another session
        loaded.facts.append(fact)
        places.append((number, offset))
        if isinstance(fact, UnknownFact):
            version = fact.raw.get("v")
            loaded.version = max(loaded.version, version if isinstance(version, int) else 0)
            if fact.kind in FACT_TYPES and loaded.version <= FORMAT_VERSION:
                why = f"the fields of {fact.kind} {fact.seq} cannot be read"
                damaged.append(DamagedLine(number, offset=offset, why=why))
        loaded.whole_size = loaded.size
        loaded.ends_with_newline = line.endswith(b"\n")
    if start.facts:
        if damaged or not _is_in_order(loaded.facts[len(start.facts) - 1 :]):
            return None
    else:
        _leave_out_known_tails(loaded, places)
        loaded.second_tails = tuple(_take_second_tails(loaded, places))
        damaged += _put_in_order(loaded, places)
    damaged.sort(key=lambda each: each.line)
    loaded.damaged = tuple(each for each in damaged if each.offset < loaded.whole_size)
    if loaded.lazy_results:
        loaded.facts = fetch_shown(loaded.facts, loaded.lazy_results)
    return loaded


def lines_of(file: BinaryIO, number: int = 1, offset: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number, offset, line) of each line; one that is too long comes in pieces that are not facts.

    The first line has this number, and begins where the file is read from.
    """
    while line := file.readline(MAX_LINE_BYTES):
        yield number, offset, line
        offset += len(line)
        number += line.endswith(b"\n")


def fact_at_end(line: bytes) -> bytes | None:
    """Return the end of a line that is a fact, if the line begins with something else; else None.

    The line may begin with zeros from a power loss, or with a torn fact to which another program appended.
    Quotes within a fact are escaped, so only a real beginning can match, and the checksum confirms it.
    """
    at = len(line)
    for _ in range(8):  # possible starts of a fact in a damaged line
        at = line.rfind(b'{"v":', 0, at)
        if at <= 0:
            return None
        with suppress(BadLine):
            decode_line(line[at:])
            return line[at:]
    return None


def _leave_out_known_tails(loaded: LoadedTranscript, places: list[tuple[int, int]]) -> None:
    """Remove the facts of second tails that have become sessions of their own."""
    notes = [
        fact.about for fact in loaded.facts if isinstance(fact, Metadata) and fact.topic == Metadata.TAIL
    ]
    for note in notes:
        start = note.get("start")
        end = note.get("end")
        if not (isinstance(start, int) and isinstance(end, int)):
            continue
        span = range(start, end)
        kept = [at for at, (_, offset) in enumerate(places) if offset not in span]
        loaded.facts = [loaded.facts[at] for at in kept]
        places[:] = [places[at] for at in kept]


def _take_second_tails(loaded: LoadedTranscript, places: list[tuple[int, int]]) -> list[SecondTail]:
    """Remove and return the second tails: runs at the end with a fact of another content."""
    facts = loaded.facts
    starts = [at for at in range(1, len(facts)) if facts[at].seq <= facts[at - 1].seq]
    found: list[SecondTail] = []
    end = loaded.whole_size
    for start in reversed(starts):
        before = {fact.seq: fact for fact in reversed(facts[:start])}  # the first of each number
        other = next((at for at in range(start, len(facts)) if _differs(facts[at], before)), None)
        if other is None:
            break
        number, offset = places[start]
        found.append(SecondTail(number, start=offset, end=end, facts=tuple(facts[other:])))
        end = offset
        del facts[start:], places[start:]
    return found[::-1]


def _is_in_order(facts: list[Fact]) -> bool:
    """Return whether facts were appended one after the other, with no second tail among them."""
    if any(after.seq <= before.seq for before, after in pairwise(facts)):
        return False
    return all(not isinstance(fact, Metadata) or fact.topic != Metadata.TAIL for fact in facts)


def _differs(fact: Fact, before: Mapping[int, Fact]) -> bool:
    return before.get(fact.seq, fact) != fact


def _put_in_order(loaded: LoadedTranscript, places: list[tuple[int, int]]) -> Iterator[DamagedLine]:
    """Sort the facts by seq if lines were moved; of several with the same seq the first counts.

    Yields the others as damaged unless they are identical to the first. `places` has (number, offset) of the
    line of each fact.
    """
    facts = loaded.facts
    if any(after.seq <= before.seq for before, after in pairwise(facts)):
        unique: dict[int, Fact] = {}
        for fact, (number, offset) in zip(facts, places, strict=True):
            if unique.setdefault(fact.seq, fact) != fact:
                why = f"fact {fact.seq} occurs again with different content: the first one is used"
                yield DamagedLine(number, offset=offset, why=why)
        loaded.facts = [unique[seq] for seq in sorted(unique)]


MIN_LAZY_LINE_BYTES = 2_048  # a shorter line is parsed faster than it is fetched again


def parse_without_content(line: bytes) -> tuple[Result, str] | None:
    """Return the fact of a large result without its content, and its session id; None for other lines.

    The line must have the form that we write. The checksum of the whole line is verified.
    """
    if len(line) < MIN_LAZY_LINE_BYTES or (head := _RESULT_HEAD.match(line)) is None:
        return None
    checksum = _CHECKSUM.search(line, len(line) - 24)  # bytes of a checksum, at most
    end = line.rfind(b'],"tokens":[', head.end())  # a match within `about` would leave invalid JSON
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
    tokens = raw["tokens"]  # without the content, the size must be known from here
    if not isinstance(tokens, list) or any(type(count) is not int for count in tokens) or sum(tokens) <= 0:
        return None
    raw.pop("human", None)
    fact, sid = fact_from_json(raw)
    return (fact, sid) if isinstance(fact, Result) else None


def fetch_shown(facts: list[Fact], lazy_results: LazyResults) -> list[Fact]:
    """Return the facts with the content of every shown result, and remove those from `lazy_results`."""
    shown = lazy_results.shown(facts)
    whole = list(facts)
    for at, fact in zip(shown, lazy_results.fetch(*shown.values()), strict=True):
        whole[at] = fact
        del lazy_results[fact.seq]
    return whole
