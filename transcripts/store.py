"""The store: the transcript of one session on disk, appended to by this process and never rewritten.

A disk that fails while the session runs raises nothing: the facts stay in memory, the user is warned once,
and every append tries again. The errors that prevent a transcript from being opened are in errors.py.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import gettempdir, mkstemp

from .codec import BadLine, decode_line, encode_fact, mask_line
from .errors import StoreError, Unreadable
from .facts import Closed, Fact, Instructed, Metadata, Opened
from .journal import Journal
from .load import MAX_LINE_BYTES, KnownStart, LoadedTranscript, read_transcript
from .secrets.masking import SecretMasks
from .session_key import LINK, NO_LINE, SessionKey, link_before, link_of
from .session_lock import new_sid, path_of
from .storage.disk import DISK, Disk, opened_unread, read_regular, set_own_mode
from .view import to_json_bytes
from .wording import cause_of, pluralize

Warn = Callable[[str], None]


class Store:
    """The transcript of one session. `append`, `sync` and `close` raise no OSError.

    pending   lines that are only in memory, oldest first
    is_begun  the session has a fact that is worth a file: one without a prompt leaves none
    has_masked  lines of this run differ from the facts in memory
    """

    def __init__(self, journal: Journal, sid: str, warn: Warn, key: SessionKey | None = None) -> None:
        self.journal = journal
        self._key = key
        self._last = NO_LINE  # the link to the line before the next one
        self.sid = sid
        self._masks = SecretMasks()
        self._hidden = tuple[bytes, ...]()
        self.pending: list[bytes] = []
        self.is_begun = False
        self.has_masked = False
        self._warn = warn
        self._written: list[Fact] | None = []  # None if the file has more than what is in memory
        self.failure = ""  # the reason while appended facts are only in memory

    @classmethod
    def create(
        cls, project: Path, sid: str | None, warn: Warn, disk: Disk = DISK, *, key: SessionKey | None = None
    ) -> Store:
        """Create the store of a new session, with a random id if `sid` is None.

        The file is created with the first fact that is worth keeping. `warn` shows one line to the user, such
        as that the disk fails. The lines are signed with `key`.

        Raises Unreadable if the id is taken or invalid or the directory of transcripts is not safe to use,
        and SessionInUse if another process holds the lock of this id.
        """
        sid = new_sid() if sid is None else sid
        path = path_of(project, sid)
        if os.path.lexists(path):
            raise Unreadable(f"cannot create session {sid}: {path} exists; choose another id")
        return _locked(cls(Journal(path, disk), sid, warn, key))

    @classmethod
    def resume(
        cls,
        path: Path,
        warn: Warn,
        disk: Disk = DISK,
        *,
        key: SessionKey | None = None,
        start: KnownStart | None = None,
    ) -> tuple[Store, LoadedTranscript]:
        """Open the store of an existing session and load its transcript, which is locked first, then read.

        Results that are not shown are left in the file; its beginning is not read if `start` has it. A torn
        tail is saved in `<sid>.torn` and truncated before the first append. Raises every StoreError; after
        TranscriptTooNew and SessionInUse `read_transcript` can still read the session.
        """
        journal = Journal(path, disk)
        store = _locked(cls(journal, path.stem, warn, key))
        try:
            loaded = read_transcript(path, disk, defer=True, start=start)
            loaded.require_known_format()
            store._last = _link_before(path, loaded.whole_size)
        except BaseException:
            journal.release()
            raise
        store.sid = loaded.sid
        store.is_begun = loaded.size > 0
        journal.whole_size = journal.synced_size = loaded.whole_size
        journal.read_size = loaded.size
        journal.ends_with_newline = loaded.ends_with_newline
        is_whole = loaded.size == loaded.whole_size and not (loaded.damaged or loaded.second_tails)
        store._written = list(loaded.facts) if is_whole and not loaded.lazy_results else None
        for saved in _saved_elsewhere(path.stem):
            store.join(saved, loaded)
        return store, loaded

    @property
    def path(self) -> Path:
        return self.journal.path

    @property
    def is_written_to(self) -> bool:
        """Return whether this process has the transcript open, between the first append and `close`."""
        return self.journal.is_open

    def hide(self, masks: SecretMasks) -> None:
        """Mask the values of `masks` in every line from now on; the facts in memory stay unchanged."""
        self._masks = masks
        self._hidden = masks.encoded()

    def begin_with(self, original: Path, size: int, fact: Fact) -> None:
        """Begin with the first `size` bytes of another transcript and a fact. Raises OSError.

        The lines are as they were, with the id of their own session.
        """
        self._written = None
        self._last = _link_before(original, size)
        self.journal.begin_with(original, size, self._line(fact))
        self.is_begun = True

    def begin_as(self, opened: Opened, original: Path, size: int, fact: Fact) -> int:
        """Begin like `begin_with`, but with `opened` in place of the first line.

        Returns the number of bytes by which the other lines moved. Raises OSError, and Unreadable if the
        first line is another fact.
        """
        with opened_unread(original) as record, os.fdopen(os.dup(record), "rb") as file:
            first = file.readline(MAX_LINE_BYTES)
        with suppress(BadLine):
            if decode_line(first)[0].seq == opened.seq == 1:
                self._written = None
                self._last = link_of(first)  # which the second line continues
                head = self._line(opened)
                self._last = _link_before(original, size)
                self.journal.begin_behind(head, original, len(first), size, self._line(fact))
                self.is_begun = True
                return len(head) - len(first)
        raise Unreadable(f"cannot copy {original}: it does not begin with fact {opened.seq}")

    @property
    def written_size(self) -> int:
        """The size of the file if its lines contain all facts as they are in memory, else 0."""
        journal = self.journal
        is_clean = self.is_written_to or journal.read_size == journal.whole_size
        is_whole = is_clean and not (self.has_masked or self.pending or self.failure)
        return journal.whole_size if is_whole else 0

    def append(self, fact: Fact, durable: bool = False) -> None:
        """Append one fact; with `durable` it is on the disk when this returns, or the user was warned."""
        self.pending.append(self._line(fact))
        if self._written is not None:
            self._written.append(fact)
        self.is_begun = self.is_begun or not isinstance(fact, Opened | Instructed | Metadata | Closed)
        if self.is_begun:
            self._save(durable)

    def _line(self, fact: Fact) -> bytes:
        line = encode_fact(fact, self.sid)
        if any(map(line.__contains__, self._hidden)):
            line = mask_line(line, self._masks)
            self.has_masked = True
        if self._key is not None:
            line = self._key.sign(line, self._last)
            self._last = line[LINK]
        return line

    def digest(self, body: bytes) -> str:
        """Return the SHA-256 of a request's JSON body in hex, with the same values masked as in the lines."""
        is_masked = any(map(body.__contains__, self._hidden))
        if is_masked:
            body = to_json_bytes(self._masks.in_json(json.loads(body)))
        return hashlib.sha256(body).hexdigest()

    def sync(self) -> None:
        """Make everything so far durable."""
        if self.is_begun:
            self._save(durable=True)

    def begin_sync(self) -> Future[None] | None:
        """Start to make everything so far durable in a thread, and return what to wait for before `sync`.

        `sync` then takes no time. Returns None if only `sync` can do it: nothing is written, or a disk fails.
        """
        if not self.is_begun or self.pending or self.failure:
            return None
        return self.journal.begin_sync()

    def keep_spare(self, path: Path) -> None:
        """Keep a second copy in `path` from now on, from which the file is restored if it is changed."""
        with suppress(OSError):  # without the copy, the file is still restored if it is removed
            self.journal.keep_spare(path)

    def put_back(self) -> bool:
        """Restore the file if another process changed or removed it. Returns whether it did so."""
        before = self.journal.times_put_back
        if self.is_written_to:
            with suppress(OSError):
                self.journal.look_for_lock()
            self._save(durable=False)
            with suppress(OSError):
                set_own_mode(self.path, 0o600)
        return self.journal.times_put_back > before

    def close(self) -> None:
        """Save everything that is pending, in a temporary file if necessary, and release the lock."""
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
        """Add the lines that an earlier run saved in the file `saved`, if they continue the transcript."""
        facts = {fact.seq: fact for fact in loaded.facts}
        new: list[Fact] = []
        with suppress(OSError):
            for line in read_regular(saved, MAX_LINE_BYTES).splitlines(keepends=True):
                with suppress(BadLine):  # the last one may be torn
                    fact, sid = decode_line(line)
                    is_same = fact.seq in loaded.lazy_results or facts.get(fact.seq) == fact
                    if sid == self.sid and not is_same:
                        new.append(fact)
            if new and (not facts or new[0].seq != max(facts) + 1):
                apart = saved.with_suffix(".apart")
                saved.rename(apart)
                is_cut = not facts or new[0].seq > max(facts) + 1
                why = (
                    "the entries before them are missing" if is_cut else "the session continued without them"
                )
                self._warn(
                    f"cannot add {_entries(len(new))} of an earlier run, since {why}; moved to {apart}"
                )
                return
            loaded.facts += new
            if self._written is not None:
                self._written += new
            self.pending += map(self._line, new)
            self.sync()
            if new:
                self._warn(f"added {_entries(len(new))} of an earlier run that were only in {saved}")
            if not self.pending and not self.failure:
                saved.unlink()

    def warn_of_failure(self, error: Exception) -> None:
        """Warn the user that the disk fails, once until it works again."""
        if self.failure:
            return
        folder = self.path.parent
        why = cause_of(error)
        self.failure = why
        number = getattr(error, "errno", None)
        advice = f"Check {folder}"
        if number in (errno.ENOSPC, errno.EDQUOT):
            advice = "Free disk space"
        elif number == errno.EFBIG:
            advice = "Raise the limit on the size of files (ulimit -f)"
        elif number in (errno.EACCES, errno.EPERM, errno.EROFS):
            advice = f"Make {folder} writable, or /export the session to another directory"
        state = "It continues in memory, and makeroom keeps trying to save it"
        self._warn(f"cannot save the session: {why}. {state}. {advice}")

    def _restore_start(self) -> bool:
        """Write the file again, from the facts in memory, if another process has truncated it.

        Returns whether everything is saved.
        """
        last = self._last
        with suppress(OSError, StoreError):
            if self._written is not None and self.journal.is_shortened():
                self._last = NO_LINE
                self.journal.write_again(map(self._line, self._written))
                self.pending.clear()
                self._warn(f"another process removed part of {self.path}: it is restored from memory")
                return True
        self._last = last
        return False

    def _save(self, durable: bool) -> None:
        try:
            self.journal.write(self.pending, durable)
        except (OSError, StoreError) as error:
            if self._restore_start():
                return
            self.warn_of_failure(error)
            if not self.journal.sync_failed:
                return
            try:  # immediately, since nothing is safe until the file is rebuilt
                self.journal.write(self.pending, durable)
            except (OSError, StoreError):
                return
        if self.failure:
            self.failure = ""
            self._warn(f"the session is saved again; {self.path} is complete")


