"""Run a command line for the program itself, such as a hook: with an input, its outputs apart."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote

from msgspec import Struct, field

from tools.base import Access, ToolError
from tools.sandbox.wall import WallProfile, WallRefusal
from tools.sandbox.wall_refusal import WalledRun, find_refusal
from transcripts.disk import opened_fd

from .jobs import DRAIN_LIMIT_S, CommandRunner, exit_code

MAX_KEPT_BYTES = 1 << 20  # of what it writes; the rest is read and dropped


class OwnCommand(Struct, frozen=True):
    """A command line, the text that is its input, and variables that it gets besides the usual ones."""

    line: str
    given: str
    variables: Mapping[str, str] = field(default_factory=dict)


class OwnCommandEnd(Struct, frozen=True):
    """How it ended; `refusal` is what the wall refused, where it failed. `cut`: it wrote more."""

    code: int
    out: str
    err: str
    cut: bool = False
    refusal: WallRefusal | None = None


def command_access(command: str, cwd: Path | str) -> Access:
    """What a command does, as it is judged. Raises ToolError for what no shell can take."""
    return Access("run", normal_line(command), cwd=str(cwd))


def normal_line(command: str) -> str:
    """The command line as it is both judged and run, with plain line ends. Raises ToolError.

    A script with CR LF would run commands named `foo\\r`, and a rule would not know them.
    """
    if "\0" in command:
        raise ToolError("The command holds a NUL byte, which no shell can take.\nWrite it as \\0 for printf.")
    try:
        command.encode()
    except UnicodeEncodeError:
        raise ToolError(
            "The command holds half of a surrogate pair, which is no text.\nSend the whole character."
        ) from None
    return command.replace("\r\n", "\n")


async def run_own_command(runner: CommandRunner, command: OwnCommand, *, walled: bool) -> OwnCommandEnd:
    """Run it in the project's folder until its shell has ended. When cancelled, it is ended.

    What it leaves running in the background is not waited for. Raises SupervisorLost and OSError.
    """
    supervisor, mark, since = await runner.supervisor(), os.urandom(12).hex(), time.monotonic()
    given = supervisor.private / f"given-{mark}"
    errors = (supervisor.scratch if walled else supervisor.private) / f"errors-{mark}"
    kept, total = bytearray(), 0

    def take(data: bytes) -> None:
        nonlocal total
        kept.extend(data[: MAX_KEPT_BYTES - len(kept)])
        total += len(data)

    exports = "".join(f"export {name}={quote(value)}; " for name, value in command.variables.items())
    script = f"{exports}exec bash -c {quote(command.line)} <{quote(str(given))} 2>{quote(str(errors))}"
    given.write_text(command.given)
    try:
        folder, profile = runner.context.folder, runner.profile
        running, _ = await runner.start(script, folder, take, walled=walled)
        try:
            await asyncio.wait({running.exited})
            await asyncio.wait({running.closed}, timeout=DRAIN_LIMIT_S)
        except asyncio.CancelledError:
            running.drop()
            raise
        running.close()
        err = _text_of(errors)
    finally:
        given.unlink(missing_ok=True)
        errors.unlink(missing_ok=True)
    code = exit_code(running.exited.result())[0]
    out = kept.decode("utf-8", "replace")
    refusal = _refusal(runner, command.line, err, profile, since) if walled and code else None
    return OwnCommandEnd(1 if code is None else code, out, err, total > len(kept), refusal)


def _text_of(path: Path) -> str:
    """What was written to a file; a walled command may have put anything in its place."""
    with suppress(OSError), opened_fd(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return os.read(fd, MAX_KEPT_BYTES).decode("utf-8", "replace")
    return ""


def _refusal(
    runner: CommandRunner, line: str, err: str, profile: WallProfile | None, since: float
) -> WallRefusal | None:
    if profile is None:
        return None
    hosts = runner.refused_hosts(since)
    return find_refusal(WalledRun(line, runner.context.folder, err, profile, runner.scratch, hosts))
