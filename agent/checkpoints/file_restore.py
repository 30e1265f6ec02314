"""Put files back as they were, never through a link: every folder on the way is opened without following.

Order: what must go goes first, the innermost first; then folders, files and links come back, and the
modes of folders last.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from .snapshot import PathState

Action = Literal["restore", "create", "remove", "mode", "lost"]
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DIFF = 2_000  # lines; above, moved lines are not told apart


@dataclass(frozen=True, slots=True)
class RestoreStep:
    """One path on the way back, relative to the project.

    `action` is "lost" where the contents were not kept. `added` and `removed` count the lines that going
    back brings and takes; `by_user` tells that somebody changed it after the agent did.
    """

    path: str
    action: Action
    added: int
    removed: int
    by_user: bool
    target: PathState


def action_of(now: PathState, target: PathState) -> Action:
    """What has to be done to come from one state to another that differs."""
    if target.kind == "none":
        return "remove"
    if now.kind == "none":
        return "create"
    return "mode" if (now.kind, now.value) == (target.kind, target.value) else "restore"


def line_counts(old: bytes, new: bytes) -> tuple[int, int]:
    """(lines added, lines removed) between two contents."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > 2 * _DIFF:
        gone, come = Counter(before), Counter(after)
        return (come - gone).total(), (gone - come).total()
    added = removed = 0
    for tag, i, j, m, n in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += j - i
            added += n - m
    return added, removed


def apply(
    root: Path, steps: Iterable[RestoreStep], get: Callable[[str], bytes | None]
) -> list[tuple[RestoreStep, str]]:
    """Carry steps out. `get` gives contents by hash. Returns those that could not be done, and why."""
    left: list[tuple[RestoreStep, str]] = []
    todo = []
    for step in steps:
        if step.action == "lost":
            left.append((step, "its contents were not kept"))
        else:
            todo.append(step)
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in sorted(todo, key=lambda step: step.path, reverse=True):
            _try(left, step, partial(_clear, top, step))
        failed = {step.path for step, _ in left}
        for step in sorted(todo, key=lambda step: step.path):
            if step.target.kind != "none" and step.path not in failed:
                _try(left, step, partial(_put, top, step, get))
        for step in sorted(todo, key=lambda step: step.path, reverse=True):
            if step.target.kind == "dir" and step.path not in failed:
                _try(left, step, partial(_mode, top, step))
    finally:
        os.close(top)
    return left


def _try(left: list[tuple[RestoreStep, str]], step: RestoreStep, work: Callable[[], None]) -> None:
    try:
        work()
    except OSError as error:
        left.append((step, error.strerror or str(error)))


@contextmanager
def _parent(top: int, path: str) -> Iterator[tuple[int, str]]:
    """(descriptor of the folder, name in it). Raises OSError where a folder on the way is none, or a link."""
    *folders, name = path.split("/")
    fd = os.dup(top)
    try:
        for folder in folders:
            try:
                inner = os.open(folder, _FOLDER, dir_fd=fd)
            except OSError as error:  # a link: ENOTDIR on Linux, ELOOP elsewhere
                if error.errno == errno.ELOOP:
                    raise NotADirectoryError(errno.ENOTDIR, "a link is on the way") from error
                raise
            os.close(fd)
            fd = inner
        yield fd, name
    finally:
        os.close(fd)


def _kind(fd: int, name: str) -> str:
    try:
        mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return "none"
    kinds = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "dir"}
    return kinds.get(stat.S_IFMT(mode), "other")


def _clear(top: int, step: RestoreStep) -> None:
    """Take away what stands in the way: all of it, or what is of another kind than what comes back."""
    with suppress(FileNotFoundError, NotADirectoryError), _parent(top, step.path) as (fd, name):
        kind = _kind(fd, name)
        if kind == "none" or kind == step.target.kind != "link":
            return
        if kind == "dir":
            os.rmdir(name, dir_fd=fd)
        else:
            os.unlink(name, dir_fd=fd)


def _put(top: int, step: RestoreStep, get: Callable[[str], bytes | None]) -> None:
    with _parent(top, step.path) as (fd, name):
        match step.target.kind:
            case "dir":
                if _kind(fd, name) == "none":
                    os.mkdir(name, 0o700, dir_fd=fd)
            case "link":
                os.symlink(step.target.value, name, dir_fd=fd)
            case "file":
                content = get(step.target.value)
                if content is None:
                    raise OSError("its contents are gone")
                _write(fd, name, content, step.target.mode)
            case _:
                raise OSError("it cannot be made again")


def _write(fd: int, name: str, content: bytes, mode: int) -> None:
    """Write beside and rename, so that no half file is ever there; a hard-linked file is written in place."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    linked = _kind(fd, name) == "file" and os.stat(name, dir_fd=fd, follow_symlinks=False).st_nlink > 1
    fresh = name if linked else f".{name[:200]}.makeroom-{os.getpid()}"
    made = os.O_TRUNC if linked else os.O_CREAT | os.O_EXCL
    out = os.open(fresh, flags | made, 0o600, dir_fd=fd)
    try:
        with os.fdopen(out, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(out, mode)
        if not linked:
            os.rename(fresh, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        if not linked:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=fd)
        raise


def _mode(top: int, step: RestoreStep) -> None:
    with _parent(top, step.path) as (fd, name):
        inner = os.open(name, _FOLDER, dir_fd=fd)
        try:
            os.fchmod(inner, step.target.mode)
        finally:
            os.close(inner)
