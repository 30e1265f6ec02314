"""The log of the files that a session changed: one JSON line per change, in a file per session."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from transcripts import RECORDS_FOLDER, StoreError, ensure_private_folder
from transcripts.patterns import lazy_pattern
from transcripts.storage import append_line, read_regular, replace_file

from .snapshot import PathState, ProjectSnapshot, Stamps
from .store_folder import MAX_LOG_BYTES

_OBJECT_ID = lazy_pattern(r"(?:[0-9a-f]{40}(?:[0-9a-f]{24})?)?")


class FileChange(Struct):
    """One change of a path: the transcript's newest seq when it began, and the states before and after.

    `path` is relative to the project. `after` is None while the change is in progress, and remains None if
    the run ends during it. `link` is another name that the file had before a command changed it.
    """

    seq: int
    path: str
    before: PathState
    after: PathState | None = None
    link: str = ""


UNSURE = "?"  # what a ref names after a change, if others may have made that change


class RefChange(Struct):
    """One change in a git repository by a command: an object's id before and after, "" for none.

    repository  the working tree relative to the project; "" is the one that the project belongs to
    name        a ref, refs/stash for an entry of the stash, HEAD for a commit checked out without a branch,
                branch for the one that is checked out, index, operation for an open merge or the like, or
                logs/ and a ref for its reflog; the stored contents of these two are named
    note        the message of a stash entry, the hash of the stored content of an annotated tag, the working
                tree of a HEAD, the branches before and after with a space between them ("" for none), or the
                commit that was checked out when the index was like that
    """

    seq: int
    repository: str
    name: str
    before: str
    after: str
    note: str = ""

    def as_unsure(self) -> RefChange:
        """Return it as a change that others may have made."""
        branch = self.note.partition(" ")[0]
        return replace(self, after=UNSURE, note=f"{branch} {UNSURE}" if self.name == "branch" else self.note)

    @property
    def key(self) -> tuple[str, str, str]:
        """The thing that changed: there may be many stash entries, and a HEAD for each worktree."""
        entry = {"refs/stash": self.before or self.after, "HEAD": self.note}.get(self.name, "")
        return (self.repository, self.name, entry)


class LoggedChanges(NamedTuple):
    """The lines of a log."""

    files: list[FileChange]
    gaps: set[str]
    refs: list[RefChange]


class ChangeLog(Struct):
    """The changes of session `sid` in the project `root`, oldest first, in memory and in a file.

    The methods block on the disk and raise no OSError. `failures` lists what could not be saved and why,
    `gaps` the changes that may have been missed, one line each.
    """

    root: Path
    sid: str
    changes: list[FileChange] = []
    gaps: set[str] = set()
    refs: list[RefChange] = []
    failures: set[str] = field(default_factory=set)
    _in_git: Mapping[str, PathState] | None = None  # of the snapshot that was saved last
    _in_git_json: bytes = b""  # without the last brace: encoding 86,000 states takes 10 ms

    def __post_init__(self) -> None:
        self.changes, self.gaps, self.refs = read_changes(self._path("jsonl"))

    def add(self, *changes: FileChange) -> None:
        """Append changes."""
        self.changes += changes
        self.save(*changes)

    def save(self, *changes: FileChange) -> None:
        """Write lines about changes that are already in the log, with their final states."""
        fields = (
            [each.seq, each.path, _packed(each.before), _packed(each.after) if each.after else None]
            + ([each.link] if each.link else [])
            for each in changes
        )
        self._append(map(json.dumps, fields))

    def add_refs(self, changes: Sequence[RefChange]) -> None:
        """Append changes in a git repository."""
        self.refs += changes
        self._append(json.dumps({"ref": astuple(change)}) for change in changes)

    def note_gap(self, gap: str) -> None:
        """Add a line about changes that may have been missed."""
        if gap not in self.gaps:
            self.gaps.add(gap)
            self._append([json.dumps({"gap": gap})])

    def save_snapshot(self, seq: int, snapshot: ProjectSnapshot) -> None:
        """Save the snapshot taken before a command while that runs, so that a crash does not lose it."""
        if snapshot.in_git is not self._in_git:
            self._in_git = snapshot.in_git
            self._in_git_json = _encoded(snapshot.in_git)[:-1]
        head = _encoded([seq, snapshot.complete])[:-1] + b","
        comma = b"," if snapshot.in_git and snapshot.states else b""
        pieces = [head, self._in_git_json, comma, _encoded(snapshot.states)[1:], b"]"]
        with self._noting_failure():
            replace_file(self._path("look", make=True), pieces, durable=False)

    def load_snapshot(self) -> tuple[int, ProjectSnapshot] | None:
        """Return the seq and snapshot of a command that an earlier run did not see end; None without one."""
        try:
            seq, complete, states = json.loads(read_regular(self._path("look"), MAX_LOG_BYTES))
            found = {name: _state(raw) for name, raw in states.items()}
            return int(seq), ProjectSnapshot(found, complete=bool(complete))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return None

    def save_stamps(self, stamps: Stamps) -> None:
        """Save the stamps of files for later sessions, so that they need not read all files again."""
        with self._noting_failure():
            replace_file(self._path("stamps", make=True).with_stem("all"), _encoded(stamps), durable=False)

    def load_stamps(self) -> Stamps:
        """Return the stamps of files that the newest session saved; empty if it saved none."""
        try:
            packed = json.loads(read_regular(self._path("stamps").with_stem("all"), MAX_LOG_BYTES))
            return {name: (tuple(stamp), _state(raw)) for name, (stamp, raw) in packed.items()}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return {}

    def drop_snapshot(self) -> None:
        """Remove the saved snapshot, since the command has ended and its changes are in the log."""
        with suppress(OSError):
            self._path("look").unlink(missing_ok=True)

    def _append(self, lines: Iterable[str]) -> None:
        """Append lines at once: opening the file for each would take most of the time."""
        text = "\n".join(lines)
        with self._noting_failure():
            if text:
                append_line(self._path("jsonl", make=True), text.encode())

    def _path(self, kind: str, make: bool = False) -> Path:
        folder = checkpoints_folder(self.root)
        if make:
            ensure_private_folder(folder.parent)
            ensure_private_folder(folder)
        return folder / f"{self.sid}.{kind}"

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except (OSError, StoreError) as error:
            self.failures.add(f"cannot save checkpoints: {error}; they are lost when makeroom exits")


def checkpoints_folder(root: Path) -> Path:
    """Return the directory of the logs and contents of a project's sessions."""
    return root / RECORDS_FOLDER / "checkpoints"


