"""The bash tool: command lines in the project's folder, in the foreground or the background.

This file says what the model may ask for and joins the parts: shell.py reads command lines, bash_run.py
runs one, bash_result.py words the outcome, jobs.py keeps what runs, process.py and warden/ hold the
processes. Variables and functions do not outlive a command; the folder does. A command that replaces its
shell (`exec`) or sets an EXIT trap of its own leaves the folder as it was.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import Field

from transcripts.outputs import settle

from .base import Arguments, Call, Outcome, Place, ToolError, Touch, say
from .bash_result import job_outcome, outcome
from .bash_run import End, Limits, Show, run
from .command_hints import normalise
from .jobs import Jobs, jobs_of
from .spool import Spool
from .supervisor_client import LostError

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
    limits: Limits = field(default_factory=Limits)

    def title(self, arguments: BashArguments) -> str:
        if arguments.job is not None:
            return f"{'stop' if arguments.kill else 'look at'} {arguments.job}"
        return " ⏎ ".join(arguments.command.strip().splitlines()) or "restart"

    def touches(self, arguments: BashArguments, place: Place) -> tuple[Touch, ...]:
        if arguments.job is not None or not arguments.command.strip():
            return (Touch("none"),)
        return (Touch("run", normalise(arguments.command)),)

    async def run(self, arguments: BashArguments, call: Call) -> Outcome:
        place, jobs = call.place, jobs_of(call.place)
        if arguments.job is not None:
            return await _ask(jobs, arguments, self.limits)
        if arguments.restart:
            place.cwd = place.folder
        line = normalise(arguments.command)
        if not line.strip():
            if arguments.restart:
                return say(f"Commands run in {place.folder} again.")
            raise ToolError(
                "There is no command.\nGive one as `command`, or the id of a background one as `job`."
            )
        lost = _return_from_nowhere(place)
        limits = timed(self.limits, arguments.timeout, place)
        try:
            if arguments.run_in_background:
                return _with_note(await _start(jobs, line, call, limits), lost)
            spool = _spool(call, limits)
            end = await _foreground(jobs, line, spool, limits, call)
        except (LostError, OSError) as error:
            raise ToolError(_cannot_start(error, place)) from error
        told = outcome(end, line, spool, place, limits)
        for note in (lost, _follow(place, end.folder), await _settled(told, spool)):
            told = _with_note(told, note)
        return told


async def _foreground(jobs: Jobs, line: str, spool: Spool, limits: Limits, call: Call) -> End:
    try:
        return await run(jobs, line, spool, limits, Show(call.progress))
    except (asyncio.CancelledError, LostError, OSError):
        spool.drop()
        raise


async def _settled(told: Outcome, spool: Spool) -> str | None:
    """Have the file that a result names on the disk before the record names it; a note where that fails."""
    if told.stored is None:
        return None
    try:
        await asyncio.to_thread(settle, spool.path)
    except OSError as error:
        return f"[{told.stored.path} may not be whole on the disk: {error.strerror or error}]"
    return None


def timed(limits: Limits, wanted: int | None, place: Place) -> Limits:
    """The limits for one command: its own wish (milliseconds) within what the environment allows."""
    longest = _seconds(place, "BASH_MAX_TIMEOUT_MS") or limits.longest
    usual = _seconds(place, "BASH_DEFAULT_TIMEOUT_MS") or limits.timeout
    seconds = usual if wanted is None else wanted / 1000
    return replace(limits, timeout=min(seconds, longest), longest=longest)


def _seconds(place: Place, name: str) -> float | None:
    text = place.environ.get(name, "").strip()
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


def _spool(call: Call, limits: Limits) -> Spool:
    name = f"{call.place.name}-{call.ident}.txt".replace(os.sep, "_")
    return Spool(call.place.outputs / name, cap=limits.output, masks=call.place.masks)


async def _start(jobs: Jobs, line: str, call: Call, limits: Limits) -> Outcome:
    spool = _spool(call, limits)
    command, _ = await jobs.start(line, call.place.cwd, spool.feed)
    try:
        pid = await command.pid
    except asyncio.CancelledError:
        jobs.drop(command)
        raise
    if isinstance(pid, OSError):
        raise pid
    job = jobs.add(line, command, spool)
    stored = (
        spool.path.relative_to(call.place.folder)
        if spool.path.is_relative_to(call.place.folder)
        else spool.path
    )
    text = (
        f"Started in the background as job {job.id} (pid {pid}). Its output goes to {stored}.\n"
        f'Look: bash(job="{job.id}"). End: bash(job="{job.id}", kill=true). You are told when it finishes.'
    )
    return say(text, human={"note": f"{job.id} runs in the background"}, about={"job": job.id})


async def _ask(jobs: Jobs, arguments: BashArguments, limits: Limits) -> Outcome:
    if arguments.command.strip():
        raise ToolError("`command` and `job` were both given.\nSend them as two calls.")
    job = jobs.jobs.get(arguments.job or "")
    if job is None:
        known = ", ".join(jobs.jobs) or "none"
        raise ToolError(f"There is no job {arguments.job}.\nJobs of this session: {known}.")
    if arguments.kill:
        job.announced = True
        await jobs.stop(job)
    return job_outcome(job, jobs.place, asyncio.get_running_loop().time(), limits)


def _cannot_start(error: Exception, place: Place) -> str:
    if isinstance(error, FileNotFoundError) and place.cwd.is_dir():
        return "bash was not found on PATH.\nThe person has to install it, or to put its folder on PATH."
    if isinstance(error, OSError):
        what = error.strerror or error
        return f"The command could not be started: {what}.\nTry a shorter one, or end what runs."
    return f"{error}.\nTry again; if it stays so, tell the person."


def _return_from_nowhere(place: Place) -> str | None:
    """Go back to the project where the current folder is gone. Raises ToolError when that is gone too."""
    if place.cwd.is_dir():
        return None
    gone, place.cwd = place.cwd, place.folder
    if not place.folder.is_dir():
        raise ToolError(f"The project's folder {place.folder} is gone.\nThe person has to bring it back.")
    return f"[{gone} is gone; this command ran in {place.folder}]"


def _follow(place: Place, folder: str | None) -> str | None:
    """Let the next command run where this one ended, if that is within the project."""
    if folder is None:
        return _forget_gone(place)
    there = Path(folder)
    if not there.is_dir():
        return _forget_gone(place)
    if there != place.folder and place.folder not in there.parents:
        place.cwd = place.folder
        return f"[the command ended in {there}, outside the project; the next one runs in {place.folder}]"
    place.cwd = there
    return None


def _forget_gone(place: Place) -> str | None:
    if place.cwd.is_dir() or not place.folder.is_dir():
        return None
    gone, place.cwd = place.cwd, place.folder
    return f"[{gone} is gone; the next command runs in {place.folder}]"


def _with_note(told: Outcome, note: str | None) -> Outcome:
    if note is None:
        return told
    text = "\n".join(getattr(block, "text", "") for block in told.content)
    text = note if text == "[no output]" else f"{text}\n{note}"
    return replace(told, content=say(text).content)


BASH = Bash()
