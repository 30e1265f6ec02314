"""Recognize the transcripts that were written on this machine, by a keyed hash in each line.

A repository can contain a `.transcripts` directory, and anybody can compute a checksum. So each line that is
appended also has a keyed hash, whose key is in the state directory of the user, which no command can read:

    {"v":1,"seq":7,...,"prev":"04b7...16 hex digits","mac":"5ad1...32 hex digits","crc":"9f3a01bc"}

It covers everything before it: the session id, and `prev`, the beginning of the hash of the line before. A
transcript is "from elsewhere" if a fact has no valid hash, or if lines were moved, repeated, or removed from
its beginning or middle. It may end anywhere. Earlier versions wrote no `prev`.

Transcripts of versions without the hash are adopted: those that a project contained before the key was made,
if makeroom had been used on this machine until then. They are recognized by their inode, which a checkout
cannot choose.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct, field

from .codec import BadLine, decode_line
from .load import fact_at_end, lines_of
from .session_lock import RECORDS_FOLDER
from .storage import (
    make_private_folders,
    opened_regular,
    project_key,
    read_pieces,
    read_regular,
    replace_file,
)

_MAX_FILE_BYTES = 1 << 20
_MAC_BYTES = 16
_MAC = b',"mac":"'
_PREV = b',"prev":"'
_LINK_CHARS = 16
NO_LINE = b"0" * _LINK_CHARS  # `prev` of the first line
_CRC = b',"crc":"'
_CRC_END = len(_CRC) + len('xxxxxxxx"}')
_MAC_END = len(_MAC) + 2 * _MAC_BYTES + len('"')
_LINK_AT = -(len('"') + _CRC_END + len("\n")) - 2 * _MAC_BYTES
LINK = slice(_LINK_AT, _LINK_AT + _LINK_CHARS)  # of a line that `sign` returns: the link to it
_FIRST = b'{"v":1,"seq":1,'
_PREV_END = len(_PREV) + _LINK_CHARS + len('"')


class _StoredKey(Struct):
    """The key as it is stored, and the time in ns before which transcripts without a hash were made here."""

    key: str
    adopts_before: int


class SessionKey(Struct, frozen=True):
    """The key of this machine's transcripts; `adopted` has the inode and size of older ones by their name."""

    key: bytes
    adopted: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def load(cls, state_dir: Path, project: Path) -> SessionKey:
        """Return the key, which is made first if there is none, and adopt the project's older transcripts.

        Raises OSError if the key cannot be read or written, or is not a key.
        """
        stored = _stored_key(state_dir)
        path = state_dir / "adopted" / f"{project_key(project)}.json"
        try:
            adopted = msgspec.json.decode(
                read_regular(path, _MAX_FILE_BYTES), type=dict[str, tuple[int, int]]
            )
        except (FileNotFoundError, msgspec.DecodeError):
            adopted = _older_transcripts(project / RECORDS_FOLDER, stored.adopts_before)
            make_private_folders(path.parent)
            replace_file(path, msgspec.json.encode(adopted))
        return cls(bytes.fromhex(stored.key), adopted)

    @classmethod
    def new(cls) -> SessionKey:
        """Return a key for this run alone."""
        return cls(os.urandom(32))

    def sign(self, line: bytes, prev: bytes | None = None) -> bytes:
        """Return a line of a transcript with its hash, the link to the line before, and a new checksum."""
        head = line[: -_CRC_END - 1]
        if prev is not None:
            head = b'%b%b%b"' % (head, _PREV, prev)
        body = b'%b%b%b"' % (head, _MAC, self._hash(head))
        return b'%b%b%08x"}\n' % (body, _CRC, zlib.crc32(body))

    def signed(self, line: bytes) -> bool:
        """Return whether a line has the hash of this machine."""
        body = line.rstrip(b"\r\n")[:-_CRC_END]
        head = body[:-_MAC_END]
        tail = body[-_MAC_END:]
        return tail.startswith(_MAC) and tail[len(_MAC) : -1] == self._hash(head)

    def _hash(self, head: bytes) -> bytes:
        return blake2b(head, key=self.key, digest_size=_MAC_BYTES).hexdigest().encode()

    def is_from_elsewhere(self, path: Path, start: int = 0) -> bool:
        """Return whether a transcript contains a fact from byte `start` on that was not written here.

        It is from elsewhere, too, if facts were removed, moved or repeated. Raises OSError.
        """
        with opened_regular(path) as file:
            found = os.fstat(file.fileno())
            inode, known = self.adopted.get(path.name, (0, 0))
            adopted = known if inode == found.st_ino else 0
            chain = LineChain(self, link_before(file.fileno(), start))
            file.seek(start)
            for _, offset, line in lines_of(file, offset=start):
                if offset < adopted or line.isspace() or chain.takes(line):
                    continue
                fact = line if _is_fact(line) else fact_at_end(line)
                chain.is_damaged = chain.is_damaged or fact is not line
                if fact is not None and not chain.takes(fact):
                    break
            else:
                return False
        # Of two continuations of a session in one file, the second may continue a line before `start`.
        return start == 0 or self.is_from_elsewhere(path)


