"""A session's commands: the supervisor that runs them, and those that run in the background.

How a command line is judged, limited and reported is for bash.py and foreground.py; how processes are held is
for supervisor_client.py.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from tools.sandbox import (
    MAX_SCANNED_CHARS,
    BlockedAccess,
    CommandHandle,
    SandboxedRun,
    SandboxLevel,
    SandboxProfile,
    Supervisor,
    find_blocked_access,
    project_guard,
    sandbox_profile,
    start_supervisor,
)

from .command_context import CommandContext, RecordsGuard
from .env_filter import filter_environment, hide_own_environment
from .inbox import Inbox
from .spool import Spool

if TYPE_CHECKING:
    from tools.sandbox import PublishedPorts

DRAIN_LIMIT_S = 0.3  # for output that is still in the pipe when the shell has ended
_END_LIMIT_S = 3.0  # for the supervisor to end one command; past it every command is ended
_LAST_OUTPUT_LIMIT_S = 2.0  # for the output of a command that was ended to be over
_MAX_ARGUMENT_BYTES = 100_000  # Linux takes at most 131,072 in one argument
_MAX_REPORT_BYTES = 4_096  # of a folder's path: PATH_MAX of Linux
# Run by bash before the command (BASH_ENV): the shell reports its last folder (`~+` where that is gone)
# through a private file, which leaves the command itself, its exit status, its descriptors and its output as
# they are. When memory runs out, the kernel shall end the command and not the agent.
_PRELUDE = """\
{ echo 800 >/proc/self/oom_score_adj; } 2>/dev/null
[ -z "$MAKEROOM_CWD" ] || trap "{ set +xe; { builtin pwd -P || echo ~+; } >|$MAKEROOM_CWD; } 2>/dev/null" EXIT
unset BASH_ENV MAKEROOM_CWD
"""
_MAX_ANNOUNCED_CHARS = 200  # of a command line
_SWITCHED_OFF = ("off", "0", "no", "false")  # as values of MAKEROOM_NAMESPACE
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


def last_folder(report: Path) -> str | None:
    """The real folder that a shell wrote into its report, which is removed; None where it wrote none.

    It could not with `exec`, an EXIT trap of its own, KILL. A sandboxed command may put anything in its
    place.
    """
    try:
        fd = os.open(report, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        plain = stat.S_ISREG(os.fstat(fd).st_mode)
        text = os.fsdecode(file.read(_MAX_REPORT_BYTES) if plain else b"").removesuffix("\n")
    with suppress(OSError):
        report.unlink()
    return os.path.realpath(text) if text.startswith("/") and "\0" not in text else None


class CommandRequest(Struct, frozen=True):
    """A command line to run, in the sandbox or open."""

    line: str
    sandboxed: bool = False
    cwd: Path | None = None  # where it runs; None: in the session's current folder
    inbox: Inbox | None = None  # where its end is told, once it is in the background; None: in the session's
    since: int = 0  # seq of the reply that asked for it; 0: none did


class BackgroundJob(Struct, eq=False):
    """A command in the background. Its times are those of the event loop's clock."""

    runner: CommandRunner
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

    def refusal(self) -> BlockedAccess | None:
        """Find the access that was blocked for a command that has failed; None for any other."""
        if self.sandbox is None or self.ended is None or not self.status or self.stopped:
            return None
        request = CommandRequest(self.line, sandboxed=True)
        return self.runner.blocked_access(request, self.sandbox, self.spool, self.began)

    def _announcement(self) -> str:
        """Return the announcement of its end: the same to the user and to the model."""
        took = (self.ended or self.began) - self.began
        stored = self.spool.stored(self.runner.context.folder)
        where = f" Output: {stored.path} ({stored.size:,} bytes)." if stored else " It wrote nothing."
        line = self.line.strip()[:_MAX_ANNOUNCED_CHARS]
        refusal = self.refusal()
        refused = f" It was {refusal}." if refusal is not None else ""
        guarded = "".join(f"\n{line}" for line in self.runner.guard.take_reports())
        how = f"{self.state}, after {took:.1f} s.{refused}"
        return f"Background command {self.id} ({line}) {how}{where}{guarded}"

    def take(self, data: bytes) -> None:
        """Take more output; at its limit the command is ended."""
        self.last_output = asyncio.get_running_loop().time()
        if not self.spool.feed(data) and self.stopped is None:
            self.stopped = "output"
            self.command.drop()

    async def watch(self) -> None:
        """Notice the end: of the shell, or for what was left over, of the last process."""
        command = self.command
        await asyncio.wait({command.over if self.left_over else command.exited})
        if not self.left_over:  # what is in the pipe belongs to the job, what comes later is not waited for
            await asyncio.wait({command.closed}, timeout=DRAIN_LIMIT_S)
        self.ended = asyncio.get_running_loop().time()
        self.spool.flush()
        self.has_ended.set()
        announcement = self._announcement()
        self.inbox.post(f"[{announcement}]", self.id, self.since)
        self.runner.on_finish(announcement)
        if (guard := self.runner.records) is not None:
            await guard.later(busy=bool(self.runner.running))
        await asyncio.wait({command.over})
        command.close()
        self.spool.close()


