"""Make the supervisor PID 1 of its own namespaces, or a subreaper, and limit its descendants."""

from __future__ import annotations

import os
import signal
import sys
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
