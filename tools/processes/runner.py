"""The commands of a session: the supervisor that runs them, and the background commands.

Limits and reports of a command line are in bash.py and foreground.py, the containment of processes is in
supervisor_client.py.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

import tools.sandbox  # most of which a session without commands never loads
from transcripts.wording import shorten

from .command_context import CommandContext
from .env_filter import hide_own_environment
from .host_questions import HostQuestions, program_name
from .jobs import BackgroundJob, CommandRequest
from .session_shell import private_folder, shell_for
from .spool import Spool

if TYPE_CHECKING:
    from tools.sandbox import (
        BlockedAccess,
        CommandHandle,
        ProjectGuard,
        PublishedPorts,
        SandboxLevel,
        SandboxProfile,
        Supervisor,
    )
    from transcripts import RecordsGuard

DRAIN_LIMIT_S = 0.3  # for output left in the pipe when the shell has ended
_END_LIMIT_S = 3.0  # for the supervisor to end one command; after that all commands are ended


class StartedCommand(NamedTuple):
    """A command that runs, and the file in which its shell names its last directory."""

    command: CommandHandle
    report: Path


HostsSince = Callable[[float], Sequence[str]]  # what the proxy reports since that time.monotonic()


class CommandRunner:
    """Runs the commands of a session. `on_finish` gets the announcement of an ended background command."""

    def __init__(self, context: CommandContext) -> None:
        self.context = context
        self.on_finish: Callable[[str], None] = lambda announcement: None
        self.jobs: dict[str, BackgroundJob] = {}
        self.foreground: set[asyncio.Future[None]] = set()  # each moves its command to the background
        self.profile: SandboxProfile | None = None  # for sandboxed commands; made when the supervisor starts
        self.first_profile: Callable[[], Awaitable[SandboxProfile]] = self._usual_profile
        self.refused_hosts: HostsSince = lambda since: ()
        self.unreached_hosts: HostsSince = lambda since: ()  # why allowed hosts could not be reached
        self.records: RecordsGuard | None = None  # set once a command has run that can see our transcripts
        self.published: PublishedPorts | None = None  # set once a port was published
        self._refused: deque[tuple[str, CommandHandle]] = deque(maxlen=1_000)  # hosts, and who wanted them
        self._questions: list[HostQuestions] = []  # of running commands, those of the newest last
        self._supervisor: Supervisor | None = None
        self._starting: asyncio.Task[Supervisor] | None = None
        self.begun: asyncio.Task[Supervisor] | None = None  # started before the session was; not yet used
        self._count = 0

    @cached_property
    def guard(self) -> ProjectGuard:
        """The guard of the project's files."""
        return tools.sandbox.ProjectGuard(self.context.folder, self.context.journals.parent)

    async def supervisor(self) -> Supervisor:
        """Return the supervisor; a new one if none runs in this event loop. Raises SupervisorLost."""
        loop = asyncio.get_running_loop()
        if self._supervisor is not None and self._supervisor.alive and self._supervisor.loop is loop:
            return self._supervisor
        if self._starting is None or self._starting.done() or self._starting.get_loop() is not loop:
            self._starting = loop.create_task(self._start_supervisor())
        return await asyncio.shield(self._starting)

    async def _start_supervisor(self) -> Supervisor:
        if self._supervisor is not None:
            self._supervisor.abandon()
        with suppress(OSError):  # only an existing directory can be hidden
            self.context.outputs.mkdir(mode=0o700, exist_ok=True)
        starting = self.begun or begin_session_supervisor(self.context.environ)
        self.begun = None
        await asyncio.sleep(0)  # its process starts while the profile is made
        try:
            first = self.profile or await self.first_profile()
            supervisor = await asyncio.shield(starting)
            self.profile = self.profile or first  # another one may have been set in the meantime
            supervisor.start_sandbox(self.profile)
        except BaseException:
            if not starting.cancel() and starting.exception() is None:
                starting.result().abandon()
            raise
        self._supervisor = supervisor
        return supervisor

    async def _usual_profile(self) -> SandboxProfile:
        """Return the default sandbox of a session."""
        context = self.context
        home = Path(context.environ.get("HOME") or Path.home())
        return tools.sandbox.sandbox_profile(context.folder, home, context.environ, context.outputs)

    async def sandbox(self) -> tuple[SandboxLevel, str]:
        """Return the kind of sandbox, and the reason if it is "none". Raises SupervisorLost."""
        supervisor = await self.supervisor()
        await supervisor.sandbox_ready()
        return supervisor.sandbox, supervisor.why_no_sandbox

    async def use_profile(self, profile: SandboxProfile) -> None:
        """Run new sandboxed commands in another sandbox. Running ones keep theirs."""
        self.profile = profile
        if self._supervisor is not None and self._supervisor.alive:
            await self._supervisor.use_profile(profile)

    @contextmanager
    def asking(self, questions: HostQuestions | None) -> Iterator[None]:
        """Ask about the hosts that a command wants to reach, while it runs, in the foreground or not."""
        if questions is None:
            yield
            return
        self._questions.append(questions)
        try:
            yield
        finally:
            if all(job.questions is not questions for job in self.running):
                self._stop_asking(questions)

    def _stop_asking(self, questions: HostQuestions) -> None:
        if questions in self._questions:
            self._questions.remove(questions)
        questions.close()

    async def may_reach(self, host: str, address: str, port: int) -> bool:
        """Ask about a host, or that private address of it, as the AskHost of the network proxy.

        The question is one of the command that has connected from a port of the sandbox's network. If no
        such command is found, it is one of the newest command.
        """
        supervisor = await self.supervisor()
        found = await supervisor.connected_command(port) if port else None
        program = program_name(found.program, str(self.context.folder)) if found is not None else ""
        allowed = False
        for questions in reversed(self._questions):
            if found is None or questions.command is found.command:
                allowed = await questions.may_reach(host, address, program)
                break
        if not allowed and found is not None:
            self._refused.append((host, found.command))
        return allowed

    async def start(
        self,
        line: str,
        cwd: Path,
        take: Callable[[bytes], object],
        *,
        sandboxed: bool = False,
        questions: HostQuestions | None = None,
    ) -> StartedCommand:
        """Start a command line.

        `take` gets the output. `sandboxed`: it runs in the sandbox, or not at all (SupervisorLost), and the
        file's content is not trusted. `questions` are those about its hosts. Raises SupervisorLost, OSError
        (no bash, no such directory). When cancelled, the command is ended.
        """
        supervisor = await self.supervisor()
        self._count += 1
        written = self.profile.writable if self.profile is not None else ()
        held = self.profile.held if self.profile is not None else ()
        if sandboxed:
            level, _ = await self.sandbox()
            self.guard.restores = level == "landlock"
            if self.guard.restores and self.profile is not None:
                self.guard.also = self.profile.linked
            await self.guard.begin(written, held)
        else:
            await self.guard.check()
        report = (supervisor.scratch if sandboxed else supervisor.private) / f"cwd-{self._count}"
        try:
            shell = shell_for(self.context, line, supervisor.private, report)
            command = supervisor.run(
                take, sandboxed, path=shell.path, argv=shell.argv, env=shell.env, cwd=str(cwd)
            )
        except BaseException:
            if sandboxed:
                await self.guard.end()
            raise
        if questions is not None:
            questions.command = command
        if sandboxed:
            self.guard.end_after(command.over)
        try:
            pid = await command.pid
        except asyncio.CancelledError:
            command.drop()
            raise
        if isinstance(pid, OSError):
            raise pid
        return StartedCommand(command, report)

    async def end(self, command: CommandHandle) -> None:
        """End a command and its processes immediately; if it cannot be ended separately, end all commands."""
        command.end()
        await asyncio.wait({command.over}, timeout=_END_LIMIT_S)
        if not command.over.done():
            await self._end_all("others")

    async def stop(self, job: BackgroundJob) -> None:
        """End a background command and its processes after taking its last output."""
        if job.ended is None and job.stopped is None:
            job.stopped = "asked"
        await self.end(job.command)
        await asyncio.wait_for(job.has_ended.wait(), 2.0)  # for its last output

    def add(
        self, request: CommandRequest, command: CommandHandle, spool: Spool, *, left_over: bool = False
    ) -> BackgroundJob:
        """Add a command as a background command, whose output goes to a file."""
        now = asyncio.get_running_loop().time()
        job = BackgroundJob(
            id=f"b{len(self.jobs) + 1}",
            line=request.line,
            command=command,
            spool=spool,
            inbox=request.inbox or self.context.inbox,
            since=request.since,
            began=now,
            left_over=left_over,
            sandbox=self.profile if request.sandboxed else None,
            questions=request.questions,
            shown=spool.total if left_over else 0,
            last_output=now,
        )
        self.jobs[job.id] = job
        if (questions := job.questions) is not None:
            questions.job = job.id
            questions.tell = lambda words: job.inbox.post(f"[{job.id}: {words}]", since=job.since)
        spool.keep()
        command.take = job.take
        job.watching = asyncio.ensure_future(self._watch(job))
        return job

    @property
    def has_started(self) -> bool:
        """Return whether a command line was started; git and searches are not."""
        return self._count > 0

    def blocked_access(
        self,
        request: CommandRequest,
        profile: SandboxProfile,
        output: str,
        since: float,
        *,
        failed: bool = True,
    ) -> BlockedAccess | None:
        """Find the blocked access of a command that ran since a time, by the end of its output."""
        hosts = self.refused_hosts(since)
        if (questions := request.questions) is not None:
            mine = {host for host, command in self._refused if command is questions.command}
            others = {host for host, _ in self._refused} - mine
            hosts = [host for host in hosts if host not in others]
        run = self._finished_run(request, profile, output)
        unreached = self.unreached_hosts(since)
        return tools.sandbox.find_blocked_access(
            replace(run, hosts=hosts, unreached=unreached, failed=failed)
        )

    def unnamed_refusal(
        self, request: CommandRequest, profile: SandboxProfile, output: str, *, failed: bool
    ) -> str:
        """Return the reason why a command may have been refused something that it does not name."""
        run = self._finished_run(request, profile, output)
        return tools.sandbox.unnamed_refusal(replace(run, failed=failed))

    def _finished_run(
        self, request: CommandRequest, profile: SandboxProfile, output: str
    ) -> tools.sandbox.SandboxedRun:
        supervisor = self._supervisor
        return tools.sandbox.SandboxedRun(
            line=request.line,
            cwd=request.cwd or self.context.cwd,
            output=output,
            profile=profile,
            private=supervisor.scratch if supervisor is not None else None,
            loopback=supervisor is None or supervisor.sandbox == "namespaces",
            published=self.published.ports if self.published is not None else (),
        )

    def blocked_access_of(self, job: BackgroundJob) -> BlockedAccess | None:
        """Find the blocked access of a background command that has failed; None for any other."""
        if job.sandbox is None or job.ended is None or not job.status or job.stopped:
            return None
        request = CommandRequest(job.line, sandboxed=True, questions=job.questions)
        output = job.spool.tail(tools.sandbox.MAX_SCANNED_CHARS).decode("utf-8", "replace")
        return self.blocked_access(request, profile=job.sandbox, output=output, since=job.began)

    async def _watch(self, job: BackgroundJob) -> None:
        """Wait until a background command ends, and announce it.

        It ends with its shell, or with the last process if its processes were left over.
        """
        command = job.command
        await asyncio.wait({command.over if job.left_over else command.exited})
        if not job.left_over:  # output in the pipe belongs to the job, later output is not waited for
            await asyncio.wait({command.closed}, timeout=DRAIN_LIMIT_S)
        job.ended = asyncio.get_running_loop().time()
        job.spool.flush()
        job.has_ended.set()
        for_user, for_model = self._announcements(job)
        job.inbox.post(f"[{for_model}]", job.id, job.since)
        self.on_finish(for_user)
        if (guard := self.records) is not None:
            await guard.later(busy=bool(self.running))
        await asyncio.wait({command.over})
        if job.questions is not None:
            self._stop_asking(job.questions)
        command.close()
        job.spool.close()

    def _announcements(self, job: BackgroundJob) -> tuple[str, str]:
        """Return the announcements of a command's end, for the user and for the model.

        The user sees where the output is with /tasks.
        """
        took = (job.ended or job.began) - job.began
        stored = job.spool.stored(self.context.folder)
        where = f" Output: {stored.path} ({stored.size:,} bytes)." if stored else " It had no output."
        lost = ""
        if stored is None and job.spool.total:
            where = lost = f" Its output is not stored: {job.spool.error}."
        line = job.line.strip()[:200]
        short = shorten(" ".join(line.split()), 60)
        refusal = self.blocked_access_of(job)
        refused = f" It was {refusal}." if refusal is not None else ""
        guarded = "".join(f"\n{line}" for line in self.guard.take_reports())
        how = f"{job.state}, after {took:.1f} s.{refused}"
        for_user = f"Background command {job.id} ({short}) {how}{lost}{guarded}"
        return for_user, f"Background command {job.id} ({line}) {how}{where}{guarded}"

    @property
    def running(self) -> list[BackgroundJob]:
        return [job for job in self.jobs.values() if job.ended is None]

    async def close(self) -> None:
        """End all commands and all of their processes, including background ones."""
        if self.published is not None:
            await self.published.close()
        if self.begun is not None:
            await abandon_start(self.begun)
        if self._starting is not None and self._starting.get_loop() is asyncio.get_running_loop():
            await asyncio.wait({self._starting})
        await self._end_all("session")

    async def _end_all(self, why: Literal["session", "others"]) -> None:
        for job in self.running:
            job.stopped = job.stopped or why
        if self._supervisor is not None:
            await self._supervisor.close()
            if "guard" in vars(self):  # else it has not been needed
                await self.guard.close()
            with suppress(OSError):  # not empty if an output was too long
                self.context.outputs.rmdir()
        for job in self.jobs.values():
            job.spool.close()


