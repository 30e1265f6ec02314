"""Keep what loading a large transcript yields in files next to it, which may be deleted at any time.

A transcript is only appended to, so the facts of its beginning stay the same. Every MB of whole lines are
a piece, with a file of its own in `.transcripts/cache`, named after the session and the piece's first byte:

    <sid>.0  <sid>.1048910  <sid>.2098024  ...

A piece holds the facts of its lines, large results without their content, and where these are in the
transcript. It is used if the keyed hash of the file is right (session_key.py), if this version of makeroom
wrote it, and if the lines in the transcript still have the SHA-256 that they had. So a piece proves as much
as reading its lines: they are whole, in order, and were written on this machine. A piece that does not match
is ignored with all pieces after it, and their lines are read.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields, force_setattr

from .codec import BadLine, decode_line
from .facts import (
    FACT_TYPES,
    Clear,
    Closed,
    Compacted,
    Display,
    Failed,
    Fold,
    Instructed,
    Metadata,
    Opened,
    Reply,
    RequestSent,
    Result,
    Rewound,
    Started,
    Undone,
    UnknownFact,
    Unthink,
    User,
)
from .file_states import CACHE_FOLDER
from .load import MAX_LINE_BYTES, KnownStart, parse_without_content
from .messages import BLOCK_TYPES, CacheMiss, ToolUseBlock, Usage
from .session_key import LineChain, SessionKey, link_before
from .storage.disk import opened_unread, read_pieces, replace_file

PIECE_BYTES = 1 << 20  # of the transcript; reading as much takes 15 ms
_MAC_BYTES = 32

KnownFact = (
    Opened
    | Instructed
    | User
    | RequestSent
    | Reply
    | Started
    | Result
    | Compacted
    | Undone
    | Failed
    | Rewound
    | Metadata
    | Closed
)


class _Piece(Struct, array_like=True):
    """The facts of the bytes `start` to `end` of a transcript, which are `lines` lines.

    `lazy` has (seq, offset, length) of each large result, one behind the other.
    """

    form: int
    sid: str
    start: int
    end: int
    lines: int
    sha256: bytes
    facts: list[KnownFact]
    lazy: list[int]


@cache
def _form() -> int:
    """Return a number for the form of the pieces, which changes with the fields of any value in them."""
    types = (*FACT_TYPES.values(), *BLOCK_TYPES, Clear, Display, Fold, Unthink, Usage, CacheMiss, _Piece)
    names = [(made.__name__, made.__struct_fields__) for made in types]
    return zlib.crc32(repr((1, names)).encode())  # count up if lines are decoded to other values


@cache
def _decoder() -> msgspec.msgpack.Decoder[_Piece]:
    return msgspec.msgpack.Decoder(_Piece)


@cache
def _fact_decoder() -> msgspec.msgpack.Decoder[KnownFact]:
    return msgspec.msgpack.Decoder(KnownFact)


@cache
def _defaults(made: type[Struct]) -> tuple[str | None, tuple[tuple[str, Any], ...]]:
    """Return the tag of a type, and the name and default of each of its fields."""
    made_by = ((each.name, each.default_factory, each.default) for each in fields(made))
    tag = made.__struct_config__.tag
    defaults = tuple((name, default if new is NODEFAULT else new()) for name, new, default in made_by)
    return (tag if isinstance(tag, str) else None), defaults


def _row(value: Any) -> Any:
    """Return a value as msgspec encodes it, without the defaults at the end of a struct.

    They are decoded to the values that all share, which saves a tenth of the memory.
    """
    if isinstance(value, tuple | list):
        return list(map(_row, value))
    if not isinstance(value, Struct):
        return dict(value) if isinstance(value, MappingProxyType) else value
    tag, defaults = _defaults(type(value))
    row = [getattr(value, name) for name, _ in defaults]
    while row and row[-1] == defaults[len(row) - 1][1]:
        del row[-1]
    return [*([tag] if tag else ()), *map(_row, row)]


def read_known_start(path: Path, key: SessionKey) -> KnownStart | None:
    """Return the facts of the beginning of a transcript as far as pieces have them; None for none."""
    found = KnownStart()
    if not _is_cacheable(path, key):
        return None
    with suppress(OSError), opened_unread(path) as record, ThreadPoolExecutor(1) as hashing:
        checks: list[tuple[_Piece, Future[bool]]] = []  # while decoding: hashing releases the GIL
        end = 0
        strings: dict[Any, Any] = {}
        while (piece := _read_piece(path, key, end)) is not None:
            _share_strings(piece.facts, strings)
            checks.append((piece, hashing.submit(_is_same, record, piece)))
            end = piece.end
        for piece, check in checks:
            last = found.facts[-1].seq if found.facts else 0
            if not check.result() or not piece.facts or piece.facts[0].seq <= last:
                break
            found.sid = piece.sid
            found.size = piece.end
            found.lines += piece.lines
            found.facts += piece.facts
            found.lazy += piece.lazy
    return found if found.size else None


def link_pieces(path: Path, copy: Path) -> None:
    """Let the pieces of a transcript stand for a copy of it too, as far as that has the same lines."""
    prefix = f"{path.stem}."
    with suppress(OSError):
        for piece in _folder_of(path).iterdir():
            if piece.name.startswith(prefix):
                _piece_path(copy, int(piece.name.removeprefix(prefix))).hardlink_to(piece)


def _share_strings(facts: list[KnownFact], known: dict[Any, Any]) -> None:
    """Replace strings that most facts have by equal ones in `known`, before more facts take memory."""
    share = known.setdefault
    for fact in facts:
        if type(fact) is Reply:
            force_setattr(fact, "model", share(fact.model, fact.model))
            force_setattr(fact, "stop", share(fact.stop, fact.stop))
            for block in fact.blocks:
                if type(block) is ToolUseBlock:
                    force_setattr(block, "name", share(block.name, block.name))
        elif type(fact) is RequestSent:
            force_setattr(fact, "trigger", share(fact.trigger, fact.trigger))


def _is_cacheable(path: Path, key: SessionKey) -> bool:
    """Return whether pieces may stand for a transcript: not for one that was adopted without signatures."""
    with suppress(OSError):
        folder = _folder_of(path)
        is_own = folder.resolve() == path.parent.resolve() / folder.name
        return path.name not in key.adopted and is_own and path.stat().st_size >= PIECE_BYTES
    return False


def _folder_of(path: Path) -> Path:
    return path.parent / CACHE_FOLDER.rpartition("/")[2]


def _piece_path(path: Path, start: int) -> Path:
    return _folder_of(path) / f"{path.stem}.{start}"


def _read_piece(path: Path, key: SessionKey, start: int) -> _Piece | None:
    """Return the piece that begins at a byte, if there is one that this version wrote on this machine."""
    try:
        with opened_unread(_piece_path(path, start)) as fd:
            # No piece is larger.
            size = min(os.fstat(fd).st_size, 1 << 28)
            data = b"".join(read_pieces(fd, 0, size))
        body = data[_MAC_BYTES:]
        if data[:_MAC_BYTES] != _mac(key, body):
            return None
        piece = _decoder().decode(body)
    except (OSError, msgspec.DecodeError):
        return None
    is_whole = piece.form == _form() and piece.start == start < piece.end
    return piece if is_whole else None


def _mac(key: SessionKey, body: bytes) -> bytes:
    return blake2b(body, key=key.key, digest_size=_MAC_BYTES, person=b"load cache").digest()


def _is_same(record: int, piece: _Piece) -> bool:
    """Return whether a transcript still has the lines of a piece."""
    with suppress(OSError):
        return _sha256(record, piece.start, piece.end) == piece.sha256
    return False


def _sha256(record: int, start: int, end: int) -> bytes:
    made = hashlib.sha256()
    for data in read_pieces(record, start, end):
        made.update(data)
    return made.digest()


class CachedEnd(NamedTuple):
    """The end of what pieces stand for in a transcript: bytes, and the number of the last fact."""

    size: int = 0
    seq: int = 0


def write_pieces(
    path: Path,
    key: SessionKey,
    is_over: Callable[[], bool] = lambda: False,
    known: CachedEnd = CachedEnd(),  # noqa: B008  immutable
) -> CachedEnd:
    """Write the pieces of a transcript that are missing behind `known`, until `is_over`. Raises OSError.

    Lines that are damaged, unsigned or not in their order end the part that pieces can stand for.
    """
    if not _is_cacheable(path, key):
        return known
    _folder_of(path).mkdir(mode=0o700, exist_ok=True)
    _remove_orphans(_folder_of(path))
    with opened_unread(path) as record:
        while os.fstat(record).st_size - known.size >= PIECE_BYTES and not is_over():
            start = known.size
            piece = _read_piece(path, key, start)
            if piece is not None and _is_same(record, piece):
                known = CachedEnd(piece.end, piece.facts[-1].seq)
                continue
            new = _make_piece(record, key, start=start, last=known.seq)
            if new is None or is_over():
                break
            replace_file(_piece_path(path, start), _mac(key, new.body) + new.body)
            known = new.end
    return known


class _NewPiece(NamedTuple):
    """The bytes of a piece that is not in a file yet, and the end of what it stands for."""

    body: bytes
    end: CachedEnd


def _make_piece(record: int, key: SessionKey, *, start: int, last: int) -> _NewPiece | None:
    """Return the piece of the next lines of a transcript, behind the fact `last`; None if there is none.

    Each fact is encoded as soon as it is read: all facts of a piece together would take 17 MB of memory.
    """
    facts: list[msgspec.Raw] = []
    lazy: list[int] = []
    end = start
    sid = ""
    with os.fdopen(os.dup(record), "rb", buffering=1 << 16) as file:
        chain = LineChain(key, link_before(record, start))
        file.seek(start)
        while end - start < PIECE_BYTES:
            line = file.readline(MAX_LINE_BYTES)
            if not line.endswith(b"\n") or not chain.takes(line):
                return None
            try:
                without = parse_without_content(line)
                fact, found = without or decode_line(line)
            except BadLine:
                return None
            is_tail = isinstance(fact, Metadata) and fact.topic == Metadata.TAIL
            if is_tail or isinstance(fact, UnknownFact) or fact.seq <= last:
                return None
            if (encoded := _encoded(fact)) is None:
                return None
            if without is not None:
                lazy += (fact.seq, end, len(line))
            facts.append(encoded)
            last = fact.seq
            sid = found
            end += len(line)
    digest = _sha256(record, start, end)
    made = (_form(), sid, start, end, len(facts), digest, facts, lazy)  # the fields of a _Piece
    with suppress(ValueError):  # a lone surrogate in the id
        return _NewPiece(msgspec.msgpack.encode(made), CachedEnd(end, last))
    return None


def _encoded(fact: Any) -> msgspec.Raw | None:
    """Return a fact as bytes; None if a value in it cannot be stored so, or is decoded to another one."""
    with suppress(ValueError, OverflowError, msgspec.MsgspecError):  # large numbers, lone surrogates
        body = msgspec.msgpack.encode(_row(fact))
        if _fact_decoder().decode(body) == fact:
            return msgspec.Raw(body)
    return None


def _remove_orphans(folder: Path) -> None:
    """Remove the pieces of transcripts that no longer exist."""
    for piece in folder.iterdir():
        if not (folder.parent / f"{piece.name.rpartition('.')[0]}.jsonl").exists():
            piece.unlink(missing_ok=True)
