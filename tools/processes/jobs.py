"""A command in the background: its output so far, its state and the ports that it listens on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, field

from tools.sandbox import CommandHandle, SandboxProfile

from .host_questions import HostQuestions
from .inbox import Inbox
from .spool import Spool

_STOPPED = {
    "asked": "stopped",
    "output": "stopped at its output limit",
    "session": "ended with the session",
    "others": "killed with all other commands, since one of them could not be ended separately",
}


class ExitStatus(NamedTuple):
    """The exit code of a process as in a shell, 128 + n for signal n, and the signal's name.

    Both are None for an unknown status.
    """

    code: int | None = None
    signal: str | None = None


def exit_status(status: int | None) -> ExitStatus:
    """Return the exit status in a raw wait status, None if that is unknown."""
    if status is None:
        return ExitStatus()
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return ExitStatus(code)
    names = {each.value: each.name for each in signal.Signals}
    return ExitStatus(128 - code, names.get(-code, f"signal {-code}"))


class CommandRequest(Struct, frozen=True):
    """A command line to run, inside or outside the sandbox.

    cwd        its directory; None for the session's current one
    inbox      takes the report of its end, if it is in the background; None for the session's
    since      seq of the reply that requested it; 0 for none
    questions  about the hosts that it wants to reach; None if none are asked
    """

    line: str
    sandboxed: bool = False
    cwd: Path | None = None
    inbox: Inbox | None = None
    since: int = 0
    questions: HostQuestions | None = None


class BackgroundJob(Struct, eq=False):
    """A command in the background. Times are by the event loop's clock."""

    id: str
    line: str
    command: CommandHandle
    spool: Spool
    inbox: Inbox  # of the session that started it
    since: int  # as in CommandRequest
    began: float
    left_over: bool = False  # by a command in the foreground, so it ends with its last process
    sandbox: SandboxProfile | None = None  # of its sandbox
    shown: int = 0  # bytes of its output shown to the model
    last_output: float = 0.0
    ended: float | None = None  # None while it runs
    told_ports: set[int] = field(default_factory=set)  # the ports reported to the user
    stopped: Literal["asked", "output", "session", "others"] | None = None  # None if not ended by us
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)
    watching: asyncio.Future[None] | None = None
    questions: HostQuestions | None = None  # about the hosts that it wants to reach

    @property
    def status(self) -> int | None:
        """The raw wait status of its shell; None while it runs, or if it is unknown."""
        return self.command.exited.result() if self.command.exited.done() else None

    @property
    def state(self) -> str:
        """A short phrase: running, or how it ended."""
        if self.ended is None:
            return "running"
        if self.left_over:
            return "ended"
        code, signal_name = exit_status(self.status)
        how = _STOPPED[self.stopped] if self.stopped else "finished"
        if code is None:
            return how if self.stopped else "killed together with the supervisor process"
        return f"{how}, exit code {code}{f' ({signal_name})' if signal_name else ''}"

    async def ports(self) -> list[int]:
        """Return the ports on which it listens in the sandbox; none for a command outside it."""
        return await self.command.listening_ports() if self.sandbox is not None and self.ended is None else []

    def take(self, data: bytes) -> None:
        """Take more output. The command is ended at its limit."""
        self.last_output = asyncio.get_running_loop().time()
        if not self.spool.feed(data) and self.stopped is None:
            self.stopped = "output"
            self.command.drop()
