"""A session's commands: the supervisor that runs them, made when first needed, and those in the background.

How a command line is judged, limited and reported is bash.py's; how processes are held is process.py's.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .base import ToolContext
from .env_filter import filter_environment
from .spool import Spool
from .supervisor_client import (
    CommandHandle,
    CommandStart,
    SupervisorClient,
    SupervisorLost,
    hide_own_environment,
    start,
)

DRAIN = 0.3  # seconds that output may still come after the shell ended
_ENDS_IN = 3.0  # seconds in which the supervisor ends a tree; past it everything is ended
_LAST_WORDS = 2.0  # seconds in which the output of a command that was ended is over
_LONG = 100_000  # bytes; Linux takes at most 131,072 for one argument
# Run by bash before the command (BASH_ENV): the shell reports its last folder through a private file, which
# leaves the command itself, its exit status, its descriptors and its output as they are. When memory runs
# out the kernel shall take the command, not the agent.
_PRELUDE = """\
{ echo 800 >/proc/self/oom_score_adj; } 2>/dev/null
[ -z "$MAKEROOM_CWD" ] || trap "{ set +xe; builtin pwd -P >|$MAKEROOM_CWD; } 2>/dev/null" EXIT
unset BASH_ENV MAKEROOM_CWD
"""


def code_of(status: int | None) -> tuple[int | None, str | None]:
    """(exit code, name of the signal that ended the shell) of a raw wait status; 128 + n for a signal."""
    if status is None:
        return None, None
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code, None
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return 128 - code, name


@dataclass(slots=True, eq=False)
class BackgroundJob:
    """A command in the background. `seen` is how much of its output the model was shown, in bytes.

    `left_over` marks what a command in the foreground left running: it has ended when all of it has.
    """

    id: str
    line: str
    command: CommandHandle
    spool: Spool
    began: float
    left_over: bool = False
    seen: int = 0
    ended: float | None = None
    last_output: float = 0.0
    announced: bool = False
    stopped: str | None = None  # why we ended it: "asked", "output"
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    tell: Callable[[BackgroundJob], None] = lambda job: None  # that it ended
    end: Callable[[], None] = lambda: None  # ends it, without waiting

    @property
    def state(self) -> str:
        """One short phrase: running, or how it ended."""
        if self.ended is None:
            return "running"
        code, name = code_of(self.command.exited.result() if self.command.exited.done() else None)
        why = {"asked": "stopped", "output": "stopped at the limit of its output"}.get(
            self.stopped or "", "finished"
        )
        if self.left_over:
            return "ended, and all of its processes with it"
        return f"{why}, exit code {code}{f' ({name})' if name else ''}"

    def take(self, data: bytes) -> None:
        """More output came; at its limit the command is ended."""
        self.last_output = asyncio.get_running_loop().time()
        if not self.spool.feed(data) and self.stopped is None:
            self.stopped = "output"
            self.end()

    def watch(self) -> None:
        """Notice the end: of the shell, or for what was left over, of the last process."""
        if self.left_over:
            self.command.over.add_done_callback(lambda _: self._finish())
        else:
            self.command.exited.add_done_callback(lambda _: self._ending())

    def _ending(self) -> None:
        """The shell has ended: what is in the pipe belongs to it, what comes later does not hold us."""
        if self.command.closed.done():
            self._finish()
            return
        self.command.closed.add_done_callback(lambda _: self._finish())
        asyncio.get_running_loop().call_later(DRAIN, self._finish)

    def _finish(self) -> None:
        if self.ended is not None:
            return
        self.ended = asyncio.get_running_loop().time()
        self.spool.flush()
        self.command.over.add_done_callback(lambda _: self._shut())
        self.changed.set()
        self.tell(self)

    def _shut(self) -> None:
        self.command.close()
        self.spool.close()


class CommandRunner:
    """What a session has running. `on_finish` is told of a background command at the moment it ends."""

    def __init__(self, context: ToolContext) -> None:
        self.context = context
        self.on_finish: Callable[[BackgroundJob], None] = lambda job: None
        self.jobs: dict[str, BackgroundJob] = {}
        self._supervisor: SupervisorClient | None = None
        self._starting: asyncio.Task[SupervisorClient] | None = None
        self._private: Path | None = None
        self._count = 0

    async def supervisor(self) -> SupervisorClient:
        """The running supervisor; a new one where there is none, or its event loop is gone.

        Raises SupervisorLost.
        """
        loop = asyncio.get_running_loop()
        if self._supervisor is not None and self._supervisor.alive and self._supervisor.loop is loop:
            return self._supervisor
        if self._starting is None or self._starting.get_loop() is not loop:
            self._starting = loop.create_task(self._start())
        try:
            return await asyncio.shield(self._starting)
        finally:
            if self._starting is not None and self._starting.done():
                self._starting = None

    async def _start(self) -> SupervisorClient:
        if self._supervisor is not None:
            self._supervisor.abandon()
        self._private = Path(tempfile.mkdtemp(prefix="makeroom-"))
        (self._private / "prelude").write_text(_PRELUDE)
        wanted = self.context.environ.get("MAKEROOM_NAMESPACE", "").lower() not in ("off", "0", "no", "false")
        try:
            self._supervisor = await start(self._private, enclose=wanted)
        except SupervisorLost:
            shutil.rmtree(self._private, ignore_errors=True)
            raise
        if self._supervisor.how.result() != "namespace":
            hide_own_environment()
        return self._supervisor

    async def start(
        self, line: str, cwd: Path, take: Callable[[bytes], object]
    ) -> tuple[CommandHandle, Path]:
        """Start a command line; (the command, the file where its shell will write its last folder).

        Raises SupervisorLost, OSError (no bash, no such folder).
        """
        environ = filter_environment(self.context.environ, self.context.passed)
        path = shutil.which("bash", path=environ["PATH"]) or "/bin/bash"
        supervisor = await self.supervisor()
        assert self._private is not None
        self._count += 1
        report = self._private / f"cwd-{self._count}"
        argv = ["bash", "--noprofile", "--norc", "-c", line]
        if len(line.encode()) > _LONG:
            script = self._private / f"command-{self._count}"
            script.write_text(line, newline="")
            argv[3:] = [str(script)]
        environ["BASH_ENV"] = str(self._private / "prelude")
        environ["MAKEROOM_CWD"] = shlex.quote(str(report))
        return supervisor.run(CommandStart(path, argv, environ, cwd), take), report

    async def end(self, command: CommandHandle) -> bool:
        """End a command and everything it started, now. False: only the end of all commands did it."""
        if self._supervisor is not None:
            self._supervisor.end(command)
        await asyncio.wait({command.over}, timeout=_ENDS_IN)
        if command.over.done():
            return True
        await self.close()
        return False

    async def stop(self, job: BackgroundJob) -> None:
        """End a background command and everything it started; its last output is taken first."""
        if job.ended is None and job.stopped is None:
            job.stopped = "asked"
        await self.end(job.command)
        if job.ended is None:
            await asyncio.wait_for(job.changed.wait(), _LAST_WORDS)

    def drop(self, command: CommandHandle) -> None:
        """As `end`, without waiting: the supervisor does the rest. For a call that was cancelled."""
        command.close()
        if self._supervisor is not None:
            self._supervisor.end(command)

    async def left(self, command: CommandHandle) -> list[tuple[int, str]]:
        return await self._supervisor.left(command) if self._supervisor is not None else []

    def add(
        self, line: str, command: CommandHandle, spool: Spool, *, left_over: bool = False
    ) -> BackgroundJob:
        """Keep a command as one in the background; its output is in a file from now on."""
        loop = asyncio.get_running_loop()
        job = BackgroundJob(f"b{len(self.jobs) + 1}", line, command, spool, loop.time(), left_over)
        job.last_output = loop.time()
        job.seen = spool.total if left_over else 0
        self.jobs[job.id] = job
        spool.keep()
        job.tell = lambda job: self.on_finish(job)
        job.end = lambda: self.drop(command)
        command.take = job.take
        job.watch()
        return job

    def finished(self) -> list[BackgroundJob]:
        """The background commands that ended since the last question and that the model was not told of."""
        news = [job for job in self.jobs.values() if job.ended is not None and not job.announced]
        for job in news:
            job.announced = True
        return news

    @property
    def running(self) -> list[BackgroundJob]:
        return [job for job in self.jobs.values() if job.ended is None]

    async def close(self) -> None:
        """End every command, background ones and what they left; nothing of them lives afterwards."""
        if self._starting is not None and self._starting.get_loop() is asyncio.get_running_loop():
            with suppress(SupervisorLost, asyncio.CancelledError):
                await self._starting
        if self._supervisor is not None:
            await self._supervisor.close()
        for job in self.jobs.values():
            job.spool.close()


def jobs_of(context: ToolContext) -> CommandRunner:
    """The session's commands, made on first use."""
    if context.jobs is None:
        context.jobs = CommandRunner(context)
    jobs: CommandRunner = context.jobs
    return jobs


def announcement(job: BackgroundJob, context: ToolContext) -> str:
    """What the model is told when a background command ended by itself."""
    took = (job.ended or job.began) - job.began
    stored = job.spool.stored(context.folder)
    where = f" Output: {stored.path} ({stored.size:,} bytes)." if stored else " It wrote nothing."
    return f"Background command {job.id} ({job.line.strip()[:200]}) {job.state}, after {took:.1f} s.{where}"


async def close(context: ToolContext) -> None:
    """End everything that the session's commands started. For the agent's way out, signals included."""
    if context.jobs is not None:
        await jobs_of(context).close()


async def warm(context: ToolContext) -> None:
    """Start what runs commands before the first command needs it (0.05 s in the background)."""
    await jobs_of(context).supervisor()
