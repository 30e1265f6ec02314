"""A weaker sandbox, for where the system gives no namespaces: Landlock, and a filter for what it does not
cover.

Rights of Landlock are a union: what is allowed for a folder is allowed for all that is in it. So a secret
outside of the project is hidden by allowing its neighbours one by one, while nothing within the project can
be hidden or kept from changes. Names in hidden folders can be listed, and modes, owners, times and attributes
of files of the same user can be changed anywhere. There is no network, not even to this machine: a rule for
ports would let them be reached on every other machine too.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from .cache_layers import private_caches
from .shared_calls import deny_shared_calls
from .system_calls import NO_NEW_PRIVS, SUBREAPER, call, drop_capabilities

LEAST_ABI = 3  # Linux 6.2: before, files could be truncated everywhere
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446  # on every architecture
_TELL_ABI = 1
_PATH_BENEATH = 1  # linux/landlock.h, as all that follows
_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_MAKE_CHAR = 1 << 6
_MAKE_BLOCK = 1 << 11
_TRUNCATE = 1 << 14
_IOCTL_DEV = 1 << 15
_FILE_RIGHTS = {3: 15, 5: 16, 9: 17}  # how many there are from that ABI on: ioctl on devices, path sockets
_ALL_PORTS = 0b11  # binding and connecting TCP sockets, from ABI 4
_ALL_SCOPES = 0b11  # abstract sockets and signals of others, from ABI 6
_NETWORK_ABI = 4
_SCOPES_ABI = 6
PATH_SOCKETS_ABI = 9

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV  # what a rule for a file may hold
_OPEN_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_SHARED_MEMORY = "/dev/shm"  # without it Python's multiprocessing fails; other programs of the user share it
_ALWAYS_HIDDEN = ("/dev",)  # terminals hold what the user types, disks hold every file
_MAX_NEIGHBOURS = 20_000  # allowed one by one; those that come after stay hidden
_OOM_SCORE = "800"  # when memory runs out, the kernel shall end a command and not the agent
_USE_FILES_OF_OTHERS = 1 << 1  # CAP_DAC_OVERRIDE; not CHOWN and FOWNER, which reach beyond the project


def confine(profile: dict[str, Any]) -> None:
    """Confine this process and all that it starts to a sandbox's profile, for good. Raises OSError."""
    abi = landlock_abi()
    if abi < LEAST_ABI:
        raise OSError(errno.ENOSYS, f"Landlock {LEAST_ABI} (Linux 6.2) is needed, not {abi}")
    _refuse_secrets_within([profile["folder"], *profile["writable"]], profile["hidden"])
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_OOM_SCORE)
    call("prctl", SUBREAPER, 1, 0, 0, 0)
    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    ruleset = _make_ruleset(abi)
    try:
        for path, rights in _rules(profile):
            _allow(ruleset, path, rights & _file_rights(abi))
        _system_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    drop_capabilities(_USE_FILES_OF_OTHERS if _others_own_files(profile["folder"]) else 0)
    deny_shared_calls(path_sockets=abi >= PATH_SOCKETS_ABI)


def _refuse_secrets_within(writable: list[str], hidden: list[str]) -> None:
    """Raise OSError where a hidden folder is in a writable one, as in a home folder that is the project."""
    for path in hidden:
        if os.path.isdir(path) and _within_any(path, set(writable)):
            raise OSError(errno.EINVAL, f"Landlock cannot hide {path} within what may be written")


def private_places(profile: dict[str, Any]) -> dict[str, str]:
    """Variables for commands, which find the usual places read-only: for temporary files and caches."""
    scratch = profile["scratch"]
    return {"TMPDIR": scratch, **private_caches(profile["caches"], [], f"{scratch}/caches")}


def landlock_abi() -> int:
    """The version of Landlock that the system has; 0 where it has none."""
    try:
        return _system_call(_CREATE_RULESET, None, 0, _TELL_ABI)
    except OSError:
        return 0


def _make_ruleset(abi: int) -> int:
    """A descriptor of a ruleset without rules: nothing that it handles is allowed."""
    ports = _ALL_PORTS if abi >= _NETWORK_ABI else 0
    scopes = _ALL_SCOPES if abi >= _SCOPES_ABI else 0
    handled = struct.pack("=QQQ", _file_rights(abi), ports, scopes)
    size = 8  # older systems know a shorter structure
    if scopes:
        size = 24
    elif ports:
        size = 16
    return _system_call(_CREATE_RULESET, handled, size, 0)


def _file_rights(abi: int) -> int:
    return (1 << max(count for least, count in _FILE_RIGHTS.items() if abi >= least)) - 1


def _rules(profile: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Return the allowed accesses: (path, rights at and below it)."""
    yield "/", _READ_DIR  # names: without it not even the home folder could be listed
    yield from ((path, _READ) for path in readable_places([*profile["hidden"], *_ALWAYS_HIDDEN]))
    yield profile["private"], _READ
    yield profile["folder"], _READ
    change = ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
    own = [profile["folder"]] if profile["project_writable"] else []
    yield from ((path, change) for path in (*own, *profile["writable"], profile["scratch"], _SHARED_MEMORY))
    yield from ((f"/dev/{name}", _DEVICE) for name in _OPEN_DEVICES)


def readable_places(hidden: Iterable[str]) -> Iterator[str]:
    """The largest files and folders that hold nothing hidden. Links are left out: what they name counts."""
    secrets = {os.path.normpath(path) for path in hidden}
    around = {"/"} | {above for path in secrets for above in _folders_above(path)}
    left = _MAX_NEIGHBOURS
    for folder in sorted(around - {path for path in around if _within_any(path, secrets)}):
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.path not in secrets and entry.path not in around and not entry.is_symlink() and left:
                    left -= 1
                    yield entry.path


def _folders_above(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _within_any(path: str, places: set[str]) -> bool:
    return path in places or any(above in places for above in _folders_above(path))


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Add a rule for a path, if it exists. Raises OSError."""
    try:
        place = os.open(path, getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # it went away, or may not even be passed through
    try:
        if not os.path.isdir(f"/proc/self/fd/{place}"):
            rights &= _FILE_ONLY
        if rights:
            rule = struct.pack("=Qi", rights, place)
            _system_call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(place)


def _system_call(number: int, *values: Any) -> int:
    return call("syscall", number, *values)


def _others_own_files(folder: str) -> bool:
    """Return whether this is root, working on a project of somebody else."""
    names = [folder, *(os.path.join(folder, name) for name in os.listdir(folder))]
    return os.geteuid() == 0 and any(os.lstat(name).st_uid for name in names)
