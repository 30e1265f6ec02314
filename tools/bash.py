"""The bash tool: command lines in the project's folder, in the foreground or the background.

This file says what the model may ask for and joins the parts: shell.py reads command lines, bash_run.py runs
one, bash_result.py words the outcome, jobs.py keeps what runs, process.py and process_supervisor/ hold the
processes. Variables and functions do not outlive a command; the folder does. A command that replaces its
shell (`exec`) or sets an EXIT trap of its own leaves the folder as it was.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import Field

from transcripts.stored_outputs import sync_output

from .base import Access, Arguments, ToolCall, ToolContext, ToolError, ToolResult, text_result
from .bash_result import job_outcome, outcome
from .bash_run import CommandEnd, CommandLimits, ProgressThrottle, run_foreground
from .command_hints import normalise
from .jobs import CommandRunner, jobs_of
from .spool import Spool
from .supervisor_client import SupervisorLost

_DESCRIPTION = """\
Runs a command line with bash and returns its output, stdout and stderr together.

- Each command has a fresh shell: the current folder carries over to the next command, variables, functions \
and aliases do not. A `cd` that leads out of the project holds for that command only.
- There is no terminal and standard input is empty: editors, pagers, prompts and other interactive programs \
do not work. Use options that answer questions (`-y`, `--no-edit`, `git commit -m`).
- Credentials are taken out of the environment.
- Output beyond 30,000 characters is shortened in the middle; the result names the file that has all of it.
- A command that runs too long is ended with everything it started. For servers, watchers and long builds \
use run_in_background: you get a job id at once, are told when it finishes, and can look (`job`) or end it \
(`job` with `kill`). All of them end with the session.
- To read or change files prefer the read, edit and write tools."""


class BashArguments(Arguments):
    """A command line to run, or a question about one in the background."""

    command: str = Field("", description="The command line. Leave it out only with `job` or `restart`.")
    timeout: int | None = Field(
        None, ge=1, description="Time limit in milliseconds; 120000 unless set, at most 600000."
    )
    description: str | None = Field(None, description="What the command does, in five to ten words.")
    run_in_background: bool = Field(False, description="Start the command and return at once with a job id.")
    job: str | None = Field(
        None, description="Id of a background command (b1): its status, and its output since the last look."
    )
    kill: bool = Field(False, description="With `job`: end it and everything it started.")
    restart: bool = Field(False, description="Go back to the project's folder before running the command.")


@dataclass(frozen=True, slots=True)
class Bash:
    """The tool. `limits` are raised or lowered by BASH_DEFAULT_TIMEOUT_MS and BASH_MAX_TIMEOUT_MS."""

    name: str = "bash"
    description: str = _DESCRIPTION
    arguments: type[BashArguments] = BashArguments
    parallel: bool = False
    limits: CommandLimits = field(default_factory=CommandLimits)

    def title(self, arguments: BashArguments) -> str:
        if arguments.job is not None:
            return f"{'stop' if arguments.kill else 'look at'} {arguments.job}"
        return " ⏎ ".join(arguments.command.strip().splitlines()) or "restart"

    def touches(self, arguments: BashArguments, context: ToolContext) -> tuple[Access, ...]:
        if arguments.job is not None or not arguments.command.strip():
            return (Access("none"),)
        return (Access("run", normalise(arguments.command)),)

    async def run(self, arguments: BashArguments, call: ToolCall) -> ToolResult:
        context, jobs = call.context, jobs_of(call.context)
        if arguments.job is not None:
            return await _ask(jobs, arguments, self.limits)
        if arguments.restart:
            context.cwd = context.folder
        line = normalise(arguments.command)
        if not line.strip():
            if arguments.restart:
                return text_result(f"Commands run in {context.folder} again.")
            raise ToolError(
                "There is no command.\nGive one as `command`, or the id of a background one as `job`."
            )
        lost = _return_from_nowhere(context)
        limits = timed(self.limits, arguments.timeout, context)
        try:
            if arguments.run_in_background:
                return _with_note(await _start(jobs, line, call, limits), lost)
            spool = _spool(call, limits)
            end = await _foreground(jobs, line, spool, limits, call)
        except (SupervisorLost, OSError) as error:
            raise ToolError(_cannot_start(error, context)) from error
        told = outcome(end, line, spool, context, limits)
        for note in (lost, _follow(context, end.folder), await _settled(told, spool)):
            told = _with_note(told, note)
        return told


async def _foreground(
    jobs: CommandRunner, line: str, spool: Spool, limits: CommandLimits, call: ToolCall
) -> CommandEnd:
    try:
        return await run_foreground(jobs, line, spool, limits, ProgressThrottle(call.progress))
    except (asyncio.CancelledError, SupervisorLost, OSError):
        spool.drop()
        raise


async def _settled(told: ToolResult, spool: Spool) -> str | None:
    """Have the file that a result names on the disk before the record names it; a note where that fails."""
    if told.stored is None:
        return None
    try:
        await asyncio.to_thread(sync_output, spool.path)
    except OSError as error:
        return f"[{told.stored.path} may not be whole on the disk: {error.strerror or error}]"
    return None


def timed(limits: CommandLimits, wanted: int | None, context: ToolContext) -> CommandLimits:
    """The limits for one command: its own wish (milliseconds) within what the environment allows."""
    longest = _seconds(context, "BASH_MAX_TIMEOUT_MS") or limits.longest
    usual = _seconds(context, "BASH_DEFAULT_TIMEOUT_MS") or limits.timeout
    seconds = usual if wanted is None else wanted / 1000
    return replace(limits, timeout=min(seconds, longest), longest=longest)


def _seconds(context: ToolContext, name: str) -> float | None:
    text = context.environ.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ToolError(
            f"{name} is {text!r}, which is no number of milliseconds.\nThe person has to correct it."
        )
    return value / 1000


def _spool(call: ToolCall, limits: CommandLimits) -> Spool:
    name = f"{call.context.name}-{call.ident}.txt".replace(os.sep, "_")
    return Spool(call.context.outputs / name, cap=limits.output, masks=call.context.masks)


async def _start(jobs: CommandRunner, line: str, call: ToolCall, limits: CommandLimits) -> ToolResult:
    spool = _spool(call, limits)
    command, _ = await jobs.start(line, call.context.cwd, spool.feed)
    try:
        pid = await command.pid
    except asyncio.CancelledError:
        jobs.drop(command)
        raise
    if isinstance(pid, OSError):
        raise pid
    job = jobs.add(line, command, spool)
    stored = (
        spool.path.relative_to(call.context.folder)
        if spool.path.is_relative_to(call.context.folder)
        else spool.path
    )
    text = (
        f"Started in the background as job {job.id} (pid {pid}). Its output goes to {stored}.\n"
        f'Look: bash(job="{job.id}"). End: bash(job="{job.id}", kill=true). You are told when it finishes.'
    )
    return text_result(text, human={"note": f"{job.id} runs in the background"}, about={"job": job.id})


async def _ask(jobs: CommandRunner, arguments: BashArguments, limits: CommandLimits) -> ToolResult:
    if arguments.command.strip():
        raise ToolError("`command` and `job` were both given.\nSend them as two calls.")
    job = jobs.jobs.get(arguments.job or "")
    if job is None:
        known = ", ".join(jobs.jobs) or "none"
        raise ToolError(f"There is no job {arguments.job}.\nJobs of this session: {known}.")
    if arguments.kill:
        job.announced = True
        await jobs.stop(job)
    return job_outcome(job, jobs.context, asyncio.get_running_loop().time(), limits)


def _cannot_start(error: Exception, context: ToolContext) -> str:
    if isinstance(error, FileNotFoundError) and context.cwd.is_dir():
        return "bash was not found on PATH.\nThe person has to install it, or to put its folder on PATH."
    if isinstance(error, OSError):
        what = error.strerror or error
        return f"The command could not be started: {what}.\nTry a shorter one, or end what runs."
    return f"{error}.\nTry again; if it stays so, tell the person."


def _return_from_nowhere(context: ToolContext) -> str | None:
    """Go back to the project where the current folder is gone. Raises ToolError when that is gone too."""
    if context.cwd.is_dir():
        return None
    gone, context.cwd = context.cwd, context.folder
    if not context.folder.is_dir():
        raise ToolError(f"The project's folder {context.folder} is gone.\nThe person has to bring it back.")
    return f"[{gone} is gone; this command ran in {context.folder}]"


def _follow(context: ToolContext, folder: str | None) -> str | None:
    """Let the next command run where this one ended, if that is within the project."""
    if folder is None:
        return _forget_gone(context)
    there = Path(folder)
    if not there.is_dir():
        return _forget_gone(context)
    if there != context.folder and context.folder not in there.parents:
        context.cwd = context.folder
        return f"[the command ended in {there}, outside the project; the next one runs in {context.folder}]"
    context.cwd = there
    return None


def _forget_gone(context: ToolContext) -> str | None:
    if context.cwd.is_dir() or not context.folder.is_dir():
        return None
    gone, context.cwd = context.cwd, context.folder
    return f"[{gone} is gone; the next command runs in {context.folder}]"


def _with_note(told: ToolResult, note: str | None) -> ToolResult:
    if note is None:
        return told
    text = "\n".join(getattr(block, "text", "") for block in told.content)
    text = note if text == "[no output]" else f"{text}\n{note}"
    return replace(told, content=text_result(text).content)


BASH = Bash()
