"""A sandbox of namespaces made by the system's `bwrap`, for systems on which only bwrap may make them.

Some systems allow user namespaces only to certain programs (AppArmor on Ubuntu), or only to a setuid one.
bwrap builds the tree and starts a spawner in it, which then only has to filter its system calls.
"""

from __future__ import annotations

import errno
import json
import os
import sys

from . import boot, installed_bwrap
from .cache_layers import private_caches
from .mounts import (
    KERNEL_SECRETS,
    KERNEL_SETTINGS,
    MAX_SHARED_BYTES,
    MAX_TEMPORARY_BYTES,
    inside,
    kept_places,
    shown_places,
    usual_variables,
    ways_to,
)

TYPE_CHECKING = False  # see __init__.py
if TYPE_CHECKING:
    from typing import NoReturn

    from .profile_message import ProfileMessage
    from .sandboxed_spawner import SpawnerLink

_TEMPORARY_PLACES = {  # and their maximum sizes in bytes
    "/tmp": MAX_TEMPORARY_BYTES,
    "/var/tmp": MAX_TEMPORARY_BYTES,
    "/dev/shm": MAX_SHARED_BYTES,
}
_STDERR = 2
_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def exec_bwrap(profile: ProfileMessage, link: SpawnerLink) -> NoReturn:
    """Become bwrap, and in it a sandboxed spawner. Errors of bwrap are reported too. Raises OSError."""
    bwrap = installed_bwrap()
    if bwrap is None:
        raise OSError(errno.ENOENT, "bwrap is not installed")
    secret = os.path.join(profile["private"], "secret-file")  # empty and unreadable
    if not os.path.exists(secret):
        os.close(os.open(secret, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0))
    environ = {**usual_variables(profile), **private_caches(profile["caches"], [])}
    network = {"proxy": profile["proxy"], "ports": profile["ports"]}
    given = json.dumps({"hello": link.hello, **network, "environ": environ})
    python = [
        sys.executable,
        "-P",
        "-s",
        "-S",
        "-X",
        f"utf8={sys.flags.utf8_mode}",
        "-c",
        boot("sandboxed_spawner", "serve_within"),
    ]
    python += [os.path.dirname(_PACKAGE), str(link.end.fileno()), str(link.writer), given]
    for fd in (link.end.fileno(), link.writer):
        os.set_inheritable(fd, True)
    os.dup2(link.writer, _STDERR)
    os.execv(bwrap, ["bwrap", *bwrap_arguments(profile, secret), "--", *python])


def bwrap_arguments(profile: ProfileMessage, secret: str) -> list[str]:
    """Return the options for a profile, without paths that do not exist; `secret` is an unreadable file.

    bwrap processes them in order, so a later mount is above an earlier one.
    """
    named = "--unshare-user-try --unshare-pid --unshare-net --unshare-ipc --as-pid-1 --die-with-parent"
    arguments = [
        *named.split(),
        "--cap-drop",
        "ALL",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    for place in (f"/proc/{name}" for name in KERNEL_SETTINGS):  # bwrap leaves them writable for root
        arguments += ["--ro-bind", place, place] if os.path.exists(place) else []
    for place in (f"/proc/{name}" for name in KERNEL_SECRETS):
        arguments += ["--ro-bind", secret, place] if os.path.exists(place) else []
    for place, size in _TEMPORARY_PLACES.items():
        if os.path.isdir(place) and not os.path.islink(place):
            arguments += ["--perms", "1777", "--size", str(size), "--tmpfs", place]
    project = "--bind" if profile["project_writable"] else "--ro-bind"
    needed = (profile["private"], _PACKAGE)
    shown = [word for place in needed for word in ("--ro-bind", place, place)]
    places = sorted({profile["scratch"], profile["folder"], *profile["writable"]})
    as_they_are = shown_places(profile)
    for place in filter(os.path.exists, sorted({*places, *as_they_are})):
        bind = "--ro-bind" if place in as_they_are else "--bind"
        shown += [project if place == profile["folder"] else bind, place, place]
    for path in filter(None, (profile["proxy"], *profile["ports"])):
        shown += ["--ro-bind", path, path]
    hidden = [path for path in profile["hidden"] if os.path.exists(path)]
    around = [path for path in hidden if any(inside(place, path) for place in (*places, *needed))]
    arguments += _masks(around, "0755", secret) + shown
    read_only = [path for path in profile["read_only"] if os.path.lexists(path)]
    writable = [profile["folder"], *profile["writable"]]
    ways = [*ways_to(read_only, writable, profile["program"]), *profile["pinned"]]
    for way in _real_in(writable, ways):
        bind = project if inside(way, profile["folder"]) else "--bind"
        arguments += [bind, way, way]  # a mount cannot be moved away with the protected paths in it
    for path in filter(os.path.exists, kept_places(profile)):  # elsewhere they are read-only anyway
        arguments += ["--ro-bind", path, path]
    arguments += _masks([path for path in hidden if path not in around], "0000", secret)
    arguments += _masks([path for path in profile["records"] if os.path.isdir(path)], "0555", secret)
    arguments += [word for path in around for word in ("--remount-ro", path)]
    return [*arguments, "--chdir", "/"]


def _real_in(places: list[str], paths: list[str]) -> list[str]:
    """Return the targets of the existing paths within the places, since bwrap follows no absolute links."""
    found = sorted({os.path.realpath(path) for path in paths if os.path.exists(path)})
    return [path for path in found if any(inside(path, place) for place in places)]


def _masks(paths: list[str], mode: str, secret: str) -> list[str]:
    """Put an empty directory or an unreadable file in each place; one with places in it is closed last."""
    words = []
    for path in sorted(paths):
        if not os.path.isdir(path):
            words += ["--ro-bind", secret, path]
            continue
        words += ["--perms", mode, "--tmpfs", path]
        words += [] if mode == "0755" else ["--remount-ro", path]
    return words
