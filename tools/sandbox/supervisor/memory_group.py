"""Limit the memory of commands with a control group of their own, where the system allows it."""

from __future__ import annotations

import os
import time
from contextlib import suppress

_GROUPS = "/sys/fs/cgroup"
_GROUP_NAME = "makeroom-"
_MEMORY_SHARE = (3, 4)  # of the machine's memory


def make_memory_group(limit: int = 0) -> str | None:
    """Make a control group limited to `limit` bytes (0 for a share of the memory), and return its directory.

    This works as root, and as an ordinary user if systemd has delegated groups to the user. Otherwise it
    returns None, and the kernel kills a command first when memory runs out. Groups of killed supervisors are
    removed.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    text = str(limit or memory * _MEMORY_SHARE[0] // _MEMORY_SHARE[1])
    with suppress(OSError):
        parent, limits = _place_of_groups()
        _remove_leftovers(parent)
        group = os.path.join(parent, _GROUP_NAME + os.urandom(8).hex())
        os.mkdir(group)
        for name in limits:
            with suppress(FileNotFoundError):  # if swapping is not counted
                _write_setting(os.path.join(group, name), "0" if "swap" in name else text)
        return group
    return None


def _remove_leftovers(parent: str) -> None:
    """Remove the groups of killed supervisors, except new ones, which may not have been joined yet."""
    with os.scandir(parent) as entries:
        for entry in entries:
            # A newer group may still be joined.
            if entry.name.startswith(_GROUP_NAME) and time.time() - entry.stat().st_ctime > 60:
                remove_memory_group(entry.path)


def join_memory_group(group: str | None) -> None:
    """Join a group, with all future descendants of this process."""
    if group is not None:
        with suppress(OSError):
            _write_setting(os.path.join(group, "cgroup.procs"), "0")


def remove_memory_group(group: str | None) -> None:
    """Remove a group, if it is empty."""
    if group is not None:
        with suppress(OSError):
            os.rmdir(group)


def _place_of_groups() -> tuple[str, tuple[str, ...]]:
    """Return the directory for a new group, and the files for its limits. Raises OSError."""
    with open("/proc/self/cgroup") as file:
        rows = [line.rstrip("\n").split(":", 2) for line in file]
    for _, controllers, path in rows:
        if controllers == "memory":
            return f"{_GROUPS}/memory{path}", ("memory.limit_in_bytes",)
    path = next(path for number, _, path in rows if number == "0")
    # The group lies next to ours, since a group with processes has no inner groups.
    parent = os.path.dirname(f"{_GROUPS}{path}")
    with open(f"{parent}/cgroup.subtree_control") as file:
        if "memory" not in file.read().split() or not parent.startswith(_GROUPS):
            raise OSError(0, "memory control groups are not available")
    return parent, ("memory.max", "memory.swap.max")


def _write_setting(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
