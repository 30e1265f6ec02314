"""Fill the search index from the transcripts, and keep it small.

Each fact with text is one document of the index. The index contains no text; everything that is shown is read
from the transcript.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from ..codec import BadLine, decode_line
from ..errors import StoreError
from ..facts import Fact, Reply, Result, Rewound, User
from ..listing import ProjectRecords
from ..load import MAX_LINE_BYTES
from ..render_text import indexed_text
from ..session_lock import RECORDS_FOLDER, path_of
from ..storage.disk import opened_unread
from ..stored_outputs import OUTPUTS_FOLDER
from .index_file import LOCK_POLL_S, IndexUnavailable, use_index
from .words import USER_TERM, document_terms

if TYPE_CHECKING:
    import sqlite3

MAX_TEXT_CHARS = 1_000_000  # of a fact; later text is not found
SAMPLED = 16  # one in so many facts is in the sample, which tells how common a word is
FILE_BITS = 32  # of the id of a fact, for its number in the file
_READ_KINDS = tuple(b'"kind":"%s"' % kind for kind in (b"user", b"reply", b"result", b"rewound"))


class IndexFiller:
    """Writes an open and locked index. Its methods raise sqlite3.Error and OSError."""

    def __init__(self, home: Path, database: sqlite3.Connection) -> None:
        self._home = home
        self._db = database

    def update(self, sids: Iterable[str], seconds: float) -> int:
        """Index what was appended to these sessions, for so long at most; return the bytes that are left.

        All of it is one transaction: one for each session would take longer than reading a short one.
        """
        until = time.monotonic() + seconds
        known = dict(self._db.execute("SELECT sid, size FROM files"))
        folder = os.fspath(self._home / RECORDS_FOLDER)
        left = 0
        with self._db:
            self._db.execute("BEGIN")
            for sid in sids:
                with suppress(OSError, StoreError):  # removed, another user's, or not named like a session
                    size = os.lstat(f"{folder}/{sid}.jsonl").st_size
                    if size != known.get(sid):
                        is_over = time.monotonic() > until
                        left += max(0, size - known.get(sid, 0)) if is_over else self._update_one(sid, until)
        return left

    def forget_all_but(self, sids: Collection[str]) -> bool:
        """Drop all other sessions; return True if so much is stale that the index must be rebuilt.

        The words of facts that were dropped stay until then, but are not found.
        """
        gone = {sid for (sid,) in self._db.execute("SELECT sid FROM files")}.difference(sids)
        if not gone:
            return False
        self._db.executemany("DELETE FROM files WHERE sid = ?", [(sid,) for sid in gone])
        query = "SELECT count(*), (SELECT total(facts) FROM files) FROM facts"
        every, live = self._db.execute(query).fetchone()
        if every > 2 * live:
            self._db.execute("PRAGMA user_version = 0")
        return bool(every > 2 * live)

    def _update_one(self, sid: str, until: float) -> int:
        """Index the rest of one transcript; return the bytes that are left of it."""
        with opened_unread(path_of(self._home, sid)) as fd, os.fdopen(os.dup(fd), "rb") as file:
            query = "SELECT id, size, mark, facts FROM files WHERE sid = ?"
            row = self._db.execute(query, (sid,)).fetchone()
            if row is None or os.pread(fd, len(row[2]), row[1] - len(row[2])) != row[2]:
                # The file is new, or takes the place of another one.
                self._db.execute("REPLACE INTO files (sid, size, mark, facts) VALUES (?, 0, x'', 0)", (sid,))
                row = self._db.execute(query, (sid,)).fetchone()
            id, end, _, number = row
            file.seek(end)
            while time.monotonic() <= until and (line := file.readline(MAX_LINE_BYTES)).endswith(b"\n"):
                if any(kind in line[:300] for kind in _READ_KINDS):
                    with suppress(BadLine):
                        number += self._add(decode_line(line)[0], end, id << FILE_BITS | number)
                end += len(line)
            mark = os.pread(fd, min(32, end), max(0, end - 32))  # includes a checksum
            query = "UPDATE files SET size = ?, mark = ?, facts = ? WHERE id = ?"
            self._db.execute(query, (end, mark, number, id))
            return os.fstat(fd).st_size - end if time.monotonic() > until else 0

    def _add(self, fact: Fact, at: int, id: int) -> bool:
        """Index a fact at an offset of its transcript under an id; return whether it was added."""
        if isinstance(fact, Rewound) and 0 < fact.to < fact.seq:
            query = "UPDATE facts SET rewound = 1 WHERE id BETWEEN ? AND ? AND seq BETWEEN ? AND ?"
            self._db.execute(query, (id >> FILE_BITS << FILE_BITS, id, fact.to, fact.seq))
        if not isinstance(fact, User | Reply | Result):
            return False
        text = indexed_text(fact, self._home / OUTPUTS_FOLDER)[:MAX_TEXT_CHARS]
        words = document_terms(text)
        if not words and not isinstance(fact, Reply):  # a reply names the calls of results
            return False
        # The same output is one hit wherever it was shown, the same words only in copies of a session.
        hash = zlib.crc32(text.encode(errors="replace"), 0 if isinstance(fact, Result) else int(fact.ts))
        if words and not isinstance(fact, Result):
            words.append(time.strftime("%Y%m%d %B", time.gmtime(fact.ts)))
        if words and isinstance(fact, User):
            words.append(USER_TERM)
        document = (id, " ".join(words))
        self._db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", document)
        if hash % SAMPLED == 0:
            self._db.execute("INSERT INTO sample (rowid, text) VALUES (?, ?)", document)
        self._db.execute("INSERT INTO facts VALUES (?, ?, ?, ?, 0)", (id, fact.seq, at, hash))
        return True


def update_index(home: Path, is_over: Callable[[], bool]) -> bool:
    """Update the project's index in small steps, between which searches can use it.

    Blocks; ends early once `is_over` returns True. Returns False only if the index cannot be used.
    """

    def is_complete(database: sqlite3.Connection) -> bool:
        filler = IndexFiller(home, database)
        return not filler.forget_all_but(sids) and not filler.update(sids, 0.2)

    try:
        sids = ProjectRecords(home).sids()
        while not is_over() and not use_index(home, is_complete):
            time.sleep(2 * LOCK_POLL_S)  # so that a search that waits gets the lock
        return True
    except (IndexUnavailable, StoreError):
        return False


class IndexThread:
    """Updates a project's index in the background of a session without delaying it or its end."""

    def __init__(self) -> None:
        self._over = Event()
        self._thread: Thread | None = None

    def begin(self, home: Path) -> None:
        """Start updating, unless the thread is already running."""
        if self._thread is None or not self._thread.is_alive():
            work = partial(update_index, home, self._over.is_set)
            self._thread = Thread(target=work, name="search index", daemon=True)
            self._thread.start()

    def end(self, wait: bool) -> None:
        """Stop soon; with `wait`, return when the thread has ended."""
        self._over.set()
        if wait and self._thread is not None:
            self._thread.join()
