"""A command in the background: its output so far, its state and the ports that it listens on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from tools.sandbox import CommandHandle, SandboxProfile

from .inbox import Inbox
from .spool import Spool

_STOPPED = {
    "asked": "stopped",
    "output": "stopped at the limit of its output",
    "session": "ended with the session",
    "others": "ended with all commands, as one of them could not be ended alone",
}


def exit_code(status: int | None) -> tuple[int | None, str | None]:
    """(exit code, name of the signal that ended the shell) of a raw wait status; 128 + n for a signal."""
    if status is None:
        return None, None
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code, None
    names = {each.value: each.name for each in signal.Signals}
    return 128 - code, names.get(-code, f"signal {-code}")


class CommandRequest(Struct, frozen=True):
    """A command line to run, in the sandbox or open."""

    line: str
    sandboxed: bool = False
    cwd: Path | None = None  # where it runs; None: in the session's current folder
    inbox: Inbox | None = None  # where its end is told, once it is in the background; None: in the session's
    since: int = 0  # seq of the reply that asked for it; 0: none did


class BackgroundJob(Struct, eq=False):
    """A command in the background. Its times are those of the event loop's clock."""

    id: str
    line: str
    command: CommandHandle
    spool: Spool
    inbox: Inbox  # of the session that started it
    since: int  # as of the request
    began: float
    left_over: bool = False  # by a command in the foreground: it ends with the last process
    sandbox: SandboxProfile | None = None  # that it runs within
    shown: int = 0  # bytes of its output that the model was shown
    last_output: float = 0.0
    ended: float | None = None  # None while it runs
    told_ports: set[int] = field(default_factory=set)  # that the user knows it serves
    stopped: Literal["asked", "output", "session", "others"] | None = None  # None: not ended by us
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)
    watching: asyncio.Future[None] | None = None

    @property
    def status(self) -> int | None:
        """The raw wait status of its shell; None while it runs, and where it was not learned."""
        return self.command.exited.result() if self.command.exited.done() else None

    @property
    def state(self) -> str:
        """One short phrase: running, or how it ended."""
        if self.ended is None:
            return "running"
        if self.left_over:
            return "ended, and all of its processes with it"
        code, signal_name = exit_code(self.status)
        how = _STOPPED[self.stopped] if self.stopped else "finished"
        if code is None:
            return how if self.stopped else "killed together with the process that watches commands"
        return f"{how}, exit code {code}{f' ({signal_name})' if signal_name else ''}"

    async def ports(self) -> list[int]:
        """The ports on which it listens in the sandbox; none of an open command."""
        return await self.command.listening_ports() if self.sandbox is not None and self.ended is None else []

    def take(self, data: bytes) -> None:
        """Take more output; at its limit the command is ended."""
        self.last_output = asyncio.get_running_loop().time()
        if not self.spool.feed(data) and self.stopped is None:
            self.stopped = "output"
            self.command.drop()
