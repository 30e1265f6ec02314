"""Restore files: plan the steps that bring them back to before a fact of the transcript, and carry them out.

Links are never followed, in any part of a path. First files are removed,
innermost first. Then directories, files and links are made. The modes of directories are set last.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tools.files import FOLDER_FLAGS, closing, safe_open
from transcripts.wording import cause_of, pluralize

from .change_log import FileChange
from .content_store import ContentStore
from .file_attributes import IncompleteRestoreError, set_attributes
from .large_contents import copy_file, write_all
from .recorder import Checkpoints, is_left
from .snapshot import NOTHING, THEIRS, UNSEEN, PathState

Action = Literal["restore", "create", "remove", "mode", "lost"]
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class RestoreStep(Struct, frozen=True):
    """One step of a restore: bring one path, relative to the project, to the state `target`.

    action         "lost" if the contents were not kept
    added          the number of lines that the step adds, as `removed`
    changed_since  others have changed the file after the session did, as far as known
    interrupted    the session was interrupted while it changed the file, so others may not have
    folder         a directory is made, removed or changed
    link           another name that the file had, which it does not get back
    """

    path: str
    action: Action
    added: int
    removed: int
    changed_since: bool
    target: PathState
    folder: bool
    interrupted: bool
    link: str = ""

    @property
    def title(self) -> str:
        """The thing that the step restores: its path."""
        return self.path


def count_steps(steps: Iterable[RestoreStep]) -> str:
    """Return the number of files and of directories that the steps change, in words."""
    counts = Counter("directory" if step.folder else "file" for step in steps)
    plurals = {"file": "files", "directory": "directories"}
    return " and ".join(pluralize(counts[kind], kind, plurals[kind]) for kind in plurals if counts[kind])


def plan_restore(checkpoints: Checkpoints, to_seq: int) -> list[RestoreStep]:
    """Return the steps that bring the files back to before fact `to_seq`, by path. Changes nothing.

    This finishes the recording of pending changes, so call it between two tool calls, in a thread.
    """
    checkpoints.finish()
    checkpoints.catch_up()
    first: dict[str, FileChange] = {}
    last: dict[str, FileChange] = {}
    for change in checkpoints.log.changes:
        if change.seq >= to_seq:
            first.setdefault(change.path, change)
            last[change.path] = change
    theirs = checkpoints.recording.left_by_others()
    for path, change in last.items():
        if change.after is not None and is_left(change.after, theirs.get(path)):
            last[path] = replace(change, after=THEIRS)
    steps = (_step(checkpoints, first[path].before, last[path]) for path in sorted(first))
    return [
        replace(step, link=first[step.path].link if _is_alone(checkpoints.root / step.path) else "")
        for step in steps
        if step is not None
    ]


def restore(checkpoints: Checkpoints, plan: list[RestoreStep], with_changed: bool) -> dict[RestoreStep, str]:
    """Carry out a plan. Returns the reason for each step that was not done.

    Files that others have changed since are only restored `with_changed`. The current state is recorded
    first, so that restoring can be undone in the same way.
    """
    failures: dict[RestoreStep, str] = {}
    for step in plan:
        if step.changed_since and not with_changed:
            may = "may have been" if step.interrupted else "was"
            failures[step] = f"kept, since it {may} changed outside this session"
            continue
        checkpoints.announce(checkpoints.root / step.path)
        if step.action == "lost":
            failures[step] = "its earlier contents were not stored"
    todo = sorted((step for step in plan if step not in failures), key=lambda step: step.path)
    made = [step for step in todo if step.target.kind != "none"]
    folders = [step for step in reversed(made) if step.target.kind == "dir"]
    make = partial(_make, checkpoints.scanner.store, _written_in_place(checkpoints, made))
    with closing(os.open(checkpoints.root, os.O_DIRECTORY)) as root_fd:
        phases = ((folders[::-1], _unlock), (todo[::-1], _clear), (made, make), (folders, _set_mode))
        for phase, work in phases:
            for step in phase:
                try:
                    if step not in failures:
                        work(root_fd, step)
                except OSError as error:
                    failures[step] = cause_of(error)
    checkpoints.finish()
    return failures


def _written_in_place(checkpoints: Checkpoints, made: Iterable[RestoreStep]) -> set[str]:
    """Return the paths of files with other names that may be written without changing another file.

    A command has changed the content at all names. But after `mv a c`, the other name of `a` is one of `c` as
    well, and writing to `c` would change it. After `ln -f a c`, it would change `a`.
    """
    files = [step for step in made if step.target.kind == "file"]
    created = {step.target.value for step in files if step.action == "create"}
    targets = {step.path: (step.target.value, step.target.mode) for step in files}
    found: set[str] = set()
    for step in files:
        path = checkpoints.root / step.path
        with suppress(OSError):
            if path.lstat().st_nlink == 1 or checkpoints.scanner.store.held.holds(path):
                continue
            now = checkpoints.scanner.paths.with_digest(step.path, checkpoints.scanner.paths.state(step.path))
            names = [step.path, *checkpoints.scanner.paths.other_names(path)]
            if now.value not in created and len({targets.get(name) for name in names}) == 1:
                found.add(step.path)
    return found


def line_counts(old: bytes, new: bytes) -> tuple[int, int]:
    """Return (lines added, lines removed) between two contents."""
    before = old.splitlines()
    after = new.splitlines()
    if len(before) + len(after) > 4_000:  # then moved lines are not recognized
        had = Counter(before)
        has = Counter(after)
        return (has - had).total(), (had - has).total()
    added = removed = 0
    for tag, i, j, m, n in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += j - i
            added += n - m
    return added, removed


def _step(checkpoints: Checkpoints, target: PathState, last: FileChange) -> RestoreStep | None:
    """Return the step from the current state of a path to `target`; None if they do not differ."""
    store = checkpoints.scanner.store
    now = checkpoints.scanner.paths.state(last.path)
    if target.value in store.large:
        now = checkpoints.scanner.paths.with_digest(last.path, now)
    if not checkpoints.scanner.paths.differ(last.path, target, now):
        return None
    interrupted = last.after in (None, UNSEEN)
    hidden = last.after == NOTHING and _is_locked(checkpoints.root / last.path)
    changed_since = not hidden and (
        last.after is None or checkpoints.scanner.paths.differ(last.path, last.after, now)
    )
    new = store.get(target.value) if target.kind == "file" else b""
    step = RestoreStep(
        last.path,
        action="restore",
        added=0,
        removed=0,
        changed_since=changed_since,
        target=target,
        folder={target.kind, now.kind} <= {"dir", "none"},
        interrupted=interrupted,
    )
    is_missing = bool(target.value) and new is None and target.value not in store.large
    if is_missing or not checkpoints.can_restore(target):
        return replace(step, action="lost")
    old = (store.get(now.value) if now.kind == "file" else None) or b""
    action: Action = "restore"
    if "none" in (target.kind, now.kind):
        action = "remove" if target.kind == "none" else "create"
    elif (now.kind, now.value, now.stamp) == (
        target.kind,
        target.value,
        target.stamp,
    ) and now.mode != target.mode:
        action = "mode"
    added, removed = line_counts(old, new) if new is not None else (0, 0)
    return replace(step, action=action, added=added, removed=removed)


def _is_alone(path: Path) -> bool:
    """Return whether a file does not exist or has no other name."""
    try:
        return path.lstat().st_nlink <= 1
    except OSError:
        return True


def _is_locked(path: Path) -> bool:
    """Return whether a directory above a path may not be searched. A scan sees nothing of what is in it."""
    try:
        path.lstat()
    except PermissionError:
        return True
    except OSError:
        pass  # it does not exist
    return False


@contextmanager
def _parent(root_fd: int, path: str) -> Iterator[tuple[int, str]]:
    """Return (descriptor of the directory, name in it). Raises OSError if one is missing or a link."""
    folder, _, name = path.rpartition("/")
    try:
        fd = safe_open(folder, _FOLDER_FLAGS, base=root_fd)
    except OSError as error:  # a link: ENOTDIR on Linux, ELOOP elsewhere
        if error.errno == errno.ELOOP:
            raise NotADirectoryError(errno.ENOTDIR, "its path contains a link") from error
        raise
    with closing(fd):
        yield fd, name


def _kind(fd: int, name: str) -> str:
    try:
        mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return "none"
    kinds = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "dir"}
    return kinds.get(stat.S_IFMT(mode), "other")


def _clear(root_fd: int, step: RestoreStep) -> None:
    """Remove what is at the path, except a file or directory that keeps its kind."""
    with suppress(FileNotFoundError, NotADirectoryError), _parent(root_fd, step.path) as (fd, name):
        kind = _kind(fd, name)
        if kind == "none" or kind == step.target.kind != "link":
            return
        if kind == "dir":
            os.rmdir(name, dir_fd=fd)
        else:
            os.unlink(name, dir_fd=fd)


def _make(store: ContentStore, in_place: Container[str], root_fd: int, step: RestoreStep) -> None:
    write = partial(_write, target=step.target, in_place=step.path in in_place)
    with _parent(root_fd, step.path) as (fd, name):
        match step.target.kind:
            case "dir":
                if _kind(fd, name) == "none":
                    os.mkdir(name, 0o700, dir_fd=fd)
            case "link":
                os.symlink(step.target.value, name, dir_fd=fd)
            case "file" if not step.target.value:
                store.held.put_back(step.target.stamp, step.target.mode, fd, name)
            case "file":
                content = store.get(step.target.value)
                if content is not None:
                    write(fd, name, fill=partial(write_all, content))
                else:
                    with store.large.opened(step.target.value) as stored:
                        write(fd, name, fill=partial(copy_file, stored))
            case _:
                raise OSError("a file of its kind cannot be restored")


def _write(fd: int, name: str, target: PathState, *, in_place: bool, fill: Callable[[int], None]) -> None:
    """Write to a temporary file and rename it, so that an incomplete file is never visible.

    A file with several hard links may be written `in_place`, which keeps the links. Raises
    IncompleteRestoreError if some properties were not restored.
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    linked = in_place and _kind(fd, name) == "file"
    written = name if linked else f".makeroom-restore-{os.getpid()}"
    flags |= os.O_TRUNC if linked else os.O_CREAT | os.O_EXCL
    out = os.open(written, flags, 0o600, dir_fd=fd)
    try:
        with closing(out):
            fill(out)
            if os.geteuid() == 0:
                _give_owner(fd, name, out)
            os.fchmod(out, target.mode)
            left = set_attributes(out, target.attrs)
        if not linked:
            os.rename(written, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        if not linked:
            with suppress(OSError):
                os.unlink(written, dir_fd=fd)
        raise
    if left:
        raise IncompleteRestoreError(left)


def _give_owner(fd: int, name: str, out: int) -> None:
    """Let root's new file belong to the owner of the file in its place, else to that of its directory."""
    with suppress(OSError):
        found = os.stat(name if _kind(fd, name) == "file" else ".", dir_fd=fd, follow_symlinks=False)
        os.fchown(out, found.st_uid, found.st_gid)


def _unlock(root_fd: int, step: RestoreStep) -> None:
    """Let the owner write in a directory until its final mode is set, which may deny all access."""
    missing = (FileNotFoundError, NotADirectoryError)
    with suppress(*missing), closing(safe_open(step.path, FOLDER_FLAGS, base=root_fd)) as fd:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            # A descriptor that only names a directory can be changed through /proc.
            opened = f"/proc/self/fd/{fd}" if sys.platform == "linux" else fd
            os.chmod(opened, mode | stat.S_IRWXU)  # noqa: PTH101


def _set_mode(root_fd: int, step: RestoreStep) -> None:
    with closing(safe_open(step.path, _FOLDER_FLAGS, base=root_fd)) as fd:
        os.fchmod(fd, step.target.mode)
        if left := set_attributes(fd, step.target.attrs):
            raise IncompleteRestoreError(left)
