"""The store: the record of one session on disk, appended to by this process and never rewritten.

A disk that fails while the session runs raises nothing: the records stay in memory, the user is told once,
and every append tries again. What can keep a record from being opened is in errors.py.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import gettempdir, mkstemp

from .codec import BadLine, decode_line, encode_fact, mask_line
from .errors import StoreError, Unreadable
from .facts import Closed, Fact, Instructed, Metadata, Opened
from .journal import Journal
from .load import MAX_LINE_BYTES, LoadedTranscript, read_transcript
from .secrets.masking import SecretMasks
from .session_lock import new_sid, path_of
from .storage.disk import DISK, Disk, read_regular
from .view import to_json_bytes

Warn = Callable[[str], None]


def create_store(project: Path, sid: str | None, warn: Warn, disk: Disk = DISK) -> Store:
    """The store of a new session; without `sid` it has a random id.

    Its file is made with the first fact that is worth keeping. `warn` takes one line for the user; a failing
    disk is told to it.

    Raises Unreadable where the id is taken or invalid, or the folder of records is not plainly ours,
    and SessionInUse where another process holds the lock of this id.
    """
    sid = new_sid() if sid is None else sid
    path = path_of(project, sid)
    if os.path.lexists(path):
        raise Unreadable(f"{path} is there already: take another session id")
    return _locked(Store(Journal(path, disk), sid, warn))


def resume_store(path: Path, warn: Warn, disk: Disk = DISK) -> tuple[Store, LoadedTranscript]:
    """The store of a recorded session, and what the record holds: locked first, then read.

    Results that are not shown are left in the file. A torn tail is saved in `<sid>.torn` and cut off before
    the first append. Raises every StoreError; after TranscriptTooNew and SessionInUse `read_transcript` still
    shows the session.
    """
    journal = Journal(path, disk)
    store = _locked(Store(journal, path.stem, warn))
    try:
        loaded = read_transcript(path, disk, defer=True)
        loaded.require_known_format()
    except BaseException:
        journal.release()
        raise
    store.sid = loaded.sid
    store.is_begun = loaded.size > 0
    journal.whole_size = journal.synced_size = loaded.whole_size
    journal.read_size = loaded.size
    journal.ends_with_newline = loaded.ends_with_newline
    for saved in _saved_elsewhere(path.stem):
        store.join(saved, loaded)
    return store, loaded


def _locked(store: Store) -> Store:
    try:
        store.journal.lock()
    except OSError as error:
        store.warn_of_failure(error)
    return store


class Store:
    """One session's record. `append`, `sync` and `close` raise no OSError.

    pending   lines that are in memory only, oldest first
    is_begun  whether anything is worth a file: a session without a prompt leaves none
    """

    def __init__(self, journal: Journal, sid: str, warn: Warn) -> None:
        self.journal = journal
        self.sid = sid
        self._masks = SecretMasks()
        self._hidden = tuple[bytes, ...]()
        self.pending: list[bytes] = []
        self.is_begun = False
        self._warn = warn
        self.failure = ""  # why what was appended is in memory only, as long as that lasts

    @property
    def path(self) -> Path:
        return self.journal.path

    @property
    def is_written_to(self) -> bool:
        """Return whether this process has the record open: not before its first append, nor after it was
        closed.
        """
        return self.journal.is_open

    def hide(self, masks: SecretMasks) -> None:
        """Let no line from now on hold the values of `masks`; the facts themselves stay as they are."""
        self._masks = masks
        self._hidden = masks.encoded()

    def append(self, fact: Fact, durable: bool = False) -> None:
        """Add one record; with `durable` it is on the disk when this returns, or the user was told."""
        line = encode_fact(fact, self.sid)
        self.pending.append(
            mask_line(line, self._masks) if any(map(line.__contains__, self._hidden)) else line
        )
        self.is_begun = self.is_begun or not isinstance(fact, Opened | Instructed | Metadata | Closed)
        if self.is_begun:
            self._save(durable)

    def digest(self, body: bytes) -> str:
        """The SHA-256 of a request's JSON body, the values masked that no line holds."""
        is_masked = any(map(body.__contains__, self._hidden))
        if is_masked:
            body = to_json_bytes(self._masks.in_json(json.loads(body)))
        return hashlib.sha256(body).hexdigest()

    def sync(self) -> None:
        """Put everything so far on the disk."""
        if self.is_begun:
            self._save(durable=True)

    def keep_spare(self, path: Path) -> None:
        """Keep a second copy in `path` from now on, from which the file is put back where it is changed."""
        with suppress(OSError):  # without it the file is still put back where it is removed
            self.journal.keep_spare(path)

    def put_back(self) -> bool:
        """Put the file back if something else changed or removed it; whether that was so."""
        before = self.journal.times_put_back
        if self.is_written_to:
            with suppress(OSError):
                self.journal.look_for_lock()
            self._save(durable=False)
            with suppress(OSError):
                if not self.path.is_symlink():
                    self.path.chmod(0o600)
        return self.journal.times_put_back > before

    def close(self) -> None:
        """Save what is left, if need be to a temporary file, and release the lock."""
        journal = self.journal
        if self.is_begun and (self.pending or journal.unsynced):
            self._save(durable=True)
        left = (journal.unsynced if journal.sync_failed else []) + self.pending
        if self.is_begun and left:
            start = journal.lost_start()
            is_all = start is not None or not journal.whole_size
            self._warn(_save_elsewhere(chain(start or (), left), len(left), self.path, is_all))
        journal.release()

    def join(self, saved: Path, loaded: LoadedTranscript) -> None:
        """Take over what an earlier run saved elsewhere, where it goes on from what the record holds."""
        known = {fact.seq: fact for fact in loaded.facts}
        new: list[tuple[Fact, bytes]] = []
        with suppress(OSError):
            for line in read_regular(saved, MAX_LINE_BYTES).splitlines(keepends=True):
                with suppress(BadLine):  # the last one may be torn
                    fact, sid = decode_line(line)
                    is_same = fact.seq in loaded.lazy_results or known.get(fact.seq) == fact
                    if sid == self.sid and not is_same:
                        new.append((fact, line))
            if new and (not known or new[0][0].seq != max(known) + 1):
                apart = saved.with_suffix(".apart")
                saved.rename(apart)
                told = "do not fit to the record any more, as the session went on without them: they are in"
                self._warn(f"{len(new)} records of this session that had not reached the disk {told} {apart}")
                return
            loaded.facts += [fact for fact, _ in new]
            self.pending += [line for _, line in new]
            self.sync()
            if new:
                self._warn(f"{len(new)} records that had not reached the disk were joined from {saved}")
            if not self.pending and not self.failure:
                saved.unlink()

    def warn_of_failure(self, error: Exception) -> None:
        """Tell the user that the disk fails, once until it works again."""
        if self.failure:
            return
        folder = self.path.parent
        why = getattr(error, "strerror", None) or str(error)
        self.failure = why
        advice = f"Make room, or see what is wrong with {folder}"
        if getattr(error, "errno", None) in (errno.EACCES, errno.EPERM, errno.EROFS):
            advice = f"{folder} cannot be written to: change that, or /export the session to another folder"
        state = "it goes on in memory and every record is tried again"
        self._warn(f"the session cannot be saved ({why}): {state}. {advice}")

    def _save(self, durable: bool) -> None:
        try:
            self.journal.write(self.pending, durable)
        except (OSError, StoreError) as error:
            self.warn_of_failure(error)
            if not self.journal.sync_failed:
                return
            try:  # at once: until the file is rebuilt, nothing is safe
                self.journal.write(self.pending, durable)
            except (OSError, StoreError):
                return
        if self.failure:
            self.failure = ""
            self._warn(f"the session is saved again, nothing is missing in {self.path}")


def _saved_elsewhere(sid: str) -> list[Path]:
    """The files in which earlier runs of a session saved what the disk did not take, oldest first."""
    found: list[tuple[int, Path]] = []
    with suppress(OSError):
        for path in Path(gettempdir()).glob(f"makeroom-{sid}-*.jsonl"):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid():
                found.append((about.st_mtime_ns, path))
    return [path for _, path in sorted(found)]


def _save_elsewhere(lines: Iterable[bytes], new: int, path: Path, is_all: bool) -> str:
    """Save lines where there may still be room, the last `new` of which are nowhere else.

    Returns what to tell the user.
    """
    try:
        fd, name = mkstemp(prefix=f"makeroom-{path.stem}-", suffix=".jsonl")
        with os.fdopen(fd, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(fd)
    except OSError as error:
        return f"the last {new} records of this session could not be saved anywhere: {error}"
    if is_all:
        return f"the session could not be saved in {path.parent}: go on with makeroom --resume {name}"
    how = f"makeroom --resume {path.stem} joins them once there is room"
    return f"the last {new} records did not reach {path}: they are in {name}, and {how}"
