"""Make the supervisor PID 1 of namespaces of its own, or a subreaper; and limit what runs below it."""

# ruff: noqa: PTH123

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any

MAX_PROCESSES = 4096  # of all commands together, where the kernel can count them apart

_NEWNS, _NEWUSER, _NEWPID = 0x00020000, 0x10000000, 0x20000000  # linux/sched.h
_PDEATHSIG, _SET_NAME, _SUBREAPER = 1, 15, 36  # linux/prctl.h
_REC_SLAVE, _NOSUID_NODEV_NOEXEC = 0x4000 | 0x80000, 2 | 4 | 8  # linux/mount.h


def contain(how: str) -> bool:
    """Become PID 1 of a namespace (`how` is "enclose": True) or subreaper ("plain": False).

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
        _call("prctl", _SUBREAPER, 1, 0, 0, 0)
        _call("prctl", _SET_NAME, b"makeroom-supervisor", 0, 0, 0)
    return False


def _enter_namespaces() -> None:
    """Put the children that are yet to be forked into namespaces of their own. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", _NEWPID | _NEWNS)
    except PermissionError:
        _call("unshare", _NEWPID | _NEWNS | _NEWUSER)
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def _mount_own_proc() -> None:
    """Give the namespaces a /proc of their own, and terminals that are not the person's. Raises OSError."""
    _call("prctl", _PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _call("mount", None, b"/", None, _REC_SLAVE, None)
    _call("mount", b"proc", b"/proc", b"proc", _NOSUID_NODEV_NOEXEC, None)
    with suppress(OSError):  # a container may have none
        options = b"newinstance,ptmxmode=0666,mode=0620"
        _call("mount", b"devpts", b"/dev/pts", b"devpts", _NOSUID_NODEV_NOEXEC & ~4, options)
    kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit())
    if kernel >= (6, 14):  # before, the number counts for the whole machine
        with suppress(OSError), open("/proc/sys/kernel/pid_max", "w") as file:
            file.write(str(MAX_PROCESSES))


def _call(name: str, *values: Any) -> None:
    """Call a function of the C library that answers 0, or -1 with errno. Raises OSError."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    plain = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in values]
    if getattr(library, name)(*plain) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def limit_processes() -> None:
    """Limit the number of processes; as root, also get scheduled before thousands of runaway ones."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = MAX_PROCESSES if soft == resource.RLIM_INFINITY else min(soft, MAX_PROCESSES)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NPROC, (wanted, hard))
    with suppress(OSError, AttributeError):  # what is started runs at the usual priority
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
