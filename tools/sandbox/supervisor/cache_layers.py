"""Directories of package managers in the sandbox: their contents are readable, and writes stay private.

Each gets an overlay whose upper layer belongs to the project. So files that a sandboxed command plants in a
cache are never used outside the sandbox. A layer is used by one sandbox at a time, since the behaviour of two
overlays on it is undefined.
"""

from __future__ import annotations

import os
from contextlib import suppress

from .system_calls import NO_DEVICES, NO_SETUID, mount

_PRIVATE = "/tmp/.caches"  # used without a layer; removed with the session
# Variables for caches by their usual directories, and variables for building without a network, which are
# only set if there is no such directory.
_CACHES = {"PIP_CACHE_DIR": "cache", "UV_CACHE_DIR": "cache", "GOCACHE": "cache", "npm_config_cache": "npm"}
_STORES = {"CARGO_HOME": "cargo", "GOMODCACHE": "go"}


def reserve_layer(folder: str | None) -> str | None:
    """Return an unused layer of the project, whose layers are in `folder`; None if all are in use.

    It is released when this process ends.
    """
    import fcntl

    # Concurrent sessions, and sandboxes with more access, each use one of a project.
    for number in range(8 if folder else 0):
        layer = os.path.join(folder or "", str(number))
        with suppress(OSError):
            os.makedirs(layer, mode=0o700, exist_ok=True)
            lock = os.open(layer, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return layer
            except OSError:
                os.close(lock)
    return None


def mount_overlay(path: str, upper: str, view: str) -> None:
    """Show a directory in `view`, with writes going to `upper`. Raises OSError if overlays do not work."""
    for name in ("content", "work"):
        os.makedirs(f"{upper}/{name}", exist_ok=True)
    places = {"lowerdir": path, "upperdir": f"{upper}/content", "workdir": f"{upper}/work"}
    options = ",".join(f"{name}={_quoted(place)}" for name, place in places.items())
    mount("overlay", view, "overlay", NO_SETUID | NO_DEVICES, options + ",userxattr")


def _quoted(path: str) -> str:
    """Return a path, escaped for the options of an overlay."""
    for char in "\\,:":
        path = path.replace(char, "\\" + char)
    return path


def private_caches(caches: list[str], mounted: list[str], folder: str = _PRIVATE) -> dict[str, str]:
    """Return variables that select private caches, except for caches that have a layer (`mounted`)."""
    covered, present = ({os.path.basename(path).lstrip(".") for path in paths} for paths in (mounted, caches))
    wanted = [name for name, cache in _CACHES.items() if cache not in covered]
    wanted += [name for name, store in _STORES.items() if store not in present]
    return {name: f"{folder}/{name}" for name in wanted}