RefusedHosts = Callable[[float], Sequence[str]]  # the network's proxy refused since that time.monotonic()


class CommandRunner:
    """Runs the commands of a session. `on_finish` takes what is told when one in the background has ended."""

    def __init__(self, context: CommandContext) -> None:
        self.context = context
        self.on_finish: Callable[[str], None] = lambda announcement: None
        self.jobs: dict[str, BackgroundJob] = {}
        self.foreground: set[asyncio.Future[None]] = set()  # each has its command go on in the background
        self.profile: SandboxProfile | None = None  # of sandboxed commands; made when the supervisor starts
        self.refused_hosts: RefusedHosts = lambda since: ()
        self.guard = project_guard(context.folder, context.journals.parent)
        self.records: RecordsGuard | None = None  # once a command has run that sees our records
        self.published: PublishedPorts | None = None  # once a port was
        self._supervisor: Supervisor | None = None
        self._starting: asyncio.Task[Supervisor] | None = None
        self._private: Path | None = None
        self._count = 0

    async def supervisor(self) -> Supervisor:
        """The supervisor; a new one where none runs in this event loop. Raises SupervisorLost."""
        loop = asyncio.get_running_loop()
        if self._supervisor is not None and self._supervisor.alive and self._supervisor.loop is loop:
            return self._supervisor
        if self._starting is None or self._starting.done() or self._starting.get_loop() is not loop:
            self._starting = loop.create_task(self._start_supervisor())
        return await asyncio.shield(self._starting)

    async def _start_supervisor(self) -> Supervisor:
        if self._supervisor is not None:
            self._supervisor.abandon()
        self._private = private = _private_folder()
        with suppress(OSError):  # only a folder that is there can be hidden
            self.context.outputs.mkdir(mode=0o700, exist_ok=True)
        self.profile = self.profile or _usual_profile(self.context)
        try:
            enclose = self.context.environ.get("MAKEROOM_NAMESPACE", "").lower() not in _SWITCHED_OFF
            self._supervisor = await start_supervisor(private, enclose=enclose, profile=self.profile)
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise
        if self._supervisor.how != "namespace":
            hide_own_environment()
        return self._supervisor

    async def sandbox(self) -> tuple[SandboxLevel, str]:
        """Return the kind of sandbox, and the reason where it is "none". Raises SupervisorLost."""
        supervisor = await self.supervisor()
        await supervisor.sandbox_ready()
        self.guard.restores = supervisor.sandbox == "landlock"
        return supervisor.sandbox, supervisor.why_no_sandbox

    async def use_profile(self, profile: SandboxProfile) -> None:
        """Run sandboxed commands within another sandbox from now on; those under way keep theirs."""
        self.profile = profile
        if self._supervisor is not None and self._supervisor.alive:
            await self._supervisor.use_profile(profile)

    async def start(
        self, line: str, cwd: Path, take: Callable[[bytes], object], *, sandboxed: bool = False
    ) -> tuple[CommandHandle, Path]:
        """Start a command line: (the command, the file where its shell will write its last folder).

        `take` gets the output. `sandboxed`: it runs in the sandbox, or not at all (SupervisorLost); what is
        in the file is then not to be trusted. Raises SupervisorLost, OSError (no bash, no such folder). When
        cancelled, the command is ended.
        """
        supervisor = await self.supervisor()
        assert self._private is not None
        self._count += 1
        written = self.profile.writable if self.profile is not None else ()
        await (self.guard.begin(written) if sandboxed else self.guard.check())
        report = (supervisor.scratch if sandboxed else self._private) / f"cwd-{self._count}"
        shell = _shell(self.context, line, self._private, report)
        try:
            if sandboxed:
                await self.sandbox()
            command = supervisor.run(take, sandboxed, cwd=str(cwd), **shell)
        except BaseException:
            if sandboxed:
                await self.guard.end()
            raise
        if sandboxed:
            self.guard.end_after(command.over)
        try:
            pid = await command.pid
        except asyncio.CancelledError:
            command.drop()
            raise
        if isinstance(pid, OSError):
            raise pid
        return command, report

    async def end(self, command: CommandHandle) -> None:
        """End a command and all that it started, now; where it cannot be ended alone, all commands."""
        command.end()
        await asyncio.wait({command.over}, timeout=_END_LIMIT_S)
        if not command.over.done():
            await self._end_all("others")

    async def stop(self, job: BackgroundJob) -> None:
        """End a background command and all that it started; its last output is taken first."""
        if job.ended is None and job.stopped is None:
            job.stopped = "asked"
        await self.end(job.command)
        if job.ended is None:
            await asyncio.wait_for(job.has_ended.wait(), _LAST_OUTPUT_LIMIT_S)

    def add(
        self, request: CommandRequest, command: CommandHandle, spool: Spool, *, left_over: bool = False
    ) -> BackgroundJob:
        """Keep a command as one in the background; its output is in a file from now on."""
        now = asyncio.get_running_loop().time()
        id = f"b{len(self.jobs) + 1}"
        shown = spool.total if left_over else 0
        line = request.line
        sandbox = self.profile if request.sandboxed else None
        told = request.inbox or self.context.inbox
        since = request.since
        job = BackgroundJob(self, id, line, command, spool, told, since, now, left_over, sandbox, shown, now)
        self.jobs[job.id] = job
        spool.keep()
        command.take = job.take
        job.watching = asyncio.ensure_future(job.watch())
        return job

    @property
    def scratch(self) -> Path | None:
        """Return the directory that sandboxed commands may write besides the project; None before any ran."""
        return self._supervisor.scratch if self._supervisor is not None else None

    def blocked_access(
        self,
        request: CommandRequest,
        profile: SandboxProfile,
        spool: Spool,
        since: float,
        *,
        failed: bool = True,
    ) -> BlockedAccess | None:
        """Find the access that was blocked for a command, judged by its output; it ran since then."""
        return find_blocked_access(
            SandboxedRun(
                line=request.line,
                cwd=request.cwd or self.context.cwd,
                output=spool.tail(MAX_SCANNED_CHARS).decode("utf-8", "replace"),
                profile=profile,
                private=self.scratch,
                hosts=self.refused_hosts(since),
                loopback=self._supervisor is None or self._supervisor.sandbox == "namespaces",
                failed=failed,
            )
        )

    @property
    def running(self) -> list[BackgroundJob]:
        return [job for job in self.jobs.values() if job.ended is None]

    async def close(self) -> None:
        """End every command, those in the background and what they left; none of their processes stays."""
        if self.published is not None:
            await self.published.close()
        if self._starting is not None and self._starting.get_loop() is asyncio.get_running_loop():
            await asyncio.wait({self._starting})
        await self._end_all("session")

    async def _end_all(self, why: Literal["session", "others"]) -> None:
        for job in self.running:
            job.stopped = job.stopped or why
        if self._supervisor is not None:
            await self._supervisor.close()
            await self.guard.close()
            with suppress(OSError):  # it is empty where no output was too long
                self.context.outputs.rmdir()
        for job in self.jobs.values():
            job.spool.close()


