"""Fill the search index from the transcripts, and keep it small.

Each fact with text is one document of the index. The index contains no text; everything that is shown is read
from the transcript.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from ..codec import BadLine, decode_line
from ..errors import StoreError
from ..facts import Fact, Opened, Reply, Result, Rewound, User
from ..load import MAX_LINE_BYTES
from ..render_text import indexed_text
from ..storage.disk import opened_unread
from ..stored_outputs import OUTPUTS_FOLDER
from .index_file import LOCK_POLL_S, IndexUnavailable, open_database, record_path, recorded_sids
from .words import USER_TERM, document_terms

if TYPE_CHECKING:
    import sqlite3

MAX_TEXT_CHARS = 1_000_000  # of a fact; later text is not found
MIN_MERGED_PAGES = 64  # of the words table; a smaller one is not merged
MIN_STALE_FACTS = 1_000  # of removed transcripts; with fewer the index is not rebuilt
_READ_KINDS = tuple(b'"kind":"%s"' % kind for kind in (b"user", b"reply", b"result", b"rewound", b"opened"))


class IndexFiller:
    """Writes an open and locked index. Its methods raise sqlite3.Error and OSError.

    The stored outputs are in `outputs`, by default the directory of the project's.
    """

    def __init__(self, home: Path, database: sqlite3.Connection, outputs: Path | None = None) -> None:
        self._home = home
        self._db = database
        self._outputs = outputs or home / OUTPUTS_FOLDER

    def update(self, sids: Sequence[str], until: float) -> Sequence[str]:
        """Index what was appended to these sessions until a monotonic time; return those that are left.

        All of it is one transaction: one for each session would take longer than reading a short one.
        """
        sizes = self._sizes()
        with self._db:
            self._db.execute("BEGIN")
            for place, sid in enumerate(sids):
                path = record_path(self._home, sid)
                with suppress(OSError):  # one that was removed, or is another user's
                    if sizes.get(sid) == path.lstat().st_size:
                        continue
                    if time.monotonic() > until or not self._update_one(sid, path, until):
                        return sids[place:]
        return ()

    def add_facts(self, sid: str, facts: Iterable[Fact]) -> None:
        """Index facts in memory, of a session without a transcript."""
        made = self._db.execute("INSERT INTO files (sid) VALUES (?)", (sid,))
        for fact in facts:
            self._add_fact(fact, 0, made.lastrowid or 0)

    def unread_bytes(self, sids: Sequence[str]) -> int:
        """Return the size of what was appended to these sessions and is not indexed."""
        sizes = self._sizes() if sids else {}
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

    def _sizes(self) -> dict[str, int]:
        """Return the number of bytes of each transcript that are indexed."""
        return dict(self._db.execute("SELECT sid, size FROM files"))

    def _update_one(self, sid: str, path: Path, until: float) -> bool:
        """Index the rest of one transcript; return whether that is done."""
        with opened_unread(path) as fd, os.fdopen(os.dup(fd), "rb") as file:
            id, end = self._known(sid, fd)
            file.seek(end)
            is_done = False
            while not is_done and time.monotonic() <= until:
                line = file.readline(MAX_LINE_BYTES)
                is_done = not line.endswith(b"\n")  # the end, or an incomplete line
                if not is_done:
                    self._add(line, end, id)
                    end += len(line)
            mark = os.pread(fd, 32, max(0, end - 32))  # includes a checksum
            self._db.execute("UPDATE files SET size = ?, mark = ? WHERE id = ?", (end, mark, id))
            return is_done

    def _known(self, sid: str, fd: int) -> tuple[int, int]:
        """Return the id of a transcript and its indexed size: 0 if another file was indexed before."""
        row = self._db.execute("SELECT id, size, mark FROM files WHERE sid = ?", (sid,)).fetchone()
        if row is not None:
            id, size, mark = row
            if os.pread(fd, len(mark), size - len(mark)) == mark:
                return id, size
            self._drop(id)
        made = self._db.execute("INSERT INTO files (sid, size, mark) VALUES (?, 0, x'')", (sid,))
        return made.lastrowid or 0, 0

    def _drop(self, file: int) -> None:
        """Forget a transcript. Its words stay until the index is rebuilt, but lead nowhere."""
        for table in ("facts", "rewound", "opened"):
            self._db.execute(f"DELETE FROM {table} WHERE file = ?", (file,))
        self._db.execute("DELETE FROM files WHERE id = ?", (file,))

    def _add(self, line: bytes, at: int, file: int) -> None:
        """Index the line at offset `at` of a transcript."""
        if not any(kind in line[:300] for kind in _READ_KINDS):
            return
        try:
            fact, _ = decode_line(line)
        except BadLine:
            return
        self._add_fact(fact, at, file)

    def _add_fact(self, fact: Fact, at: int, file: int) -> None:
        if isinstance(fact, Rewound) and 0 < fact.to < fact.seq:
            self._db.execute("INSERT INTO rewound VALUES (?, ?, ?)", (file, fact.to, fact.seq))
        if isinstance(fact, Opened):
            self._db.execute("INSERT INTO opened VALUES (?, ?, ?)", (file, fact.seq, at))
        terms = self._terms(fact)
        if not terms and not isinstance(fact, Reply):  # a reply names the calls of results
            return
        words = " ".join([term if times == 1 else f"{term} {term}" for term, times in terms.items()])
        id = self._db.execute("INSERT INTO words (text) VALUES (?)", (words,)).lastrowid or 0
        self._db.execute("INSERT INTO facts VALUES (?, ?, ?, ?)", (id, file, fact.seq, at))
        query = "UPDATE files SET lowest = coalesce(lowest, ?), highest = ? WHERE id = ?"
        self._db.execute(query, (id, id, file))

    def _terms(self, fact: Fact) -> dict[str, int]:
        """Return the terms of a fact: of its text and, unless a tool wrote it, of the day and month."""
        text = indexed_text(fact, self._outputs)[:MAX_TEXT_CHARS]
        if not text.strip():
            return {}
        terms = document_terms(text)
        if not isinstance(fact, Result):
            day = time.strftime("%Y%m%d %B", time.gmtime(fact.ts)).lower()
            terms |= dict.fromkeys([*day.split(), *[USER_TERM] * isinstance(fact, User)], 1)
        return terms


def update_index(home: Path, is_over: Callable[[], bool]) -> bool:
    """Update the project's index in small steps, between which searches can use it.

    Blocks; ends early once `is_over` returns True. Returns False only if the index cannot be used.
    """
    with suppress(IndexUnavailable, StoreError):
        sids = recorded_sids(home)
        left: Sequence[str] = sids
        while not is_over():
            with open_database(home) as database:
                until = time.monotonic() + 0.2
                filler = IndexFiller(home, database)
                if filler.forget_all_but(sids):
                    left = sids
                    continue
                left = filler.update(left, until)
                if not left and filler.merge(until):
                    return True
            time.sleep(2 * LOCK_POLL_S)  # so that a search that waits gets the lock
        return True
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
