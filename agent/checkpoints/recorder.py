"""Record the state of every file before the agent changes it.

write and edit announce the path that they change. Before and after a command the whole project is scanned.
Recordings are kept in `.transcripts/checkpoints`: contents by their hash, and a line for each change. Not
covered, and listed by `uncovered`, are what commands write to files over 512 MB and to large files that do
not fit in the store (unless the file system can share blocks), projects with more than 120,000 files, and
files outside the project. Never covered are directories without the user's work (`.git`, `node_modules`,
...), owners and times. Hard links are restored as separate files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, field

from tools.processes import BackgroundJob, CommandContext
from tools.search import GitIndex
from transcripts import RECORDS_FOLDER
from transcripts.wording import pluralize

from .change_log import ChangeLog, FileChange, OtherLogs, checkpoints_folder
from .content_store import ContentStore
from .git_keeper import RefKeeper
from .git_state import GitRunner
from .listings import SKIPPED_FOLDERS
from .package_folders import own_files
from .project_scanner import MANY_FILES, ProjectScanner
from .snapshot import (
    NOTHING,
    THEIRS,
    UNSEEN,
    PathState,
    ProjectSnapshot,
    SnapshotLimits,
    parents,
    shown_paths,
)

MAX_INCOMPLETE_SCANS = 3  # scans that reached a limit; after these, commands are no longer covered

UNSEEN_CHANGES = (
    "this project is too large for checkpoints: /rewind may not undo all changes that commands make. In"
    " manual mode such commands need your approval"
)
UNSTORED_FILES = (
    "this project is large: {:,} of its files are not in the checkpoint yet (each command adds more)."
    " /rewind cannot undo what commands do to these files. Except in bypassPermissions mode, commands that"
    " delete or overwrite files need your approval"
)
UNKEPT_FILES = (
    "some files are too large for checkpoints, or the disk is full: {}. /rewind cannot undo what commands"
    " do to these files. Except in bypassPermissions mode, commands that delete or overwrite files need your"
    " approval"
)
UNCOPIED_FILES = (
    "some files are too large for checkpoints, or the disk is full: {}. /rewind restores these files if"
    " commands delete or replace them, but not if commands write to them. Except in bypassPermissions mode,"
    " commands that overwrite files need your approval"
)
KEPT_LINKS = "/rewind can restore what was lost: {}. The disk space is not free yet. To free it, delete {}"


class TimedScan(NamedTuple):
    """The files found by a scan, and when it ended, by the scanner's clock."""

    found: ProjectSnapshot
    ended: float


