"""MCP servers as processes of ours: started under a supervisor of their own, spoken to line by line.

They get a small environment and what their entry names, no credential of ours. What they write to standard
error goes into a log of bounded size.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools.processes.command_socket import CommandHandle, SupervisorLost
from tools.processes.env_filter import hide_own_environment
from tools.processes.jobs import exit_code
from tools.processes.supervisor_client import SupervisorClient, start_supervisor
from transcripts.disk import make_private_folders

from .entries import ServerEntry
from .session import ConnectionLost, Message, ServerFailed

INHERITED_VARIABLES = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # of one line of a server
MAX_SERVER_LOG_BYTES = 1024 * 1024
MAX_TOLD_LINE_CHARS = 300
MAX_LOGGED_JUNK_LINES = 100  # of its output that is no message
MAX_JUNK_LINES = 100_000  # before its first message, after which it is ended
_SERVER_READ_BYTES = 1 << 16
_EXIT_WAIT_S = 0.5  # for the exit status, once a server has closed its output
# The number of the request that a line answers, as servers write it: before all else, or behind it.
_ANSWERS_FIRST = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,)?\s*"id"\s*:\s*"?(\d{1,9})"?\s*,\s*"(?:result|error)"'
)
_ANSWERS_LAST = re.compile(rb'"id"\s*:\s*"?(\d{1,9})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_OFF = ("off", "0", "no", "false")  # as values of MAKEROOM_NAMESPACE


class ServerLog:
    """What a server writes to standard error, in a file: the newest part of it. `mask` hides secrets."""

    def __init__(self, path: Path, mask: Callable[[str], str]) -> None:
        self.path, self._mask = path, mask
        self.last = ""  # the newest line

    def take(self, data: bytes) -> None:
        """Take in more of it; a disk that is full costs the log only."""
        text = self._mask(data.decode("utf-8", "replace"))
        lines = [line for line in text.splitlines() if line.strip()]
        self.last = lines[-1].strip()[:MAX_TOLD_LINE_CHARS] if lines else self.last
        with suppress(OSError):
            make_private_folders(self.path.parent)
            self._append(text.encode()[-MAX_SERVER_LOG_BYTES:])

    def _append(self, data: bytes) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self.path, flags, 0o600)
        try:
            if (size := os.fstat(fd).st_size) + len(data) > MAX_SERVER_LOG_BYTES:
                keep = max(0, MAX_SERVER_LOG_BYTES // 2 - len(data))
                data = (os.pread(fd, keep, max(0, size - keep)) if keep else b"") + data
                os.ftruncate(fd, 0)
            os.write(fd, data)
        finally:
            os.close(fd)


class ServerProcesses:
    """Starts servers; all of them end with `close`, or with this process. Belongs to one event loop."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder, self.environ = folder, environ
        self._starting: asyncio.Task[SupervisorClient] | None = None
        self._closed = False

    async def supervisor(self) -> SupervisorClient:
        """Their supervisor; a new one where none runs. Raises SupervisorLost."""
        if self._closed:
            raise SupervisorLost("the program ends")
        task = self._starting
        if task is None or (
            task.done() and (task.cancelled() or task.exception() or not task.result().alive)
        ):
            task = self._starting = asyncio.ensure_future(self._start())
        return await asyncio.shield(task)

    async def _start(self) -> SupervisorClient:
        private = Path(tempfile.mkdtemp(prefix="makeroom-mcp-"))
        enclose = self.environ.get("MAKEROOM_NAMESPACE", "").lower() not in _OFF
        try:
            supervisor = await start_supervisor(private, enclose=enclose)
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise
        if supervisor.how != "namespace":
            hide_own_environment()
        return supervisor

    async def close(self) -> None:
        """End every server, and wait until they have ended."""
        self._closed = True
        if (task := self._starting) is None:
            return
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is None:
            await task.result().close()


