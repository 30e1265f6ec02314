"""Run a command line for makeroom itself, such as a hook, with an input and separate outputs."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from msgspec import Struct

from transcripts.storage import opened_fd

from .env_filter import filter_environment
from .jobs import CommandRequest, exit_status
from .runner import DRAIN_LIMIT_S, CommandRunner
from .session_shell import bash_path

if TYPE_CHECKING:
    from tools.sandbox import BlockedAccess

MAX_KEPT_BYTES = 1 << 20  # of its output; the rest is read and dropped


class OwnCommandEnd(Struct, frozen=True):
    """The end of a command; `refusal` is the blocked access if it failed, `cut`: its output was longer."""

    code: int
    out: str
    err: str
    cut: bool = False
    refusal: BlockedAccess | None = None


async def run_own_command(
    runner: CommandRunner, line: str, given: str, *, variables: Mapping[str, str], sandboxed: bool
) -> OwnCommandEnd:
    """Run a command line in the project's directory until its shell has ended. When cancelled, it is ended.

    `given` is its input, `variables` are set in addition to the usual ones. Processes that it leaves in the
    background are not waited for. Raises SupervisorLost and OSError.
    """
    supervisor = await runner.supervisor()
    mark = os.urandom(12).hex()
    since = time.monotonic()
    source = supervisor.private / f"given-{mark}"
    errors = (supervisor.scratch if sandboxed else supervisor.private) / f"errors-{mark}"
    kept = bytearray()
    total = 0

    def take(data: bytes) -> None:
        nonlocal total
        kept.extend(data[: MAX_KEPT_BYTES - len(kept)])
        total += len(data)

    exports = "".join(f"export {name}={quote(value)}; " for name, value in variables.items())
    bash = quote(bash_path(runner.context, filter_environment(runner.context.environ)["PATH"]))
    script = f"{exports}exec -a bash {bash} -c {quote(line)} <{quote(str(source))} 2>{quote(str(errors))}"
    source.write_text(given)
    try:
        folder = runner.context.folder
        profile = runner.profile
        running = (await runner.start(script, folder, take, sandboxed=sandboxed)).command
        try:
            await asyncio.wait({running.exited})
            await asyncio.wait({running.closed}, timeout=DRAIN_LIMIT_S)
        except asyncio.CancelledError:
            running.drop()
            raise
        running.close()
        err = _text_of(errors)
    finally:
        source.unlink(missing_ok=True)
        errors.unlink(missing_ok=True)
    code = exit_status(running.exited.result()).code
    out = kept.decode("utf-8", "replace")
    refusal = None
    if sandboxed and code and profile is not None:
        request = CommandRequest(line, sandboxed=True, cwd=folder)
        refusal = runner.blocked_access(request, profile=profile, output=err, since=since)
    return OwnCommandEnd(
        1 if code is None else code, out=out, err=err, cut=total > len(kept), refusal=refusal
    )


def _text_of(path: Path) -> str:
    """Read the text of a file that a sandboxed command may have replaced with anything."""
    with suppress(OSError), opened_fd(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return os.read(fd, MAX_KEPT_BYTES).decode("utf-8", "replace")
    return ""