class SharedRecording(Struct):
    """The state shared by sessions that work in one project at the same time: a session and its agents.

    before      the files when the recording of commands last began or continued, with the seq
    first       a scan that was made before the first command
    crashed     `before` belongs to a command that an earlier run did not see end
    background  the commands that continued in the background when the last recording ended
    unsure      only they have run since `before`: what has changed since may also be the work of others
    edited      the paths that other tools have changed since then
    running     the number of other commands that are running
    announced   the paths that are about to be changed by other tools
    complete    the newest scan reached its end
    unread      the number of files that the newest scan had no time to store; None before the first
    unkept      the paths of all files that are not stored
    held        the large ones among them that /rewind restores if a command deletes them
    in_git      whether git has a large file that is not stored, by its path and its stamp
    deleted     the files that commands deleted and whose contents are kept as links
    skipped     the directories whose contents are not recorded
    rebuildable  those of them that a manifest beside them can rebuild
    nested      the working trees of git repositories in the project, without its own
    newly_read  the number of files read since the stamps were saved
    warned      the gaps in coverage that the user was warned about
    others      the changes recorded by other sessions since the first command began
    scanning    held during a scan of the project
    """

    log: ChangeLog
    scanner: ProjectScanner
    keeper: RefKeeper
    before: tuple[int, ProjectSnapshot] | None = None
    first: TimedScan | None = None
    crashed: bool = False
    background: list[BackgroundJob] = field(default_factory=list)
    unsure: bool = False
    edited: set[str] = field(default_factory=set)
    running: int = 0
    announced: set[str] = field(default_factory=set)
    incomplete_scans: int = 0
    complete: bool = True
    unread: int | None = None
    unkept: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    in_git: dict[tuple[str, str], bool] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    rebuildable: list[str] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    newly_read: int = 0
    newly_read_bytes: int = 0
    warned: Literal["", "changes", "nothing"] = ""
    others: OtherLogs | None = None
    scanning: threading.Lock = field(default_factory=threading.Lock)

    def scan(self) -> ProjectSnapshot:
        """Scan the project, and note what could not be covered."""
        if self.unread is None:
            self.scanner.store.measure()  # first: it may remove what the stamps are about
            self.scanner.stamps = self.log.load_stamps()
        share = 1.0 if self.before is None or self.unread is None else 0.25  # a command has changed few files
        snapshot = self.scanner.scan(share)
        if self.scanner.abandoned:
            return snapshot
        self.unread = snapshot.unread
        self.unkept = snapshot.unkept
        self.held = self._holdable(snapshot) if self.unkept else []
        if self.scanner.store.held.clones:  # which keep what commands write over, too
            held = set(self.held)
            self.unkept = [name for name in self.unkept if name not in held]
        self.skipped = snapshot.skipped
        self.rebuildable = snapshot.rebuildable
        self.nested = snapshot.repositories
        self.newly_read += snapshot.read
        self.newly_read_bytes += snapshot.read_bytes
        many_files = 10 * MANY_FILES if self.unread else MANY_FILES
        if self.newly_read > many_files or self.newly_read_bytes > 256 << 20:
            self.newly_read = 0
            self.newly_read_bytes = 0
            # A later session tries to store the other files again.
            stamps = self.scanner.stamps.items()
            self.log.save_stamps({name: one for name, one in stamps if one[1].value and not one[1].blob})
        if not snapshot.complete and self.complete:
            count = len(snapshot.in_git) + sum(each.kind != "dir" for each in snapshot.states.values())
            self.log.note_gap(f"only {count:,} files of the project could be checked in time")
        self.complete = snapshot.complete
        return snapshot

    def scan_since(self, moment: float) -> ProjectSnapshot:
        """Scan the project, unless the first scan ended after this moment and no tool has edited a file."""
        first, self.first = self.first, None
        if first is None or first.ended < moment or self.edited or self.announced:
            return self.scan()
        return first.found

    def own_files(self, folder: str) -> list[str]:
        """Return what in a directory of dependencies no package manager has made, below the project."""
        return [f"{folder}/{name}" for name in own_files(self.scanner.root / folder)]

    def left_by_others(self) -> dict[str, list[PathState | None]]:
        """Return the states in which other sessions left paths since commands are recorded here."""
        return {} if self.others is None else self.others.left()

    def coverage(self) -> Literal["all", "changes", "nothing"]:
        """Return the coverage of a command that runs now: "changes" only records which files it changes.

        It depends on the newest scan. If there was none, the project is scanned first.
        """
        with self.scanning:
            if self.unread is None:
                self.first = TimedScan(self.scan(), self.scanner.clock())
            if not self.complete:
                return "nothing"
            return "changes" if self.unkept or self.scanner.store.full else "all"

    def _holdable(self, snapshot: ProjectSnapshot) -> list[str]:
        """Return the large files to which links can be made, among those that are not stored."""
        root = self.scanner.root
        min_bytes = self.scanner.limits.max_file_bytes
        large = (root / name for name in self.unkept if snapshot.states[name].unstored_bytes > min_bytes)
        held = self.scanner.store.held.holdable(large)
        names = [path.relative_to(root).as_posix() for path in held]
        stamps = {name: (name, snapshot.states[name].stamp) for name in names}
        if self.scanner.store.held.clones:
            return names
        # A hard link changes a time of the file, so git would read it all again.
        new = self.scanner.is_in_git([name for name in names if stamps[name] not in self.in_git])
        self.in_git |= {stamps[name]: is_in_git for name, is_in_git in new.items()}
        return [name for name in names if not self.in_git[stamps[name]]]

    def release(self) -> None:
        """Remove the links to files that no command or tool can change now."""
        is_changing = self.running or self.announced or any(job.ended is None for job in self.background)
        if not is_changing:
            deleted = self.scanner.store.held.release()
            self.deleted += (path.relative_to(self.scanner.root).as_posix() for path in deleted)

    def take_warning(self) -> str:
        """Return the warning about a project that is not fully covered, the first time; else ""."""
        if not self.complete and self.warned != "nothing":
            self.warned = "nothing"
            return UNSEEN_CHANGES
        if self.unread and not self.warned:
            self.warned = "changes"
            return UNSTORED_FILES.format(self.unread)
        if self.unkept and not self.unread and not self.warned:
            self.warned = "changes"
            is_held = set(self.unkept) <= {*self.held}
            return (UNCOPIED_FILES if is_held else UNKEPT_FILES).format(shown_paths(self.unkept, 3))
        return ""

    def take_kept(self) -> str:
        """Return a notice about the files that were deleted and are kept as links; "" for none."""
        deleted, self.deleted = self.deleted, []
        folder = self.scanner.store.held.folder.relative_to(self.scanner.root)
        return KEPT_LINKS.format(shown_paths(sorted(deleted), 3), folder) if deleted else ""


