"""Snapshots of a project's files, with their contents stored: small files first, then large ones.

A file is only read again if its times, size or inode have changed, or if it changed so shortly before the
last scan that its timestamp could hide another change. Likewise a directory is only listed again if its times
have changed. Links are recorded, never followed. The states of all files are taken before any contents are
read, so in a very large project it takes several scans to store all contents. Files whose contents are not
stored are listed: nothing can restore those.

In a large git repository the contents of tracked files are not stored until a command changes them, since
git has them: their state names the blob. git also finds those that have changed since
(tools/search/git_index.py), so these files are not even looked at.
"""

from __future__ import annotations

import logging
import math
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from tools.search import FILE_CLOCK_NS, GitFailed, GitIndex, TrackedFiles
from transcripts import without_garbage_collection
from transcripts.wording import pluralize

from .content_store import ContentStore
from .held_files import stamp_of
from .listings import Listing, list_directory
from .path_states import PathStates, folder_state, is_blob
from .snapshot import IN_GIT, NOTHING, PathState, ProjectSnapshot, SnapshotLimits, Stamps

log = logging.getLogger(__name__)

MANY_FILES = 2_000  # from this many files on, listing the store is faster than looking up each one


class _NewFile(NamedTuple):
    """A file whose contents are not known yet."""

    name: str
    path: str
    found: os.stat_result


class _Scan(Struct):
    """A scan that began at `began_ns` and takes no more states after `end`.

    `stamps` will be those of the scanner, and `new` are the files that have yet to be read.
    """

    began_ns: int
    end: float
    snapshot: ProjectSnapshot = field(default_factory=ProjectSnapshot)
    stamps: Stamps = field(default_factory=dict)
    new: list[_NewFile] = field(default_factory=list)

    def add(self, name: str, found: os.stat_result, state: PathState) -> None:
        """Add a state that was read, with a stamp if its times cannot hide another change."""
        self.snapshot.states[name] = state
        newest_ns = max(found.st_mtime_ns, found.st_ctime_ns)
        if newest_ns < self.began_ns - FILE_CLOCK_NS and stat.S_ISREG(found.st_mode):
            self.stamps[name] = (_stamp(found), state)


