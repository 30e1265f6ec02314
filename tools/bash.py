"""The bash tool: run command lines in the project, in the foreground or the background.

Variables and functions do not outlive a command; the current directory does. A command that replaces its
shell (`exec`) or sets its own EXIT trap does not change it.
"""

# ruff: noqa: PTH112 - unlike os.path, a Path raises errors

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from tools.access import command_access, normal_line
from tools.bash_attempts import host_questions, run_attempts, spool_of, start_errors_explained
from tools.bash_result import job_result
from tools.files import shown_cwd
from tools.parameters import DETAIL, Arguments
from tools.processes import (
    CommandLimits,
    CommandRequest,
    CommandRunner,
    Spool,
    command_runner,
    guard_of_records,
)
from tools.sandbox import SupervisorLost
from transcripts import Display, OutputsFolder
from transcripts.wording import cause_of

from .base import Access, Tool, ToolAdvice, ToolCall, ToolContext, ToolError, ToolResult, text_result

_DEFAULT_LIMITS = CommandLimits()


class BashArguments(Arguments):
    """A command line to run, or a question about one in the background."""

    command: Annotated[str, Meta(description="Command line to run. Omit only with `job` or `restart`.")] = ""
    timeout: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Time limit in milliseconds (default 120000, maximum 600000)."),
        DETAIL,
    ] = None
    description: Annotated[
        str | None, Meta(description="Purpose of the command in five to ten words."), DETAIL
    ] = None
    run_in_background: Annotated[
        bool, Meta(description="Start the command and return at once with a job id.")
    ] = False
    job: Annotated[
        str | None,
        Meta(description="Id of a background job (b1): return its status and new output."),
    ] = None
    kill: Annotated[bool, Meta(description="With `job`: kill it and everything it started.")] = False
    restart: Annotated[
        bool, Meta(description="Return to the project directory before running the command."), DETAIL
    ] = False


def _title(arguments: BashArguments) -> str:
    line = arguments.command.strip().replace("\n", " ⏎ ")  # nothing else ends a line of a shell
    if arguments.job is not None and (arguments.kill or not line):
        return f"{'stop' if arguments.kill else 'check'} {arguments.job}"
    return line or "restart"


def _is_about_job(arguments: BashArguments, context: ToolContext) -> bool:
    """Return whether the call asks about a job. Weak models invent one along with a command to run."""
    if arguments.job is None or arguments.kill or not arguments.command.strip():
        return arguments.job is not None
    return arguments.job in command_runner(context).jobs


def required_access(arguments: BashArguments, context: ToolContext) -> tuple[Access, ...]:
    if not arguments.command.strip() or _is_about_job(arguments, context):
        return (Access("none"),)
    return (command_access(arguments.command, context.folder if arguments.restart else context.cwd),)


async def run_bash(
    arguments: BashArguments, call: ToolCall, limits: CommandLimits = _DEFAULT_LIMITS
) -> ToolResult:
    """Run a command or answer about a job. The environment and the call's timeout change the `limits`."""
    context = call.context
    runner = command_runner(call.context)
    if _is_about_job(arguments, context):
        return await _ask_about_job(runner, arguments, call, limits)
    before = context.cwd
    if arguments.restart:
        context.cwd = context.folder
    line = normal_line(arguments.command)
    if not line.strip():
        if arguments.restart:
            return text_result(f"Commands run in {context.folder} again.", about={"cwd": "."})
        raise ToolError(
            "The command is missing.\nGive one as `command`, or the id of a background job as `job`."
        )
    moved = _return_from_missing_folder(context)
    limits = _limits_of_call(limits, arguments.timeout, context)
    cut = _note_of_cut_time(arguments, limits)
    request = CommandRequest(
        line, sandboxed=call.sandboxed, cwd=context.cwd, inbox=context.inbox, since=call.place.reply
    )
    if arguments.run_in_background:
        return _with_notes(await _start_job(runner, request, call, limits), moved, cut)
    attempt, note = await run_attempts(call, request, limits)
    durable = await _made_durable(attempt.result, attempt.spool)
    result = _with_notes(attempt.result, moved, cut, note, _follow(context, attempt.folder), durable)
    if context.cwd == before:
        return result
    return replace(result, about={**result.about, "cwd": shown_cwd(context)})


async def _made_durable(result: ToolResult, spool: Spool) -> str | None:
    """Sync the file that a result names before the transcript names it; return a note if that fails."""
    if result.stored is None:
        return None
    try:
        await asyncio.to_thread(OutputsFolder(spool.path.parent).sync, spool.path.name)
    except OSError as error:
        return f"[{result.stored.path} may be incomplete on disk: {cause_of(error)}]"
    return None


def _limits_of_call(limits: CommandLimits, timeout_ms: int | None, context: ToolContext) -> CommandLimits:
    longest = _seconds_from(context, "BASH_MAX_TIMEOUT_MS") or limits.max_timeout_s
    usual = _seconds_from(context, "BASH_DEFAULT_TIMEOUT_MS") or limits.timeout_s
    seconds = usual if timeout_ms is None else timeout_ms / 1000
    return replace(limits, timeout_s=min(seconds, longest), max_timeout_s=longest)


def _note_of_cut_time(arguments: BashArguments, limits: CommandLimits) -> str | None:
    longest_ms = round(limits.max_timeout_s * 1000)
    if arguments.timeout is None or arguments.timeout <= longest_ms:
        return None
    if arguments.run_in_background:
        return "[timeout is ignored for background commands: they run until they exit]"
    return f"[timeout was reduced to {longest_ms}, the maximum; run_in_background has no limit]"


