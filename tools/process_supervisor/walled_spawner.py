"""Fork the spawner of walled commands: a supervisor of its own, in namespaces of its own.

It is PID 1 of a PID namespace within the supervisor's, so that a walled command sees no other process, and
all of them end when the supervisor does. It serves a socket of its own by the same protocol. Where the system
gives no namespaces, the next weaker kind of wall is tried.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

from . import CANNOT_ENCLOSE, landlock
from .relay import open_listener, proxy_environment, wait_for
from .seccomp import deny_system_calls
from .spawner import Spawner, serve_spawner
from .system_calls import (
    DUMPABLE,
    NEW_IPC,
    NEW_MOUNTS,
    NEW_NETWORK,
    NEW_PIDS,
    PDEATHSIG,
    call,
    drop_capabilities,
)
from .walled_mounts import build_tree

SETUP_LIMIT_S = 5.0  # for a wall, which takes 0.01; a file system that hangs must not hang open commands
_FILE_CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 3  # CHOWN, DAC_OVERRIDE, FOWNER (linux/capability.h)
_SET_INTERFACE_FLAGS, _INTERFACE_UP = 0x8914, 1  # linux/sockios.h, linux/if.h

_MAX_LOOKED_AT = 200  # files of a project whose owner is looked at
_READY = b"ready"
# Variables that name sockets and displays which the wall hides: programs would try them.
_LEADING_OUT = [
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DOCKER_HOST",
    "WSL_INTEROP",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "FTP_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "ftp_proxy",
]

Enter = Callable[[dict[str, Any]], dict[str, str]]  # raise a kind of wall around this process; environment


def raise_wall(end: socket.socket, profile: dict[str, Any], enclosed: bool) -> int:
    """Fork a walled spawner that serves `end`; the pid of what holds it, 0 where no wall can be had.

    Its first message, or ours in its place, tells the level, and why it is no stronger one:
    `{"hello": level, "why": reasons}`.
    """
    reasons = [] if enclosed else ["the system gives no namespaces"]
    for level, enter in _LEVELS.items() if enclosed else [("landlock", _enter_landlock)]:
        hello = {"hello": level, "why": "; ".join(reasons)}
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reader)
            _become_spawner(hello, enter, end, profile, writer)
        os.close(writer)
        if not (why := _failure(reader, pid)):
            return pid
        reasons.append(why)
    with suppress(OSError):
        end.sendall(json.dumps({"hello": "none", "why": "; ".join(reasons)}).encode() + b"\n")
    return 0


def _failure(reader: int, pid: int) -> str:
    """Why a forked process could not be set up; "" where it could."""
    text = b""
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    while poller.poll(SETUP_LIMIT_S * 1000):
        piece = os.read(reader, 4096)
        text += piece
        if not piece:
            break
    else:
        text = b"it took too long to set up"
        os.kill(pid, signal.SIGKILL)
    os.close(reader)
    return "" if text == _READY else text.decode("utf-8", "replace") or "its process ended"


def _become_spawner(
    hello: dict[str, str], enter: Enter, end: socket.socket, profile: dict[str, Any], writer: int
) -> None:
    """In the forked process: set the wall up, tell how that went through `writer`, serve. Does not return."""
    status = CANNOT_ENCLOSE
    try:
        _close_all_but(end.fileno(), writer)
        call("prctl", PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        environ = enter(profile)
        deny_system_calls()
        call("prctl", DUMPABLE, 0, 0, 0, 0)
        os.write(writer, _READY)
        os.close(writer)
        spawner = Spawner(end, enclosed=hello["hello"] == "namespaces")
        spawner.environ = {**dict.fromkeys(_LEADING_OUT, ""), **environ}
        serve_spawner(spawner, hello)
        status = 0
    except OSError as error:
        with suppress(OSError):
            os.write(writer, str(error).encode())
    finally:
        os._exit(status)


def _close_all_but(*kept: int) -> None:
    low = 2
    for fd in (*sorted(kept), 1 << 16):
        os.closerange(low + 1, fd)
        low = fd


def _enter_namespaces(profile: dict[str, Any]) -> dict[str, str]:
    """Become PID 1 of new namespaces, with the profile's file tree, without privileges; more environment.

    What this process was waits outside of the new mount and PID namespaces, and relays. Raises OSError.
    """
    capabilities = _needed_capabilities(profile["folder"])
    call("unshare", NEW_PIDS | NEW_NETWORK | NEW_IPC)
    _raise_loopback()
    proxy = profile["proxy"]
    listener = open_listener() if proxy else None
    child = os.fork()
    if child:
        drop_capabilities()
        _close_all_but(*([listener.fileno()] if listener else []))
        os._exit(os.waitstatus_to_exitcode(wait_for(child, listener, proxy)) & 0xFF)
    call("prctl", PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    call("unshare", NEW_MOUNTS)
    environ = build_tree(profile)
    drop_capabilities(capabilities)
    if listener:
        environ |= proxy_environment(listener.getsockname()[1])
        listener.close()
    return environ


def _enter_landlock(profile: dict[str, Any]) -> dict[str, str]:
    """Stay in everybody's namespaces; more environment. Raises OSError."""
    landlock.confine(profile)
    return landlock.private_places(profile)


# The strongest first; each is tried in a process of its own.
_LEVELS: dict[str, Enter] = {
    "namespaces": _enter_namespaces,
    "landlock": _enter_landlock,
}


def _needed_capabilities(folder: str) -> int:
    """As root, where files of the project have other owners: those to use them as usual; else none."""
    if os.geteuid():
        return 0
    with os.scandir(folder) as entries:
        owners = {entry.stat(follow_symlinks=False).st_uid for entry in islice(entries, _MAX_LOOKED_AT)}
    return _FILE_CAPABILITIES if (owners | {os.stat(folder).st_uid}) - {0} else 0


def _raise_loopback() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, struct.pack("16sh22x", b"lo", _INTERFACE_UP))