class ProjectScanner(Struct):
    """Reads the states of the paths below `root`, a real path, and stores the contents of its files.

    `clock` (in seconds) limits a scan, `wall` is the clock of the file system. `stamps` contains the last
    state of each file that `os.stat` alone can prove unchanged, `tracked` those that `index` watches (a new
    mapping when they change). Set `abandoned` if nobody needs the scan that is running: it ends soon.
    """

    root: Path
    store: ContentStore
    limits: SnapshotLimits
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    stamps: Stamps = field(default_factory=dict)
    tracked: dict[str, PathState] = field(default_factory=dict)
    index: GitIndex | None = None  # None without git
    excluded: str = ""  # a directory of our own files, whose contents are not recorded
    activity: str = "comparing the project's files"  # at present, for the user
    abandoned: bool = False
    _listings: dict[str, Listing] = field(default_factory=dict)
    _released: set[str] = field(default_factory=set)  # once in `tracked`, so not in the listings
    _blobs: dict[str, str] = field(default_factory=dict)  # probable contents of files to be read
    _without_git: bool = False  # after git has failed

    @property
    def paths(self) -> PathStates:
        """The states of single paths."""
        return PathStates(self.root, self.store, self.limits.max_large_file_bytes)

    def scan(self, reading_share: float = 1.0) -> ProjectSnapshot:
        """Return the state of the project, except directories that are never covered. Blocks on the disk.

        It uses `reading_share` of the time for contents.
        """
        scan = _Scan(int(self.wall() * 1e9), end=self.clock() + self.limits.max_seconds)
        snapshot = scan.snapshot
        self.activity = "comparing the project's files"
        with without_garbage_collection():
            index = self.index
            reading = comparing = None
            if index is not None and self.tracked:
                comparing = index.start_comparing()
            elif index is not None and not self._without_git and index.is_large:
                reading = index.start_reading()
            listings = self._list_folders(scan)
            if index is not None and reading is not None:
                self._track(reading, snapshot.skipped)
            elif index is not None and comparing is not None:
                self._release(index, comparing, snapshot)
            self._look_at_files(listings, scan)
            if len(scan.new) > MANY_FILES and reading is None:
                self._take_from_git(scan)
        if self.abandoned:
            snapshot.complete = False
            return snapshot
        snapshot.in_git = self.tracked
        self._store_contents(scan, reading_share)
        self.stamps = scan.stamps
        return snapshot

    def _store_contents(self, scan: _Scan, reading_share: float) -> None:
        """Store the contents of new files as long as there is time, and add the states of all."""
        new = scan.new
        snapshot = scan.snapshot
        if new:
            what = "changed file" if self.stamps else "file"  # the first scan knows of no change
            self.activity = f"keeping copies of {pluralize(len(new), what)} for /rewind"
            if len(new) > MANY_FILES:
                self.activity += f", for at most {self.limits.max_reading_seconds * reading_share:.0f} s"
        small = [one for one in new if one.found.st_size <= self.limits.max_file_bytes]
        large = [one for one in new if one.found.st_size > self.limits.max_file_bytes]
        # Newest first: old files are rarely the only copy.
        small.sort(key=lambda one: one.found.st_mtime_ns, reverse=True)
        large.sort(key=lambda one: one.found.st_size)
        end = self.clock() + self.limits.max_reading_seconds * reading_share
        give_up = end + self.limits.max_reading_seconds  # for a file that was begun in time
        for name, path, found in (*small, *large):
            if not self._is_over(end):
                scan.add(name, found, self._read(name, path, found, give_up))
                snapshot.read += 1
                snapshot.read_bytes += found.st_size
            else:
                snapshot.states[name] = self.paths.stored_state(path, found, max_bytes=-1)
                snapshot.unread += 1
        self._blobs = {}

    def _is_over(self, end: float) -> bool:
        return self.abandoned or self.clock() > end

    def _list_folders(self, scan: _Scan) -> dict[str, Listing]:
        """Return the names in all directories, and add the states of these directories."""
        listings: dict[str, Listing] = {}
        waiting = [""]
        while waiting:
            if len(listings) % 256 == 255 and self._is_over(scan.end):
                scan.snapshot.complete = False
                break
            folder = waiting.pop()
            listing = self._list(folder, scan)
            if listing is not None:
                listings[folder] = listing
                scan.snapshot.skipped += listing.skipped
                waiting += [name for name in reversed(listing.folders) if name != self.excluded]
        return listings

    def _look_at_files(self, listings: dict[str, Listing], scan: _Scan) -> None:
        """Add the states of all listed files, except those that are to be read."""
        stored = self.store.digests() if len(self.stamps) > MANY_FILES else self.store
        tracked = self.tracked
        released = list[str]()
        for folder, listing in listings.items():
            if tracked and listing is not self._listings.get(folder):
                files = [name for name in listing.files if name not in tracked]
                listings[folder] = listing = listing._replace(files=files)
            released += listing.files
        self._listings = listings
        self._released.difference_update(released)
        released += sorted(self._released)
        untracked = [name for name in released if name not in tracked] if tracked else released
        for at, name in enumerate(untracked):
            if at >= self.limits.max_files or self._is_over(scan.end):
                scan.snapshot.complete = False
                break
            self._look_at(name, stored, scan)

    def _track(self, reading: Future[TrackedFiles], skipped: Sequence[str]) -> bool:
        """Have git watch the files whose contents it has; return whether it can."""
        try:
            found = reading.result()
        except GitFailed as error:
            log.info("git cannot detect changes here: %s", error)
            self._without_git = True
            return False
        tracked = {
            name: PathState(
                "file", found.executable_mode if name in found.executable else found.mode, IN_GIT + ident
            )
            for name, ident in found.idents.items()
        }
        if skipped:
            idle = tuple(f"{folder}/" for folder in skipped)
            for name in [name for name in tracked if name.startswith(idle)]:
                del tracked[name]
        for name in found.unusual & tracked.keys():
            if (state := self._settled_state(name, found)) is None:
                self._blobs[name] = tracked.pop(name).blob
            else:
                tracked[name] = state
        self._released |= self.tracked.keys() - tracked.keys()
        self.tracked = tracked
        return True

    def _settled_state(self, name: str, found: TrackedFiles) -> PathState | None:
        """Return the state of a tracked file with its own mode; None if its times prove nothing."""
        try:
            now = os.lstat(f"{self.root}/{name}")
        except OSError:
            return None
        is_settled = max(now.st_mtime_ns, now.st_ctime_ns) < found.settled_ns
        if not (is_settled and stat.S_ISREG(now.st_mode)):
            return None
        return PathState("file", stat.S_IMODE(now.st_mode), IN_GIT + found.idents[name])

    def _release(self, index: GitIndex, comparing: Future[Set[str]], snapshot: ProjectSnapshot) -> None:
        """Stop git from watching the files that have changed, so that they are looked at."""
        try:
            changed = comparing.result() & self.tracked.keys()
        except GitFailed as error:
            log.warning("git cannot compare the project's files: %s", error)
            if not self._track(index.start_reading(), snapshot.skipped):
                snapshot.complete = False  # what has changed is found by a later scan
        else:
            if changed:
                self._released |= changed
                self.tracked = {name: each for name, each in self.tracked.items() if name not in changed}

    def _look_at(self, name: str, stored: set[str] | ContentStore, scan: _Scan) -> None:
        """Add the state of a path, or add it to the files that are to be read."""
        path = f"{self.root}/{name}"
        states = scan.snapshot.states
        try:
            found = os.lstat(path)
            if found.st_nlink > 1 and stat.S_ISREG(found.st_mode):
                scan.snapshot.linked[name] = (found.st_dev, found.st_ino)
            known = self._unchanged(name, found, stored) if self.stamps else None
            if known is not None:
                scan.stamps[name] = known
                states[name] = known[1]
            elif stat.S_ISREG(found.st_mode) and found.st_size <= self.limits.max_large_file_bytes:
                scan.new.append(_NewFile(name, path, found))
                states[name] = NOTHING  # preserves the order
            else:
                scan.add(name, found, self._read(name, path, found))
        except FileNotFoundError:
            pass
        except PermissionError:  # since its directory was listed
            states[name] = PathState("file", stamp="unreadable")

    def _list(self, folder: str, scan: _Scan) -> Listing | None:
        """Return the names in a directory, and add its state; None if it no longer exists.

        The contents of a directory that cannot be listed are not recorded.
        """
        path = f"{self.root}/{folder}" if folder else str(self.root)
        try:
            found = os.lstat(path)
        except OSError:
            return None
        stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)
        listing = self._listings.get(folder)
        if listing is None or listing.stamp != stamp:
            settled = max(found.st_mtime_ns, found.st_ctime_ns) < scan.began_ns - FILE_CLOCK_NS
            listing = list_directory(self.root, folder, stamp if settled else ())
        if folder:
            scan.snapshot.states[folder] = folder_state(stat.S_IMODE(found.st_mode), listing.attrs)
        return listing

    def _take_from_git(self, scan: _Scan) -> None:
        """Have git watch the new files whose contents it has, after a checkout for example."""
        if self.index is None or not self.index.is_large:
            return
        try:
            found = self.index.start_reading().result()
        except GitFailed:
            return
        states = scan.snapshot.states
        taken: dict[str, PathState] = {}
        others = []
        for one in scan.new:
            is_settled = max(one.found.st_mtime_ns, one.found.st_ctime_ns) < found.settled_ns
            ident = found.idents.get(one.name)
            if ident is None or not is_settled:
                others.append(one)
                if ident is not None:
                    self._blobs[one.name] = ident
            else:
                taken[one.name] = PathState("file", stat.S_IMODE(one.found.st_mode), IN_GIT + ident)
                del states[one.name]
        # The copy of the index that the others were compared with is gone.
        kept = {name: state for name, state in self.tracked.items() if found.idents.get(name) == state.blob}
        self._released |= self.tracked.keys() - kept.keys()
        states.update((name, self.tracked[name]) for name in self.tracked.keys() - kept.keys())
        self.tracked = kept | taken
        scan.new = others

    def is_in_git(self, names: Sequence[str]) -> Mapping[str, bool]:
        """Return for each of the files whether git tracks it as it is; True if git cannot say."""
        try:
            unchanged = self.index.unchanged(names) if self.index is not None and names else set()
        except GitFailed as error:
            log.info("git cannot list files here: %s", error)
            unchanged = set(names)
        return {name: name in unchanged for name in names}

    def with_stored_contents(self, states: Mapping[str, PathState]) -> dict[str, PathState]:
        """Return the states, with contents of blobs stored here, except those that git no longer has."""
        idents = sorted({state.blob for state in states.values() if state.blob})
        digests: dict[str, str] = {}
        if self.index is not None and idents:
            try:
                digests = dict(self._stored_blobs(self.index, idents))
            except (GitFailed, OSError) as error:
                log.warning("git cannot restore what a command changed: %s", error)
        return {
            name: replace(state, value=digests.get(state.blob, "")) if state.blob else state
            for name, state in states.items()
        }

    def _stored_blobs(self, index: GitIndex, idents: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Store the contents of blobs; yield their ids and hashes. Raises GitFailed and OSError."""
        sizes = index.sizes(idents)
        small = {ident: size for ident, size in sizes.items() if size <= self.limits.max_file_bytes}
        for ident, content in index.contents(small):
            yield ident, self.store.put(content)
        large = [ident for ident, size in sizes.items() if ident not in small]
        for ident in large:
            if sizes[ident] <= self.limits.max_large_file_bytes:
                with tempfile.TemporaryDirectory() as folder:
                    copy = Path(folder, "blob")
                    index.copy(ident, copy)
                    state = self.paths.stored_state(str(copy), copy.lstat(), self.limits.max_file_bytes)
                    yield ident, state.value

    def _read(self, name: str, path: str, found: os.stat_result, give_up: float = math.inf) -> PathState:
        """Return the state of a path, and store its contents unless a blob has them."""
        ident = self._blobs.get(name, "")
        if ident and is_blob(path, found.st_size, ident):
            return PathState("file", stat.S_IMODE(found.st_mode), IN_GIT + ident)
        most = self.limits.max_file_bytes
        return self.paths.stored_state(path, found, most, lambda: self.clock() > give_up)

    def _unchanged(
        self, name: str, found: os.stat_result, stored: set[str] | ContentStore
    ) -> tuple[tuple[int, ...], PathState] | None:
        """Return the state seen by the last scan, if it is still valid and its contents are `stored`."""
        known = self.stamps.get(name)
        if known is None:
            return None
        state = known[1]
        if known[0] != _stamp(found):
            # A link to a file that is not stored has changed its ctime.
            is_held = (state.stamp, state.mode) == (stamp_of(found), stat.S_IMODE(found.st_mode))
            return (_stamp(found), state) if is_held else None
        return known if state.value == "" or state.blob or state.value in stored else None


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode)
