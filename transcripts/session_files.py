"""Open the transcripts of a project: only those of this machine, and large ones without reading all lines."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from .errors import FromElsewhere, SessionInUse, StoreError
from .facts import Fact
from .load import KnownStart, LoadedTranscript, read_transcript
from .load_cache import PIECE_BYTES, CachedEnd, link_pieces, read_known_start, write_pieces
from .session_key import SessionKey
from .session_lock import lock_holder
from .store import Store, Warn
from .wording import cause_of

Stamp = tuple[int, ...]
"""Numbers that change with a file."""


class SessionFiles:
    """Opens transcripts, and keeps what was found out about them during a run.

    `key` signs transcripts and recognizes those from elsewhere; without one they are neither signed nor
    cached. The start of a transcript is read from the cache once for each state of the file, by all that
    open it; the cache of a transcript that has grown is written in the background.
    """

    def __init__(self, key: SessionKey | None = None) -> None:
        self.key = key
        self._read: tuple[Stamp, KnownStart | None] = ((), None)  # a file, and the start read from its cache
        self._own: Stamp = ()  # of a file that was written on this machine
        self._cached: dict[Path, CachedEnd] = {}
        self._looked_at: dict[Path, int] = {}  # the size of each transcript when a thread began
        self._thread: Thread | None = None
        self._is_over = Event()

    def load_key(self, state_dir: Path, project: Path, warn: Warn) -> None:
        """Use the key of this machine's sessions, or one for this run if it cannot be stored."""
        try:
            self.key = SessionKey.load(state_dir, project)
        except (OSError, ValueError) as error:
            self.key = SessionKey.new()
            warn(
                f"cannot store the key of sessions in {state_dir}: {cause_of(error)}. Later runs will ask "
                "before they continue this session"
            )

    def create(self, project: Path, sid: str | None, warn: Warn) -> Store:
        """Create the store of a new session, see `Store.create`."""
        return Store.create(project, sid, warn, key=self.key)

    def resume(self, path: Path, warn: Warn) -> tuple[Store, LoadedTranscript]:
        """Open the store of an existing session of this machine, see `Store.resume`."""
        self.require_own(path)
        return Store.resume(path, warn, key=self.key, start=self._take_start(path))

    def read(self, path: Path) -> LoadedTranscript:
        """Load a transcript; results that its conversation does not show are left in the file."""
        return read_transcript(path, defer=True, start=self._take_start(path))

    def require_own(self, path: Path) -> None:
        """Raise FromElsewhere if a transcript was not written on this machine."""
        try:
            stamp = _stamp(path)
            start = self._known_start(path)
            if self.key is None or self._own == stamp:
                return
            is_foreign = self.key.is_from_elsewhere(path, start.size if start is not None else 0)
        except OSError as error:
            raise StoreError(f"cannot read {path}: {cause_of(error)}") from error
        if is_foreign:
            raise FromElsewhere(path.stem)
        self._own = stamp

    def require_closed(self, path: Path) -> None:
        """Raise SessionInUse if a process has the session of a transcript open."""
        pid = lock_holder(path)
        if pid is not None:
            raise SessionInUse(path.stem, pid or None)

    def is_signed(self, path: Path) -> bool:
        """Return whether each line of a transcript of this machine is signed: not in one that was adopted."""
        return self.key is None or path.name not in self.key.adopted

    def begin_copy(self, store: Store, original: Path, size: int, fact: Fact) -> None:
        """Begin with the first `size` bytes of another transcript, and its cache. Raises OSError."""
        store.begin_with(original, size, fact)
        link_pieces(original, store.path)

    def cache_growth(self, path: Path) -> None:
        """Start to cache what a transcript has grown by if that is much, unless the thread is running."""
        if self.key is None or (self._thread is not None and self._thread.is_alive()):
            return
        with suppress(OSError):
            size = path.stat().st_size
            if size - self._looked_at.get(path, 0) >= PIECE_BYTES:
                self._looked_at[path] = size
                self._is_over = Event()
                work = (path, self.key, self._is_over)
                self._thread = Thread(target=self._cache, args=work, name="load cache", daemon=True)
                self._thread.start()

    def _cache(self, path: Path, key: SessionKey, is_over: Event) -> None:
        cached = self._cached.get(path, CachedEnd())
        with suppress(OSError):
            self._cached[path] = write_pieces(path, key, is_over.is_set, cached)

    def close(self) -> None:
        """Stop the thread soon, without waiting for it."""
        self._is_over.set()

    def _known_start(self, path: Path) -> KnownStart | None:
        """Return the start of a transcript from the cache. Raises OSError if there is no such file."""
        if self.key is None:
            return None
        if self._read[0] != (stamp := _stamp(path)):
            self._read = (stamp, read_known_start(path, self.key))
        return self._read[1]

    def _take_start(self, path: Path) -> KnownStart | None:
        """Return the start of a transcript to a caller that changes it from now on."""
        try:
            start = self._known_start(path)
        except OSError:  # reading the file tells why
            return None
        self._read = ((), None)
        if start is not None:
            self._cached[path] = CachedEnd(start.size, start.facts[-1].seq)
            self._looked_at[path] = start.size
        return start


def _stamp(path: Path) -> Stamp:
    """Return the stamp of a file. Raises OSError if there is none."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