class Checkpoints(Struct):
    """The checkpoints of one session in the project `root`, a real path.

    `seq` returns the newest number in the session's transcript. The methods raise no OSError and block on the
    disk. `begin`, `finish` and `catch_up` take up to `limits.max_seconds`, so call them in a thread, one
    at a time. A session that runs within a call of this one uses `for_agent`: its changes are recorded under
    this session's seq, even while others run.
    """

    root: Path
    sid: str
    seq: Callable[[], int]
    limits: SnapshotLimits = field(default_factory=SnapshotLimits)
    clock: Callable[[], float] = time.monotonic
    excluded: str = ""  # a directory of our own files in the project, which are not recorded
    shared: SharedRecording | None = None  # None: a new one is made
    _unfinished: dict[str, FileChange] = field(default_factory=dict)  # by path
    _commanding: bool = False  # a command is running for which `begin` was called

    def __post_init__(self) -> None:
        if self.shared is None:
            store = ContentStore(
                checkpoints_folder(self.root) / "objects",
                max_bytes=self.limits.max_store_bytes,
                max_large_bytes=self.limits.max_large_store_bytes,
            )
            scanner = ProjectScanner(
                self.root, store=store, limits=self.limits, clock=self.clock, excluded=self.excluded
            )
            log = ChangeLog(self.root, self.sid)
            before = log.load_snapshot()
            self.shared = SharedRecording(
                log,
                scanner=scanner,
                keeper=RefKeeper(self.root, log=log, store=store),
                before=before,
                crashed=before is not None,
            )

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

    @property
    def is_recording(self) -> bool:
        """Return whether `finish` has anything to record; a call that only reads never has."""
        shared = self.recording
        left = shared.before is not None and not shared.running and not shared.unsure
        return left or self._commanding or bool(self._unfinished)

    async def keep_refs(self, git: GitRunner, is_own: bool) -> None:
        """Keep what git repositories refer to, and if `is_own`, record that commands changed it.

        Await this before and after a command.
        """
        shared = self.recording
        is_own = is_own or shared.running > self._commanding  # another command may have changed it
        await shared.keeper.look(git, nested=shared.nested, seq=self.seq(), is_own=is_own)

    def use_git(self, context: CommandContext) -> None:
        """Let git find what changes in a large repository. Call this in the event loop, before all others."""
        index = self.scanner.index
        if index is None:
            self.scanner.index = GitIndex(context, self.root, SKIPPED_FOLDERS)
        else:
            index.context = context  # that of an agent ends before the session

    def for_agent(self) -> Checkpoints:
        """Return the recorder of a session that works for a call of this one."""
        return Checkpoints(
            self.root, sid=self.sid, seq=self.seq, limits=self.limits, clock=self.clock, shared=self.shared
        )

    def announce(self, path: Path) -> None:
        """Record a file that is about to be changed, and the directories that will be made for it.

        `path` is a real path. The file changes at all of its names (hard links).
        """
        name = _covered_name(self.root, path)
        if name is None:
            self.log.note_gap(f"{path} is outside the project")
            return
        others = self.scanner.paths.other_names(path)
        for each in (*parents(name), name, *others):
            if each in self._unfinished:
                continue
            self.recording.announced.add(each if each in others else name)
            state = self.scanner.paths.state(each)
            if each == name or each in others or state == NOTHING:
                if state.kind == "file" and not state.value:
                    self.scanner.store.held.hold([self.root / each])
                change = self._unfinished[each] = FileChange(self.seq(), path=each, before=state)
                self.log.add(change)

    def catch_up(self) -> None:
        """Record the changes of a command that an earlier run did not see end, or of one in the background.

        In a new session, call it before all others.
        """
        shared = self.recording
        if shared.crashed or shared.unsure:
            with shared.scanning:
                self._finish_command()

    def note_background(self, jobs: Iterable[BackgroundJob]) -> None:
        """Note which commands continue in the background, so that `finish` does not end the recording."""
        shared = self.recording
        shared.background = [job for job in dict.fromkeys((*shared.background, *jobs)) if job.ended is None]
        shared.keeper.unsure = bool(shared.background)

    @property
    def is_large(self) -> bool:
        """Return whether the project is in a large git repository. Blocks on the disk."""
        return self.scanner.index is not None and self.scanner.index.is_large

    def prepare(self) -> None:
        """Scan the project beforehand, so that the first command only waits for what has changed since."""
        self.recording.coverage()

    def abandon(self) -> None:
        """Stop preparing, since the session ends without having run a command."""
        self.scanner.abandoned = self.recording.unread is None and self.recording.before is None

    def begin(self) -> None:
        """Scan the project, since a command is about to run that may change anything."""
        shared = self.recording
        called = self.clock()
        with shared.scanning:
            if not shared.unsure:
                self._finish_command()
            if shared.incomplete_scans >= MAX_INCOMPLETE_SCANS or not self.root.is_dir():
                return
            shared.others = shared.others or OtherLogs(self.log)
            snapshot = self._record_commands() or shared.scan_since(called)
            shared.incomplete_scans = 0 if snapshot.complete else shared.incomplete_scans + 1
            self._commanding = True
            shared.running += 1
            self._continue_from(snapshot)
            if shared.held:
                self.scanner.store.held.hold(self.root / name for name in shared.held)

    def finish(self) -> None:
        """Record the files after the announced changes and the command that was begun."""
        for path in list(self._unfinished):
            change = self._unfinished.pop(path)
            change.after = self.scanner.paths.state(path)
            self.log.save(change)
            self.recording.announced.discard(path)
            self.recording.edited.add(path)
        if self._commanding or not self.recording.unsure:
            with self.recording.scanning:
                self._finish_command()
        with self.recording.scanning:
            self.recording.release()

    def _finish_command(self) -> None:
        """Record the changes of the command that was begun, or of one that an earlier run did not see end."""
        shared = self.recording
        shared.running -= self._commanding
        if self._commanding or not shared.running:
            snapshot = self._record_commands()
            continues = any(job.ended is None for job in shared.background)
            if snapshot is not None and (shared.running or continues):
                self._continue_from(snapshot)
                shared.unsure = not shared.running
            elif snapshot is not None:
                shared.before = None
                self.log.drop_snapshot()
        self._commanding = False

    def _continue_from(self, snapshot: ProjectSnapshot) -> None:
        """Compare with these files when the next command begins or ends."""
        seq = self.seq()
        self.recording.edited.clear()
        self.recording.before = (seq, snapshot)
        self.log.save_snapshot(seq, snapshot)

    def _record_commands(self) -> ProjectSnapshot | None:
        """Record the changes of commands so far; return the current files, None if no command was begun."""
        shared = self.recording
        if shared.before is None or not self.root.is_dir():  # moved away, so its files are not gone
            return None
        seq, before = shared.before
        unsure = shared.crashed or shared.unsure
        shared.crashed = shared.unsure = False
        after = self.recording.scan()
        theirs = shared.left_by_others()
        names = after.changed_since(before) - shared.announced
        names -= shared.edited if unsure else set()
        # Nothing is known about paths that the earlier scan did not reach.
        changed = {name: old for name in names if (old := before.at(name)) != UNSEEN}
        links = before.other_names()
        found = []
        for name, old in sorted(self.scanner.with_stored_contents(changed).items()):
            new = after.at(name)
            if new == UNSEEN or new.blob or (old.value and new.stamp):  # not read by the scan
                new = self.scanner.paths.state(name, self.limits.max_file_bytes)
            if old != new and self.scanner.paths.differ(name, old, new):
                left = new
                if unsure:
                    left = UNSEEN
                elif is_left(new, theirs.get(name)):
                    left = THEIRS
                found.append(FileChange(seq, path=name, before=old, after=left, link=links.get(name, "")))
        self.log.add(*found)
        return after

    def can_restore(self, state: PathState) -> bool:
        """Return whether a path can be brought to a state, as far as known without reading its contents."""
        is_held = state.kind == "file" and self.scanner.store.held.find(state.stamp) is not None
        return state.restorable or is_held

    def uncovered(self) -> list[str]:
        """Return a line for each gap in the recording so far; empty if everything is covered."""
        lines = sorted(self.log.gaps | self.log.failures) + self.recording.keeper.gaps()
        if unkept := self.recording.unkept:
            count = pluralize(len(unkept), "file")
            lines.append(f"{count} not stored, so changes by commands may be lost: {shown_paths(unkept, 5)}")
        lost = {change.path for change in self.log.changes if not self.can_restore(change.before)}
        if lost:
            some = shown_paths(sorted(lost), 5)
            was = "was" if len(lost) == 1 else "were"
            lines.append(
                f"{pluralize(len(lost), 'changed file')} {was} too large or unreadable to keep, or the disk"
                f" was full: {some}"
            )
        for store in (self.scanner.store, self.scanner.store.large):
            if store.full:
                lines.append(f"the checkpoint store or its disk is full: {store.folder}")
        return lines


def is_left(state: PathState, by_others: Sequence[PathState | None] | None) -> bool:
    """Return whether others are known to have left a path in this state, or are still changing it."""
    return any(left in (state, None, THEIRS) for left in by_others or ())


def _covered_name(root: Path, path: Path) -> str | None:
    """Return the path relative to the project; None if it is outside, or in the transcripts directory."""
    if not path.is_relative_to(root) or ".." in path.parts or path == root:
        return None
    name = path.relative_to(root).as_posix()
    return None if name.split("/")[0] == RECORDS_FOLDER else name
