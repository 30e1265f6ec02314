"""Checkpoints: every file as it was before the agent changed it, and the way back.

write and edit announce the path (`before`); around a command the whole project is looked at (`begin`,
`finish`). What is kept lies under `.transcripts/checkpoints`: contents by their hash, and a line for each
change. Not covered, and said by `uncovered`: files over 1 MB that only a command changed, projects of more
than 20,000 files, what lies outside the project. Never covered: folders that hold no work (`.git`,
`node_modules`, ...), owners and times; hard links come back as files of their own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from transcripts.record_errors import StoreError
from transcripts.session_lock import RECORDS_FOLDER, ensure_private_folder

from .change_log import FileChange, append, copy_log, load_look, read, save_look
from .file_restore import RestoreStep, action_of, apply, line_counts
from .snapshot import NOTHING, UNSEEN, ContentStore, PathState, ProjectSnapshot, SnapshotLimits

SINGLE = 16 << 20  # bytes of a file that write or edit announced
PATIENCE = 3  # looks that did not get to the end; then commands are not covered any more


@dataclass(slots=True)
class Checkpoints:
    """The checkpoints of one session in the project `root`, a real path.

    `seq` tells the newest number of the record. The methods block on the disk: up to `limits.seconds`
    in `begin` and `finish`, so call those in a thread. They raise no OSError.
    """

    root: Path
    sid: str
    seq: Callable[[], int]
    limits: SnapshotLimits = field(default_factory=SnapshotLimits)
    changes: list[FileChange] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    _shadow: ContentStore = field(init=False)
    _open: dict[str, FileChange] = field(default_factory=dict)
    _look: tuple[int, ProjectSnapshot] | None = None
    _interrupted: bool = False  # the look is that of a command which an earlier run never saw the end of
    _missed: set[str] = field(default_factory=set)
    _patience: int = PATIENCE

    def __post_init__(self) -> None:
        self._shadow = ContentStore(self._home / "objects", self.limits)
        self.changes = read(self._home / f"{self.sid}.jsonl")
        self._look = load_look(self._home / f"{self.sid}.look")
        self._interrupted = self._look is not None

    async def before(self, path: Path) -> None:
        """Keep a file as it is, because it is about to be changed. `path` is a real path."""
        self.announce(path)

    def announce(self, path: Path) -> None:
        """What `before` does. The folders that will be made on the way count as well."""
        name = _name(self.root, path)
        if name is None:
            self._missed.add(f"{path} lies outside the project")
            return
        for folder in _parents(name):
            if folder not in self._open and self._state(folder) == NOTHING:
                self._note(FileChange(self.seq(), folder, NOTHING))
        if name not in self._open:
            self._note(FileChange(self.seq(), name, self._state(name)))

    def begin(self) -> None:
        """Look at the whole project: a command is about to run that may change anything."""
        if self._look is not None:
            self.finish()
        if self._patience <= 0:
            return
        look = self._shadow.look(self.root, self.clock, self.wall)
        if not look.complete:
            self._patience -= 1
            self._missed.add(f"only {len(look.states):,} files of the project could be looked at in time")
        self._look = (self.seq(), look)
        self._saving(lambda: save_look(self._home / f"{self.sid}.look", self.seq(), look))

    def finish(self) -> None:
        """The work that was announced is done: note how it left things."""
        for change in list(self._open.values()):
            change.after = self._state(change.path)
            self._note(change)
        self._open.clear()
        if self._look is None:
            return
        (seq, was), self._look = self._look, None
        interrupted, self._interrupted = self._interrupted, False
        now = self._shadow.look(self.root, self.clock, self.wall)
        for name in sorted(was.states.keys() | now.states.keys()):
            before, after = was.at(name), now.at(name)
            after = self._state(name, self.limits.each) if after == UNSEEN else after
            if before not in (after, UNSEEN):
                self._note(FileChange(seq, name, before, UNSEEN if interrupted else after))
        with suppress(OSError):
            (self._home / f"{self.sid}.look").unlink(missing_ok=True)

    def content(self, state: PathState) -> bytes | None:
        """What was kept of a file or link; None where nothing was."""
        if state.kind == "link":
            return os.fsencode(state.value)
        return self._shadow.get(state.value) if state.kind == "file" and state.value else None

    def uncovered(self) -> list[str]:
        """What could not be kept so far, one line each; empty when all is covered."""
        lost = {change.path for change in self.changes if not change.before.known}
        lines = sorted(self._missed)
        if lost:
            some = ", ".join(sorted(lost)[:5])
            lines.append(f"{len(lost)} changed files were too large or unreadable to keep: {some}")
        if self._shadow.full:
            lines.append(f"there is no room for more under {self._shadow.folder}")
        return lines

    def touched(self, seqs: Iterable[int]) -> dict[int, int]:
        """For each number of the record: how many files the agent changed since, as far as is known."""
        changes = sorted(self.changes, key=lambda change: change.seq)
        found: dict[int, int] = {}
        paths: set[str] = set()
        for seq in sorted(seqs, reverse=True):
            while changes and changes[-1].seq >= seq:
                change = changes.pop()
                if change.before != change.after and "dir" not in (change.before.kind, _kind(change.after)):
                    paths.add(change.path)
            found[seq] = len(paths)
        return found

    def plan_restore(self, to_seq: int) -> list[RestoreStep]:
        """What going back to before `to_seq` would do to the files, by path. Nothing is changed."""
        self.finish()
        first: dict[str, FileChange] = {}
        last: dict[str, FileChange] = {}
        for change in self.changes:
            if change.seq >= to_seq:
                first.setdefault(change.path, change)
                last[change.path] = change
        steps = (self._step(first[path].before, last[path]) for path in sorted(first))
        return [step for step in steps if step is not None]

    def restore(
        self, plan: Iterable[RestoreStep], confirm: Callable[[RestoreStep], bool]
    ) -> list[tuple[RestoreStep, str]]:
        """Carry a plan out. Returns (step, what kept it from being done) of those that were not.

        `confirm` is asked for each file that somebody else changed since. What is replaced is kept first,
        so that going back can be gone back on.
        """
        wanted: list[RestoreStep] = []
        left: list[tuple[RestoreStep, str]] = []
        for step in plan:
            if step.by_user and not confirm(step):
                left.append((step, "somebody else changed it since: kept"))
            else:
                wanted.append(step)
        for step in wanted:
            self.announce(self.root / step.path)
        left += apply(self.root, wanted, self._shadow.get)
        self.finish()
        return left

    @property
    def _home(self) -> Path:
        return self.root / RECORDS_FOLDER / "checkpoints"

    def _step(self, target: PathState, last: FileChange) -> RestoreStep | None:
        now, get = self._state(last.path), self._shadow.get
        if now == target:
            return None
        by_user = now != last.after  # or nobody knows: the work was interrupted
        new = get(target.value) if target.kind == "file" else b""
        if not target.known or new is None:
            return RestoreStep(last.path, "lost", 0, 0, by_user, target)
        old = (get(now.value) if now.kind == "file" else None) or b""
        return RestoreStep(last.path, action_of(now, target), *line_counts(old, new), by_user, target)

    def _state(self, name: str, most: int = SINGLE) -> PathState:
        if any((self.root / folder).is_symlink() for folder in _parents(name)):
            return NOTHING  # what a link leads to is no part of the project
        path = self.root / name
        try:
            return self._shadow.keep(path, path.lstat(), most)
        except (FileNotFoundError, NotADirectoryError):
            return NOTHING
        except OSError:
            return PathState("other")

    def _note(self, change: FileChange) -> None:
        """Log a change: one that begins is open until it is finished."""
        if self._open.get(change.path) is not change:
            self.changes.append(change)
            if change.after is None:
                self._open[change.path] = change
        self._saving(lambda: append(self._home / f"{self.sid}.jsonl", change))

    def _saving(self, work: Callable[[], None]) -> None:
        try:
            ensure_private_folder(self.root / RECORDS_FOLDER)
            ensure_private_folder(self._home)
            work()
        except (OSError, StoreError) as error:
            self._missed.add(f"checkpoints cannot be saved ({error}): they end with this run")


def _kind(state: PathState | None) -> str:
    return state.kind if state else "none"


def inherit(root: Path, old: str, new: str) -> None:
    """Let the copy `new` of a session go back to the files of `old`. Raises OSError."""
    home = root / RECORDS_FOLDER / "checkpoints"
    if (home / f"{old}.jsonl").exists():
        copy_log(home / f"{old}.jsonl", home / f"{new}.jsonl")


def _name(root: Path, path: Path) -> str | None:
    """The path within the project; None for what is outside, or the record itself."""
    if not path.is_relative_to(root) or ".." in path.parts or path == root:
        return None
    name = path.relative_to(root).as_posix()
    return None if name.split("/")[0] == RECORDS_FOLDER else name


def _parents(name: str) -> list[str]:
    """The folders on the way to a path, outermost first."""
    pieces = name.split("/")[:-1]
    return ["/".join(pieces[: count + 1]) for count in range(len(pieces))]