def _private_folder() -> Path:
    """A new folder for the supervisor, with what each shell runs first."""
    private = Path(tempfile.mkdtemp(prefix="makeroom-"))
    (private / "prelude").write_text(_PRELUDE)
    return private


def _usual_profile(context: CommandContext) -> SandboxProfile:
    """The sandbox of a session for which nobody chose one."""
    home = Path(context.environ.get("HOME") or Path.home())
    return sandbox_profile(context.folder, home, context.environ, context.outputs)


def _shell(context: CommandContext, line: str, private: Path, report: Path) -> dict[str, Any]:
    """The shell that runs a command line and reports its last folder: its path, argv and env."""
    environ = filter_environment(context.environ, context.pass_env)
    path = shutil.which("bash", path=environ["PATH"]) or "/bin/bash"
    argv = ["bash", "--noprofile", "--norc", "-c", line]
    if len(line.encode()) > _MAX_ARGUMENT_BYTES:
        script = private / report.with_suffix(".sh").name
        script.write_text(line, newline="")
        argv[3:] = [str(script)]
    environ["BASH_ENV"] = str(private / "prelude")
    environ["MAKEROOM_SESSION"] = context.session
    environ["MAKEROOM_CWD"] = shlex.quote(str(report))
    return {"path": path, "argv": argv, "env": environ}


async def guard_of_records(runner: CommandRunner) -> RecordsGuard | None:
    """Return the guard that restores our transcripts after commands; None where no command sees them.

    Raises SupervisorLost.
    """
    is_seen = runner.context.records is not None and (await runner.supervisor()).how != "namespace"
    runner.records = runner.context.records if is_seen else None
    return runner.records


def command_runner(context: CommandContext) -> CommandRunner:
    """The session's commands, made on first use."""
    if context.jobs is None:
        context.jobs = CommandRunner(context)
    runner: CommandRunner = context.jobs
    return runner
