"""Snapshots of a project's guarded files, and their changes since.

They are for sandboxes that cannot protect single files of a project from changes. Guarded files are those of
tools/guarded/places.py: they control other programs, grant permissions or contain secrets.
"""

# ruff: noqa: PTH119, PTH120

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, groupby
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from tools.files import FOLDER_FLAGS, LISTED_FOLDER, closing, safe_open
from tools.guarded import guarded_elsewhere, guarded_in_project

_MAX_KEPT_BYTES = 1 << 20  # of a file whose content is kept; changes of larger ones are reported, not undone
CLOCK_STEP_NS = 50_000_000  # of file systems' clocks: two changes within it may have the same time

Kind = Literal["file", "folder", "link", "other"]
Stamp = tuple[int, int, int, int, int, int]  # device, inode, size, mode, times of content and of change


class EntryState(Struct, frozen=True):
    """A file, directory or link. `data` is its content or target; None if that is not kept."""

    kind: Kind
    mode: int
    owner: tuple[int, int]
    stamp: Stamp
    data: bytes | None = None
    settled: bool = False  # a later change has another stamp

    def same(self, other: EntryState) -> bool:
        """Return whether nothing has changed that can be restored."""
        mine = (self.kind, self.mode, self.data)
        its = (other.kind, other.mode, other.data)
        return mine == its and (self.data is not None or self.kind == "folder" or self.stamp == other.stamp)


class GuardedState(Struct, frozen=True):
    """The guarded entries of a project by their path from its root, and the directories on the way to them.

    ways  path -> (device, inode)
    root  the project's path
    """

    entries: dict[str, EntryState] = field(default_factory=dict)
    ways: dict[str, tuple[int, int]] = field(default_factory=dict)
    root: str = ""


class GuardedChange(Struct, frozen=True):
    """A change of a guarded entry; `within`: it is new in a directory that was guarded before."""

    path: str
    what: Literal["new", "changed", "removed"]
    within: bool = False


def guarded_state(
    folder: str, before: GuardedState | None = None, *, elsewhere: bool = False, also: Iterable[Path] = ()
) -> GuardedState:
    """Return the current guarded entries. Content unchanged since `before` is not read again. Blocks.

    elsewhere: the directory is not a project, but another one that may be written
    also: other files to guard, such as our settings if they are a link to a file of the project
    """
    guarded = guarded_elsewhere(folder) if elsewhere else guarded_in_project(folder)
    more = (str(path) for path in also if path.is_relative_to(folder))
    layer = sorted(path.removeprefix(f"{folder}/") for path in {*chain(*guarded), *more})
    state = GuardedState({}, ways={}, root=folder)
    earlier = before.entries if before is not None else {}
    with closing(os.open(folder, FOLDER_FLAGS)) as root:
        # Directories within a guarded one are checked this deep, and so many entries in all.
        for _ in range(8):
            left = 5_000 - len(state.entries)
            layer = list(_look_at_layer(state, root, layer[: max(0, left)], earlier))
    return state


def _look_at_layer(
    state: GuardedState, root: int, paths: Iterable[str], earlier: Mapping[str, EntryState]
) -> Iterator[str]:
    """Add the entries at these paths from the root, and yield the paths within the directories among them.

    Directories on the way must not be links.
    """
    # Contents are kept up to this size in all.
    room = (16 << 20) - sum(len(entry.data or b"") for entry in state.entries.values())
    for way, inside in groupby(paths, os.path.dirname):
        with suppress(OSError), closing(safe_open(way or ".", FOLDER_FLAGS, base=root)) as above:
            for path in inside:
                with suppress(OSError):
                    name = os.path.basename(path)
                    entry = state.entries[path] = _entry(above, name, earlier.get(path), room)
                    room -= len(entry.data or b"")
                    if entry.kind == "folder":
                        yield from (f"{path}/{each}" for each in _names_in(above, name))
            for passed in _ways_to(way, state.ways):
                found = os.stat(passed, dir_fd=root, follow_symlinks=False)
                state.ways[passed] = (found.st_dev, found.st_ino)


