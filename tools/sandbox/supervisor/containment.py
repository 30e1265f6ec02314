"""Make the supervisor PID 1 of its own namespaces, or a subreaper, and limit its descendants."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

from .system_calls import (
    NEW_MOUNTS,
    NEW_PIDS,
    NEW_USER,
    NO_DEVICES,
    NO_EXEC,
    NO_SETUID,
    PDEATHSIG,
    RECURSIVE,
    SET_NAME,
    SLAVE,
    SUBREAPER,
    call,
    mount,
)

_GROUPS = "/sys/fs/cgroup"
_GROUP_NAME = "makeroom-"
_MEMORY_SHARE = (3, 4)  # of the machine's memory
MAX_PROCESSES = 4096  # of all commands together, if the kernel can count them separately


def contain(how: str) -> bool:
    """Become PID 1 of a namespace (`how` is "enclose": True) or subreaper ("plain", "refused": False).

    Only the process that will serve returns. Raises OSError if namespaces are not available.
    """
    if how == "enclose":
        _enter_namespaces()
        child = os.fork()
        if child:
            os.closerange(3, 64)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
        _mount_own_proc()
        return True
    if sys.platform == "linux":
        call("prctl", SUBREAPER, 1, 0, 0, 0)
        call("prctl", SET_NAME, b"makeroom-supervisor", 0, 0, 0)
    return False


def _enter_namespaces() -> None:
    """Put all future children into namespaces of their own. Raises OSError."""
    user = os.geteuid()
    group = os.getegid()
    try:
        call("unshare", NEW_PIDS | NEW_MOUNTS)
    except PermissionError:
        call("unshare", NEW_PIDS | NEW_MOUNTS | NEW_USER)
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def _mount_own_proc() -> None:
    """Give the namespaces their own /proc, and terminals other than the user's. Raises OSError."""
    call("prctl", PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    mount(None, "/", None, RECURSIVE | SLAVE)
    mount("proc", "/proc", "proc", NO_SETUID | NO_DEVICES | NO_EXEC)
    with suppress(OSError):  # a container may have none
        mount("devpts", "/dev/pts", "devpts", NO_SETUID | NO_EXEC, "newinstance,ptmxmode=0666,mode=0620")
    kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit())
    if kernel >= (6, 14):  # before, the limit applies to the whole machine
        with suppress(OSError), open("/proc/sys/kernel/pid_max", "w") as file:
            file.write(str(MAX_PROCESSES))


def limit_processes() -> None:
    """Limit the number of processes. As root, also raise the priority above thousands of runaway ones."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = MAX_PROCESSES if soft == resource.RLIM_INFINITY else min(soft, MAX_PROCESSES)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NPROC, (wanted, hard))
    if sys.platform == "linux":
        with suppress(OSError):  # descendants run at the usual priority
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


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
    parent = os.path.dirname(
        f"{_GROUPS}{path}"
    )  # next to ours, since a group with processes has no inner groups
    with open(f"{parent}/cgroup.subtree_control") as file:
        if "memory" not in file.read().split() or not parent.startswith(_GROUPS):
            raise OSError(0, "memory control groups are not available")
    return parent, ("memory.max", "memory.swap.max")


def _write_setting(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
