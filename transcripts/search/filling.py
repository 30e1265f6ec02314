"""Fill the search index from the transcripts, and keep it small.

Each fact with text is one document of the index. The index contains no text; everything that is shown is read
from the transcript.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..codec import BadLine, decode_line
from ..facts import Fact, Opened, Reply, Result, Rewound, User
from ..load import MAX_LINE_BYTES
from ..render_text import indexed_text
from ..storage.disk import opened_unread
from ..stored_outputs import OUTPUTS_FOLDER
from .index_file import record_path
from .words import USER_TERM, document_terms

if TYPE_CHECKING:
    import sqlite3

BATCH_BYTES = 4 << 20  # of a transcript, read without a look at the time
MAX_TEXT_CHARS = 1_000_000  # of a fact; later text is not found
MIN_MERGED_PAGES = 64  # of the words table; a smaller one is not merged
MIN_STALE_FACTS = 1_000  # of removed transcripts; with fewer the index is not rebuilt
# Not indexed for results, most of which contain some of them.
_SHORT_NUMBERS = frozenset(f"{number:0{digits}}" for digits in (1, 2) for number in range(10**digits))
_READ_KINDS = tuple(b'"kind":"%s"' % kind for kind in (b"user", b"reply", b"result", b"rewound", b"opened"))


class IndexedFile(NamedTuple):
    """A transcript of which the first `size` bytes are indexed."""

    id: int
    size: int


class IndexFiller:
    """Writes an open and locked index. Its methods raise sqlite3.Error and OSError."""

    def __init__(self, home: Path, database: sqlite3.Connection) -> None:
        self._home = home
        self._db = database

    def update(self, sids: Sequence[str], until: float) -> Sequence[str]:
        """Index what was appended to these sessions until a monotonic time; return those that are left.

        All of it is one transaction: one for each session would take longer than reading a short one.
        """
        stamps = dict(self._db.execute("SELECT sid, stamp FROM files"))
        with self._db:
            self._db.execute("BEGIN")
            for place, sid in enumerate(sids):
                path = record_path(self._home, sid)
                with suppress(OSError):  # one that was removed, or is another user's
                    if stamps.get(sid) == _stamp(path.lstat()):
                        continue
                    if time.monotonic() > until or not self._update_one(sid, path, until):
                        return sids[place:]
        return ()

    def unread_bytes(self, sids: Sequence[str]) -> int:
        """Return the size of what was appended to these sessions and is not indexed."""
        sizes = dict(self._db.execute("SELECT sid, size FROM files")) if sids else {}
        unread = 0
        for sid in sids:
            with suppress(OSError):
                unread += max(0, record_path(self._home, sid).lstat().st_size - sizes.get(sid, 0))
        return unread

    def forget_all_but(self, sids: Collection[str]) -> bool:
        """Drop all other sessions; return True if so much is stale that the index must be rebuilt."""
        wanted = frozenset(sids)
        for file, sid in self._db.execute("SELECT id, sid FROM files").fetchall():
            if sid not in wanted:
                self._drop(file)
        (held,) = self._db.execute("SELECT count(*) FROM words_docsize").fetchone()
        (known,) = self._db.execute("SELECT count(*) FROM facts").fetchone()
        is_stale = bool(held - known > max(MIN_STALE_FACTS, 0.3 * known))
        if is_stale:
            self._db.execute("PRAGMA user_version = 0")
        return is_stale

    def merge(self, until: float) -> bool:
        """Merge the segments of the index, so that each word is in one place; return whether it is done."""
        parts = "SELECT count(*) AS pages FROM words_idx GROUP BY segid"
        most, pages = self._db.execute(f"SELECT max(pages), total(pages) FROM ({parts})").fetchone()
        while pages > MIN_MERGED_PAGES and most < 0.75 * pages:
            before = self._db.total_changes
            self._db.execute("INSERT INTO words (words, rank) VALUES ('merge', -500)")
            if self._db.total_changes - before < 2:
                break  # FTS5's sign that nothing is left to merge
            if time.monotonic() > until:
                return False
        return True

    def _update_one(self, sid: str, path: Path, until: float) -> bool:
        """Index the rest of one transcript; return whether that is done."""
        with opened_unread(path) as fd:
            found = os.fstat(fd)
            indexed = self._known(sid, fd)
            while indexed.size < found.st_size:
                if time.monotonic() > until:
                    return False
                before = indexed
                indexed = self._read_batch(fd, indexed)
                if indexed == before:
                    break  # its last line is incomplete
            self._db.execute("UPDATE files SET stamp = ? WHERE id = ?", (_stamp(found), indexed.id))
            return True

    def _known(self, sid: str, fd: int) -> IndexedFile:
        """Return the indexed part of a transcript; an empty one if another file was indexed before."""
        row = self._db.execute("SELECT id, size, mark FROM files WHERE sid = ?", (sid,)).fetchone()
        if row is not None:
            id, size, mark = row
            if os.pread(fd, len(mark), size - len(mark)) == mark:
                return IndexedFile(id, size)
            self._drop(id)
        made = self._db.execute("INSERT INTO files (sid, size, mark) VALUES (?, 0, x'')", (sid,))
        return IndexedFile(made.lastrowid or 0, 0)

    def _drop(self, file: int) -> None:
        """Forget a transcript. Its words stay until the index is rebuilt, but lead nowhere."""
        for table in ("facts", "rewound", "opened"):
            self._db.execute(f"DELETE FROM {table} WHERE file = ?", (file,))
        self._db.execute("DELETE FROM files WHERE id = ?", (file,))

    def _read_batch(self, fd: int, known: IndexedFile) -> IndexedFile:
        """Index the next lines of a transcript; return its indexed part."""
        with os.fdopen(os.dup(fd), "rb") as file:
            file.seek(known.size)
            end = known.size
            batch = _Batch(self._db, known.id, self._home / OUTPUTS_FOLDER)
            while end - known.size < BATCH_BYTES:
                line = file.readline(MAX_LINE_BYTES)
                if not line.endswith(b"\n"):
                    break
                batch.add(line, end)
                end += len(line)
            batch.write_places()
            mark = os.pread(fd, 32, max(0, end - 32))  # includes a checksum
            self._db.execute("UPDATE files SET size = ?, mark = ? WHERE id = ?", (end, mark, known.id))
        return IndexedFile(known.id, end)


class _Batch:
    """Lines of a transcript that are read together."""

    def __init__(self, database: sqlite3.Connection, file: int, outputs: Path) -> None:
        self._db = database
        self._file = file
        self._outputs = outputs
        self._places = list[tuple[int, int, int, int]]()

    def add(self, line: bytes, at: int) -> None:
        """Add the line at offset `at` of the file."""
        if not any(kind in line[:300] for kind in _READ_KINDS):
            return
        try:
            fact, _ = decode_line(line)
        except BadLine:
            return
        if isinstance(fact, Rewound) and 0 < fact.to < fact.seq:
            self._db.execute("INSERT INTO rewound VALUES (?, ?, ?)", (self._file, fact.to, fact.seq))
        if isinstance(fact, Opened):
            self._db.execute("INSERT INTO opened VALUES (?, ?, ?)", (self._file, fact.seq, at))
        text = indexed_text(fact, self._outputs)[:MAX_TEXT_CHARS]
        if text.strip():
            terms = document_terms(text)
            if isinstance(fact, Result):
                for number in terms.keys() & _SHORT_NUMBERS:
                    del terms[number]
            self._write(fact, terms | _about(fact), at)
        elif isinstance(fact, Reply):
            self._write(fact, {}, at)  # it is not found itself, but names the calls of results

    def write_places(self) -> None:
        """Write where the added facts are; called at the end of the batch."""
        if self._places:
            self._db.executemany("INSERT INTO facts VALUES (?, ?, ?, ?)", self._places)
            query = "UPDATE files SET lowest = coalesce(lowest, ?), highest = ? WHERE id = ?"
            self._db.execute(query, (self._places[0][0], self._places[-1][0], self._file))

    def _write(self, fact: Fact, terms: dict[str, int], at: int) -> None:
        words = " ".join([term if times == 1 else f"{term} {term}" for term, times in terms.items()])
        id = self._db.execute("INSERT INTO words (text) VALUES (?)", (words,)).lastrowid or 0
        self._places.append((id, self._file, fact.seq, at))


def _stamp(found: os.stat_result) -> str:
    """Return a stamp that changes whenever a transcript is written to."""
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def _about(fact: Fact) -> dict[str, int]:
    """Return the terms of a fact besides its text: its file, or the day and month when it was said."""
    if isinstance(fact, Result):
        path = fact.about.get("path")
        return document_terms(path) if isinstance(path, str) else {}
    terms = dict.fromkeys(time.strftime("%Y%m%d %B", time.gmtime(fact.ts)).lower().split(), 1)
    if isinstance(fact, User):
        terms[USER_TERM] = 1
    return terms
