"""List the files of a directory: with git if it is installed, otherwise in Python."""

from __future__ import annotations

# A Path raises for a directory that may not be read, and is slow for thousands of names.
import os
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from time import monotonic

from msgspec import Struct

from tools.files import in_thread
from tools.processes import CommandContext

from .checkout import Checkout
from .git_listing import is_ignored_by_git, list_with_git, tracked_although_ignored
from .git_script import GitFailed
from .project_files import MAX_LISTED_FILES, is_left_out, regular_files

_LIST_LIMIT_S = 10.0
_WALK_LIMIT_S = 8.0  # after which a walk in Python returns its results; less than FILE_TIMEOUT_S


class Listing(Struct, frozen=True):
    """Names below a directory, which may be incomplete unless `complete`."""

    names: Sequence[str]
    complete: bool = True


class _Tree(Struct, frozen=True):
    """The files of one working tree, and the repositories in it."""

    files: Sequence[str]
    nested: Sequence[str] = ()
    complete: bool = True


async def list_folder(context: CommandContext, folder: str, limit_s: float = _LIST_LIMIT_S) -> Listing:
    """List the files below a real directory that git does not ignore, including repositories in it.

    There may be names of links and of removed files. Raises FileError.
    """
    until = monotonic() + limit_s
    names = list[str]()
    waiting = deque([""])
    complete = True
    for _ in range(200):  # repositories in the directory
        if not waiting or len(names) > MAX_LISTED_FILES or monotonic() > until:
            break
        prefix = waiting.popleft()
        tree = await _list_tree(context, f"{folder.rstrip('/')}/{prefix}", until)
        complete = complete and tree.complete
        names += [f"{prefix}{name}" for name in tree.files] if prefix else tree.files
        nested = (f"{prefix}{name}/" for name in tree.nested)
        waiting += (each for each in nested if os.path.lexists(f"{folder}/{each}.git"))
    complete = complete and not waiting and len(names) <= MAX_LISTED_FILES
    return Listing(names[:MAX_LISTED_FILES], complete)


async def _list_tree(context: CommandContext, folder: str, until: float) -> _Tree:
    folder = folder.rstrip("/") or "/"
    try:
        found = await list_with_git(context, folder, max(until - monotonic(), 0.1))
    except GitFailed:
        files, complete = await in_thread(lambda abandoned: _walk(folder, abandoned))
        return _Tree(files, complete=complete)
    return _Tree(found.files, found.nested)


def _walk(folder: str, abandoned: threading.Event) -> tuple[list[str], bool]:
    until = monotonic() + _WALK_LIMIT_S
    return regular_files(Path(folder), lambda: abandoned.is_set() or monotonic() > until, ("file", "link"))


async def is_ignored(context: CommandContext, folder: str) -> bool:
    """Return whether a directory or a parent is ignored or has no work in it. Raises FileError."""
    try:
        return await is_ignored_by_git(context, folder, _LIST_LIMIT_S)
    except GitFailed:
        return await in_thread(lambda abandoned: is_left_out(Path(folder)))


async def hidden_by_patterns(context: CommandContext, folder: str) -> Sequence[str]:
    """List the tracked files that ripgrep skips because of ignore patterns. Raises FileError."""
    if Checkout.around(Path(folder)) is None:
        return ()
    try:
        return await tracked_although_ignored(context, folder, _LIST_LIMIT_S)
    except GitFailed:
        return ()


def file_states(folder: str, names: Iterable[str], links: bool = False) -> dict[str, os.stat_result]:
    """Return the states of those names that are regular files, with `links` also links. Blocks.

    Files behind a linked directory are left out, though git's index may name them.
    """
    prefix = folder.rstrip("/")
    real = {"": True}

    def is_real(inner: str) -> bool:
        if inner not in real:
            real[inner] = is_real(inner.rpartition("/")[0]) and _is_folder(f"{prefix}/{inner}")
        return real[inner]

    states = dict[str, os.stat_result]()
    for name in names:
        try:
            state = os.lstat(f"{prefix}/{name}")
        except OSError:
            continue
        wanted = S_ISREG(state.st_mode) or (links and S_ISLNK(state.st_mode))
        if wanted and is_real(name.rpartition("/")[0]):
            states[name] = state
    return states


def _is_folder(path: str) -> bool:
    try:
        return S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
