"""Commands about what runs in the background: /tasks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from agent.events import CommandOutput, Notice
from agent.formatting import duration
from tools.jobs import BackgroundJob, jobs_of
from tools.text_encoding import pluralize

if TYPE_CHECKING:
    from agent.app.controller import Controller

LINE = 60  # characters shown of a command


async def tasks(agent: Controller, argument: str) -> None:
    """Show the background commands of this session. `kill ID` ends one and all that it started."""
    _, context = agent.in_use
    jobs = jobs_of(context.tool_context)
    verb, _, id = argument.partition(" ")
    if verb == "kill":
        job = jobs.jobs.get(id.strip())
        if job is None or job.ended is not None:
            running = ", ".join(job.id for job in jobs.running) or "nothing"
            agent.emit(Notice(f"/tasks kill ID ends one that runs; {running} runs", "warning"))
            return
        await jobs.stop(job)  # its end is told like any other, here and to the model
    elif argument:
        agent.emit(Notice("/tasks shows the background commands, /tasks kill ID ends one", "warning"))
    elif jobs.jobs:
        folder, now = context.tool_context.folder, asyncio.get_running_loop().time()
        agent.emit(
            CommandOutput("\n".join(line for job in jobs.jobs.values() for line in _lines(job, folder, now)))
        )
    else:
        agent.emit(Notice("no command has run in the background so far"))


def _lines(job: BackgroundJob, folder: Path, now: float) -> list[str]:
    command = " ".join(job.line.split())
    shown = command if len(command) <= LINE else f"{command[: LINE - 1]}…"
    took = duration((job.ended or now) - job.began)
    stored = job.spool.stored(folder)
    output = f"{pluralize(stored.size, 'byte')} in {stored.path}" if stored else "nothing so far"
    return [f"{job.id}  {shown}", f"    {job.state}, {took}; output: {output}"]
