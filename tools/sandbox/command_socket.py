"""The commands of one spawner, and their states as reported by the spawner's socket.

The protocol is described in supervisor/__init__.py.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec import Struct, field

from .json_socket import JsonSocket


class SupervisorLost(Exception):
    """Commands cannot be started, or the process that runs them has ended. The text is the reason."""


class LeftProcess(NamedTuple):
    """A process that a command left running, and its command line."""

    pid: int
    line: str


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


class CommandHandle(Struct, eq=False):
    """A running command.

    pid     the pid of its shell, or the OSError if it could not be started
    exited  the raw wait status of its shell, or None if the supervisor was lost
    closed  done when no process has its output open any more
    over    done when none of its processes is left
    left, ports  its answers to the last questions
    """

    send: Callable[[Mapping[str, Any]], None]  # to the supervisor
    number: int
    take: Callable[[bytes], object]  # gets the output as it arrives
    fd: int
    pid: asyncio.Future[int | OSError] = field(default_factory=_future)
    exited: asyncio.Future[int | None] = field(default_factory=_future)
    closed: asyncio.Future[None] = field(default_factory=_future)
    over: asyncio.Future[None] = field(default_factory=_future)
    left: asyncio.Future[list[LeftProcess]] | None = None
    ports: asyncio.Future[list[int]] | None = None
    strays: int = 0  # the number of its processes that were alive when the shell ended

    def read(self) -> None:
        """Read a chunk of the output; called by the event loop when there is some."""
        try:
            data = os.read(self.fd, 64 * 1024)  # the size of a pipe
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.take(data)
        else:
            self.close()

    def close(self) -> None:
        """Stop reading output."""
        if self.fd >= 0:
            self.closed.get_loop().remove_reader(self.fd)
            os.close(self.fd)
            self.fd = -1
        _settle(self.closed, None)

    def end(self) -> None:
        """Send TERM to all processes of the command, and KILL after half a second. Then `over` is done."""
        if not self.over.done():
            self.send({"op": "end", "n": self.number})

    def drop(self) -> None:
        """Stop reading output, and end the command without waiting for it."""
        self.close()
        self.end()

    async def left_processes(self) -> list[LeftProcess]:
        """Return the processes that the command left running."""
        if self.over.done():
            return []
        if self.left is None or self.left.done():
            self.left = _future()
            self.send({"op": "left", "n": self.number})
        return await asyncio.shield(self.left)

    async def listening_ports(self) -> list[int]:
        """Return the TCP ports that the command listens on."""
        if self.over.done():
            return []
        if self.ports is None or self.ports.done():
            self.ports = _future()
            self.send({"op": "ports", "n": self.number})
        return await asyncio.shield(self.ports)


class ConnectedCommand(NamedTuple):
    """A command with a connection; `program` is the file of the program that made it and its arguments."""

    command: CommandHandle
    program: tuple[str, ...]


def _settle(future: asyncio.Future[Any] | None, value: Any) -> None:
    if future is not None and not future.done() and not future.get_loop().is_closed():
        future.set_result(value)


class CommandSocket:
    """Starts and tracks the commands of one spawner. Belongs to the running event loop.

    `hello` is the spawner's first message, {} if it ended before that. `has_run` is true once a command was
    requested.
    """

    def __init__(self, end: socket.socket) -> None:
        self.loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[Mapping[str, Any]] = self.loop.create_future()
        self.commands: dict[int, CommandHandle] = {}
        self.has_run = False
        self._connecting: dict[int, asyncio.Future[socket.socket]] = {}
        self._looking: dict[int, asyncio.Future[list[Any]]] = {}
        self.socket = JsonSocket(end, self._received, self._closed)
        self._count = 0
        self._retired = False
        self._closing = False  # we close it

    def run(self, take: Callable[[bytes], object], talk: tuple[int, ...] = (), **start: Any) -> CommandHandle:
        """Start a command without waiting. It runs once `pid` is known. `take` gets its output.

        `start` contains the `path` of the program's file, its `argv` with its name first, its `env` and its
        directory `cwd`. The descriptors `talk` are closed here. Raises SupervisorLost.
        """
        if not self.socket.open:
            for fd in talk:
                os.close(fd)
            raise SupervisorLost("the process that runs commands has ended")
        self.has_run = True
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._count += 1
        command = CommandHandle(self.socket.send, number=self._count, take=take, fd=reader)
        self.commands[command.number] = command
        self.loop.add_reader(reader, command.read)
        self.socket.send({"op": "run", "n": command.number, **start}, writer, *talk)
        return command

    def talk(self, take: Callable[[bytes], object], **start: Any) -> tuple[CommandHandle, socket.socket]:
        """Run a program to communicate with: its standard input and output are the socket's other end.

        `take` gets its standard error.
        """
        ours, theirs = socket.socketpair()
        try:
            command = self.run(take, (theirs.detach(),), talks=True, **start)
        except BaseException:
            ours.close()
            raise
        return command, ours

    async def connect(self, host: str, port: int) -> socket.socket:
        """Return a connection to an address in the network of the commands. Raises OSError."""
        if not self.socket.open:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the process that runs commands has ended")
        self._count += 1
        asked = self._connecting[self._count] = self.loop.create_future()
        self.socket.send({"op": "connect", "n": self._count, "host": host, "port": port})
        made: socket.socket = await asked
        try:
            await _wait_until_connected(made)
        except BaseException:
            made.close()
            raise
        return made

    async def connected_command(self, port: int) -> ConnectedCommand | None:
        """Return the command that has connected from a TCP port in the network of the commands."""
        if not self.socket.open:
            return None
        self._count += 1
        self._looking[self._count] = looking = self.loop.create_future()
        self.socket.send({"op": "who", "n": self._count, "port": port})
        number, *program = await looking or [0]
        command = self.commands.get(number)
        return None if command is None else ConnectedCommand(command, tuple(program))

    def retire(self) -> None:
        """Start no more commands, and let the spawner end when the running ones are over."""
        self._retired = True
        if not self.commands:
            self.socket.close()

    def close(self) -> list[int]:
        """Close the socket, with which the spawner ends all its commands.

        Return the process groups to kill if the spawner is killed before that.
        """
        groups = self._groups()
        self._closing = True
        self.socket.close()
        return groups

    def _groups(self) -> list[int]:
        """Return the process groups of running commands, unless the kernel ends them with the spawner."""
        if self.hello.done() and self.hello.result().get("hello") in ("namespace", "namespaces"):
            return []
        running = [command for command in self.commands.values() if not command.exited.done()]
        known = [each.pid.result() for each in running if each.pid.done() and not each.pid.cancelled()]
        return [pid for pid in known if isinstance(pid, int)]

    def _closed(self) -> None:
        """Complete everything that waits for an answer, since we or the spawner closed the socket."""
        for group in () if self._closing else self._groups():
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        for command in self.commands.values():
            _settle(command.pid, OSError(0, "the process that runs commands has ended"))
            _settle(command.left, [])
            _settle(command.ports, [])
            _settle(command.exited, None)
            _settle(command.over, None)
            command.close()
        self.commands.clear()
        for number in [*self._connecting]:
            self._connected(number, errno.ECONNREFUSED)
        for looking in self._looking.values():
            _settle(looking, [])
        _settle(self.hello, {})

    def _received(self, message: Mapping[str, Any]) -> None:
        if "hello" in message:
            _settle(self.hello, message)
            return
        if "connected" in message:
            self._connected(message["n"], message["connected"])
            return
        if "who" in message:
            _settle(self._looking.pop(message["n"]), message["who"])
            return
        command = self.commands.get(message["n"])
        if command is None:
            return
        if "pid" in message:
            _settle(command.pid, message["pid"])
        if "errno" in message:
            code = message["errno"]
            _settle(command.pid, OSError(code, os.strerror(code)))
            command.close()
        if "status" in message:
            command.strays = message["strays"]
            _settle(command.exited, message["status"])
        if "left" in message:
            _settle(command.left, [LeftProcess(*each) for each in message["left"]])
        if "ports" in message:
            _settle(command.ports, message["ports"])
        if "over" in message or "errno" in message or message.get("strays") == 0:
            _settle(command.left, [])  # the spawner answers no question about it any more
            _settle(command.ports, [])
            _settle(command.exited, None)
            _settle(command.over, None)
            self.commands.pop(command.number, None)
            if self._retired and not self.commands:
                self.socket.close()

    def _connected(self, number: int, code: int) -> None:
        """Complete a connection, whose socket has arrived or which failed with an errno."""
        asked = self._connecting.pop(number)
        made = None if code else socket.socket(fileno=self.socket.fds.popleft())
        if asked.done():  # no one waits for it
            if made is not None:
                made.close()
        elif made is None:
            asked.set_exception(OSError(code, os.strerror(code)))
        else:
            made.setblocking(False)
            asked.set_result(made)


async def _wait_until_connected(end: socket.socket) -> None:
    """Wait until a socket is connected. Raises OSError if it fails."""
    loop = asyncio.get_running_loop()
    writable = _future()
    loop.add_writer(end, _settle, writable, None)
    try:
        await writable
    finally:
        loop.remove_writer(end)
    if code := end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(code, os.strerror(code))
