"""Set up a sandbox: fork the spawner of sandboxed commands in the strongest sandbox that the system allows.

With namespaces it is PID 1 of a PID namespace within the supervisor's. So sandboxed commands see no other
processes, and all of them end when the supervisor does. Each kind is tried in a process of its own.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from . import CANNOT_ENCLOSE
from .memory_group import join_memory_group
from .mounts import build_tree
from .relay import open_listener, open_ports, proxy_environment, wait_for
from .sandboxed_spawner import (
    READY,
    SandboxedStart,
    SpawnerLink,
    close_all_but,
    fork_relay,
    serve_sandboxed,
)
from .system_calls import NEW_IPC, NEW_MOUNTS, NEW_NETWORK, NEW_PIDS, PDEATHSIG, call, drop_capabilities

TYPE_CHECKING = False  # see __init__.py
if TYPE_CHECKING:
    from typing import NoReturn

    from .profile_message import ProfileMessage

SETUP_LIMIT_S = 5.0  # for a sandbox, which takes 0.01; a hanging file system must not block other commands
_FILE_CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 3  # CHOWN, DAC_OVERRIDE, FOWNER (linux/capability.h)
_MAX_LOOKED_AT = 200  # files of a project whose owner is checked
_SET_INTERFACE_FLAGS = 0x8914
_INTERFACE_UP = 1  # linux/sockios.h, linux/if.h
# By containment of the supervisor: the reason why only weaker sandboxes are available.
_REASONS = {"plain": "namespaces are disabled", "refused": "the system does not allow namespaces"}


class SharedState:
    """The state that the sandboxes of a session share; `how` is the containment of their supervisor."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.views: dict[str, str] = {}  # place -> directory of the stage that shows it
        self.descriptor = -1  # of the stage
        self.group: str | None = None  # limits the memory
        self.namespaces: list[int] = []  # descriptors of the network and IPC namespaces of the first sandbox


class SandboxRequest:
    """A request for a sandbox: its profile, the state shared with others, and its spawner's link."""

    def __init__(self, profile: ProfileMessage, shared: SharedState, link: SpawnerLink) -> None:
        self.profile = profile
        self.shared = shared
        self.link = link


def start_sandbox(end: socket.socket, profile: ProfileMessage, shared: SharedState) -> int:
    """Fork a sandboxed spawner that serves `end`; return the pid of its container, 0 if there is no sandbox.

    The spawner's first message, or ours if there is no spawner, contains the level and the reasons why it is
    not stronger: `{"hello": level, "why": reasons}`.
    """
    how = shared.how
    reasons = [_REASONS[how]] if how in _REASONS else []
    for enter in _WAYS["sandbox-exec" if sys.platform == "darwin" else how]:
        hello = {"hello": _LEVELS[enter], "why": "; ".join(reasons)}
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reader)
            link = SpawnerLink(end=end, hello=hello, writer=writer)
            _become_spawner(enter, SandboxRequest(profile, shared, link))
        os.close(writer)
        if not (why := _failure(reader, pid)):
            return pid
        reasons.append(why)
    with suppress(OSError):
        end.sendall(json.dumps({"hello": "none", "why": "; ".join(dict.fromkeys(reasons))}).encode() + b"\n")
    return 0


def _failure(reader: int, pid: int) -> str:
    """Return the reason why a forked process could not be set up, "" if it could."""
    text = b""
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    while poller.poll(SETUP_LIMIT_S * 1000):
        piece = os.read(reader, 4096)
        text += piece
        if not piece or text.endswith(READY):
            break
    else:
        text = b"it took too long to set up"
        os.kill(pid, signal.SIGKILL)
    os.close(reader)
    if text.endswith(READY):
        return ""
    *_, last = ["its process ended", *text.decode("utf-8", "replace").strip().splitlines()]
    return last[:150]


