"""The store: one session's record on the disk, appended to and never rewritten.

The errors that can keep a store from being opened are drawn in errors.py:

    StoreError: Refused   SessionInUse   Newer   NoSuchSession   AmbiguousSession

A disk that fails while the session runs raises nothing: the records stay in memory, the person is told
once, and every append tries again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from .codec import VERSION, encode
from .disk import DISK, Disk
from .facts import Closed, Fact, Metadata, Opened
from .journal import Journal
from .listing import SessionSummary, newest, resolve, sessions
from .load import LoadedRecord, read_record
from .record_errors import (
    AmbiguousSession,
    NoSuchSession,
    RecordTooNew,
    RecordUnreadable,
    SessionInUse,
    StoreError,
)
from .session_lock import RECORDS_FOLDER, holder, new_sid, path_of

__all__ = [
    "DISK",
    "RECORDS_FOLDER",
    "AmbiguousSession",
    "Disk",
    "LoadedRecord",
    "NoSuchSession",
    "RecordTooNew",
    "RecordUnreadable",
    "SessionInUse",
    "SessionSummary",
    "Store",
    "StoreError",
    "create",
    "holder",
    "new_sid",
    "newest",
    "path_of",
    "read_record",
    "resolve",
    "resume",
    "sessions",
]

Warn = Callable[[str], None]


def create(project: Path, sid: str, warn: Warn, disk: Disk = DISK) -> Store:
    """A new session of a project. Its file comes into being with the first fact that is worth keeping.

    `warn` takes one line for the person. Raises RecordUnreadable and SessionInUse;
    a disk that fails is reported to `warn`.
    """
    path = path_of(project, sid)
    if os.path.lexists(path):
        raise RecordUnreadable(f"{path} is there already: take another session id")
    return _entered(Store(Journal(path, disk), sid, warn))


def resume(path: Path, warn: Warn, disk: Disk = DISK, *, shelve: bool = True) -> tuple[Store, LoadedRecord]:
    """An earlier session, to be continued: locked first, then read.

    A torn tail is kept aside in `<sid>.torn` and cut off before the first append.
    Raises every StoreError: with Newer and SessionInUse, `read` still shows the session.
    """
    journal = Journal(path, disk)
    store = _entered(Store(journal, path.stem, warn))
    try:
        loaded = read_record(path, disk, shelve=shelve)
        if loaded.version > VERSION:
            raise RecordTooNew(loaded.sid, loaded.version)
    except BaseException:
        journal.release()
        raise
    store.sid, store.begun = loaded.sid, loaded.size > 0
    journal.good = journal.synced = loaded.good
    journal.size = loaded.size
    journal.ended = loaded.ended
    return store, loaded


def _entered(store: Store) -> Store:
    try:
        store.journal.enter()
    except OSError as error:
        store.complain(error)
    return store


class Store:
    """One session's record, this process its only writer. `append`, `sync` and `close` raise no OSError.

    pending  records that are in memory only, oldest first
    begun    whether there is anything worth a file: a session without a word leaves none
    """

    def __init__(self, journal: Journal, sid: str, warn: Warn) -> None:
        self.journal = journal
        self.sid = sid
        self.pending: list[bytes] = []
        self.begun = False
        self._warn = warn
        self._troubled = False

    @property
    def path(self) -> Path:
        return self.journal.path

    def append(self, fact: Fact, durable: bool = False) -> None:
        """Add one record; with `durable` it is on the disk when this returns, or its delay was told."""
        self.pending.append(encode(fact, self.sid))
        self.begun = self.begun or not isinstance(fact, Opened | Metadata | Closed)
        if self.begun:
            self._flush(durable)

    def sync(self) -> None:
        """Put everything so far on the disk."""
        if self.begun:
            self._flush(durable=True)

    def close(self) -> None:
        """Save what is left and give the session back. Records that no disk took go to a temporary file."""
        journal = self.journal
        if self.begun and (self.pending or journal.unsynced):
            self._flush(durable=True)
        left = (journal.unsynced if journal.doubtful else []) + self.pending
        if self.begun and left:
            self._warn(_spill(left, self.path))
        journal.release()

    def complain(self, error: Exception) -> None:
        """Tell the person that the disk failed, once for each spell of it."""
        if not self._troubled:
            why = getattr(error, "strerror", None) or str(error)
            self._warn(
                f"the session cannot be saved ({why}): it goes on in memory and every record is tried again. "
                f"{_advice(error, self.path.parent)}"
            )
        self._troubled = True

    def _flush(self, durable: bool) -> None:
        try:
            self._put(durable)
        except (OSError, StoreError) as error:
            self.complain(error)
            if not self.journal.doubtful:
                return
            try:  # a failed sync is mended at once: nothing is safe until it is
                self._put(durable)
            except (OSError, StoreError):
                return
        if self._troubled:
            self._troubled = False
            self._warn(f"the session is saved again, nothing is missing in {self.path}")

    def _put(self, durable: bool) -> None:
        journal = self.journal
        journal.ready()
        while self.pending:
            journal.write(self.pending[0])
            del self.pending[0]
        if durable and journal.unsynced:
            journal.settle()


def _advice(error: Exception, folder: Path) -> str:
    """What the person can do about a disk that fails."""
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{folder} cannot be written to: change that, or /export the session to another folder"
    return f"Make room, or see what is wrong with {folder}"


def _spill(lines: list[bytes], path: Path) -> str:
    """Save lines where there may still be room. Returns what to tell the person."""
    import tempfile  # needed on the worst of days only, and slow

    try:
        fd, name = tempfile.mkstemp(prefix=f"makeroom-{path.stem}-", suffix=".jsonl")
        with os.fdopen(fd, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(fd)
    except OSError as error:
        return f"the last {len(lines)} records of this session could not be saved anywhere: {error}"
    return f"the last {len(lines)} records did not reach {path}: they are in {name}, append them there"
