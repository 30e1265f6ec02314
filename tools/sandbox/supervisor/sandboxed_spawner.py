"""Serve sandboxed commands, in a sandbox that has been set up or that is set up for each command."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence

from .relay import open_listener, open_ports, proxy_environment, serve_relay
from .seccomp import deny_system_calls
from .spawner import Spawner, serve_spawner
from .system_calls import DUMPABLE, call

READY = b"ready"
# Variables for sockets and displays that the sandbox hides, and which programs would try to use.
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


class SpawnerLink:
    """The socket `end` that a sandboxed spawner serves, and its first message.

    The descriptor `writer` reports that it is set up, or the reason why it is not.
    """

    def __init__(self, *, end: socket.socket, hello: dict[str, str], writer: int) -> None:
        self.end = end
        self.hello = hello
        self.writer = writer


class SandboxedStart:
    """The start of sandboxed commands: additional environment, and words before the command."""

    def __init__(self, environ: dict[str, str], prefix: tuple[str, ...] = ()) -> None:
        self.environ = environ
        self.prefix = prefix


def serve_sandboxed(link: SpawnerLink, start: SandboxedStart, relay: int | None = None) -> None:
    """Filter system calls and serve in a sandbox that is otherwise set up. Raises OSError."""
    if sys.platform == "linux":
        deny_system_calls()
        call("prctl", DUMPABLE, 0, 0, 0, 0)
    spawner = Spawner(link.end, enclosed=link.hello["hello"] == "namespaces")
    spawner.environ = {**dict.fromkeys(_LEADING_OUT, ""), **start.environ}
    spawner.prefix = start.prefix
    if relay is not None:
        spawner.owners[relay] = 0  # not part of a command
    os.write(link.writer, READY)
    os.close(link.writer)
    serve_spawner(spawner, link.hello)


def serve_within(end: str, writer: str, given: str) -> None:
    """Serve the descriptor `end` as the first process in the namespaces that bwrap made.

    `given` is JSON: the first message `hello`, additional environment `environ`, the sockets `proxy` and
    `ports`.
    """
    values = json.loads(given)
    for fd in (end, writer):
        os.set_inheritable(int(fd), False)
    link = SpawnerLink(end=socket.socket(fileno=int(end)), hello=values["hello"], writer=int(writer))
    environ = values["environ"]
    relay = None
    if values["proxy"]:
        listener = open_listener()
        environ |= proxy_environment(listener.getsockname()[1])
        relay = fork_relay(listener, values["proxy"], values["ports"])
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stderr.fileno())
    os.close(null)
    serve_sandboxed(link, SandboxedStart(environ), relay)


def fork_relay(listener: socket.socket, proxy: str, ports: Sequence[str] = ()) -> int:
    """Relay in a process of its own, which ends with its parent."""
    opened = open_ports(ports)  # before any command can start
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        close_all_but(listener.fileno(), reader, *opened)
        serve_relay(listener, proxy, reader, opened)
        os._exit(0)
    os.close(reader)
    for own, _ in ((listener, proxy), *opened.values()):
        own.close()
    os.set_inheritable(writer, False)  # and left open
    return pid


def close_all_but(*kept: int) -> None:
    """Close every descriptor except these and 0 to 2."""
    low = 2
    for fd in (*sorted(kept), 1 << 16):
        os.closerange(low + 1, fd)
        low = fd
