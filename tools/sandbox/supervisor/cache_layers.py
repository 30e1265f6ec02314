"""Folders of package managers in the sandbox: what is in them can be read, what is written stays private.

Each gets an overlay whose upper layer belongs to the project, so that nothing that a sandboxed command plants
in a cache is ever used by an open one. A layer is used by one sandbox at a time: what two overlays on it
would do is undefined.
"""

from __future__ import annotations

import os
from contextlib import suppress

from .system_calls import NO_DEVICES, NO_SETUID, mount

_MAX_LAYERS = 8  # of one project: sessions at the same time, and sandboxes that were widened
_PRIVATE = "/tmp/.caches"  # where there is no layer: gone with the session
# Variables for caches, by the folder that they are in usually; and for what builds without network need,
# which are set only where there is no such folder.
_CACHES = {"PIP_CACHE_DIR": "cache", "UV_CACHE_DIR": "cache", "GOCACHE": "cache", "npm_config_cache": "npm"}
_STORES = {"CARGO_HOME": "cargo", "GOMODCACHE": "go"}


def reserve_layer(folder: str | None) -> str | None:
    """A layer of the project, whose layers are in `folder`, that no other session uses; None: there is none.

    It is free again when this process ends.
    """
    import fcntl

    for number in range(_MAX_LAYERS if folder else 0):
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
    """Show a folder in `view`, and keep what is written there in `upper`. Raises OSError: no overlays."""
    for name in ("content", "work"):
        os.makedirs(f"{upper}/{name}", exist_ok=True)
    places = {"lowerdir": path, "upperdir": f"{upper}/content", "workdir": f"{upper}/work"}
    options = ",".join(f"{name}={_quoted(place)}" for name, place in places.items())
    mount("overlay", view, "overlay", NO_SETUID | NO_DEVICES, options + ",userxattr")


def _quoted(path: str) -> str:
    """A path as it stands in the options of an overlay."""
    for char in "\\,:":
        path = path.replace(char, "\\" + char)
    return path


def private_caches(caches: list[str], mounted: list[str], folder: str = _PRIVATE) -> dict[str, str]:
    """Variables that lead package managers to private caches, but for those that have a layer (`mounted`)."""
    covered, present = ({os.path.basename(path).lstrip(".") for path in paths} for paths in (mounted, caches))
    wanted = [name for name, cache in _CACHES.items() if cache not in covered]
    wanted += [name for name, store in _STORES.items() if store not in present]
    return {name: f"{folder}/{name}" for name in wanted}