def rename_aside(folder: int, name: str, why: str) -> str:
    """Rename an entry of an open directory to `NAME.WHY-1f2e3d4c`; return its new name. Raises OSError."""
    aside = f"{name}.{why}-{os.urandom(4).hex()}"
    os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
    return aside


def _names_in(above: int, name: str) -> list[str]:
    """List the names in an open directory, sorted, without sample hooks, which git does not run.

    Raises OSError.
    """
    with closing(os.open(name, LISTED_FOLDER, dir_fd=above)) as here:
        names = sorted(os.listdir(here))  # noqa: PTH208 - a descriptor
    return [each for each in names if not each.endswith(".sample")] if name == "hooks" else names


def changes_since(before: GuardedState, now: GuardedState) -> list[GuardedChange]:
    """Return the changes, directories before their content, except those that `git worktree add` makes."""
    found = []
    guarded = set(before.entries)
    paths = before.entries.keys() | now.entries.keys()
    for path in sorted(paths - _made_with_worktrees(before, now)):
        old = before.entries.get(path)
        new = now.entries.get(path)
        if old is None:
            within = os.path.dirname(path) in guarded
            guarded |= {path} if within else set()
            found.append(GuardedChange(path, what="new", within=within))
        elif new is None:
            found.append(GuardedChange(path, "removed"))
        elif not old.same(new):
            found.append(GuardedChange(path, "changed"))
    return found


def _made_with_worktrees(before: GuardedState, now: GuardedState) -> set[str]:
    """Return the new entries of a worktree that are harmless: files that point to a guarded repository."""
    made = set()
    trees = []
    new = now.entries.keys() - before.entries.keys()
    leading: set[bytes] = set()
    for path in (path for path in new if path.endswith("/commondir")):
        git = os.path.dirname(path)
        shared, kind = os.path.split(os.path.dirname(git))
        guarded = kind == "worktrees" and f"{shared}/config" in now.entries
        if guarded and now.entries[path].data == b"../..\n":
            made.add(path)
            leading.add(os.fsencode(f"gitdir: {now.root}/{git}\n"))
    for path in (path for path in new if path.endswith("/.git")):
        if now.entries[path].data in leading:
            made.add(path)
            trees.append(path.removesuffix(".git"))
    for tree in trees:
        for path in (path for path in new if path.startswith(tree)):
            original = before.entries.get(path.removeprefix(tree))
            if original is not None and original.same(now.entries[path]):
                made.add(path)
    return made


def _ways_to(way: str, known: Mapping[str, object]) -> Iterator[str]:
    while way and way not in known:
        yield way
        way = os.path.dirname(way)


def _entry(above: int, name: str, known: EntryState | None, room: int) -> EntryState:
    """Return the entry of an open directory. Raises OSError."""
    state = os.stat(name, dir_fd=above, follow_symlinks=False)
    if known is not None and known.settled and known.stamp == _stamp(state):
        return known
    settled = time.time_ns() - state.st_ctime_ns > CLOCK_STEP_NS
    kind = _kind_of(state.st_mode)
    data = None
    if kind == "link":
        data = os.fsencode(os.readlink(name, dir_fd=above))
    elif kind == "file" and state.st_size <= min(_MAX_KEPT_BYTES, room):
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with closing(os.open(name, flags, dir_fd=above)) as descriptor:
            state = os.fstat(descriptor)
            data = os.read(descriptor, _MAX_KEPT_BYTES + 1)
            if not stat.S_ISREG(state.st_mode) or len(data) != state.st_size:
                raise OSError(errno.EAGAIN, "it changed while being read")
    owner = (state.st_uid, state.st_gid)
    return EntryState(
        kind, mode=stat.S_IMODE(state.st_mode), owner=owner, stamp=_stamp(state), data=data, settled=settled
    )


def _kind_of(mode: int) -> Kind:
    kinds: Mapping[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    return kinds.get(stat.S_IFMT(mode), "other")


def _stamp(state: os.stat_result) -> Stamp:
    """Return a stamp that no program can preserve when it changes an entry, as it includes the ctime."""
    times = (state.st_mtime_ns, state.st_ctime_ns)
    return (state.st_dev, state.st_ino, state.st_size, state.st_mode, *times)
