"""A model of what a power loss leaves on a disk: what was synced is sure, of all else anything may be there.

A file or folder keeps its name only once the folder that holds it was synced, and its content only as far
as it was synced itself. Of the rest a loss may leave all, a part, zeros, zeros with a part behind them, or
nothing. What a sync that failed was to save may be gone although a later sync succeeds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from transcripts.disk import Disk

from .failing_disk import disk_that

Left = dict[str, bytes | None]  # path -> content, None for a folder


@dataclass(slots=True, eq=False)
class Node:
    """A file, or a folder; `lost`: a sync of it failed, and no later one can be relied on."""

    folder: bool = False
    live: bytes = b""
    sure: bytes = b""
    lost: bool = False


@dataclass(slots=True)
class Platter:
    """The tree below `root`, which is sure to be there: as programs see it, and as the disk has it."""

    root: Path
    live: dict[str, Node] = field(default_factory=dict)
    sure: dict[str, Node] = field(default_factory=dict)

    def made(self, path: str, *, folder: bool = False) -> Node:
        return self.live.setdefault(path, Node(folder))

    def write(self, node: Node, data: bytes) -> None:
        node.live += data

    def synced(self, path: str, node: Node) -> None:
        if not node.folder and path != str(self.root):
            node.sure = node.sure if node.lost else node.live
            return
        for side in (self.sure, self.live):
            for name in [each for each in side if str(Path(each).parent) == path]:
                if name in self.live:
                    self.sure[name] = self.live[name]
                else:
                    self.sure.pop(name, None)

    def renamed(self, old: str, new: str) -> None:
        self.live[new] = self.live.pop(old)

    def removed(self, path: str) -> None:
        self.live.pop(path, None)

    def losses(self, seeds: int) -> Iterator[Left]:
        """What may be left, each state once: the least, the most, and some chosen at random."""
        seen: list[Left] = []
        for choice in (_least, _most, *(_Chance(seed) for seed in range(seeds))):
            left = self._left(choice)
            if left not in seen:
                seen.append(left)
                yield left

    def _left(self, choice: Any) -> Left:
        left: Left = {}
        for path in sorted({*self.live, *self.sure}):
            node = choice(self.sure.get(path), self.live.get(path))
            above = str(Path(path).parent)
            if node is None or (above != str(self.root) and above not in left):
                continue
            left[path] = None if node.folder else choice.content(node)
        return left


class _Least:
    def __call__(self, sure: Node | None, live: Node | None) -> Node | None:
        return sure

    def content(self, node: Node) -> bytes:
        return node.sure


class _Most:
    def __call__(self, sure: Node | None, live: Node | None) -> Node | None:
        return live

    def content(self, node: Node) -> bytes:
        return node.live


class _Chance:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def __call__(self, sure: Node | None, live: Node | None) -> Node | None:
        return self.random.choice((sure, live))

    def content(self, node: Node) -> bytes:
        sure, live = node.sure, node.live
        if not live.startswith(sure) or node.lost:
            return self.random.choice((sure, live))
        tail = live[len(sure) :]
        cut, hole = (self.random.randrange(len(tail) + 1) for _ in "ab")
        torn = (tail[:cut], tail[:cut] + bytes(len(tail) - cut), bytes(hole) + tail[hole:], bytes(len(tail)))
        return sure + self.random.choice((b"", tail, *torn))


_least, _most = _Least(), _Most()


def lay_out(left: Left, root: Path, elsewhere: Path) -> None:
    """Make what is left real, in another place than it was."""
    elsewhere.mkdir()
    for path, content in left.items():
        there = elsewhere / Path(path).relative_to(root)
        if content is None:
            there.mkdir(mode=0o700)
        else:
            there.write_bytes(content)


@dataclass(slots=True)
class Recorder:
    """Writes the calls to a disk down on a platter; `before` is told of each one that is about to be made."""

    platter: Platter
    before: Any = lambda name: None
    fails: Any = lambda name: 0
    nodes: dict[int, tuple[str, Node]] = field(default_factory=dict)

    def disk(self) -> Disk:
        return disk_that(self._call)

    def _call(self, name: str, call: Any, args: tuple[Any, ...]) -> Any:
        self.before(name)
        if error := self.fails(name):
            if name == "sync":
                self.nodes[args[0]][1].lost = True
            raise OSError(error, os.strerror(error))
        found = call(*args)
        getattr(self, f"_{name}", lambda *_: None)(found, *args)
        return found

    def _open(self, fd: int, path: str, flags: int, mode: int) -> None:
        folder = bool(flags & os.O_DIRECTORY)
        if path == str(self.platter.root):
            self.nodes[fd] = path, Node(folder=True)
            return
        node = self.platter.made(path, folder=folder)
        if flags & os.O_TRUNC:
            node.live = b""
        self.nodes[fd] = path, node

    def _write(self, count: int, fd: int, data: bytes) -> None:
        self.platter.write(self.nodes[fd][1], data[:count])

    def _truncate(self, found: None, fd: int, size: int) -> None:
        self.nodes[fd][1].live = self.nodes[fd][1].live[:size]

    def _sync(self, found: None, fd: int) -> None:
        self.platter.synced(*self.nodes[fd])

    def _rename(self, found: None, old: str, new: str) -> None:
        self.platter.renamed(old, new)

    def _mkdir(self, found: None, path: str, mode: int) -> None:
        self.platter.made(path, folder=True)
