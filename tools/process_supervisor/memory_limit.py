"""Bound the memory of all walled commands together, where a control group can be had.

As root, and as an ordinary user whose part of the groups systemd has handed over. Elsewhere the kernel takes
a command first when memory runs out, as for open commands.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

_GROUPS = "/sys/fs/cgroup"
_NAME = "makeroom-"
_SHARE = (3, 4)  # of the machine's memory
_NEW_S = 60  # for a group to be joined


def make_memory_group(limit: int = 0) -> str | None:
    """The folder of a new control group that is bounded to `limit` bytes, 0: a part of what the machine has.

    None where none can be made. Groups of supervisors that were killed are removed.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    text = str(limit or memory * _SHARE[0] // _SHARE[1])
    with suppress(OSError):
        parent, limits = _place()
        _remove_leftovers(parent)
        group = os.path.join(parent, _NAME + os.urandom(8).hex())
        os.mkdir(group)
        for name in limits:
            with suppress(FileNotFoundError):  # where swapping is not counted
                _write(os.path.join(group, name), "0" if "swap" in name else text)
        return group
    return None


def _remove_leftovers(parent: str) -> None:
    """Remove the groups of supervisors that were killed; one that is made just now may still be empty."""
    with os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_NAME) and time.time() - entry.stat().st_ctime > _NEW_S:
                remove_memory_group(entry.path)


def join_memory_group(group: str | None) -> None:
    """Be bounded by a group from now on, with all that this process starts."""
    if group is not None:
        with suppress(OSError):
            _write(os.path.join(group, "cgroup.procs"), "0")


def remove_memory_group(group: str | None) -> None:
    """Remove a group, if nothing is in it any more."""
    if group is not None:
        with suppress(OSError):
            os.rmdir(group)


def _place() -> tuple[str, tuple[str, ...]]:
    """The folder for a new group, and the files that take its limits. Raises OSError."""
    with open("/proc/self/cgroup") as file:
        rows = [line.rstrip("\n").split(":", 2) for line in file]
    for _, controllers, path in rows:
        if controllers == "memory":
            return f"{_GROUPS}/memory{path}", ("memory.limit_in_bytes",)
    path = next(path for number, _, path in rows if number == "0")
    parent = os.path.dirname(f"{_GROUPS}{path}")  # beside ours: a group that has processes has no inner ones
    with open(f"{parent}/cgroup.subtree_control") as file:
        if "memory" not in file.read().split() or not parent.startswith(_GROUPS):
            raise OSError(0, "memory is not counted here")
    return parent, ("memory.max", "memory.swap.max")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
