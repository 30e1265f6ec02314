"""Start, watch and end commands with all that they start: the agent's side of the process supervisor.

What the supervisor does and what a message means is told in process_supervisor/. How long a command may run,
what becomes of its output and what the model is told are for jobs.py and bash_run.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .process_supervisor import BOOT, CANNOT_ENCLOSE

_PIPE_BYTES = 64 * 1024  # read at once: the size of a pipe
_START_LIMIT_S = 10.0  # for a supervisor's first message; it takes 0.05
_CLOSE_LIMIT_S = 5.0  # for a supervisor to end everything; it takes 0.6 where TERM is ignored


class SupervisorLost(Exception):
    """Commands cannot be started, or the process that watched them is gone; the text says why."""


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class CommandHandle:
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
    strays: int = 0  # how many of its processes were alive when the shell ended

    def read(self) -> None:
        """Take one piece of the output; called by the event loop when there is some."""
        try:
            data = os.read(self.fd, _PIPE_BYTES)
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


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done() and not future.get_loop().is_closed():
        future.set_result(value)


class JsonSocket:
    """One end of a socket pair: JSON messages, and descriptors with them, without ever blocking.

    `received` is called with every message, `closed` once. Belongs to the running event loop.
    """

    def __init__(
        self, end: socket.socket, received: Callable[[Any], None], closed: Callable[[], None]
    ) -> None:
        self._socket, self._received, self._closed = end, received, closed
        self._loop = asyncio.get_running_loop()
        self._outbox: deque[tuple[bytes, int | None]] = deque()
        self._inbox = b""
        end.setblocking(False)
        self._loop.add_reader(end, self._receive)

    @property
    def open(self) -> bool:
        return self._socket.fileno() >= 0

    def send(self, message: Mapping[str, Any], fd: int | None = None) -> None:
        """Send a message as soon as the socket takes it. `fd` goes with it, and is closed here."""
        self._outbox.append((json.dumps(message).encode() + b"\n", fd))
        self._send_outbox()

    def close(self) -> None:
        """Close the socket; what was not sent yet is dropped."""
        if not self.open:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, fd in self._outbox:
            if fd is not None:
                os.close(fd)
        self._outbox.clear()
        self._closed()

    def _send_outbox(self) -> None:
        try:
            while self._outbox:
                data, fd = self._outbox[0]
                if fd is None:
                    sent = self._socket.send(data)
                else:
                    sent = socket.send_fds(self._socket, [data], [fd])
                    os.close(fd)
                self._outbox[0] = (data[sent:], None)
                if sent == len(data):
                    self._outbox.popleft()
            self._loop.remove_writer(self._socket)
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._send_outbox)
        except OSError:
            self.close()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
        *lines, rest = (self._inbox + data).split(b"\n")
        self._inbox = rest
        for line in lines:
            self._received(json.loads(line))


class SupervisorClient:
    """The supervisor of a session, made by `start_supervisor`. Belongs to one event loop.

    `how` tells what holds the commands: "namespace", "subreaper" or "group"; "": it ended before it said so.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], end: socket.socket, log: IO[bytes], private: Path
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.how: asyncio.Future[str] = self.loop.create_future()
        self.commands: dict[int, CommandHandle] = {}
        self._process, self._log, self._private = process, log, private
        self._socket = JsonSocket(end, self._received, self._closed)
        self._count = 0

    @property
    def alive(self) -> bool:
        return self._socket.open

    def run(self, take: Callable[[bytes], object], **start: Any) -> CommandHandle:
        """Start a command without waiting: it runs once `pid` is known. `take` gets its output.

        `start` is what to start: the `path` of the program's file, its `argv` with its name first, its `env`
        and its folder `cwd`.
        """
        if not self.alive:
            raise SupervisorLost("the process that runs commands is gone")
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._count += 1
        command = CommandHandle(self._socket.send, self._count, take, reader)
        self.commands[command.number] = command
        self.loop.add_reader(reader, command.read)
        self._socket.send({"op": "run", "n": command.number, **start}, writer)
        return command

    @property
    def refused(self) -> bool:
        """Whether it ended because the system gives it no namespaces."""
        return self._process.poll() == CANNOT_ENCLOSE

    async def close(self) -> None:
        """End everything and wait until it has ended. May be called at any time, and again."""
        self._socket.close()
        limit = self.loop.time() + _CLOSE_LIMIT_S
        while self._process.poll() is None and self.loop.time() < limit:
            await asyncio.sleep(0.002)
        self.abandon()

    def abandon(self) -> None:
        """As `close`, at once and without a grace, for where nothing can be awaited."""
        self._socket.close()
        if self._process.poll() is None:
            self._process.kill()  # with a namespace, the kernel ends all that is in it
            self._process.wait()
        self._log.close()
        if not self.refused:
            shutil.rmtree(self._private, ignore_errors=True)  # where it was killed before it could

    def why(self) -> str:
        """What the supervisor wrote last, or how it ended."""
        with suppress(OSError, ValueError):
            self._log.seek(0)
            lines = self._log.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
            if lines:
                return lines[-1]
        return f"exit status {self._process.poll()}"

    def _closed(self) -> None:
        """The socket is closed, by us or by the supervisor's end: settle what waits for an answer."""
        enclosed = self.how.done() and self.how.result() == "namespace"
        for command in self.commands.values():
            pid = command.pid.result() if command.pid.done() and not command.pid.cancelled() else None
            if isinstance(pid, int) and not enclosed and not command.exited.done():
                with suppress(OSError):  # the kernel does not end it: kill what is known
                    os.killpg(pid, signal.SIGKILL)
            _settle(command.pid, OSError(0, "the process that runs commands is gone"))
            _settle(command.left, [])
            _settle(command.exited, None)
            _settle(command.over, None)
            command.close()
        self.commands.clear()
        _settle(self.how, "")

    def _received(self, message: Mapping[str, Any]) -> None:
        if "hello" in message:
            _settle(self.how, message["hello"])
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
        if "over" in message or "errno" in message or message.get("strays") == 0:
            _settle(command.exited, None)
            _settle(command.over, None)
            self.commands.pop(command.number, None)