def copy_log(root: Path, old_sid: str, new_sid: str) -> None:
    """Copy the log, so that the copy of a session can restore the files that its original changed.

    Raises OSError.
    """
    old, new = (checkpoints_folder(root) / f"{sid}.jsonl" for sid in (old_sid, new_sid))
    if old.exists():
        replace_file(new, read_regular(old, MAX_LOG_BYTES), durable=False)


class OtherLogs:
    """The changes that other sessions of the project record after this object was made.

    Blocks on the disk and raises no OSError.
    """

    def __init__(self, own: ChangeLog) -> None:
        self._folder = checkpoints_folder(own.root)
        self._own = f"{own.sid}.jsonl"
        self._known = self._sizes()

    def left(self) -> dict[str, list[PathState | None]]:
        """Return the states in which they left each path; None for a path that is being changed."""
        found: dict[str, list[PathState | None]] = {}
        for name, size in self._sizes().items():
            if size > (known := self._known.get(name, 0)):
                for change in read_changes(self._folder / name, known).files:
                    found.setdefault(change.path, []).append(change.after)
        return found

    def _sizes(self) -> dict[str, int]:
        with suppress(OSError):
            logs = (path for path in self._folder.glob("*.jsonl") if path.name != self._own)
            return {path.name: path.stat().st_size for path in logs}
        return {}


def read_changes(path: Path, start: int = 0) -> LoggedChanges:
    """Return the lines of a file from byte `start`, without incomplete or foreign ones.

    Lines about the same path and seq form one change: the first contains the state before, the last the one
    after.
    """
    try:
        lines = read_regular(path, MAX_LOG_BYTES, start).decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return LoggedChanges([], set(), [])
    refs: list[RefChange] = []
    changes: dict[tuple[int, str], FileChange] = {}
    gaps: set[str] = set()
    for line in lines:
        with suppress(ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict):
                gaps.update(gap for gap in [found.get("gap")] if isinstance(gap, str))
                if "ref" in found:
                    refs.append(_ref_change(found["ref"]))
                continue
            seq, name, before, after, *link = found
            change = FileChange(
                int(seq),
                path=str(name),
                before=_state(before),
                after=_state(after) if after else None,
                link=str(link[0]) if link else "",
            )
            if change.path.startswith("/") or ".." in change.path.split("/"):
                continue  # not written by makeroom: the log may be part of the checkout
            changes.setdefault((change.seq, change.path), change).after = change.after
    return LoggedChanges(list(changes.values()), gaps, refs)


def _ref_change(raw: Any) -> RefChange:
    """Return a change from the fields of a line. Raises ValueError if makeroom did not write it."""
    seq, repository, name, before, after, note = raw
    change = RefChange(int(seq), repository=repository, name=name, before=before, after=after, note=note)
    is_ref = name.startswith(("refs/", "logs/")) and ".." not in name
    is_named = name in ("HEAD", "branch", "index", "operation") or is_ref
    is_inside = not repository.startswith("/") and ".." not in repository.split("/")
    if not (is_named and is_inside and all(_OBJECT_ID.fullmatch(each) for each in (before, after))):
        raise ValueError(f"not a change of a ref: {raw!r}")
    return change


def changed_files_since(changes: Iterable[FileChange], seqs: Iterable[int]) -> dict[int, int]:
    """Return for each seq the number of files, without directories, that differ from their state then."""
    left = sorted(changes, key=lambda change: change.seq)
    counts: dict[int, int] = {}
    ends: dict[str, PathState | None] = {}
    differing: set[str] = set()
    for seq in sorted(seqs, reverse=True):
        while left and left[-1].seq >= seq:
            change = left.pop()
            kinds = {change.before.kind, change.after.kind if change.after else "none"}
            if "dir" in kinds <= {"dir", "none"}:
                continue
            if change.before == ends.setdefault(change.path, change.after):
                differing.discard(change.path)
            else:
                differing.add(change.path)
        counts[seq] = len(differing)
    return counts


def _encoded(value: object) -> bytes:
    """Return JSON of states by path."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a path is not valid UTF-8
        return json.dumps(value, default=_packed).encode()


def _packed(state: PathState) -> tuple[str | int, ...]:
    attrs = (state.attrs,) if state.attrs else ()
    return (state.kind, state.mode, state.value, state.stamp, *attrs)


def _state(raw: Any) -> PathState:
    kind, mode, value, stamp, *attrs = raw
    return PathState(
        kind, mode=int(mode), value=str(value), stamp=str(stamp), attrs=str(attrs[0]) if attrs else ""
    )