def _become_spawner(enter: Callable[[SandboxRequest], SandboxedStart], request: SandboxRequest) -> None:
    """Set up the sandbox in the forked process, report the outcome, and serve. Does not return."""
    link = request.link
    status = CANNOT_ENCLOSE
    signal.set_wakeup_fd(-1)  # its pipe is about to be closed
    try:
        given = (*request.shared.namespaces, request.shared.descriptor)
        close_all_but(link.end.fileno(), link.writer, *(fd for fd in given if fd >= 0))
        join_memory_group(request.shared.group)
        if sys.platform == "linux":
            call("prctl", PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        serve_sandboxed(link, enter(request))
        status = 0
    except (OSError, ValueError) as error:
        with suppress(OSError):
            os.write(link.writer, str(error).encode())
    finally:
        os._exit(status)


def _enter_namespaces(request: SandboxRequest) -> SandboxedStart:
    """Become PID 1 of new namespaces, with the profile's file tree, without privileges.

    Network and IPC are those of the session's first sandbox. The original process stays outside the new mount
    and PID namespaces, where it waits and relays. Raises OSError.
    """
    profile = request.profile
    shared = request.shared
    capabilities = _needed_capabilities(profile["folder"])
    if shared.namespaces:
        for namespace, kind in zip(shared.namespaces, (NEW_NETWORK, NEW_IPC), strict=True):
            call("setns", namespace, kind)
            os.close(namespace)
        call("unshare", NEW_PIDS)
    else:
        call("unshare", NEW_PIDS | NEW_NETWORK | NEW_IPC)
        _raise_loopback()
    proxy = profile["proxy"]
    listener = open_listener() if proxy else None
    ports = open_ports(profile["ports"]) if proxy else {}  # before any command can start
    child = os.fork()
    if child:
        drop_capabilities()
        close_all_but(*([listener.fileno()] if listener else []), *ports)
        os._exit(os.waitstatus_to_exitcode(wait_for(child, listener, proxy, ports)) & 0xFF)
    for port, _ in ports.values():
        port.close()
    call("prctl", PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The new namespace has a copy of it, which contains the current directory.
    os.fchdir(shared.descriptor)
    os.close(shared.descriptor)
    call("unshare", NEW_MOUNTS)
    environ = build_tree(profile, shared.views)
    drop_capabilities(capabilities)
    if listener:
        environ |= proxy_environment(listener.getsockname()[1])
        listener.close()
    return SandboxedStart(environ)


def _enter_bwrap(request: SandboxRequest) -> NoReturn:
    """Become bwrap, which continues with `serve_within`. Does not return, or raises OSError."""
    from .bubblewrap import exec_bwrap  # 0.3 ms, and only a machine without its own namespaces needs it

    exec_bwrap(request.profile, request.link)


def _enter_landlock(request: SandboxRequest) -> SandboxedStart:
    """Confine this process with Landlock, in the system's namespaces. Raises OSError."""
    from . import landlock  # 1 ms, and only a weaker sandbox needs it

    landlock.confine(request.profile)
    return SandboxedStart(landlock.private_places(request.profile) | landlock.FEW_RETRIES)


def _enter_sandbox_exec(request: SandboxRequest) -> SandboxedStart:
    """Start every command with sandbox-exec; this process stays outside. Raises OSError, ValueError."""
    from .landlock import private_places  # 1 ms, as above
    from .seatbelt import SANDBOX_EXEC, seatbelt_profile  # 0.3 ms, and only macOS needs it

    profile = request.profile
    port = None
    if profile["proxy"]:
        listener = open_listener()
        port = listener.getsockname()[1]
        fork_relay(listener, profile["proxy"])
    private = os.path.realpath(profile["private"])
    scratch = os.path.realpath(profile["scratch"])
    text = seatbelt_profile({**profile, "private": private, "scratch": scratch}, port)
    prefix = (SANDBOX_EXEC, "-p", text)
    tried = os.posix_spawn(SANDBOX_EXEC, [*prefix, "/usr/bin/true"], {})
    if os.waitpid(tried, 0)[1]:
        raise OSError(errno.EPERM, "sandbox-exec rejects the profile")
    environ = private_places(profile) | (proxy_environment(port) if port else {})
    return SandboxedStart(environ, prefix)


_LEVELS: dict[Callable[[SandboxRequest], SandboxedStart], str] = {
    _enter_namespaces: "namespaces",
    _enter_bwrap: "namespaces",
    _enter_landlock: "landlock",
    _enter_sandbox_exec: "sandbox-exec",
}
# By containment of the supervisor, strongest first. Each is tried in a process of its own.
_WAYS: dict[str, tuple[Callable[[SandboxRequest], SandboxedStart], ...]] = {
    "enclose": (_enter_namespaces, _enter_landlock),
    "refused": (_enter_bwrap, _enter_landlock),
    "plain": (_enter_landlock,),
    "sandbox-exec": (_enter_sandbox_exec,),
}


def _needed_capabilities(folder: str) -> int:
    """Return the capabilities that root needs for project files of other owners; 0 for none."""
    if os.geteuid():
        return 0
    with os.scandir(folder) as entries:
        owners = {entry.stat(follow_symlinks=False).st_uid for entry in islice(entries, _MAX_LOOKED_AT)}
    return _FILE_CAPABILITIES if (owners | {os.stat(folder).st_uid}) - {0} else 0


def _raise_loopback() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, struct.pack("16sh22x", b"lo", _INTERFACE_UP))