async def start_supervisor(private: Path, *, enclose: bool = True) -> SupervisorClient:
    """Start a supervisor. It removes the folder `private` when it ends. Raises SupervisorLost.

    With `enclose` a PID namespace is tried first (0.03 s more where that is denied).
    """
    for how in ("enclose", "plain") if enclose and sys.platform == "linux" else ("plain",):
        supervisor = _spawn(private, how)
        try:
            await asyncio.wait({supervisor.how}, timeout=_START_LIMIT_S)
        except asyncio.CancelledError:
            supervisor.abandon()
            raise
        if supervisor.how.done() and supervisor.how.result():
            return supervisor
        why = supervisor.why()
        await supervisor.close()
        if not supervisor.refused:
            break
    raise SupervisorLost(f"commands cannot be run: {why}")


def _spawn(private: Path, how: str) -> SupervisorClient:
    """The process, without a secret in its environment, a terminal or a folder. Raises SupervisorLost."""
    ours, theirs = socket.socketpair()
    log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the supervisor
    utf8 = int(sys.getfilesystemencoding() == "utf-8")  # paths are encoded there as they are here
    argv = [sys.executable, "-I", "-S", "-X", f"utf8={utf8}", "-c", BOOT]
    argv += [str(Path(__file__).parent), str(theirs.fileno()), str(private), how]
    locale = {name: os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if name in os.environ}
    try:
        process = subprocess.Popen(
            argv,
            env={"PATH": os.defpath, **locale},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        log.close()
        raise SupervisorLost(f"commands cannot be run: {error}") from error
    finally:
        theirs.close()
    return SupervisorClient(process, ours, log, private)
