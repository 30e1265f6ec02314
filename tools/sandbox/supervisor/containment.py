"""Make the supervisor PID 1 of namespaces of its own, or a subreaper; and limit what runs below it."""

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
_NEW_GROUP_S = 60  # for a group to be joined
MAX_PROCESSES = 4096  # of all commands together, where the kernel can count them apart


def contain(how: str) -> bool:
    """Become PID 1 of a namespace (`how` is "enclose": True) or subreaper ("plain", "refused": False).

    Only the process that shall serve returns. Raises OSError where the system gives no namespaces.
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
    """Put the children that are yet to be forked into namespaces of their own. Raises OSError."""
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
    """Give the namespaces a /proc of their own, and terminals that are not the user's. Raises OSError."""
    call("prctl", PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    mount(None, "/", None, RECURSIVE | SLAVE)
    mount("proc", "/proc", "proc", NO_SETUID | NO_DEVICES | NO_EXEC)
    with suppress(OSError):  # a container may have none
        mount("devpts", "/dev/pts", "devpts", NO_SETUID | NO_EXEC, "newinstance,ptmxmode=0666,mode=0620")
    kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit())
    if kernel >= (6, 14):  # before, the number counts for the whole machine
        with suppress(OSError), open("/proc/sys/kernel/pid_max", "w") as file:
            file.write(str(MAX_PROCESSES))


def limit_processes() -> None:
    """Limit the number of processes; as root, also get scheduled before thousands of runaway ones."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = MAX_PROCESSES if soft == resource.RLIM_INFINITY else min(soft, MAX_PROCESSES)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NPROC, (wanted, hard))
    if sys.platform == "linux":
        with suppress(OSError):  # what is started runs at the usual priority
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def make_memory_group(limit: int = 0) -> str | None:
    """The folder of a new control group that is bounded to `limit` bytes, 0: a part of what the machine has.

    It can be made as root, and as an ordinary user whose part of the groups systemd has handed over; None
    elsewhere: there the kernel takes a command first when memory runs out. Groups of supervisors that were
    killed are removed.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    text = str(limit or memory * _MEMORY_SHARE[0] // _MEMORY_SHARE[1])
    with suppress(OSError):
        parent, limits = _place_of_groups()
        _remove_leftovers(parent)
        group = os.path.join(parent, _GROUP_NAME + os.urandom(8).hex())
        os.mkdir(group)
        for name in limits:
            with suppress(FileNotFoundError):  # where swapping is not counted
                _write_setting(os.path.join(group, name), "0" if "swap" in name else text)
        return group
    return None


def _remove_leftovers(parent: str) -> None:
    """Remove the groups of supervisors that were killed; one that is made just now may still be empty."""
    with os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_GROUP_NAME) and time.time() - entry.stat().st_ctime > _NEW_GROUP_S:
                remove_memory_group(entry.path)


def join_memory_group(group: str | None) -> None:
    """Be bounded by a group from now on, with all that this process starts."""
    if group is not None:
        with suppress(OSError):
            _write_setting(os.path.join(group, "cgroup.procs"), "0")


def remove_memory_group(group: str | None) -> None:
    """Remove a group, if nothing is in it any more."""
    if group is not None:
        with suppress(OSError):
            os.rmdir(group)


def _place_of_groups() -> tuple[str, tuple[str, ...]]:
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


def _write_setting(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
