"""The file tree that walled commands see: all of it read-only, but for what their profile names.

Everything here happens in a mount namespace of the spawner's own, where nothing is undone any more: what is
started in it has no capabilities and is denied the system calls. What is put over other places comes from the
stage, a file system in memory to which no path leads and which is the current folder meanwhile.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .cache_layers import mount_caches, mount_overlay, private_caches, reserve_layer
from .system_calls import (
    BIND,
    NO_DEVICES,
    NO_EXEC,
    NO_SETUID,
    PRIVATE,
    READ_ONLY,
    RECURSIVE,
    attach_mount,
    clone_mount,
    mount,
    set_mount,
)

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
# In /proc: uid 0 may write there without a capability.
KERNEL_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
KERNEL_SECRETS = ("kcore", "keys", "timer_list", "sched_debug", "kmsg")
_TEMPORARY = {"/tmp": "tmp", "/var/tmp": "var-tmp"}  # and their places on the stage
MAX_TEMPORARY_BYTES = 4 << 30  # of temporary files, which are in memory; at most a quarter of it
MAX_SHARED_BYTES = 1 << 30  # of shared memory


def build_tree(profile: dict[str, Any]) -> dict[str, str]:
    """Turn the tree of this mount namespace into the profile's; the environment that goes with it.

    Raises OSError where the system refuses that.
    """
    mount(None, "/", None, PRIVATE | RECURSIVE)  # what the person mounts later does not appear here, writable
    layer = reserve_layer(profile["cache_layers"])
    places = _take_places(profile)
    devices = {name: clone_mount(f"/dev/{name}") for name in _DEVICES if os.path.exists(f"/dev/{name}")}
    set_mount("/", READ_ONLY)
    _set_read_only(profile, places)
    hidden = _existing(profile["hidden"])
    around = [path for path in hidden if any(inside(place, path) for place in places)]
    _make_stage(profile["stage"], around, list(places), devices)
    if layer is not None:
        attach_mount(layer, "layer")
    _mount_temporary()
    for number, path in enumerate(around):
        mount(f"around-{number}", path, None, BIND)
        set_mount(path, READ_ONLY, recursive=False)
    environ = {"TMPDIR": "/tmp", **_mount_places(places, _existing(profile["caches"]), layer is not None)}
    set_mount(".", READ_ONLY, recursive=False)  # what is taken from the stage now is read-only as well
    _mount_masks(profile, [path for path in hidden if path not in around])
    _mount_devices()
    _mount_proc()
    os.chdir("/")
    return environ


def _take_places(profile: dict[str, Any]) -> dict[str, int]:
    """The project, what else is writable and our private folder, as they are now; outer ones first."""
    paths = {profile["folder"], profile["private"], profile["scratch"], *profile["writable"]}
    if "/" in paths:
        raise OSError(0, "the root folder cannot be writable")
    found = sorted(path for path in paths if os.path.isdir(path) or os.path.isfile(path))
    return {path: clone_mount(path) for path in found}


def _set_read_only(profile: dict[str, Any], places: dict[str, int]) -> None:
    set_mount(places[profile["private"]], READ_ONLY)
    if not profile["project_writable"]:
        set_mount(places[profile["folder"]], READ_ONLY)


def _mount_places(places: dict[str, int], caches: list[str], layered: bool) -> dict[str, str]:
    """Mount the places, and the layers of caches below or above them; more environment for commands."""
    outer = [cache for cache in caches if any(inside(place, cache) for place in places)]
    mounted = mount_caches(outer) if layered else []
    for place, fd in places.items():
        if not os.path.lexists(place):
            _make_way(place, place)
        attach_mount(fd, place)
    mounted += mount_caches([cache for cache in caches if cache not in outer]) if layered else []
    return private_caches(caches, mounted)


def _mount_masks(profile: dict[str, Any], hidden: list[str]) -> None:
    """Keep from changes what steers programs, hide secrets, show nothing in our records."""
    read_only = _existing(profile["read_only"])
    for path in ways_to(read_only, os.path.join(profile["folder"], ".git")):
        mount(path, path, None, BIND | RECURSIVE)
    for path in read_only:
        if inside(os.path.realpath(path), profile["folder"]):  # else it is read-only as it is
            with _where_it_is():
                _protect(path)
    for path in hidden:
        with _where_it_is():
            mount("secret" if os.path.isdir(path) else "secret-file", path, None, BIND)
    for path in _existing(profile["records"]):
        mount("empty", path, None, BIND)


def hide_record(path: str) -> None:
    """Show nothing in a folder of our records, where the system allows that."""
    flags = NO_SETUID | NO_DEVICES | NO_EXEC | READ_ONLY
    with suppress(OSError):
        mount("tmpfs", path, "tmpfs", flags, "mode=0555,size=4k")


def _make_stage(folder: str, around: list[str], places: list[str], devices: dict[str, int]) -> None:
    """Mount the stage, prepare on it what is needed, and make it the current folder."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = min(memory // 4, MAX_TEMPORARY_BYTES)
    mount("tmpfs", folder, "tmpfs", NO_SETUID | NO_DEVICES, f"mode=0700,size={size}")
    os.chdir(folder)
    for name, mode in {"secret": 0, "empty": 0o555, "layer": 0o700, "tmp": 0o1777, "var-tmp": 0o1777}.items():
        os.mkdir(name)
        os.chmod(name, mode)
    _make_file("secret-file", 0)
    for number, path in enumerate(around):
        os.mkdir(f"around-{number}")
        for place in places:
            if inside(place, path):
                _make_way(f"around-{number}{place[len(path) :]}", place)
    for name in ("pts", "shm", "mqueue"):
        os.makedirs(f"devices/{name}")
    for name, target in _DEVICE_LINKS.items():
        os.symlink(target, f"devices/{name}")
    for name, fd in devices.items():
        _make_file(f"devices/{name}", 0o666)
        attach_mount(fd, f"devices/{name}")