def begin_session_supervisor(environ: Mapping[str, str]) -> asyncio.Task[Supervisor]:
    """Start the supervisor of a session, which can be used by `CommandRunner.begun`."""
    return asyncio.ensure_future(begin_supervisor(private_folder(), environ))


async def abandon_start(starting: asyncio.Task[Supervisor]) -> None:
    """End a supervisor that was started and not used."""
    starting.cancel()
    await asyncio.wait({starting})
    if not starting.cancelled() and starting.exception() is None:
        starting.result().abandon()


async def begin_supervisor(private: Path, environ: Mapping[str, str]) -> Supervisor:
    """Start a supervisor, with MAKEROOM_NAMESPACE=off without namespaces. Raises SupervisorLost.

    It removes the directory `private` when it ends; if it cannot be started, that is removed here. Without
    namespaces commands could read the environment of this process, so that is hidden from them.
    """
    enclose = environ.get("MAKEROOM_NAMESPACE", "").lower() not in ("off", "0", "no", "false")
    try:
        supervisor = await tools.sandbox.start_supervisor(private, enclose=enclose)
    except BaseException:
        shutil.rmtree(private, ignore_errors=True)
        raise
    if supervisor.how != "namespace":
        hide_own_environment()
    return supervisor


async def guard_of_records(runner: CommandRunner) -> RecordsGuard | None:
    """Return the guard that restores our transcripts after commands; None if no command can see them.

    Raises SupervisorLost.
    """
    is_seen = runner.context.records is not None and (await runner.supervisor()).how != "namespace"
    runner.records = runner.context.records if is_seen else None
    return runner.records


def command_runner(context: CommandContext) -> CommandRunner:
    """The session's commands, made on first use."""
    if not isinstance(context.jobs, CommandRunner):
        context.jobs = CommandRunner(context)
    return context.jobs
