"""Start, watch and end commands, whole trees of them: the agent's side of the supervisor.

One supervisor serves a session; what it does, and what a message means, stands in process_supervisor/. What a
command's output becomes, how long it may run and what the model is told are for those who call.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .ipc import JsonSocket
from .process_supervisor import BOOT, CANNOT_ENCLOSE

_SET_DUMPABLE = 4  # linux/prctl.h
_CHUNK = 64 * 1024  # bytes read at once: the size of a pipe
_FIRST_WORD = 10.0  # seconds that a supervisor may take to answer; it takes 0.05
_LAST_WORD = 5.0  # seconds that it may take to end everything; it takes 0.6 where TERM is ignored


class SupervisorLost(Exception):
    """Commands cannot be started, or the process that watched them is gone; the text says why."""


@dataclass(frozen=True, slots=True)
class CommandStart:
    """What to start: the program's file, its arguments with its name first, its environment and folder."""

    path: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path


@dataclass(slots=True, eq=False)
class CommandHandle:
    """A command under way.

    `exited` becomes the raw wait status of its shell (None: its supervisor was lost), `closed` done when
    nobody holds its output any more, `over` done when no process of it is left. `strays` are processes that
    were alive when the shell ended. `take` gets the output as it comes.
    """

    number: int
    take: Callable[[bytes], object]
    fd: int
    pid: asyncio.Future[int | OSError] = field(default_factory=lambda: _future())
    exited: asyncio.Future[int | None] = field(default_factory=lambda: _future())
    closed: asyncio.Future[None] = field(default_factory=lambda: _future())
    over: asyncio.Future[None] = field(default_factory=lambda: _future())
    left: asyncio.Future[list[tuple[int, str]]] | None = None
    strays: int = 0

    def read(self) -> None:
        """Take one piece of the output; the event loop calls it when there is one."""
        try:
            data = os.read(self.fd, _CHUNK)
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


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