def _seconds_from(context: ToolContext, variable: str) -> float | None:
    text = context.environ.get(variable, "").strip()
    if not text:
        return None
    with suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text) / 1000
    raise ToolError(
        f"{variable} is {text!r}, which is not a number of milliseconds.\nThe user has to correct it."
    )


PORTS_HINT = "Commands can reach its ports at localhost, the user only after running /publish PORT."


async def _start_job(
    runner: CommandRunner, request: CommandRequest, call: ToolCall, limits: CommandLimits
) -> ToolResult:
    folder = runner.context.folder
    cwd = request.cwd or runner.context.cwd
    spool = spool_of(call, limits)
    questions = host_questions(call, request.sandboxed)
    request = replace(request, questions=questions)
    with start_errors_explained(call.context, spool), runner.asking(questions):
        command, _ = await runner.start(
            request.line, cwd, spool.feed, sandboxed=request.sandboxed, questions=questions
        )
        job = runner.add(request, command, spool)
    output = spool.path.relative_to(folder) if spool.path.is_relative_to(folder) else spool.path
    text = (
        f"Started in the background as job {job.id} (pid {command.pid.result()}). "
        f"Its output goes to {output}.\n"
        f'Status: bash(job="{job.id}"). Stop: bash(job="{job.id}", kill=true). You are notified when it ends.'
    )
    if request.sandboxed and (await runner.sandbox())[0] == "namespaces":
        text += f"\n{PORTS_HINT}"
    return text_result(text, human=Display(note=f"{job.id} runs in the background"), about={"job": job.id})


async def _ask_about_job(
    runner: CommandRunner, arguments: BashArguments, call: ToolCall, limits: CommandLimits
) -> ToolResult:
    if arguments.command.strip():
        raise ToolError("`command` and `job` were both given.\nSend them as two calls.")
    job = runner.jobs.get(arguments.job or "")
    if job is None:
        jobs = ", ".join(runner.jobs) or "none"
        raise ToolError(f"Unknown job {arguments.job}.\nJobs of this session: {jobs}.")
    if arguments.kill:
        await runner.stop(job)
    ports = await job.ports()
    inbox = call.context.inbox
    if job.ended is not None and job.inbox.reader is inbox:  # another session's model is notified by its own
        inbox.count_as_told(job.id, call.place.reply + 1)
    return job_result(job, ports, runner.context, asyncio.get_running_loop().time(), limits)


def _return_from_missing_folder(context: ToolContext) -> str | None:
    """Return to the project if the current directory no longer exists; return a note. Raises ToolError."""
    missing = context.cwd
    if os.path.isdir(missing):
        return None
    context.check_folder()
    context.cwd = context.folder
    return f"[{missing} no longer exists; this command ran in {context.folder}]"


def _follow(context: ToolContext, folder: str | None) -> str | None:
    """Run the next command where this one ended, if that is in the project; return a note of a change."""
    ended_in = Path(folder) if folder is not None else context.cwd
    if os.path.isdir(ended_in) and ended_in.is_relative_to(context.folder):
        moved = ended_in != context.cwd
        context.cwd = ended_in
        return f"[cwd: {shown_cwd(context)}]" if moved else None
    if not os.path.isdir(context.folder):
        return None
    context.cwd = context.folder
    if ended_in.is_relative_to(context.folder):
        return f"[{ended_in} no longer exists; the next command runs in {context.folder}]"
    return f"[the command ended in {ended_in}, outside the project; the next one runs in {context.folder}]"


async def run_guarded(arguments: BashArguments, call: ToolCall) -> ToolResult:
    """Run `run_bash`, and undo what commands do to our session transcripts if they can see them."""
    runner = command_runner(call.context)
    guard = None
    with suppress(SupervisorLost):  # which `run_bash` reports
        guard = None if _is_about_job(arguments, call.context) else await guard_of_records(runner)
    if guard is None:
        return await run_bash(arguments, call)
    await guard.before(busy=bool(runner.running))
    try:
        result = await run_bash(arguments, call)
    except BaseException:
        await asyncio.shield(guard.after(busy=True))
        raise
    await asyncio.shield(guard.after(busy=bool(runner.running)))
    return _with_notes(result, *guard.take_notes())


def _with_notes(result: ToolResult, *notes: str | None) -> ToolResult:
    """Return the result with the notes below its text."""
    text = "\n".join(getattr(block, "text", "") for block in result.content)
    parts = (text,) if result.parts is None else result.parts
    parts = (*parts, *(note for note in notes if note is not None))
    return replace(result, content=text_result("\n".join(map(str, parts)) or text).content, parts=parts)


TOOL = Tool(
    name="bash",
    description="""\
Run a command line with bash. Returns stdout and stderr together.

- Each call is a new shell. The current directory persists within the project; "[cwd: ...]" names it when \
it changes. Variables, functions and aliases do not persist.
- There is no terminal, and standard input is empty. Use non-interactive options (`-y`, `--no-edit`, \
`git commit -m`).
- Credentials are removed from the environment.
- Output over 30,000 characters is cut in the middle; the result names the file with the full output.
- At its time limit a command moves to the background if a user is present; otherwise it is killed with \
everything it started. For servers, watchers and long builds use run_in_background: it returns a job id at \
once, and you are notified when the job finishes. Jobs end with the session.""",
    advice=(ToolAdvice("read grep glob edit write", "- For files, prefer {}."),),
    arguments=BashArguments,
    kind="runs",
    title=_title,
    access=required_access,
    run=run_guarded,
    brief="""\
Run a command line with bash; returns stdout and stderr. The current directory persists, variables do not. \
There is no terminal: use non-interactive options. run_in_background is for servers: it returns the id of a \
job. job="b1" alone returns its new output; kill=true ends it.""",
)
