"""What people and the model are told of background commands: that one has ended, where one listens."""

from __future__ import annotations

from .base import ToolContext
from .jobs import BackgroundJob, CommandRunner

_MAX_ANNOUNCED_CHARS = 200  # of a command line


def announcement(job: BackgroundJob, context: ToolContext) -> str:
    """What is told when a background command has ended: the same to the person and to the model."""
    job.news = job.news or _put_into_words(job, context)
    return job.news


def take_announcements(context: ToolContext) -> list[str]:
    """What the model was not told yet of background commands that ended; this counts as told.

    To be asked before each prompt and each result, with which it goes out. A command that the model saw end
    is not among them.
    """
    ended = context.jobs.unannounced
    told = [announcement(job, context) for job in ended]
    ended.clear()
    return told


async def listeners(runner: CommandRunner) -> dict[int, BackgroundJob]:
    """Port within the wall -> the background command that listens on it."""
    return {port: job for job in runner.running for port in await job.ports()}


async def new_listeners(runner: CommandRunner) -> dict[int, BackgroundJob]:
    """As `listeners`, without the ports that are published and those that were given before."""
    published = runner.published.ports if runner.published is not None else {}
    found = (await listeners(runner)).items()
    new = {port: job for port, job in found if port not in published and port not in job.told_ports}
    for port, job in new.items():
        job.told_ports.add(port)
    return new


def _put_into_words(job: BackgroundJob, context: ToolContext) -> str:
    took = (job.ended or job.began) - job.began
    stored = job.spool.stored(context.folder)
    where = f" Output: {stored.path} ({stored.size:,} bytes)." if stored else " It wrote nothing."
    line = job.line.strip()[:_MAX_ANNOUNCED_CHARS]
    refusal = job.refusal()
    refused = f" It was {refusal}." if refusal is not None else ""
    guarded = "".join(f"\n{line}" for line in job.runner.guard.take_reports())
    return f"Background command {job.id} ({line}) {job.state}, after {took:.1f} s.{refused}{where}{guarded}"