class SupervisorClient:
    """The process that watches a session's commands. Made by `start`; belongs to one event loop.

    `how` says what holds the commands: "namespace", "subreaper" or "group".
    """

    def __init__(
        self, process: subprocess.Popen[bytes], end: socket.socket, log: IO[bytes], private: Path
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.how: asyncio.Future[str] = self.loop.create_future()
        self.commands: dict[int, CommandHandle] = {}
        self._process, self._log, self._private = process, log, private
        self._link = JsonSocket(end, self._hear, self._ended)
        self._count = 0

    @property
    def alive(self) -> bool:
        return self._link.open

    def run(self, start: CommandStart, take: Callable[[bytes], object]) -> CommandHandle:
        """Start a command without waiting: it is under way when `pid` is known. `take` gets its output."""
        if not self.alive:
            raise SupervisorLost("the process that runs commands is gone")
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._count += 1
        command = CommandHandle(self._count, take, reader)
        self.commands[command.number] = command
        self.loop.add_reader(reader, command.read)
        request = {
            "op": "run",
            "n": command.number,
            "path": start.path,
            "argv": start.argv,
            "env": start.env,
            "cwd": str(start.cwd),
        }
        self._link.tell(request, writer)
        return command

    def end(self, command: CommandHandle) -> None:
        """TERM to everything the command started, KILL after half a second; `over` tells when it is done."""
        if self.alive and not command.over.done():
            self._link.tell({"op": "end", "n": command.number})

    async def left(self, command: CommandHandle) -> list[tuple[int, str]]:
        """(pid, command line) of what a command left running."""
        if not self.alive or command.over.done():
            return []
        if command.left is None or command.left.done():
            command.left = self.loop.create_future()
            self._link.tell({"op": "left", "n": command.number})
        return await asyncio.shield(command.left)

    @property
    def refused(self) -> bool:
        """Whether it ended because the system gives it no namespaces."""
        return self._process.poll() == CANNOT_ENCLOSE

    async def close(self) -> None:
        """End everything and wait until it has ended. May be called at any time, and again."""
        self._link.close()
        limit = self.loop.time() + _LAST_WORD
        while self._process.poll() is None and self.loop.time() < limit:
            await asyncio.sleep(0.002)
        self._bury()

    def abandon(self) -> None:
        """As `close`, at once and without a grace; for where nothing can be awaited."""
        self._link.close()
        self._bury()

    def _bury(self) -> None:
        if self._process.poll() is None:
            self._process.kill()  # with a namespace the kernel takes all of it along
            self._process.wait()
        self._log.close()
        if not self.refused:
            shutil.rmtree(self._private, ignore_errors=True)  # where it was killed

    def why(self) -> str:
        """What the supervisor said last, or how it ended."""
        with suppress(OSError, ValueError):
            self._log.seek(0)
            lines = self._log.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
            if lines:
                return lines[-1]
        return f"exit status {self._process.poll()}"

    def _ended(self) -> None:
        """The link is closed, by us or by the supervisor's end: settle what waits for an answer."""
        for command in list(self.commands.values()):
            _lose(command, self.how.done() and self.how.result() == "namespace")
        self.commands.clear()
        _settle(self.how, "")

    def _hear(self, message: Mapping[str, Any]) -> None:
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
        if "left" in message and command.left is not None:
            _settle(command.left, [(pid, words) for pid, words in message["left"]])
        if "over" in message or "errno" in message or message.get("strays") == 0:
            _settle(command.exited, None)
            _settle(command.over, None)
            self.commands.pop(command.number, None)


def _lose(command: CommandHandle, enclosed: bool) -> None:
    """Nobody watches the command any more."""
    pid = command.pid.result() if command.pid.done() and not command.pid.cancelled() else None
    if isinstance(pid, int) and not enclosed and not command.exited.done():
        with suppress(OSError):  # the best that is left, where the kernel does not end the rest
            os.killpg(pid, signal.SIGKILL)
    _settle(command.pid, OSError(0, "the process that runs commands is gone"))
    _settle(command.exited, None)
    _settle(command.over, None)
    if command.left is not None:
        _settle(command.left, [])
    command.close()


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done() and not future.get_loop().is_closed():
        future.set_result(value)


async def start(private: Path, *, enclose: bool = True) -> SupervisorClient:
    """Start a supervisor. It removes the folder `private` when it ends. Raises SupervisorLost.

    With `enclose` it tries for a PID namespace first (0.03 s more where that is denied).
    """
    if enclose and sys.platform == "linux":
        supervisor = _spawn(private, "enclose")
        if await _first_word(supervisor):
            return supervisor
        why = supervisor.why()
        await supervisor.close()
        if not supervisor.refused:
            raise SupervisorLost(f"commands cannot be run: {why}")
    supervisor = _spawn(private, "plain")
    if not await _first_word(supervisor):
        why = supervisor.why()
        await supervisor.close()
        raise SupervisorLost(f"commands cannot be run: {why}")
    return supervisor


def hide_own_environment() -> None:
    """Make our /proc/<pid>/environ unreadable for other processes of the same user (but not for root).

    For where commands share our process numbers: the key that we were started with stands there.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


async def _first_word(supervisor: SupervisorClient) -> bool:
    try:
        return bool(await asyncio.wait_for(asyncio.shield(supervisor.how), _FIRST_WORD))
    except TimeoutError:
        await supervisor.close()
        return False
    except asyncio.CancelledError:
        supervisor.abandon()
        raise


def _spawn(private: Path, how: str) -> SupervisorClient:
    """The process itself: no secret in its environment, no terminal, no folder held."""
    ours, theirs = socket.socketpair()
    log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the supervisor
    try:
        mode = f"utf8={int(sys.getfilesystemencoding() == 'utf-8')}"  # it shall make the bytes that we would
        argv = [sys.executable, "-I", "-S", "-X", mode, "-c", BOOT]
        argv += [str(Path(__file__).parent), str(theirs.fileno()), str(private), how]
        speech = {name: os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if name in os.environ}
        process = subprocess.Popen(
            argv,
            env={"PATH": os.defpath, **speech},
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
