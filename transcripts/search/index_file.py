"""The file of the search index: an SQLite database next to the transcripts, which is only a cache.

It is rebuilt if it is missing, damaged, of another version, or was not made here: the file names its own
inode, which a repository that contains an index cannot know. SQLite never opens such a file, whose views and
triggers could run without an end. One process uses the index at a time, and only briefly.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..file_states import SEARCH_FOLDER
from ..storage.disk import opened_fd
from ..wording import cause_of

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
INDEX_WAIT_S = 5.0  # for another process that uses the index, for UPDATE_S at most
LOCK_POLL_S = 0.01
INDEX_VERSION = 20  # changing it rebuilds every index
# The id of a fact is that of its file, which no other file has later, and its number in the file. The words
# of one in SAMPLED facts are in `sample` too.
SCHEMA = """
    CREATE TABLE files (
        id INTEGER PRIMARY KEY AUTOINCREMENT, sid TEXT UNIQUE, size INTEGER, mark BLOB, facts INTEGER
    );
    CREATE TABLE facts (id INTEGER PRIMARY KEY, seq INTEGER, at INTEGER, hash INTEGER, rewound INTEGER);
    CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='porter unicode61');
    CREATE VIRTUAL TABLE sample USING fts5(text, content='', columnsize=0, tokenize='porter unicode61');
"""


class IndexUnavailable(Exception):
    """The index cannot be used now."""


def use_index(home: Path, work: Callable[[sqlite3.Connection], T]) -> T:
    """Return what `work` makes of the index of the project `home`, which no other process uses meanwhile.

    If there is none, or it turns out to be damaged, `work` gets a new one. Raises IndexUnavailable.
    """
    import sqlite3  # saves 17 ms in a session that does not search

    folder = home / SEARCH_FOLDER
    try:
        if folder.resolve() != home.resolve() / SEARCH_FOLDER:
            raise NotADirectoryError("the path contains a symbolic link")
        with suppress(FileExistsError):
            folder.mkdir(0o700)  # without its parents: a project that was moved away is not created again
        with opened_fd(folder / "lock", os.O_RDWR | os.O_CREAT) as lock:
            _wait_for(lock)
            try:
                with _opened(folder) as database:
                    return work(database)
            except sqlite3.OperationalError:  # which does not mean damage
                raise
            except sqlite3.DatabaseError:
                _remove(folder)
                with _opened(folder) as database:
                    return work(database)
    except OSError as error:
        raise IndexUnavailable(f"{cause_of(error)}: {error.filename or folder}") from error
    except sqlite3.Error as error:
        raise IndexUnavailable(str(error)) from error


@contextmanager
def _opened(folder: Path) -> Iterator[sqlite3.Connection]:
    import sqlite3  # as above

    path = folder / "index.db"
    if not _is_current(path):
        _remove(folder)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(path, timeout=0.1, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = NORMAL")
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            connection.execute("PRAGMA auto_vacuum = FULL")
            connection.execute(f"PRAGMA application_id = {_own_id(path.stat())}")
            connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {INDEX_VERSION}; COMMIT;")
        yield connection


def _wait_for(lock: int) -> None:
    end = time.monotonic() + INDEX_WAIT_S
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > end:
            raise IndexUnavailable("another process uses the search index")
        time.sleep(LOCK_POLL_S)


def _is_current(path: Path) -> bool:
    """Return whether the file was made here, by this user and this version, and has no other name."""
    with suppress(OSError), opened_fd(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
        found = os.fstat(fd)
        is_private = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.geteuid()
        header = struct.unpack(">i4xi", os.pread(fd, 12, 60).ljust(12))  # of an SQLite file
        return is_private and header == (INDEX_VERSION, _own_id(found))
    return False


def _own_id(found: os.stat_result) -> int:
    """Return the number, not 0, that an index contains if it was made as this file."""
    return zlib.crc32(b"%d" % found.st_ino) % (2**31 - 1) + 1


def _remove(folder: Path) -> None:
    for name in ("index.db", "index.db-journal", "index.db-wal", "index.db-shm"):
        with suppress(OSError):
            (folder / name).unlink()
