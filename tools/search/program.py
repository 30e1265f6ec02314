"""Run one program of a search under the session's supervisor, with limits on its time and output."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.files import path_outside
from tools.processes import DRAIN_LIMIT_S, CommandContext, command_runner, filter_environment

SEARCH_LIMIT_S = 20.0
OWN_PROGRAMS = str(Path(sys.executable).parent)  # for ripgrep from a wheel, which need not be on PATH
# Apple's /usr/bin/git asks to install the developer tools if they are missing.
_APPLE_GITS = (
    "/Library/Developer/CommandLineTools/usr/bin/git",
    "/Applications/Xcode.app/Contents/Developer/usr/bin/git",
)


class ProgramEnd(NamedTuple):
    """The end of a program: the reason why it was ended early, "" if it was not, and its raw wait status."""

    stopped: str
    status: int | None


def safe_path(context: CommandContext, *more: str) -> str:
    """Return PATH without relative directories and those of the project, since no one approves what runs."""
    path = os.pathsep.join((filter_environment(context.environ)["PATH"], *more))
    return path_outside(path, str(context.folder))


def find_program(context: CommandContext, name: str) -> str | None:
    """Return the path of an installed program, None if there is none."""
    found = shutil.which(name, path=safe_path(context, OWN_PROGRAMS) if name == "rg" else safe_path(context))
    if sys.platform == "darwin" and found == "/usr/bin/git":
        return next((each for each in _APPLE_GITS if Path(each).exists()), None)
    return found


async def run_program(
    context: CommandContext,
    argv: Sequence[str],
    environ: Mapping[str, str],
    folder: str,
    take: Callable[[bytes], bool],
    limit_s: float,
    sandboxed: bool = False,
) -> ProgramEnd:
    """Run a program until it ends, exceeds its time, or `take` accepts no more output.

    Raises SupervisorLost, and OSError if it cannot be started.
    """
    runner = command_runner(context)
    supervisor = await runner.supervisor()
    full: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def receive(data: bytes) -> None:
        if not full.done() and not take(data):
            full.set_result(None)

    path = shutil.which(argv[0], path=environ["PATH"]) or argv[0]
    command = supervisor.run(receive, sandboxed, path=path, argv=list(argv), env=dict(environ), cwd=folder)
    try:
        pid = await command.pid
        if isinstance(pid, OSError):
            raise pid
        await asyncio.wait({full, command.closed}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if command.closed.done() and not full.done():
            await asyncio.wait({command.over}, timeout=DRAIN_LIMIT_S)
            return ProgramEnd("", command.exited.result() if command.exited.done() else None)
        command.close()
        await runner.end(command)
    finally:
        command.drop()
    return ProgramEnd("too many results" if full.done() else f"it took longer than {limit_s:g} s", None)
