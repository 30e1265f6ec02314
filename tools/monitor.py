"""The monitor tool: a background command whose new lines reach the model as they arrive."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

from msgspec import Meta

from tools.access import command_access
from tools.parameters import Arguments
from tools.processes import BackgroundJob, CommandRunner, LineNews, command_runner
from transcripts import Display

from .base import SMALL_WINDOW_TOKENS, Access, Tool, ToolCall, ToolContext, ToolError, ToolResult, text_result
from .bash import BashArguments, run_guarded


class MonitorArguments(Arguments):
    """The command to watch."""

    command: Annotated[str, Meta(min_length=1)]
    timeout: Annotated[int, Meta(ge=1, le=1_800_000, description="Milliseconds until it is killed.")] = (
        600_000
    )


def required_access(arguments: MonitorArguments, context: ToolContext) -> tuple[Access, ...]:
    return (command_access(arguments.command, context.cwd),)


async def watch_command(arguments: MonitorArguments, call: ToolCall) -> ToolResult:
    if not arguments.command.strip():
        raise ToolError("The command is missing.\nGive one that prints what you are waiting for.")
    background = BashArguments(command=arguments.command, run_in_background=True)
    started = await run_guarded(background, call)
    runner = command_runner(call.context)
    job = runner.jobs[str(started.about["job"])]
    news = _JobNews(job)
    news.take_new()
    take = job.command.take
    seconds = min(arguments.timeout / 1000, 1_800.0)
    ending = asyncio.ensure_future(_end_in_time(runner, job, news, seconds))

    def take_too(data: bytes) -> None:
        take(data)
        if not ending.done():
            news.take_new()

    job.command.take = take_too
    text = (
        f"Watching as {job.id} for at most {seconds:g} s. New lines arrive with your next results. "
        f'Stop: bash(job="{job.id}", kill=true). Continue with other work, or end your turn.'
    )
    return text_result(text, human=Display(note=f"watching {job.id}"), about={"job": job.id})


class _JobNews:
    """The new lines of a command, as its spool keeps them: in one piece, and with secrets masked."""

    def __init__(self, job: BackgroundJob) -> None:
        self._spool = job.spool
        self._taken = 0  # bytes
        self._lines = LineNews(job.inbox, job.id, job.since)

    def take_new(self) -> None:
        data, _ = self._spool.since(self._taken)
        self._taken = self._spool.total
        self._lines.take(data)

    def end(self) -> None:
        """Take the rest, which the spool held back until the command ended."""
        self.take_new()
        self._lines.end()


async def _end_in_time(runner: CommandRunner, job: BackgroundJob, news: _JobNews, seconds: float) -> None:
    """Kill the command when its time is up, and report its last lines."""
    with suppress(TimeoutError):
        await asyncio.wait_for(job.has_ended.wait(), seconds)
    if job.ended is None:
        await runner.stop(job)
    news.end()


TOOL = Tool(
    name="monitor",
    description="""\
Run a command in the background and receive its new lines with the results of your other calls (the newest \
1,000 characters each time). For logs, builds and conditions that you are waiting for; filter the output \
with grep --line-buffered.""",
    arguments=MonitorArguments,
    kind="runs",
    title=lambda arguments: arguments.command.strip().replace("\n", " ⏎ "),
    access=required_access,
    run=watch_command,
    least_window=SMALL_WINDOW_TOKENS + 1,
)