class LineChain:
    """Follows the links between the lines of a transcript.

    is_damaged  a line could not be read, which may be the one that the next line continues
    """

    def __init__(self, key: SessionKey, last: bytes = NO_LINE) -> None:
        self._key = key
        self._links = set[bytes]() if last == NO_LINE else {last}
        self.is_damaged = False

    def takes(self, line: bytes) -> bool:
        """Return whether a line was written on this machine, and as the continuation of an earlier line."""
        if not self._key.signed(line):
            return False
        link = link_of(line)
        prev = _prev_of(line)
        if prev is not None:
            if not self._links and prev != NO_LINE and line.startswith(_FIRST):
                self._links.add(prev)  # the opening of a copy for an agent, in place of the original's
            if link in self._links or not (prev in self._links or self._is_excused(prev)):
                return False
        self._links.add(link)
        return True

    def _is_excused(self, prev: bytes) -> bool:
        was_damaged = self.is_damaged
        self.is_damaged = False
        return was_damaged or (not self._links and prev == NO_LINE)


def link_of(line: bytes) -> bytes:
    """Return the link to a line, of which the end suffices: the beginning of its hash, if it has one."""
    mac = line.rstrip()[:-_CRC_END][-_MAC_END:]
    return mac[len(_MAC) :][:_LINK_CHARS] if mac.startswith(_MAC) else NO_LINE


def link_before(record: int, end: int) -> bytes:
    """Return the link to the last line in the first `end` bytes of a transcript. Raises OSError."""
    return link_of(b"".join(read_pieces(record, max(0, end - 4_096), end)))


def _prev_of(line: bytes) -> bytes | None:
    prev = line.rstrip(b"\r\n")[: -_CRC_END - _MAC_END][-_PREV_END:]
    return prev[len(_PREV) : -1] if prev.startswith(_PREV) else None


def _is_fact(line: bytes) -> bool:
    with suppress(BadLine):
        decode_line(line)
        return True
    return False


def _stored_key(state_dir: Path) -> _StoredKey:
    path = state_dir / "session_key.json"
    with suppress(FileNotFoundError):
        return msgspec.json.decode(read_regular(path, _MAX_FILE_BYTES), type=_StoredKey)
    was_used = state_dir.is_dir()
    make_private_folders(state_dir)
    new = state_dir / f"session_key.{os.getpid()}"
    made = _StoredKey(os.urandom(32).hex(), adopts_before=0)
    replace_file(new, msgspec.json.encode(made))
    if was_used:  # by the clock of the file system, which also dates the transcripts
        made.adopts_before = new.stat().st_ctime_ns
        replace_file(new, msgspec.json.encode(made))
    with suppress(FileExistsError):  # another process was first
        path.hardlink_to(new)
    new.unlink()
    return msgspec.json.decode(read_regular(path, _MAX_FILE_BYTES), type=_StoredKey)


def _older_transcripts(folder: Path, before: int) -> dict[str, tuple[int, int]]:
    """Return the inode and size of each transcript that has not been touched since that time."""
    found: dict[str, tuple[int, int]] = {}
    for path in folder.glob("*.jsonl") if before else ():
        state = path.lstat()
        if state.st_ctime_ns < before:
            found[path.name] = (state.st_ino, state.st_size)
    return found
