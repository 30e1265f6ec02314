"""Simulates what a power loss leaves on a disk: what was synced for sure, and of the rest anything.

A file or directory keeps its name only once the directory that holds it was synced, and its content only as
far as it was synced itself. Of the rest a loss may leave all, a part, zeros, zeros with a part behind them,
or nothing. What a failed sync was to save may be lost although a later sync succeeds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from transcripts.storage.disk import Disk

from .failing_disk import disk_with

DiskState = dict[str, bytes | None]  # path -> content, None for a directory


@dataclass(slots=True, eq=False)
class Node:
    """A file or directory: its content as programs see it, and as far as it is synced.

    `sync_failed`: no later sync of it can be relied on.
    """

    folder: bool = False
    live: bytes = b""
    synced: bytes = b""
    sync_failed: bool = False


@dataclass(slots=True)
class SimulatedDisk:
    """The files below `root`, by path: as programs see them, and with the names that are synced.

    `root` itself is on the disk.
    """

    root: Path
    live: dict[str, Node] = field(default_factory=dict)
    synced: dict[str, Node] = field(default_factory=dict)

    def create(self, path: str, *, folder: bool = False) -> Node:
        return self.live.setdefault(path, Node(folder))

    def write(self, node: Node, data: bytes) -> None:
        node.live += data

    def sync(self, path: str, node: Node) -> None:
        if not node.folder and path != str(self.root):
            node.synced = node.synced if node.sync_failed else node.live
            return
        for side in (self.synced, self.live):
            for name in [each for each in side if str(Path(each).parent) == path]:
                if name in self.live:
                    self.synced[name] = self.live[name]
                else:
                    self.synced.pop(name, None)

    def rename(self, old: str, new: str) -> None:
        self.live[new] = self.live.pop(old)

    def remove(self, path: str) -> None:
        self.live.pop(path, None)

    def after_power_loss(self, seeds: int) -> Iterator[DiskState]:
        """Yield the states that may be left, each once: the least, the most, and some chosen at random."""
        seen: list[DiskState] = []
        for choice in (_Least(), _Most(), *(_Random(seed) for seed in range(seeds))):
            left = self._left(choice)
            if left not in seen:
                seen.append(left)
                yield left

    def _left(self, choice: Any) -> DiskState:
        left: DiskState = {}
        for path in sorted({*self.live, *self.synced}):
            node = choice.node(self.synced.get(path), self.live.get(path))
            above = str(Path(path).parent)
            if node is None or (above != str(self.root) and above not in left):
                continue
            left[path] = None if node.folder else choice.content(node)
        return left


class _Least:
    """Only what was synced is left."""

    def node(self, synced: Node | None, live: Node | None) -> Node | None:
        return synced

    def content(self, node: Node) -> bytes:
        return node.synced


class _Most:
    """All that programs saw is left."""

    def node(self, synced: Node | None, live: Node | None) -> Node | None:
        return live

    def content(self, node: Node) -> bytes:
        return node.live


class _Random:
    """Some of what was not synced is left."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def node(self, synced: Node | None, live: Node | None) -> Node | None:
        return self.random.choice((synced, live))

    def content(self, node: Node) -> bytes:
        synced, live = node.synced, node.live
        if not live.startswith(synced) or node.sync_failed:
            return self.random.choice((synced, live))
        tail = live[len(synced) :]
        cut, hole = (self.random.randrange(len(tail) + 1) for _ in "ab")
        torn = (tail[:cut], tail[:cut] + bytes(len(tail) - cut), bytes(hole) + tail[hole:], bytes(len(tail)))
        return synced + self.random.choice((b"", tail, *torn))


def write_out(left: DiskState, root: Path, elsewhere: Path) -> None:
    """Make real files of what is left, below another directory than `root`."""
    elsewhere.mkdir()
    for path, content in left.items():
        there = elsewhere / Path(path).relative_to(root)
        if content is None:
            there.mkdir(mode=0o700)
        else:
            there.write_bytes(content)


def _named(argument: Any) -> Any:
    """Return an argument of a call, a path below an open directory by the name of that directory."""
    if isinstance(argument, str) and argument.startswith("/proc/self/fd/"):
        return str(Path(argument).parent.resolve() / Path(argument).name)
    return argument


@dataclass(slots=True)
class DiskRecorder:
    """Repeats real calls on a simulated disk.

    `before` is called with the name of each call before it is made; `fails` gives the errno that it fails
    with, else 0.
    """

    simulated: SimulatedDisk
    before: Any = lambda name: None
    fails: Any = lambda name: 0
    nodes: dict[int, tuple[str, Node]] = field(default_factory=dict)

    def disk(self) -> Disk:
        return disk_with(self._call)

    def _call(self, name: str, call: Any, args: tuple[Any, ...]) -> Any:
        self.before(name)
        if error := self.fails(name):
            if name == "sync":
                self.nodes[args[0]][1].sync_failed = True
            raise OSError(error, os.strerror(error))
        found = call(*args)
        getattr(self, f"_{name}", lambda *_: None)(found, *map(_named, args))
        return found

    def _open(self, fd: int, path: str, flags: int, mode: int) -> None:
        folder = bool(flags & os.O_DIRECTORY)
        if path == str(self.simulated.root):
            self.nodes[fd] = path, Node(folder=True)
            return
        node = self.simulated.create(path, folder=folder)
        if flags & os.O_TRUNC:
            node.live = b""
        self.nodes[fd] = path, node

    def _write(self, count: int, fd: int, data: bytes) -> None:
        self.simulated.write(self.nodes[fd][1], data[:count])

    def _truncate(self, found: None, fd: int, size: int) -> None:
        self.nodes[fd][1].live = self.nodes[fd][1].live[:size]

    def _sync(self, found: None, fd: int) -> None:
        self.simulated.sync(*self.nodes[fd])

    def _rename(self, found: None, old: str, new: str) -> None:
        self.simulated.rename(old, new)

    def _mkdir(self, found: None, path: str, mode: int) -> None:
        self.simulated.create(path, folder=True)
