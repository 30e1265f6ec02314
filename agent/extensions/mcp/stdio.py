"""Connections to MCP servers that are processes: one JSON message per line, on standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from typing import Any

from tools.files import is_inside, path_outside
from tools.processes import exit_status
from tools.sandbox import CommandHandle, SupervisorLost
from transcripts.wording import cause_of

from .entries import PROJECT_VARIABLE, ServerEntry
from .failures import ConnectionLost, ServerFailed
from .processes import ServerProcesses
from .requirements import find_program, missing_requirement, server_environ, server_folder
from .server_log import MAX_TOLD_LINE_CHARS, ServerLog
from .session import Message

MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # of one line of a server
MAX_JUNK_LINES = 100_000  # before its first message; with more it is stopped


class StdioConnection:
    """A running server. `lost` is called with the reason when it ends by itself."""

    def __init__(
        self,
        command: CommandHandle,
        writer: asyncio.StreamWriter,
        log: ServerLog,
        lost: Callable[[str], None],
    ) -> None:
        self._command = command
        self._writer = writer
        self._log = log
        self._lost = lost
        self._reading: asyncio.Task[None] | None = None
        self._closing = False
        self._skipped = 0  # lines that were not messages
        self._spoke = False  # it has sent a message

    def begin(self, reader: asyncio.StreamReader, deliver: Callable[[Any], None]) -> None:
        """Begin to read; `deliver` gets its messages."""
        self._reading = asyncio.ensure_future(self._read(reader, deliver))

    async def send(self, message: Message) -> None:
        """Write a message. Raises ServerFailed."""
        try:
            self._writer.write(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise ConnectionLost(await self._how_it_ended()) from error

    async def _read(self, reader: asyncio.StreamReader, deliver: Callable[[Any], None]) -> None:
        try:
            why = await self._read_lines(reader, deliver)
        except OSError:
            why = ""  # as at its end
        if not self._closing:
            self._lost(why or await self._how_it_ended())
            self.close()

    async def _read_lines(self, reader: asyncio.StreamReader, deliver: Callable[[Any], None]) -> str:
        """Read until the end; return the reason to stop the server, "" if it has ended. Raises OSError."""
        pieces: list[bytes] = []
        size = 0
        while data := await reader.read(1 << 16):
            *ended, rest = data.split(b"\n")
            for line in ended:
                self._take(b"".join((*pieces, line)), deliver)
                pieces = []
                size = 0
            pieces.append(rest)
            size += len(rest)
            if size > MAX_MESSAGE_BYTES:
                return f"it sent a message of more than {MAX_MESSAGE_BYTES // 1024 // 1024} MB"
            if self._skipped > MAX_JUNK_LINES and not self._spoke:
                return f"it wrote {MAX_JUNK_LINES:,} lines that are not messages{self.hint}"
            await asyncio.sleep(0)  # available data is read without waiting, so let other tasks run
        return ""

    def _take(self, line: bytes, deliver: Callable[[Any], None]) -> None:
        """Take one line. A line that is not a message goes into the log.

        Bytes that are not UTF-8 are replaced, since an answer with such bytes is still an answer.
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
            if self._skipped <= 100:
                self._log.take(b"[no message] " + line[:MAX_TOLD_LINE_CHARS] + b"\n")

    async def _how_it_ended(self) -> str:
        await asyncio.wait({self._command.exited}, timeout=0.5)
        self._log.end()
        status = self._command.exited.result() if self._command.exited.done() else None
        code, signal_name = exit_status(status)
        if signal_name:
            how = f"it was killed by {signal_name}"
        elif code is None:
            how = "it closed its output"
        else:
            how = f"it exited with code {code}"
        return f"{how}: {self._log.last}" if self._log.last else how

    @property
    def hint(self) -> str:
        """A clause about its output so far, which may contain the reason why it does not answer."""
        if self._log.last:
            return f"; it wrote: {self._log.last}"
        return "; its output is not JSON-RPC" if self._skipped else ""

    def failure(self, reason: str) -> ServerFailed:
        return ServerFailed(reason)

    def close(self) -> None:
        """Close its input and stop it, without waiting."""
        self._closing = True
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()
        self._writer.close()
        self._command.drop()


def _unreadable(line: bytes, error: Exception) -> Message | None:
    """Return a failure for the request that an unreadable line answers; None for other lines.

    Servers write the id first or last.
    """
    version = rb'"jsonrpc"\s*:\s*"2\.0"'
    ident = rb'"id"\s*:\s*"?(\d{1,9})"?'
    found = re.match(rb'\s*\{\s*(?:%b\s*,)?\s*%b\s*,\s*"(?:result|error)"' % (version, ident), line)
    if found is None:
        found = re.search(rb"%b\s*(?:,\s*%b\s*)?\}\s*$" % (ident, version), line[-300:])
    if found is None:
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
    folder = server_folder(entry, processes.folder)
    if not folder.is_dir():
        raise ServerFailed(f"its directory {entry.cwd!r} does not exist")
    path = find_program(entry, processes.environ, processes.folder)
    if path is None:
        raise ServerFailed(missing_requirement(entry, processes.environ, processes.folder))
    environ = {PROJECT_VARIABLE: str(processes.folder), **server_environ(entry, processes.environ)}
    if not is_inside(path, str(processes.folder)):
        # Programs that it starts itself, such as node for npx, must not be ones that a command has written.
        environ["PATH"] = path_outside(environ.get("PATH", os.defpath), str(processes.folder))
    try:
        supervisor = await processes.supervisor()
        command, end = supervisor.open.talk(
            log.take,
            path=path,
            argv=[entry.command, *entry.args],
            env=environ,
            cwd=str(folder),
        )
    except (SupervisorLost, ValueError) as error:
        raise ServerFailed(str(error)) from error
    try:
        pid = await command.pid
        if isinstance(pid, OSError):
            raise ServerFailed(f"{entry.command} cannot be started: {cause_of(pid)}")
        end.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=end)
    except BaseException:
        end.close()
        command.drop()
        raise
    connection = StdioConnection(command, writer=writer, log=log, lost=lost)
    connection.begin(reader, deliver)
    return connection
