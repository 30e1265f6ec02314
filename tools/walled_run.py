"""Run a command line of this program's own, such as a hook, within the wall: with an input, outputs apart."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from shlex import quote

from .jobs import DRAIN_LIMIT_S, CommandRunner, exit_code
from .wall import WallProfile, WallRefusal
from .wall_refusal import WalledRun, find_refusal

_MAX_COLLECTED_BYTES = 1 << 20  # of what it writes; the beginning is left out


@dataclass(frozen=True, slots=True)
class WalledEnd:
    """How it ended; `refusal` is what the wall refused, where it failed."""

    code: int
    out: str
    err: str
    refusal: WallRefusal | None = None


async def run_walled(runner: CommandRunner, line: str, given: str) -> WalledEnd:
    """Run a line in the project's folder with the text `given` as its input. When cancelled, it is ended.

    Raises SupervisorLost and OSError.
    """
    supervisor, mark, since = await runner.supervisor(), os.urandom(12).hex(), time.monotonic()
    path, written = supervisor.private / f"given-{mark}", bytearray()
    # A command has one pipe: what stands behind the mark is what went to standard error.
    script = f"exec 3>&1; err=$(bash -c {quote(line)} <{quote(str(path))} 2>&1 >&3 3>&-); code=$?"
    script = f"{script}; printf '%s' {mark}\"$err\"; exit $code"

    def take(data: bytes) -> None:
        written.extend(data)
        del written[:-_MAX_COLLECTED_BYTES]

    path.write_text(given)
    try:
        folder, profile = runner.context.folder, runner.profile
        command, _ = await runner.start(script, folder, take, walled=True)
        try:
            await asyncio.wait({command.exited})
            await asyncio.wait({command.closed}, timeout=DRAIN_LIMIT_S)
        except asyncio.CancelledError:
            command.drop()
            raise
        command.close()
    finally:
        path.unlink(missing_ok=True)
    out, _, err = written.decode("utf-8", "replace").rpartition(mark)
    code = exit_code(command.exited.result())[0]
    end = WalledEnd(1 if code is None else code, out, err)
    return end if code == 0 or profile is None else _with_refusal(end, runner, line, profile, since)


def _with_refusal(
    end: WalledEnd, runner: CommandRunner, line: str, profile: WallProfile, since: float
) -> WalledEnd:
    hosts = runner.refused_hosts(since)
    run = WalledRun(line, runner.context.folder, end.err, profile, runner.scratch, hosts)
    return WalledEnd(end.code, end.out, end.err, find_refusal(run))
