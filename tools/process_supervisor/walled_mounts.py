"""The file tree that walled commands see: all of it read-only, but for what their profile names.

Everything here happens in a mount namespace of the spawner's own, where nothing is undone any more: what is
started in it has no capabilities and is denied the system calls.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

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
_KERNEL_SETTINGS = (
    "sys",
    "sysrq-trigger",
    "irq",
    "bus",
    "fs",
    "acpi",
)  # in /proc: uid 0 writes without capabilities
_TEMPORARY = ("/tmp", "/var/tmp")
_MAX_TEMPORARY_BYTES = 4 << 30  # of a tmpfs for temporary files; at most a quarter of the memory


def build_tree(profile: dict[str, Any]) -> None:
    """Turn the file tree of this mount namespace into the profile's. Raises OSError where that is refused.

    The current folder is an empty file system afterwards, which no path leads to.
    """
    mount(None, "/", None, PRIVATE | RECURSIVE)
    places = _writable_places(profile)
    kept = {place: clone_mount(place) for place in places}
    devices = {name: clone_mount(f"/dev/{name}") for name in _DEVICES if os.path.exists(f"/dev/{name}")}
    private = clone_mount(profile["private"])
    set_mount("/", READ_ONLY)
    _make_stage(profile["stage"])
    set_mount(private, READ_ONLY)
    for place in _TEMPORARY:
        _bind("temporary" + place.replace("/", "-"), place)
    kept = {profile["private"]: private, **kept}
    hidden = _existing(profile["hidden"])
    for path in [path for path in hidden if any(_inside(place, path) for place in kept)]:
        _hide_around(path, [place for place in kept if _inside(place, path)], profile)
    for place, fd in kept.items():
        if not os.path.exists(place):
            os.makedirs(place, exist_ok=True)
        attach_mount(fd, place)
    for path in _existing(profile["read_only"]):
        _protect(path)
    for path in [path for path in hidden if not any(_inside(place, path) for place in kept)]:
        _bind("secret" if os.path.isdir(path) else "secret-file", path)
    for path in _existing(profile["records"]):
        _bind("empty", path)
    _make_devices(devices)
    _make_proc()


def hide_records(paths: list[str]) -> None:
    """Show nothing in the folders of our records. Raises OSError."""
    for path in paths:
        if os.path.isdir(path):
            flags = NO_SETUID | NO_DEVICES | NO_EXEC | READ_ONLY
            mount("tmpfs", path, "tmpfs", flags, "mode=0555,size=4k")


def _writable_places(profile: dict[str, Any]) -> list[str]:
    """Outer ones first: what is mounted later lies above."""
    places = [*profile["writable"], profile["scratch"]]
    if profile["project_writable"]:
        git = os.path.join(profile["folder"], ".git")
        places += [profile["folder"], git]  # .git is a mount of its own, or it is renamed away from its masks
    return sorted(path for path in set(places) if os.path.isdir(path) or os.path.isfile(path))


def _make_stage(folder: str) -> None:
    """An unreachable file system with what is put over other places; it becomes the current folder."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = min(memory // 4, _MAX_TEMPORARY_BYTES)
    mount("tmpfs", folder, "tmpfs", NO_SETUID | NO_DEVICES, f"mode=0700,size={size}")
    os.chdir(folder)
    for name, mode in {"secret": 0, "empty": 0o555, "devices": 0o755}.items():
        os.mkdir(name)
        os.chmod(name, mode)
    for place in _TEMPORARY:
        os.mkdir("temporary" + place.replace("/", "-"))
        os.chmod("temporary" + place.replace("/", "-"), 0o1777)
    os.close(os.open("secret-file", os.O_CREAT | os.O_WRONLY, 0))


def _bind(name: str, target: str) -> None:
    """Mount something of the stage on a path, read-only unless it is for temporary files."""
    if os.path.lexists(target):
        mount(name, target, None, BIND)
        if not name.startswith("temporary"):
            set_mount(target, READ_ONLY)


def _hide_around(path: str, places: list[str], profile: dict[str, Any]) -> None:
    """Hide a folder in which some places are needed: show an empty one, in which they are mounted next."""
    name = f"around-{len(os.listdir('.'))}"
    os.mkdir(name, 0o755)
    for place in places:
        inner = name + place[len(path) :]
        if os.path.isdir(place):
            os.makedirs(inner, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(inner), exist_ok=True)
            os.close(os.open(inner, os.O_CREAT | os.O_WRONLY, 0o600))
    _bind(name, path)


def _protect(path: str) -> None:
    mount(path, path, None, BIND | RECURSIVE)
    set_mount(path, READ_ONLY)


def _make_devices(devices: dict[str, int]) -> None:
    for name, fd in devices.items():
        os.close(os.open(f"devices/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
        attach_mount(fd, f"devices/{name}")
    for name, target in {
        "fd": "/proc/self/fd",
        "stdin": "/proc/self/fd/0",
        "stdout": "/proc/self/fd/1",
        "stderr": "/proc/self/fd/2",
        "ptmx": "pts/ptmx",
    }.items():
        os.symlink(target, f"devices/{name}")
    os.mkdir("devices/pts")
    os.mkdir("devices/shm")
    os.mkdir("devices/mqueue")
    mount("devices", "/dev", None, BIND | RECURSIVE)
    set_mount("/dev", READ_ONLY, recursive=False)
    mount("devpts", "/dev/pts", "devpts", NO_SETUID | NO_EXEC, "newinstance,ptmxmode=0666,mode=0620")
    mount("tmpfs", "/dev/shm", "tmpfs", NO_SETUID | NO_DEVICES, f"mode=1777,size={_MAX_TEMPORARY_BYTES // 4}")


def _make_proc() -> None:
    mount("proc", "/proc", "proc", NO_SETUID | NO_DEVICES | NO_EXEC)
    for name in _KERNEL_SETTINGS:
        if os.path.exists(f"/proc/{name}"):
            _protect(f"/proc/{name}")


def _existing(paths: list[str]) -> list[str]:
    with suppress(OSError):
        return sorted(path for path in paths if os.path.lexists(path))
    return []


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
