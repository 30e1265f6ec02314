"""Records every file as it was before the agent changed it.

write and edit announce the path that they change; around a command the whole project is scanned. What is
recorded lies under `.transcripts/checkpoints`: contents by their hash, and a line for each change. Not
covered, and listed by `uncovered`: files over 1 MB that only a command changed, projects of more than 120,000
files, what lies outside the project. Never covered: folders that hold no work (`.git`, `node_modules`, ...),
owners and times; hard links come back as files of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from tools.files import one_line_path
from transcripts import RECORDS_FOLDER

from .change_log import ChangeLog, FileChange, OtherLogs, checkpoints_folder
from .content_store import ContentStore
from .snapshot import (
    MANY_FILES,
    NOTHING,
    THEIRS,
    UNSEEN,
    PathState,
    ProjectScanner,
    ProjectSnapshot,
    SnapshotLimits,
    parents,
)

MAX_INCOMPLETE_SCANS = 3  # scans that ran into a limit; after these, commands are not covered any more

AFTER_SHARE = 0.25  # of the time for contents, behind a command: it has changed few of them
UNSEEN_CHANGES = (
    "this project is too large for checkpoints: not all that commands change in it is seen, and /rewind may"
    " not take it back. In manual mode you are asked about such commands"
)
UNSTORED_FILES = (
    "this project is large: {:,} of its files are not in the checkpoint yet, it grows with each command. What"
    " commands do to these /rewind cannot take back: in manual mode you are asked about those that delete or"
    " overwrite"
)


class SharedRecording(Struct):
    """The state that sessions share that work in one project at a time: a session and its agents.

    before     the files as they were when the recording of commands began or went on last, with the seq
    crashed    `before` is of a command whose end an earlier run did not see
    running    how many commands run now
    announced  the paths that somebody is about to change by other means
    complete   whether the newest scan came to its end
    unread     of how many files the newest scan could not store the contents; None before the first
    newly_read  how many files were read since the stamps were saved
    warned     of what the person was told that it is not covered
    others     what other sessions record since the first command began
    scanning   held while the project is looked through
    """

    log: ChangeLog
    scanner: ProjectScanner
    before: tuple[int, ProjectSnapshot] | None = None
    crashed: bool = False
    running: int = 0
    announced: set[str] = field(default_factory=set)
    incomplete_scans: int = 0
    complete: bool = True
    unread: int | None = None
    newly_read: int = 0
    warned: Literal["", "changes", "nothing"] = ""
    others: OtherLogs | None = None
    scanning: threading.Lock = field(default_factory=threading.Lock)

    def scan(self) -> ProjectSnapshot:
        """Look through the project, and note what of it could not be covered."""
        if self.unread is None:
            self.scanner.store.measure()  # first: it may remove what the stamps are about
            self.scanner.stamps = self.log.load_stamps()
        snapshot = self.scanner.scan(AFTER_SHARE if self.before else 1.0)
        self.unread = snapshot.unread
        self.newly_read += snapshot.read
        if self.newly_read > (10 * MANY_FILES if self.unread else MANY_FILES):
            self.newly_read = 0
            self.log.save_stamps(self.scanner.stamps)
        if not snapshot.complete and self.complete:
            count = len(snapshot.states)
            self.log.note_gap(f"only {count:,} files of the project could be looked at in time")
        self.complete = snapshot.complete
        return snapshot

    def left_by_others(self) -> dict[str, list[PathState | None]]:
        """The states in which other sessions left what they changed since commands are recorded here."""
        return {} if self.others is None else self.others.left()

    def coverage(self) -> Literal["all", "changes", "nothing"]:
        """Return the coverage of a command that would run now: "changes" records only which files it changed.

        The newest scan decides; if there was none, the project is scanned first.
        """
        with self.scanning:
            if self.unread is None:
                self.scan()
            if not self.complete:
                return "nothing"
            return "changes" if self.unread or self.scanner.store.full else "all"

    def take_warning(self) -> str:
        """Return the warning about commands in a project that is not covered, the first time; else ""."""
        if not self.complete and self.warned != "nothing":
            self.warned = "nothing"
            return UNSEEN_CHANGES
        if self.unread and not self.warned:
            self.warned = "changes"
            return UNSTORED_FILES.format(self.unread)
        return ""


class Checkpoints(Struct):
    """The checkpoints of one session in the project `root`, a real path.

    `seq` gives the newest number of the session's record. The methods raise no OSError and block on the disk,
    `begin`, `finish` and `end_crashed` up to `limits.max_seconds`, so call those in a thread, one call at a
    time. A session that runs within a call of this one works with `for_agent`: its changes are recorded under
    this session's seq, also while others run.
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
            scanner = ProjectScanner(self.root, store=store, limits=self.limits, clock=self.clock)
            log = ChangeLog(self.root, self.sid)
            before = log.load_snapshot()
            self.shared = SharedRecording(log, scanner=scanner, before=before, crashed=before is not None)

    @property
    def recording(self) -> SharedRecording:
        assert self.shared is not None
        return self.shared

    @property
    def log(self) -> ChangeLog:
        return self.recording.log

    @property
    def scanner(self) -> ProjectScanner:
        return self.recording.scanner

    def for_agent(self) -> Checkpoints:
        """The recorder of a session that works beside this one for a call of it."""
        return Checkpoints(
            self.root, sid=self.sid, seq=self.seq, limits=self.limits, clock=self.clock, shared=self.shared
        )

    def announce(self, path: Path) -> None:
        """Record a file that is about to be changed, and the folders that will be made on the way.

        `path` is a real path.
        """
        name = _covered_name(self.root, path)
        if name is None:
            self.log.note_gap(f"{path} lies outside the project")
            return
        for each in (*parents(name), name):
            if each in self._unfinished:
                continue
            self.recording.announced.add(name)
            state = self.scanner.state(each)
            if each == name or state == NOTHING:
                change = self._unfinished[each] = FileChange(self.seq(), path=each, before=state)
                self.log.add(change)

    def end_crashed(self) -> None:
        """Record what a command changed whose end an earlier run did not see; call it before others do."""
        if self.recording.crashed:
            self.finish()

    def begin(self) -> None:
        """Scan the project: a command is about to run that may change anything."""
        shared = self.recording
        with shared.scanning:
            self._finish_command()
            if shared.incomplete_scans >= MAX_INCOMPLETE_SCANS or not self.root.is_dir():
                return
            shared.others = shared.others or OtherLogs(self.log)
            snapshot = self._record_commands() or self.recording.scan()
            shared.incomplete_scans = 0 if snapshot.complete else shared.incomplete_scans + 1
            self._commanding = True
            shared.running += 1
            self._go_on_from(snapshot)

    def finish(self) -> None:
        """Record how the changes that were announced, and the command that was begun, left the files."""
        for path in list(self._unfinished):
            change = self._unfinished.pop(path)
            change.after = self.scanner.state(path)
            self.log.save(change)
            self.recording.announced.discard(path)
        with self.recording.scanning:
            self._finish_command()

    def _finish_command(self) -> None:
        """Record what the command that was begun has changed, or one whose end an earlier run did not see."""
        shared = self.recording
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
        self.recording.before = (seq, snapshot)
        self.log.save_snapshot(seq, snapshot)

    def _record_commands(self) -> ProjectSnapshot | None:
        """Record what commands have changed so far; the files as they are now, None where none was begun."""
        shared = self.recording
        if shared.before is None or not self.root.is_dir():  # moved away: nothing in it is gone
            return None
        seq, before = shared.before
        crashed = shared.crashed
        shared.crashed = False
        after = self.recording.scan()
        theirs = shared.left_by_others()
        for name in sorted((before.states.keys() | after.states.keys()) - shared.announced):
            old = before.at(name)
            new = after.at(name)
            if new == UNSEEN:
                new = self.scanner.state(name, self.limits.max_file_bytes)
            if old not in (new, UNSEEN) and self.scanner.differ(name, old, new):
                left = new
                if crashed:
                    left = UNSEEN
                elif is_left(new, theirs.get(name)):
                    left = THEIRS
                self.log.add(FileChange(seq, path=name, before=old, after=left))
        return after

    def uncovered(self) -> list[str]:
        """Return the things that could not be recorded so far, one line each; empty when everything is
        covered.
        """
        lines = sorted(self.log.gaps | self.log.failures)
        if unread := self.recording.unread:
            lines.append(f"{unread:,} files are not stored yet: what commands change of them shows, no more")
        lost = {change.path for change in self.log.changes if not change.before.restorable}
        if lost:
            some = ", ".join(map(one_line_path, sorted(lost)[:5]))
            lines.append(f"{len(lost)} changed files were too large or unreadable to keep: {some}")
        if self.scanner.store.full:
            lines.append(f"there is no room for more under {self.scanner.store.folder}")
        return lines


def is_left(state: PathState, by_others: Sequence[PathState | None] | None) -> bool:
    """Return whether others left a path in this state, as far as they can tell, or still change it."""
    return any(left in (state, None, THEIRS) for left in by_others or ())


def _covered_name(root: Path, path: Path) -> str | None:
    """The path relative to the project; None for what is outside, or in the folder of records."""
    if not path.is_relative_to(root) or ".." in path.parts or path == root:
        return None
    name = path.relative_to(root).as_posix()
    return None if name.split("/")[0] == RECORDS_FOLDER else name
