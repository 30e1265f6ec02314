"""The commands of one spawner: how each is doing, learned from the spawner's socket.

What a message means is told in supervisor/.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from .json_socket import JsonSocket


class SupervisorLost(Exception):
    """Commands cannot be started, or the process that watched them is gone; the text says why."""


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


class CommandHandle(Struct, eq=False):
    """A command under way.

    `pid` is that of its shell, or why it could not be started; `exited` its shell's raw wait status, or None
    where the supervisor was lost. `closed` is done when no process holds its output any more, `over` when no
    process of it is left.
    """

    send: Callable[[Mapping[str, Any]], None]  # to the supervisor
    number: int
    take: Callable[[bytes], object]  # gets the output as it comes
    fd: int
    pid: asyncio.Future[int | OSError] = field(default_factory=_future)
    exited: asyncio.Future[int | None] = field(default_factory=_future)
    closed: asyncio.Future[None] = field(default_factory=_future)
    over: asyncio.Future[None] = field(default_factory=_future)
    left: asyncio.Future[list[tuple[int, str]]] = field(default_factory=_future)
    ports: asyncio.Future[list[int]] = field(default_factory=_future)
    strays: int = 0  # how many of its processes were alive when the shell ended

    def read(self) -> None:
        """Take one piece of the output; called by the event loop when there is some."""
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
        """Take no more output."""
        if self.fd >= 0:
            self.closed.get_loop().remove_reader(self.fd)
            os.close(self.fd)
            self.fd = -1
        _settle(self.closed, None)

    def end(self) -> None:
        """TERM to all that the command started, KILL after half a second; `over` is done afterwards."""
        if not self.over.done():
            self.send({"op": "end", "n": self.number})

    def drop(self) -> None:
        """Take no more output, and end the command without waiting for it."""
        self.close()
        self.end()

    async def what_is_left(self) -> list[tuple[int, str]]:
        """(pid, command line) of what the command left running."""
        if self.over.done():
            return []
        self.left = _future()
        self.send({"op": "left", "n": self.number})
        return await self.left

    async def listening_ports(self) -> list[int]:
        """The TCP ports that the command listens on."""
        if self.over.done():
            return []
        self.ports = _future()
        self.send({"op": "ports", "n": self.number})
        return await self.ports


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done() and not future.get_loop().is_closed():
        future.set_result(value)


class CommandSocket:
    """Starts commands with one spawner and follows them. Belongs to the running event loop.

    `hello` is its first message, {} where it ended before that. `take_along` makes it close once no command
    is left.
    """

    def __init__(self, end: socket.socket) -> None:
        self.loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[Mapping[str, Any]] = self.loop.create_future()
        self.commands: dict[int, CommandHandle] = {}
        self._connecting: dict[int, asyncio.Future[socket.socket]] = {}
        self.socket = JsonSocket(end, self._received, self._closed)
        self._count = 0
        self._retired = False

    def run(self, take: Callable[[bytes], object], talk: tuple[int, ...] = (), **start: Any) -> CommandHandle:
        """Start a command without waiting: it runs once `pid` is known. `take` gets its output.

        `start` is what to start: the `path` of the program's file, its `argv` with its name first, its `env`
        and its folder `cwd`. Raises SupervisorLost.
        """
        if not self.socket.open:
            raise SupervisorLost("the process that runs commands is gone")
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._count += 1
        command = CommandHandle(self.socket.send, number=self._count, take=take, fd=reader)
        self.commands[command.number] = command
        self.loop.add_reader(reader, command.read)
        self.socket.send({"op": "run", "n": command.number, **start}, writer, *talk)
        return command

    def talk(self, take: Callable[[bytes], object], **start: Any) -> tuple[CommandHandle, socket.socket]:
        """Run a program to talk with: its standard input and output are the socket's other end.

        `take` gets what it writes to standard error.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            command = self.run(take, (os.dup(theirs.fileno()),), talks=True, **start)
        return command, ours

    async def connect(self, host: str, port: int) -> socket.socket:
        """A connection to an address in the network of the commands. Raises OSError."""
        if not self.socket.open:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the process that runs commands is gone")
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

    def retire(self) -> None:
        """Start no more commands; let the spawner end when those under way are over."""
        self._retired = True
        if not self.commands:
            self.socket.close()

    def _closed(self) -> None:
        """The socket is closed, by us or by the spawner's end: settle what waits for an answer."""
        enclosed = self.hello.done() and self.hello.result().get("hello") in ("namespace", "namespaces")
        for command in self.commands.values():
            pid = command.pid.result() if command.pid.done() and not command.pid.cancelled() else None
            if isinstance(pid, int) and not enclosed and not command.exited.done():
                with suppress(OSError):  # the kernel does not end it: kill what is known
                    os.killpg(pid, signal.SIGKILL)
            _settle(command.pid, OSError(0, "the process that runs commands is gone"))
            _settle(command.left, [])
            _settle(command.ports, [])
            _settle(command.exited, None)
            _settle(command.over, None)
            command.close()
        self.commands.clear()
        for number in [*self._connecting]:
            self._connected(number, errno.ECONNREFUSED)
        _settle(self.hello, {})

    def _received(self, message: Mapping[str, Any]) -> None:
        if "hello" in message:
            _settle(self.hello, message)
            return
        if "connected" in message:
            self._connected(message["n"], message["connected"])
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
            _settle(command.left, [(pid, line) for pid, line in message["left"]])
        if "ports" in message:
            _settle(command.ports, message["ports"])
        if "over" in message or "errno" in message or message.get("strays") == 0:
            _settle(command.exited, None)
            _settle(command.over, None)
            self.commands.pop(command.number, None)
            if self._retired and not self.commands:
                self.socket.close()

    def _connected(self, number: int, code: int) -> None:
        """A connection was made, whose socket has come, or failed with an error's number."""
        asked = self._connecting.pop(number)
        made = None if code else socket.socket(fileno=self.socket.fds.popleft())
        if asked.done():  # nobody waits for it any more
            if made is not None:
                made.close()
        elif made is None:
            asked.set_exception(OSError(code, os.strerror(code)))
        else:
            made.setblocking(False)
            asked.set_result(made)


async def _wait_until_connected(end: socket.socket) -> None:
    """Wait for a socket that connects. Raises OSError where it cannot."""
    loop = asyncio.get_running_loop()
    writable = _future()
    loop.add_writer(end, _settle, writable, None)
    try:
        await writable
    finally:
        loop.remove_writer(end)
    if code := end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(code, os.strerror(code))
