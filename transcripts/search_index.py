"""The search index of a project's records: an SQLite FTS5 file beside them that is only a cache.

It holds which facts have which terms, and where each fact stands in its record: no text, so that nothing is
stored twice and all that is shown comes from the record. It is made anew where it is missing, damaged, or of
another version, and brought up to date with what was appended since. One process uses it at a time, and only
for a moment: whoever must not wait searches without it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .codec import BadLine, decode_line
from .disk import make_private_folders, opened_fd, opened_unread
from .facts import Fact, Opened, Result, Rewound
from .load import MAX_LINE_BYTES
from .masking import mask
from .record_files import SEARCH_FOLDER
from .render_text import indexed_text, speaker_of
from .search_terms import QueryTerm, document_terms, without_accents
from .session_lock import RECORDS_FOLDER
from .stored_outputs import OUTPUTS_FOLDER

if TYPE_CHECKING:
    import sqlite3

INDEX_VERSION = 8  # another number makes every index anew
MAX_INDEXED_CHARS = 1_000_000  # of one fact
BATCH_BYTES = 4 << 20  # of records that are read in one transaction
MAX_CALL_DISTANCE = 200  # facts between a call and its result
MIN_FREE_PAGES, MAX_FREE_SHARE = 64, 0.15  # pages of the file that hold nothing
LOCK_TIMEOUT_S = 1.0
DATABASE_TIMEOUT_S = 0.1  # for what holds no lock of ours, but the database
SAME_START_CHARS, MAX_LIKE_TERMS = 2, 8_000  # of words that may be slips for one another
SPELT_CHARS, LAST_CHAR = range(3, 25), chr(0x10FFFF)  # of words that others may be slips for
MERGED_PAGES, MIN_MERGED_SHARE = 500, 0.75  # of the words: merged at once; that lie together already
MIN_STALE_TEXTS, MAX_STALE_SHARE = 1_000, 0.3  # facts whose records are gone; above both it is made anew
FILE_BITS = 26  # the id of a fact is that of its file, shifted, plus its place among the file's texts
_MARK_BYTES = 32  # of a record before the place up to which it was indexed: they hold a checksum
_READ_KINDS = tuple(b'"kind":"%s"' % kind for kind in (b"user", b"reply", b"result", b"rewound", b"opened"))
_KIND_WITHIN_BYTES = 300  # the kind of a line stands within its first bytes
_SCHEMA = f"""
    CREATE TABLE files (
        id INTEGER PRIMARY KEY AUTOINCREMENT, sid TEXT UNIQUE, size INTEGER, texts INTEGER, mark BLOB,
        stamp TEXT
    );
    CREATE TABLE facts (id INTEGER PRIMARY KEY, seq INTEGER, at INTEGER, terms INTEGER);
    CREATE TABLE rewound (file INTEGER, first INTEGER, last INTEGER);
    CREATE TABLE opened (file INTEGER, seq INTEGER, at INTEGER);
    CREATE TABLE gone (texts INTEGER);
    CREATE TABLE spellings (word TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE VIRTUAL TABLE words USING fts5(
        text, content='', columnsize=0, detail=none,
        tokenize="porter unicode61 tokenchars '_' categories 'L* N* Co So'"
    );
    PRAGMA user_version = {INDEX_VERSION};
"""


class IndexUnavailable(Exception):
    """There is no index to be had now: search without it."""


class Place(NamedTuple):
    """Where a fact stands: the session, its seq, the offset of its line in bytes; `terms` is its size."""

    id: int
    sid: str
    seq: int
    at: int
    terms: int
    rewound: bool = False


@contextmanager
def open_index(home: Path, timeout: float = LOCK_TIMEOUT_S) -> Iterator[SearchIndex]:
    """The index of the project `home`, this process its only user meanwhile. Raises IndexUnavailable."""
    import sqlite3  # 17 ms that a session which does not search saves

    folder = home / SEARCH_FOLDER
    try:
        if folder.resolve() != home.resolve() / SEARCH_FOLDER:
            raise NotADirectoryError(f"a link is in the place of {folder}")
        home.stat()  # where the project was moved away it is not made anew
        make_private_folders(folder)
        with opened_fd(folder / "lock", os.O_RDWR | os.O_CREAT) as lock:
            _wait_for(lock, timeout)
            with closing(_connection(folder / "index.db")) as connection:
                yield SearchIndex(home, connection)
    except sqlite3.DatabaseError as error:  # damaged only where it says so: another search may not wait
        if not isinstance(error, sqlite3.OperationalError):
            _remove(folder)
        raise IndexUnavailable(str(error)) from error
    except OSError as error:
        raise IndexUnavailable(str(error)) from error


def _wait_for(lock: int, timeout: float) -> None:
    end = time.monotonic() + timeout
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > end:
            raise IndexUnavailable("another process uses the search index")
        time.sleep(0.01)


def _connection(path: Path) -> sqlite3.Connection:
    """The file, made anew where it is not plainly ours or is of no use. Raises sqlite3.Error and OSError."""
    import sqlite3  # as in open_index

    with suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_uid != os.geteuid():
            path.unlink()
    for is_new in (False, True):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=DATABASE_TIMEOUT_S, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == INDEX_VERSION:
                return connection
            if not is_new and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise sqlite3.DatabaseError(f"its version is {version}")
            connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        except sqlite3.DatabaseError as error:
            connection.close()
            if is_new or isinstance(error, sqlite3.OperationalError):
                raise
            _remove(path.parent)
        else:
            return connection
    raise AssertionError("unreachable: the second round returns or raises")


def _remove(folder: Path) -> None:
    for name in ("index.db", "index.db-journal"):
        with suppress(OSError):
            (folder / name).unlink()


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """How far a record was read: its size then in bytes, and how many facts with a text it has there."""

    id: int
    size: int
    texts: int


class SearchIndex:
    """An index that is open and locked. Its methods raise sqlite3.Error and OSError."""

    def __init__(self, home: Path, connection: sqlite3.Connection) -> None:
        self._records, self._outputs = home / RECORDS_FOLDER, home / OUTPUTS_FOLDER
        self._db = connection
        self._spelt = set[str]()  # in the batch that is read

    def update(self, sids: Iterable[str], until: float) -> int:
        """Read what was appended to these sessions' records, up to the moment `until` (monotonic seconds).

        Returns how many bytes are left to read.
        """
        stamps = dict(self._db.execute("SELECT sid, stamp FROM files"))
        left = 0
        for sid in sids:
            path = f"{self._records}/{sid}.jsonl"
            with suppress(FileNotFoundError):
                if stamps.get(sid) != _stamp(os.lstat(path)):
                    left += self._update_one(sid, Path(path), until)
        return left

    def forget_all_but(self, sids: Collection[str]) -> None:
        """Drop what is known of other sessions; where that was much, begin anew."""
        for file, sid in self._db.execute("SELECT id, sid FROM files").fetchall():
            if sid not in sids:
                self._drop(file)
        (stale,) = self._db.execute("SELECT total(texts) FROM gone").fetchone()
        if stale > MIN_STALE_TEXTS and stale > MAX_STALE_SHARE * self.count():
            names = ("files", "facts", "rewound", "opened", "gone", "spellings", "words")
            self._db.executescript("".join(f"DROP TABLE {name};" for name in names) + _SCHEMA)

    def count(self) -> int:
        """How many facts can be found."""
        return int(self._db.execute("SELECT total(texts) FROM files").fetchone()[0])

    def ids_of(self, sid: str) -> range:
        """The ids that the facts of a session have."""
        row = self._db.execute("SELECT id, texts FROM files WHERE sid = ?", (sid,)).fetchone()
        return range(row[0] << FILE_BITS, (row[0] << FILE_BITS) + row[1]) if row else range(0)

    def facts_with(self, term: QueryTerm, within: range | None, limit: int) -> list[int]:
        """The ids of the newest facts that have a term, at most `limit`."""
        words = f'"{term.text}"{"*" if term.is_prefix else ""}'
        bounds = (within.start, within.stop - 1) if within is not None else ()
        query = f"""
            SELECT rowid FROM words WHERE words MATCH ?
            {"AND rowid BETWEEN ? AND ?" if bounds else ""} ORDER BY rowid DESC LIMIT ?
        """
        return [id for (id,) in self._db.execute(query, (words, *bounds, limit))]

    def places(self, ids: Collection[int]) -> dict[int, Place]:
        """Where facts stand. Those are left out whose record is gone."""
        files = ", ".join(map(str, {id >> FILE_BITS for id in ids}))
        sids = dict(self._db.execute(f"SELECT id, sid FROM files WHERE id IN ({files})"))
        query = f"SELECT file, first, last FROM rewound WHERE file IN ({files})"
        rewound = self._db.execute(query).fetchall()
        query = f"SELECT id, seq, at, terms FROM facts WHERE id IN ({', '.join(map(str, ids))})"
        return {
            id: Place(id, sids[id >> FILE_BITS], seq, at, terms, _is_within(rewound, id >> FILE_BITS, seq))
            for id, seq, at, terms in self._db.execute(query)
        }

    def place_before(self, place: Place, seq: int) -> Place | None:
        """Where an earlier fact of the same session stands that is not far away."""
        query = "SELECT id, seq, at, terms FROM facts WHERE id BETWEEN ? AND ? AND seq = ?"
        row = self._db.execute(query, (place.id - MAX_CALL_DISTANCE, place.id, seq)).fetchone()
        return Place(row[0], place.sid, *row[1:]) if row else None

    def _update_one(self, sid: str, path: Path, until: float) -> int:
        """Read one record on; how many bytes are left."""
        with opened_unread(path) as fd:
            found = os.fstat(fd)
            known = self._known(sid, fd)
            while known.size < found.st_size:
                if time.monotonic() > until:
                    return found.st_size - known.size
                before, known = known, self._read_batch(fd, known)
                if known == before:
                    break  # its last line is not whole yet
            self._db.execute("UPDATE files SET stamp = ? WHERE id = ?", (_stamp(found), known.id))
            return 0

    def _known(self, sid: str, fd: int) -> IndexedFile:
        """How far a record was read; not at all where it is another one than then."""
        row = self._db.execute("SELECT id, size, texts, mark FROM files WHERE sid = ?", (sid,)).fetchone()
        if row is not None:
            *about, mark = row
            known = IndexedFile(*about)
            if os.pread(fd, len(mark), known.size - len(mark)) == mark:
                return known
            self._drop(known.id)
        made = self._db.execute("INSERT INTO files (sid, size, texts, mark) VALUES (?, 0, 0, x'')", (sid,))
        return IndexedFile(made.lastrowid or 0, 0, 0)

    def _drop(self, file: int) -> None:
        """Forget a record. Its words stay until the index is made anew: they lead nowhere."""
        first = file << FILE_BITS
        self._db.execute("INSERT INTO gone SELECT texts FROM files WHERE id = ?", (file,))
        self._db.execute("DELETE FROM facts WHERE id BETWEEN ? AND ?", (first, first + (1 << FILE_BITS) - 1))
        self._db.execute("DELETE FROM files WHERE id = ?", (file,))

    def _read_batch(self, fd: int, known: IndexedFile) -> IndexedFile:
        """Read some lines of a record on, in one transaction."""
        with os.fdopen(os.dup(fd), "rb") as file, self._db:
            file.seek(known.size)
            end, texts = known.size, known.texts
            self._db.execute("BEGIN")
            while end - known.size < BATCH_BYTES:
                line = file.readline(MAX_LINE_BYTES)
                if not line.endswith(b"\n"):
                    break
                texts += self._add(line, known.id, texts, end)
                end += len(line)
            self._db.executemany("INSERT OR IGNORE INTO spellings VALUES (?)", zip(sorted(self._spelt)))
            self._spelt.clear()
            mark = os.pread(fd, _MARK_BYTES, max(0, end - _MARK_BYTES))
            values = (end, texts, mark, known.id)
            self._db.execute("UPDATE files SET size = ?, texts = ?, mark = ? WHERE id = ?", values)
        return IndexedFile(known.id, end, texts)

    def _add(self, line: bytes, file: int, number: int, at: int) -> bool:
        """Take in one line of a record; whether it has a text."""
        head = line[:_KIND_WITHIN_BYTES]
        if not any(kind in head for kind in _READ_KINDS):
            return False
        try:
            fact, _ = decode_line(line)
        except BadLine:
            return False
        if isinstance(fact, Rewound):
            self._db.execute("INSERT INTO rewound VALUES (?, ?, ?)", (file, fact.to, fact.seq))
        if isinstance(fact, Opened):
            self._db.execute("INSERT INTO opened VALUES (?, ?, ?)", (file, fact.seq, at))
        text = indexed_text(fact, self._outputs)[:MAX_INDEXED_CHARS]
        if not text.strip():
            return False
        words, id = document_terms(mask(text)), (file << FILE_BITS) + number
        spelt = (word for word in words if len(word) in SPELT_CHARS and word.isalpha())
        self._spelt.update(map(without_accents, spelt))
        terms = words + _field_terms(fact)
        self._db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (id, " ".join(terms)))
        self._db.execute("INSERT INTO facts VALUES (?, ?, ?, ?)", (id, fact.seq, at, len(terms)))
        return True


def _is_within(stretches: list[tuple[int, int, int]], file: int, seq: int) -> bool:
    return any(each == file and first <= seq <= last for each, first, last in stretches)


def begin_reading(index: SearchIndex) -> None:
    """Read all that follows in one transaction: one for each statement takes longer than to read."""
    index._db.execute("BEGIN")


def opening_before(index: SearchIndex, place: Place) -> Place | None:
    """Where the session that a fact belongs to was opened last before it."""
    query = "SELECT seq, at FROM opened WHERE file = ? AND seq < ? ORDER BY seq DESC LIMIT 1"
    row = index._db.execute(query, (place.id >> FILE_BITS, place.seq)).fetchone()
    return Place(0, place.sid, row[0], row[1], 0) if row else None


def terms_like(index: SearchIndex, word: str) -> list[str]:
    """The words and names that begin as a word does and are about as long.

    Of a name one half has to be the same: its parts are looked for themselves. Of one that is written without
    the signs between its parts, the first part and how the next one begins.
    """
    lengths, found = (len(word) - 4, len(word) + 3), list[str]()
    starts = [word[: len(word) // 2]]
    if "_" not in word:
        starts = [f"{word[:at]}_{word[at]}" for at in range(SAME_START_CHARS, len(word))]
        # Not from the vocabulary: that is mostly names, and is read with what has each.
        query = "SELECT word FROM spellings WHERE word BETWEEN ? AND ? AND length(word) BETWEEN ? AND ?"
        start = word[:SAME_START_CHARS]
        found = [each for (each,) in index._db.execute(query, (start, start + LAST_CHAR, *lengths))]
    within = "AND term <= ? AND length(term) BETWEEN ? AND ?"
    for start in starts:
        found += _vocabulary(index, start, MAX_LIKE_TERMS, within, (start + LAST_CHAR, *lengths))
    return found


def name_beginnings(index: SearchIndex, word: str, start: str = "") -> Iterator[str]:
    """How names begin that a word begins but for the signs between parts: `parse_http` for `parsehttp`.

    `start` is what stands before the word.
    """
    for at in range(1, len(word)):
        if "_" in word[at - 1 : at + 1]:
            continue
        begun, rest = f"{start}{word[:at]}_", word[at:]
        (term,) = _vocabulary(index, begun + rest[0])
        if term.startswith(begun + rest[0]):
            if _vocabulary(index, begun + rest)[0].startswith(begun + rest):
                yield begun + rest
            yield from name_beginnings(index, rest, begun)
        elif rest[0] > "_" and not term.startswith(begun[:-1]):
            break  # what has the sign further behind would come later still


def _vocabulary(
    index: SearchIndex, least: str, limit: int = 1, within: str = "", values: tuple[object, ...] = ()
) -> list[str]:
    """The terms from `least` on, in order, at most `limit`; an empty one where there is none."""
    index._db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, words, row)")
    found = f"SELECT term FROM vocabulary WHERE term >= ? {within} LIMIT ?"
    return [term for (term,) in index._db.execute(found, (least, *values, limit))] or [""]


def merge_parts(index: SearchIndex, until: float) -> bool:
    """Merge what was added, so that a word is found in one place; whether that was done by `until`."""
    db = index._db
    parts = "SELECT count(*) AS pages FROM words_idx GROUP BY segid"
    most, pages = db.execute(f"SELECT max(pages), total(pages) FROM ({parts})").fetchone()
    while pages > MIN_FREE_PAGES and most < MIN_MERGED_SHARE * pages:
        before = db.total_changes
        db.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (-MERGED_PAGES,))
        if db.total_changes - before < 2:
            break  # as FTS5 tells that nothing is left to merge
        if time.monotonic() > until:
            return False
    (free,) = db.execute("PRAGMA freelist_count").fetchone()
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    if free > max(MIN_FREE_PAGES, MAX_FREE_SHARE * pages):  # what merging left
        db.execute("VACUUM")
    return True


def _stamp(found: os.stat_result) -> str:
    """By what a record is known that nothing was written to since."""
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def _field_terms(fact: Fact) -> list[str]:
    """By what a fact can be found besides its text: the day, month and year, who spoke, the file."""
    day = time.strftime("%Y_%m_%d %B %Y", time.gmtime(fact.ts)).lower().split()
    path = fact.about.get("path") if isinstance(fact, Result) else None
    return [*day, speaker_of(fact), *(document_terms(path) if isinstance(path, str) else ())]