def _link_before(path: Path, end: int) -> bytes:
    with opened_unread(path) as record:
        return link_before(record, end)


def _entries(count: int) -> str:
    return pluralize(count, "entry", "entries")


def _saved_elsewhere(sid: str) -> list[Path]:
    """Return the files in which earlier runs of a session saved what the disk rejected, oldest first."""
    found: list[tuple[int, Path]] = []
    with suppress(OSError):
        for path in Path(gettempdir()).glob(f"makeroom-{sid}-*.jsonl"):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid():
                found.append((about.st_mtime_ns, path))
    return [path for _, path in sorted(found)]


def _save_elsewhere(lines: Iterable[bytes], new: int, path: Path, is_all: bool) -> str:
    """Save lines in a temporary file; the last `new` of them are in no other file.

    With `is_all`, the lines are the whole transcript. Returns the message for the user.
    """
    try:
        fd, name = mkstemp(prefix=f"makeroom-{path.stem}-", suffix=".jsonl")
        with os.fdopen(fd, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(fd)
    except OSError as error:
        return f"cannot save the last {_entries(new)} of this session anywhere: {error}"
    if is_all:
        return f"cannot save the session in {path.parent}: continue it with makeroom --resume {name}"
    them = "it" if new == 1 else "them"
    how = f"To add {them}, run makeroom --resume {path.stem}"
    return f"cannot save the last {_entries(new)} in {path}; saved {them} in {name} instead. {how}"


def _locked(store: Store) -> Store:
    try:
        store.journal.lock()
    except OSError as error:
        store.warn_of_failure(error)
    return store
