"""A weaker sandbox for systems without namespaces: Landlock, and a system call filter for the rest.

Landlock's rights are a union: rights on a directory apply to everything in it. So a secret outside the
project is hidden by allowing its siblings one by one, but nothing within the project can be hidden or
protected from changes. Names in hidden directories can be listed, and modes, owners, times and attributes of
the user's files can be changed anywhere. There is no network, not even to this machine, since a rule for
ports would allow them on every other machine too.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress

from .cache_layers import private_caches
from .mounts import DEVICES
from .shared_calls import deny_shared_calls
from .system_calls import NO_NEW_PRIVS, SUBREAPER, call, drop_capabilities

TYPE_CHECKING = False  # see __init__.py
if TYPE_CHECKING:
    from typing import Any

    from .profile_message import ProfileMessage

LEAST_ABI = 3  # Linux 6.2; before, files could be truncated everywhere
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
_FILE_RIGHTS = {3: 15, 5: 16, 9: 17}  # their number from that ABI: ioctl on devices, path sockets
_ALL_PORTS = 0b11  # binding and connecting TCP sockets, from ABI 4
_ALL_SCOPES = 0b11  # abstract sockets and signals of others, from ABI 6
_NETWORK_ABI = 4
_SCOPES_ABI = 6
PATH_SOCKETS_ABI = 9

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
_FILE_ONLY = (
    _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
)  # the rights that a rule for a file may have
_SHARED_MEMORY = "/dev/shm"  # required by Python's multiprocessing, shared with the user's other programs
_ALWAYS_HIDDEN = ("/dev",)  # terminals contain the user's input, disks contain every file
_MAX_NEIGHBOURS = 20_000  # allowed one by one; further ones stay hidden
_OOM_SCORE = "800"  # when memory runs out, the kernel should kill a command and not the agent
_USE_FILES_OF_OTHERS = 1 << 1  # CAP_DAC_OVERRIDE; without CHOWN and FOWNER, which affect other files


def confine(profile: ProfileMessage) -> None:
    """Confine this process and its descendants permanently to a sandbox's profile. Raises OSError."""
    abi = landlock_abi()
    if abi < LEAST_ABI:
        raise OSError(
            errno.ENOSYS, f"Landlock ABI {LEAST_ABI} (Linux 6.2) is required, but the system has {abi}"
        )
    _refuse_secrets_within([profile["folder"], *profile["writable"]], profile["hidden"])
    if profile["program"] and (profile["project_writable"] or profile["writable"]):
        raise OSError(errno.EPERM, f"Landlock cannot protect the program itself in {profile['program'][0]}")
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
    """Raise OSError if a hidden path is in a writable one, as when the home directory is the project."""
    for path in hidden:
        if os.path.isdir(path) and _within_any(path, set(writable)):
            raise OSError(errno.EINVAL, f"Landlock cannot hide {path}, which is in a writable directory")


# Without a network retries only take time: npm would take 71 s, pip 13 s. pip names the reason at a retry.
FEW_RETRIES = {"npm_config_fetch_retries": "0", "PIP_RETRIES": "1"}


def private_places(profile: ProfileMessage) -> dict[str, str]:
    """Return variables for temporary files and caches, whose usual directories are read-only."""
    scratch = profile["scratch"]
    return {"TMPDIR": scratch, **private_caches(profile["caches"], [], f"{scratch}/caches")}


def landlock_abi() -> int:
    """Return the system's Landlock ABI version, 0 if it has none."""
    try:
        return _system_call(_CREATE_RULESET, None, 0, _TELL_ABI)
    except OSError:
        return 0


def _make_ruleset(abi: int) -> int:
    """Return the descriptor of a ruleset without rules, which allows none of the rights it handles."""
    ports = _ALL_PORTS if abi >= _NETWORK_ABI else 0
    scopes = _ALL_SCOPES if abi >= _SCOPES_ABI else 0
    handled = struct.pack("=QQQ", _file_rights(abi), ports, scopes)
    size = 8  # older systems have a shorter structure
    if scopes:
        size = 24
    elif ports:
        size = 16
    return _system_call(_CREATE_RULESET, handled, size, 0)


def _file_rights(abi: int) -> int:
    return (1 << max(count for least, count in _FILE_RIGHTS.items() if abi >= least)) - 1


def _rules(profile: ProfileMessage) -> Iterator[tuple[str, int]]:
    """Return the allowed accesses: (path, rights at and below it)."""
    yield "/", _READ_DIR  # names; without it not even the home directory could be listed
    yield from ((path, _READ) for path in readable_places([*profile["hidden"], *_ALWAYS_HIDDEN]))
    yield profile["private"], _READ
    yield profile["folder"], _READ
    change = ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
    own = [profile["folder"]] if profile["project_writable"] else []
    yield from ((path, change) for path in (*own, *profile["writable"], profile["scratch"], _SHARED_MEMORY))
    yield from ((f"/dev/{name}", _DEVICE) for name in DEVICES)


def readable_places(hidden: Iterable[str]) -> Iterator[str]:
    """Return the largest files and directories without hidden paths, except links: their targets count."""
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
        return  # it was removed, or cannot be traversed
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
    """Return whether this is root, working on another user's project."""
    names = [folder, *(os.path.join(folder, name) for name in os.listdir(folder))]
    return os.geteuid() == 0 and any(os.lstat(name).st_uid for name in names)
