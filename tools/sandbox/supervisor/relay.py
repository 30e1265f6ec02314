"""Connect sandboxed commands, which only have a loopback interface, to the session's network proxy.

The relay runs in their network namespace, but outside their mount and PID namespaces, so no command can see
it. It listens on a loopback port and joins each connection to the proxy's Unix socket. It inspects nothing.
The proxy decides which hosts may be reached; the first bytes that it gets, a NUL and a line with the client's
port, let it ask which command connects. For each port of this machine that the user allowed it also
listens on that port, and joins connections to the socket that leads there.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

_NEVER_PROXIED = "localhost,127.0.0.1,::1"
# Listeners on loopback ports by descriptor, each with the path of the socket that its connections go to.
OpenPorts = dict[int, tuple[socket.socket, str]]


def open_listener() -> socket.socket:
    """Return a socket that listens on a free loopback port. Raises OSError."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    return listener


def proxy_environment(port: int) -> dict[str, str]:
    """Return the variables that tell programs to use a proxy on a loopback port."""
    address = f"http://127.0.0.1:{port}"
    wanted = {"HTTP_PROXY": address, "HTTPS_PROXY": address, "ALL_PROXY": address, "NO_PROXY": _NEVER_PROXIED}
    return {**wanted, **{name.lower(): value for name, value in wanted.items()}, "NODE_USE_ENV_PROXY": "1"}


def open_ports(ports: Sequence[str]) -> OpenPorts:
    """Listen on the loopback ports for which sockets are named.

    A port on which a command listens already is omitted: it belongs to that command.
    """
    found: OpenPorts = {}
    for path in ports:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # An earlier sandbox of the session, in the same network, may still listen for its own jobs.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listener.bind(("127.0.0.1", int(os.path.basename(path))))
            listener.listen(64)
        except OSError:
            listener.close()
        else:
            found[listener.fileno()] = (listener, path)
    return found


def serve_relay(listener: socket.socket, proxy: str, until: int, ports: OpenPorts) -> None:
    """Join connections of the listener to the socket at the path `proxy` until the descriptor is readable.

    `ports` lead to ports of this machine.
    """
    relay = _Relay()
    listeners = {listener.fileno(): (listener, proxy), **ports}
    relay.poller.register(until, select.POLLIN)
    for fd in listeners:
        relay.poller.register(fd, select.POLLIN)
    while True:
        for fd, _ in relay.poller.poll():
            if fd == until:
                return
            if fd in listeners:
                relay.accept(*listeners[fd], named=fd == listener.fileno())
            elif fd in relay.ends:
                relay.move(relay.ends[fd])


class _End:
    """One end of a joined pair. Data read from it is `pending` until the other end accepts it."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.fd = end.fileno()
        self.other: _End = self
        self.pending = b""
        self.over = False  # it has reached its end
        self.notified = False  # the other end knows that it is over

    def wanted(self) -> int:
        """The events to wait for. It is only read while none of its data is pending."""
        reading = 0 if self.over or self.pending else select.POLLIN
        return reading | (select.POLLOUT if self.other.pending else 0)

    def read(self) -> None:
        if not self.over and not self.pending:
            with suppress(BlockingIOError):
                self.pending = self.socket.recv(1 << 16)
                self.over = not self.pending

    def pass_on(self) -> None:
        with suppress(BlockingIOError):
            if self.pending:
                self.pending = self.pending[self.other.socket.send(self.pending) :]
        if self.over and not self.pending and not self.notified:
            self.notified = True
            with suppress(OSError):  # it closed the connection itself
                self.other.socket.shutdown(socket.SHUT_WR)


class _Relay:
    """The joined pairs, and the events they wait for."""

    def __init__(self) -> None:
        self.poller = select.poll()
        self.ends: dict[int, _End] = {}

    def accept(self, listener: socket.socket, target: str, *, named: bool) -> None:
        """Join the next connection of a listener to the socket at the path `target`.

        `named`: the client's port is sent before its data.
        """
        with suppress(OSError):
            inner, (_, port) = listener.accept()
            outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                if len(self.ends) >= 2 * 256:  # more connections are closed immediately
                    raise OSError("too many connections")
                outer.connect(target)
            except OSError:
                inner.close()
                outer.close()
                return
            one = _End(inner)
            other = _End(outer)
            one.other = other
            other.other = one
            one.pending = b"\0%d\n" % port if named else b""
            for end in (one, other):
                end.socket.setblocking(False)
                self.ends[end.fd] = end
                self._watch(end)

    def move(self, end: _End) -> None:
        """Read available data, write pending data, and drop the pair once both ends are done."""
        pair = (end, end.other)
        try:
            end.read()
            for each in pair:
                each.pass_on()
            done = all(each.over and not each.pending for each in pair)
        except OSError:
            done = True
        for each in pair:
            if done:
                self._forget(each)
                each.socket.close()
            else:
                self._watch(each)

    def _watch(self, end: _End) -> None:
        if wanted := end.wanted():
            self.poller.register(end.fd, wanted)
        else:
            self._unwatch(end)  # an end that hung up would wake us constantly

    def _forget(self, end: _End) -> None:
        self._unwatch(end)
        del self.ends[end.fd]

    def _unwatch(self, end: _End) -> None:
        with suppress(KeyError):
            self.poller.unregister(end.fd)


def wait_for(child: int, listener: socket.socket | None, proxy: str | None, ports: OpenPorts) -> int:
    """Relay, if there is a proxy, until a child ends; return its raw wait status."""
    if listener is not None and proxy is not None and sys.platform == "linux":
        with suppress(OSError):
            serve_relay(listener, proxy, os.pidfd_open(child), ports)
    return os.waitpid(child, 0)[1]
