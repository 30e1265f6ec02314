"""Records every file as it was before the agent changed it.

write and edit announce the path that they change; around a command the whole project is scanned. What is
recorded lies under `.transcripts/checkpoints`: contents by their hash, and a line for each change. Not
covered, and listed by `uncovered`: files over 1 MB that only a command changed, projects of more than 20,000
files, what lies outside the project. Never covered: folders that hold no work (`.git`, `node_modules`, ...),
owners and times; hard links come back as files of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from transcripts.session_lock import RECORDS_FOLDER

from .change_log import ChangeLog, FileChange, checkpoints_folder
from .content_store import ContentStore
from .snapshot import NOTHING, UNSEEN, ProjectScanner, ProjectSnapshot, SnapshotLimits, parents

MAX_INCOMPLETE_SCANS = 3  # scans that ran into a limit; after these, commands are not covered any more


@dataclass(slots=True)
class SharedRecording:
    """What the sessions have in common that work in one project at a time: a session and its agents.

    before     the files as they were when the recording of commands began or went on last, with the seq
    crashed    `before` is of a command whose end an earlier run did not see
    running    how many commands run now
    announced  the paths that somebody is about to change by other means
    scanning   held while the project is looked through
    """

    log: ChangeLog
    scanner: ProjectScanner
    before: tuple[int, ProjectSnapshot] | None = None
    crashed: bool = False
    running: int = 0
    announced: set[str] = field(default_factory=set)
    gaps: set[str] = field(default_factory=set)
    incomplete_scans: int = 0
    scanning: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class Checkpoints:
    """The checkpoints of one session in the project `root`, a real path.

    `seq` gives the newest number of the session's record. The methods raise no OSError and block on the disk,
    `begin` and `finish` up to `limits.max_seconds`, so call those in a thread, one call at a time. A session
    that runs within a call of this one works with `for_agent`: its changes are recorded under this session's
    seq, also while others run.
    """

    root: Path
    sid: str
    seq: Callable[[], int]
    limits: SnapshotLimits = field(default_factory=SnapshotLimits)
    clock: Callable[[], float] = time.monotonic
    shared: SharedRecording | None = None  # None: it is made
    _unfinished: dict[str, FileChange] = field(default_factory=dict)  # by path
    _commanding: bool = False  # whether a command runs that `begin` was called for

    def __post_init__(self) -> None:
        if self.shared is None:
            store = ContentStore(checkpoints_folder(self.root) / "objects", self.limits.max_store_bytes)
            scanner = ProjectScanner(self.root, store, self.limits, self.clock)
            log = ChangeLog(self.root, self.sid)
            before = log.load_snapshot()
            self.shared = SharedRecording(log, scanner, before, crashed=before is not None)

    @property
    def _all(self) -> SharedRecording:
        assert self.shared is not None
        return self.shared

    @property
    def log(self) -> ChangeLog:
        return self._all.log

    @property
    def scanner(self) -> ProjectScanner:
        return self._all.scanner

    def for_agent(self) -> Checkpoints:
        """The recorder of a session that works beside this one for a call of it."""
        return Checkpoints(self.root, self.sid, self.seq, self.limits, self.clock, self.shared)

    def announce(self, path: Path) -> None:
        """Record a file that is about to be changed, and the folders that will be made on the way.

        `path` is a real path.
        """
        name = _covered_name(self.root, path)
        if name is None:
            self._all.gaps.add(f"{path} lies outside the project")
            return
        for each in (*parents(name), name):
            if each in self._unfinished:
                continue
            self._all.announced.add(name)
            state = self.scanner.state(each)
            if each == name or state == NOTHING:
                change = self._unfinished[each] = FileChange(self.seq(), each, state)
                self.log.add(change)

    def begin(self) -> None:
        """Scan the project: a command is about to run that may change anything."""
        shared = self._all
        with shared.scanning:
            self._finish_command()
            if shared.incomplete_scans >= MAX_INCOMPLETE_SCANS:
                return
            snapshot = self._record_commands() or self.scanner.scan()
            if not snapshot.complete:
                shared.incomplete_scans += 1
                count = len(snapshot.states)
                shared.gaps.add(f"only {count:,} files of the project could be looked at in time")
            self._commanding = True
            shared.running += 1
            self._go_on_from(snapshot)

    def finish(self) -> None:
        """Record how the changes that were announced, and the command that was begun, left the files."""
        for path in list(self._unfinished):
            change = self._unfinished.pop(path)
            change.after = self.scanner.state(path)
            self.log.save(change)
            self._all.announced.discard(path)
        with self._all.scanning:
            self._finish_command()

    def _finish_command(self) -> None:
        """Record what the command that was begun has changed, or one whose end an earlier run did not see."""
        shared = self._all
        shared.running -= self._commanding
        if self._commanding or not shared.running:
            snapshot = self._record_commands()
            if shared.running and snapshot is not None:
                self._go_on_from(snapshot)
            elif snapshot is not None:
                shared.before = None
                self.log.drop_snapshot()
        self._commanding = False

    def _go_on_from(self, snapshot: ProjectSnapshot) -> None:
        """Compare with these files when a command begins or ends the next time."""
        seq = self.seq()
        self._all.before = (seq, snapshot)
        self.log.save_snapshot(seq, snapshot)

    def _record_commands(self) -> ProjectSnapshot | None:
        """Record what commands have changed so far; the files as they are now, None where none was begun."""
        shared = self._all
        if shared.before is None:
            return None
        seq, before = shared.before
        crashed, shared.crashed = shared.crashed, False
        after = self.scanner.scan()
        for name in sorted((before.states.keys() | after.states.keys()) - shared.announced):
            old, new = before.at(name), after.at(name)
            if new == UNSEEN:
                new = self.scanner.state(name, self.limits.max_file_bytes)
            if old not in (new, UNSEEN):
                self.log.add(FileChange(seq, name, old, UNSEEN if crashed else new))
        return after

    def uncovered(self) -> list[str]:
        """What could not be recorded so far, one line each; empty when everything is covered."""
        lines = sorted(self._all.gaps | self.log.failures)
        lost = {change.path for change in self.log.changes if not change.before.restorable}
        if lost:
            some = ", ".join(sorted(lost)[:5])
            lines.append(f"{len(lost)} changed files were too large or unreadable to keep: {some}")
        if self.scanner.store.full:
            lines.append(f"there is no room for more under {self.scanner.store.folder}")
        return lines


def _covered_name(root: Path, path: Path) -> str | None:
    """The path relative to the project; None for what is outside, or in the folder of records."""
    if not path.is_relative_to(root) or ".." in path.parts or path == root:
        return None
    name = path.relative_to(root).as_posix()
    return None if name.split("/")[0] == RECORDS_FOLDER else name