def _make_file(path: str, mode: int) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, mode))


def _make_way(path: str, like: str) -> None:
    """Make an empty folder or file on which something like the other can be mounted."""
    if os.path.isfile(like):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _make_file(path, 0o600)
    else:
        os.makedirs(path, exist_ok=True)


def _mount_temporary() -> None:
    """Show what is in the folders for temporary files, and keep what is written there in memory.

    A socket that somebody serves there cannot be reached through an overlay.
    """
    for place, name in _TEMPORARY.items():
        if os.path.isdir(place) and not os.path.islink(place):
            try:
                os.makedirs(f"over/{name}/content")
                os.chmod(f"over/{name}/content", 0o1777)
                mount_overlay(place, f"over/{name}")
            except OSError:
                mount(name, place, None, BIND)


def ways_to(paths: list[str], top: str) -> list[str]:
    """The folder `top` and those on the ways from it to the paths in it, outer ones first.

    Each becomes a mount: else it could be moved away, with what is protected in it, and be made anew.
    """
    ways = {top} if os.path.isdir(top) else set()
    for path in paths:
        while path.startswith(top + "/"):
            path = os.path.dirname(path)
            ways.add(path)
    return sorted(ways)


def _protect(path: str) -> None:
    mount(path, path, None, BIND | RECURSIVE)
    set_mount(path, READ_ONLY)


def _mount_devices() -> None:
    mount("devices", "/dev", None, BIND | RECURSIVE)
    mount("devpts", "/dev/pts", "devpts", NO_SETUID | NO_EXEC, "newinstance,ptmxmode=0666,mode=0620")
    mount("tmpfs", "/dev/shm", "tmpfs", NO_SETUID | NO_DEVICES, f"mode=1777,size={MAX_SHARED_BYTES}")


def _mount_proc() -> None:
    mount("proc", "/proc", "proc", NO_SETUID | NO_DEVICES | NO_EXEC)
    for name in KERNEL_SETTINGS:
        if os.path.exists(f"/proc/{name}"):
            _protect(f"/proc/{name}")
    for name in KERNEL_SECRETS:
        if os.path.exists(f"/proc/{name}"):
            mount("secret-file", f"/proc/{name}", None, BIND)


@contextmanager
def _where_it_is() -> Iterator[None]:
    """Pass over a path that is gone by now, or out of reach for us anyway."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.ELOOP):
            raise


def _existing(paths: list[str]) -> list[str]:
    return sorted(path for path in paths if os.path.lexists(path))


def inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
