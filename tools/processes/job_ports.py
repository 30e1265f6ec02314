"""The ports on which background commands listen in the sandbox."""

from __future__ import annotations

from .jobs import BackgroundJob
from .runner import CommandRunner


async def listeners(runner: CommandRunner) -> dict[int, BackgroundJob]:
    """Return the background commands that listen in the sandbox, by port."""
    return {port: job for job in runner.running for port in await job.ports()}


async def new_listeners(runner: CommandRunner) -> dict[int, BackgroundJob]:
    """Return the listeners without those on published ports and those already reported."""
    published = runner.published.ports if runner.published is not None else {}
    found = (await listeners(runner)).items()
    new = {port: job for port, job in found if port not in published and port not in job.told_ports}
    for port, job in new.items():
        job.told_ports.add(port)
    return new


def port_note(port: int, runner: CommandRunner) -> str:
    """Describe who can reach a port on which a sandboxed command listens."""
    outside = runner.published.ports.get(port) if runner.published is not None else None
    here = f"at http://localhost:{outside}" if outside else f"only after running /publish {port}"
    return f"listens on port {port}: commands can reach localhost:{port}, the user {here}"
