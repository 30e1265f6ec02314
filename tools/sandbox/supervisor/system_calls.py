"""System calls for which Python has no function: mounts, namespaces, privileges."""

from __future__ import annotations

import os
from contextlib import suppress

TYPE_CHECKING = False  # see __init__.py
if TYPE_CHECKING:
    from typing import Any

# CLONE_ of linux/sched.h.
NEW_MOUNTS = 0x00020000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000
# PR_ of linux/prctl.h.
PDEATHSIG = 1
DUMPABLE = 4
SET_NAME = 15
BOUNDING_DROP = 24
SUBREAPER = 36
NO_NEW_PRIVS = 38
AMBIENT = 47
# Flags of mounts, the same for MS_ and MOUNT_ATTR_ in linux/mount.h.
_READ_ONLY = 1
NO_SETUID = 2
NO_DEVICES = 4
NO_EXEC = 8
# Flags of mount(2) only, MS_ in the same header.
BIND = 0x1000
RECURSIVE = 0x4000
PRIVATE = 1 << 18
SLAVE = 1 << 19
# System calls with the same number on every architecture, which the C library may not know.
_OPEN_TREE = 428
_MOVE_MOUNT = 429
_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_AT_NOFOLLOW = 0x100
_LIBRARY: list[Any] = []  # the C library, once loaded
_CAPABILITY_VERSION = 0x20080522  # linux/capability.h: two words of 32 bits each


def call(name: str, *values: Any) -> int:
    """Call a function of the C library that returns -1 and sets errno on failure. Raises OSError."""
    import ctypes

    if not _LIBRARY:
        _LIBRARY.append(ctypes.CDLL(None, use_errno=True))
    plain = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    answer: int = getattr(_LIBRARY[0], name)(*plain)
    if answer == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return answer


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Call mount(2). Raises OSError, which names the target."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    try:
        call("mount", words[0], words[1], words[2], flags, words[3])
    except OSError as error:
        raise OSError(error.errno, f"mount on {target}: {os.strerror(error.errno or 0)}") from None


def clone_mount(path: str, recursive: bool = True, follow: bool = True) -> int:
    """Return a descriptor of a copy of the current mounts at and below a path. Raises OSError.

    Without `follow`, a link itself is taken.
    """
    flags = 1 | os.O_CLOEXEC | (_AT_RECURSIVE if recursive else 0) | (0 if follow else _AT_NOFOLLOW)
    return call("syscall", _OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)


def attach_mount(fd: int, path: str) -> None:
    """Mount the result of `clone_mount` on a path, and close the descriptor. Raises OSError."""
    try:
        call("syscall", _MOVE_MOUNT, fd, b"", _AT_FDCWD, os.fsencode(path), 4)
    finally:
        os.close(fd)


def make_read_only(where: str | int, recursive: bool = True) -> None:
    """Make the mount at a path or a descriptor, with `recursive` those below it too, read-only.

    Raises OSError.
    """
    import struct

    fd, path = (_AT_FDCWD, os.fsencode(where)) if isinstance(where, str) else (where, b"")
    flags = (_AT_RECURSIVE if recursive else 0) | (0 if path else _AT_EMPTY_PATH)
    wanted = struct.pack("=4Q", _READ_ONLY, 0, 0, 0)
    call("syscall", _MOUNT_SETATTR, fd, path, flags, wanted, len(wanted))


def drop_capabilities(keep: int = 0) -> None:
    """Drop every capability except those in the bit mask `keep` that we have. Raises OSError.

    With no_new_privs this is permanent. An ordinary user cannot reduce the bounding set, and has no
    capabilities.
    """
    import struct

    with open("/proc/sys/kernel/cap_last_cap", "rb") as file:
        last = int(file.read())
    for number in range(last + 1):
        if not keep >> number & 1:
            with suppress(PermissionError):
                call("prctl", BOUNDING_DROP, number, 0, 0, 0)
    call("prctl", AMBIENT, 4, 0, 0, 0)  # PR_CAP_AMBIENT_CLEAR_ALL
    keep &= _permitted_capabilities()
    low = keep & 0xFFFFFFFF
    high = keep >> 32
    head = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    call("capset", head, struct.pack("=6I", low, low, low, high, high, high))


def _permitted_capabilities() -> int:
    with open("/proc/self/status", "rb") as file:
        words = next(line.split() for line in file if line.startswith(b"CapPrm:"))
    return int(words[1], 16)