class StdioConnection:
    """A server that runs. `deliver` gets its messages, `lost` the reason when it ends by itself."""

    def __init__(
        self,
        command: CommandHandle,
        writer: asyncio.StreamWriter,
        log: ServerLog,
        lost: Callable[[str], None],
    ) -> None:
        self._command, self._writer, self._log, self._lost = command, writer, log, lost
        self._reading: asyncio.Task[None] | None = None
        self._closing = False
        self._skipped = 0  # lines that were no message
        self._spoke = False  # it has sent a message

    def begin(self, reader: asyncio.StreamReader, deliver: Callable[[Any], None]) -> None:
        self._reading = asyncio.ensure_future(self._read(reader, deliver))

    async def send(self, message: Message) -> None:
        """Write a message. Raises ServerFailed."""
        try:
            self._writer.write(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise ConnectionLost(await self._how_it_ended()) from error

    async def _read(self, reader: asyncio.StreamReader, deliver: Callable[[Any], None]) -> None:
        pieces: list[bytes] = []
        size, why = 0, ""
        try:
            while data := await reader.read(_SERVER_READ_BYTES):
                *ended, rest = data.split(b"\n")
                for line in ended:
                    self._take(b"".join((*pieces, line)), deliver)
                    pieces, size = [], 0
                pieces.append(rest)
                if (size := size + len(rest)) > MAX_MESSAGE_BYTES:
                    why = f"it sent a message of more than {MAX_MESSAGE_BYTES // 1024 // 1024} MB"
                    break
                if self._skipped > MAX_JUNK_LINES and not self._spoke:
                    why = f"it wrote {MAX_JUNK_LINES:,} lines that are no message{self.hint}"
                    break
                await asyncio.sleep(0)  # what is there already is read without waiting: others go on too
        except OSError:
            pass  # as at the end: it is gone
        if not self._closing:
            self._lost(why or await self._how_it_ended())
            self.close()

    def _take(self, line: bytes, deliver: Callable[[Any], None]) -> None:
        """Take one line in; one that is no message goes into the log.

        Bytes that are no UTF-8 are replaced: an answer with some is one all the same.
        """
        if not line.strip():
            return
        try:
            message = json.loads(line.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError) as error:
            message = _unreadable(line, error)
        if isinstance(message, dict | list):
            self._spoke = True
            deliver(message)
        else:
            self._skipped += 1
            if self._skipped > MAX_LOGGED_JUNK_LINES:
                return
            self._log.take(b"[no message] " + line[:MAX_TOLD_LINE_CHARS] + b"\n")

    async def _how_it_ended(self) -> str:
        await asyncio.wait({self._command.exited}, timeout=_EXIT_WAIT_S)
        status = self._command.exited.result() if self._command.exited.done() else None
        code, signal_name = exit_code(status)
        how = "it closed its output" if code is None else f"it ended with exit code {code}"
        how = f"it was ended by {signal_name}" if signal_name else how
        return f"{how}: {self._log.last}" if self._log.last else how

    @property
    def hint(self) -> str:
        """What its output so far tells about why it does not answer."""
        if self._log.last:
            return f"; it wrote: {self._log.last}"
        return "; what it writes is no JSON-RPC" if self._skipped else ""

    def failure(self, reason: str) -> ServerFailed:
        return ServerFailed(reason)

    def close(self) -> None:
        """Close its input and end it, without waiting."""
        self._closing = True
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()
        self._writer.close()
        self._command.drop()


def _unreadable(line: bytes, error: Exception) -> Message | None:
    """That a request of ours has no answer, for a line that is one and cannot be read."""
    if (found := _ANSWERS_FIRST.match(line) or _ANSWERS_LAST.search(line[-MAX_TOLD_LINE_CHARS:])) is None:
        return None
    why = "it is nested too deeply" if isinstance(error, RecursionError) else error
    return {"id": int(found[1]), "error": {"message": f"its answer cannot be read: {why}"}}


async def open_stdio(
    processes: ServerProcesses,
    entry: ServerEntry,
    log: ServerLog,
    deliver: Callable[[Any], None],
    lost: Callable[[str], None],
) -> StdioConnection:
    """Start a server. Raises ServerFailed."""
    env = _environ(entry, processes.environ)
    path = find_program(entry, processes.environ, processes.folder)
    if path is None:
        raise ServerFailed(f"{no_program(entry)}; install it or correct the command")
    argv = [entry.command, *entry.args]
    try:
        supervisor = await processes.supervisor()
        command, end = supervisor.open.talk(
            log.take, path=path, argv=argv, env=env, cwd=str(processes.folder)
        )
    except (SupervisorLost, ValueError) as error:
        raise ServerFailed(str(error)) from error
    try:
        pid = await command.pid
        if isinstance(pid, OSError):
            raise ServerFailed(f"{entry.command} cannot be started: {pid.strerror}")
        end.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=end)
    except BaseException:
        end.close()
        command.drop()
        raise
    connection = StdioConnection(command, writer, log, lost)
    connection.begin(reader, deliver)
    return connection


def _environ(entry: ServerEntry, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server."""
    return {name: environ[name] for name in INHERITED_VARIABLES if name in environ} | dict(entry.env)


def no_program(entry: ServerEntry) -> str:
    """That the program of a server is missing, in words."""
    return f"there is no program {entry.command!r}"


def find_program(entry: ServerEntry, environ: Mapping[str, str], folder: Path) -> str | None:
    """The file of a server's program; a name with a slash is relative to the project's folder."""
    if "/" not in entry.command:
        return shutil.which(entry.command, path=_environ(entry, environ).get("PATH", os.defpath))
    found = folder / Path(entry.command).expanduser()
    return str(found) if os.access(found, os.X_OK) and found.is_file() else None
