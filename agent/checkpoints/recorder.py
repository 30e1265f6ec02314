"""Records every file as it was before the agent changed it.

write and edit announce the path that they change; around a command the whole project is scanned. What is
recorded lies under `.transcripts/checkpoints`: contents by their hash, and a line for each change. Not
covered, and listed by `uncovered`: files over 1 MB that only a command changed, projects of more than 20,000
files, what lies outside the project. Never covered: folders that hold no work (`.git`, `node_modules`, ...),
owners and times; hard links come back as files of their own.
"""

from __future__ import annotations

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
class Checkpoints:
    """The checkpoints of one session in the project `root`, a real path.

    `seq` gives the newest number of the session's record. The methods raise no OSError and block on the disk,
    `begin` and `finish` up to `limits.max_seconds`, so call those in a thread, one call at a time. A session
    that runs within a call of this one may share the object: its changes are then recorded under this
    session's seq.
    """

    root: Path
    sid: str
    seq: Callable[[], int]
    limits: SnapshotLimits = field(default_factory=SnapshotLimits)
    clock: Callable[[], float] = time.monotonic
    log: ChangeLog = field(init=False)
    scanner: ProjectScanner = field(init=False)
    _unfinished: dict[str, FileChange] = field(default_factory=dict)  # by path
    _before: tuple[int, ProjectSnapshot] | None = None  # from before the running command, with its seq
    _crashed: bool = False  # `_before` is of a command whose end an earlier run did not see
    _gaps: set[str] = field(default_factory=set)
    _incomplete_scans: int = 0

    def __post_init__(self) -> None:
        store = ContentStore(checkpoints_folder(self.root) / "objects", self.limits.max_store_bytes)
        self.scanner = ProjectScanner(self.root, store, self.limits, self.clock)
        self.log = ChangeLog(self.root, self.sid)
        self._before = self.log.load_snapshot()
        self._crashed = self._before is not None

    def announce(self, path: Path) -> None:
        """Record a file that is about to be changed, and the folders that will be made on the way.

        `path` is a real path.
        """
        name = _covered_name(self.root, path)
        if name is None:
            self._gaps.add(f"{path} lies outside the project")
            return
        for each in (*parents(name), name):
            if each in self._unfinished:
                continue
            state = self.scanner.state(each)
            if each == name or state == NOTHING:
                change = self._unfinished[each] = FileChange(self.seq(), each, state)
                self.log.add(change)

    def begin(self) -> None:
        """Scan the project: a command is about to run that may change anything."""
        if self._before is not None:
            self.finish()
        if self._incomplete_scans >= MAX_INCOMPLETE_SCANS:
            return
        snapshot = self.scanner.scan()
        if not snapshot.complete:
            self._incomplete_scans += 1
            self._gaps.add(f"only {len(snapshot.states):,} files of the project could be looked at in time")
        self._before = (self.seq(), snapshot)
        self.log.save_snapshot(self.seq(), snapshot)

    def finish(self) -> None:
        """Record how the changes that were announced, and the command that was begun, left the files."""
        for path in list(self._unfinished):
            change = self._unfinished.pop(path)
            change.after = self.scanner.state(path)
            self.log.save(change)
        if self._before is None:
            return
        (seq, before), self._before = self._before, None
        crashed, self._crashed = self._crashed, False
        after = self.scanner.scan()
        for name in sorted(before.states.keys() | after.states.keys()):
            old, new = before.at(name), after.at(name)
            if new == UNSEEN:
                new = self.scanner.state(name, self.limits.max_file_bytes)
            if old not in (new, UNSEEN):
                self.log.add(FileChange(seq, name, old, UNSEEN if crashed else new))
        self.log.drop_snapshot()

    def uncovered(self) -> list[str]:
        """What could not be recorded so far, one line each; empty when everything is covered."""
        lines = sorted(self._gaps | self.log.failures)
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
