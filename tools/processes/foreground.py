"""Run one command in the foreground, until it ends, its time is up, or its output exceeds the limit."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tools.sandbox import CommandHandle, LeftProcess

from .command_hints import awaits_keys, looks_like_prompt
from .command_progress import ProgressThrottle
from .jobs import BackgroundJob, CommandRequest, exit_status
from .output_text import decoded_output
from .runner import DRAIN_LIMIT_S, CommandRunner
from .session_shell import last_folder
from .spool import MAX_OUTPUT_BYTES, Spool

Why = Literal["", "timeout", "output", "editor", "lost", "moved", "late"]
STILL_RUNNING = ("moved", "late")  # values of Why with which the command continues


class CommandLimits(Struct, frozen=True):
    """The limits of a command."""

    timeout_s: float = 120.0  # as in Claude Code
    max_timeout_s: float = 600.0
    editor_s: float = 5.0  # for a program that waits for keys
    # Without output for so long, an unfinished line that looks like a question counts as a prompt.
    quiet_s: float = 45.0
    output_bytes: int = MAX_OUTPUT_BYTES
    disk_bytes: int = 1024**3


class CommandEnd(Struct, frozen=True):
    """The end of a command."""

    code: int | None  # as in a shell (128 + n for a signal); None if unknown
    signal: str | None
    why: Why  # the reason for its end; "" if it ended by itself
    took_s: float
    limit_s: float  # its time limit
    folder: str | None = None  # the last directory of its shell; None if not reported
    job: BackgroundJob | None = None  # the processes that it left running
    left: tuple[LeftProcess, ...] = ()  # these processes
    prompted: bool = False  # it seemed to wait for an answer
    disk_used: int = 0  # bytes of disk space used during the run


class _Output:
    """The output of a command in the foreground, which goes to its spool and to the screen.

    `last` is the time of the newest output, by the event loop's clock; `full` is done once the spool is full.
    """

    def __init__(self, spool: Spool, progress: ProgressThrottle) -> None:
        loop = asyncio.get_running_loop()
        self.full: asyncio.Future[None] = loop.create_future()
        self.last = loop.time()
        self._spool = spool
        self._progress = progress

    def take(self, data: bytes) -> None:
        self.last = asyncio.get_running_loop().time()
        if not self._spool.feed(data) and not self.full.done():
            self.full.set_result(None)
        self._progress.take(data)


async def run_foreground(
    runner: CommandRunner,
    request: CommandRequest,
    spool: Spool,
    limits: CommandLimits,
    progress: ProgressThrottle,
    waited_s: Callable[[], float] = float,
) -> CommandEnd:
    """Run a command line in the session's directory, for at most `limits.timeout_s`.

    The seconds that it `waited_s` for the user do not count.
    Raises SupervisorLost or OSError if it cannot be started. When cancelled, all its processes are sent TERM
    before this returns, and KILL half a second later.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    free = _free_bytes(runner.context.folder)
    moved: asyncio.Future[None] = loop.create_future()  # the user moves it to the background
    output = _Output(spool, progress)
    cwd = request.cwd or runner.context.cwd
    command, report = await runner.start(
        request.line, cwd, output.take, sandboxed=request.sandboxed, questions=request.questions
    )
    runner.foreground.add(moved)
    try:
        interactive = awaits_keys(request.line)
        continues = runner.context.attended and not interactive
        limit = min(limits.timeout_s, limits.editor_s) if interactive else limits.timeout_s
        await _until_due(began + limit, waited_s, command.exited, output.full, moved)
        took = loop.time() - began - waited_s()
        quiet = loop.time() - output.last
        asks = quiet >= min(limits.quiet_s, limit / 2) and ends_in_prompt(spool)
        if (moved.done() or (continues and not asks)) and not (command.exited.done() or output.full.done()):
            why: Why = "moved" if moved.done() else "late"
            job = _continue_in_background(runner, request, command, spool, began=began)
            return CommandEnd(None, signal=None, why=why, took_s=took, limit_s=limit, job=job)
        why = await _finish(runner, command, output.full, "editor" if limit < limits.timeout_s else "timeout")
        left_job, left = await _keep_strays(runner, request, command, spool)
    except BaseException:
        command.drop()
        raise
    finally:
        runner.foreground.discard(moved)
        progress.stop()
    code, signal = exit_status(command.exited.result() if command.exited.done() else None)
    used = free - _free_bytes(runner.context.folder, unknown=free)
    prompted = why == "timeout" and asks
    folder = last_folder(report)
    return CommandEnd(
        code,
        signal=signal,
        why=why,
        took_s=took,
        limit_s=limit,
        folder=folder,
        job=left_job,
        left=left,
        prompted=prompted,
        disk_used=used,
    )


async def _first_of(timeout_s: float, *futures: asyncio.Future[Any]) -> None:
    if not futures[0].done():
        await asyncio.wait(set(futures), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


async def _until_due(due: float, waited_s: Callable[[], float], *futures: asyncio.Future[Any]) -> None:
    """Wait for one of the futures until a time of the event loop, which the user's answers put off.

    If makeroom itself was stopped meanwhile (Ctrl-Z), what has happened since then is still to be read.
    """
    loop = asyncio.get_running_loop()
    while not any(future.done() for future in futures) and (rest := due + waited_s() - loop.time()) > 0:
        await _first_of(rest, *futures)
        if loop.time() - due - waited_s() > 0.2:
            await _first_of(1.0, *futures)


def move_to_background(runner: CommandRunner) -> int:
    """Move the commands in the foreground to the background, and return their number."""
    moving = [moved for moved in runner.foreground if not moved.done()]
    for moved in moving:
        moved.set_result(None)
    return len(moving)


async def _finish(
    runner: CommandRunner, command: CommandHandle, full: asyncio.Future[None], late: Why
) -> Why:
    """End the command if it is running, take its last output, and return its end (`late`: time limit)."""
    if command.exited.done():
        await _first_of(DRAIN_LIMIT_S, command.closed, full)
        if not full.done():
            return "lost" if command.exited.result() is None else ""
    why = "output" if full.done() else late
    await runner.end(command)
    if not command.closed.done() and why != "output":
        await asyncio.wait({command.closed}, timeout=DRAIN_LIMIT_S)
    return why


async def _keep_strays(
    runner: CommandRunner, request: CommandRequest, command: CommandHandle, spool: Spool
) -> tuple[BackgroundJob | None, tuple[LeftProcess, ...]]:
    """Turn the processes that the command left running into a background command that can be managed."""
    if command.strays and not command.over.done():
        # Give processes time that end together with their shell (`>(tee log)`).
        await asyncio.wait({command.over}, timeout=0.05)
        left = tuple(await command.left_processes())
        if left and not command.over.done():
            return runner.add(request, command, spool, left_over=True), left
    command.close()
    return None, ()


def _continue_in_background(
    runner: CommandRunner, request: CommandRequest, command: CommandHandle, spool: Spool, *, began: float
) -> BackgroundJob:
    """Turn a command in the foreground, whose output so far was shown, into one in the background."""
    job = runner.add(request, command, spool)
    job.began = began
    job.shown = spool.total
    return job


def ends_in_prompt(spool: Spool) -> bool:
    """Return whether the output ends in an unfinished line that looks like a question."""
    return looks_like_prompt(decoded_output(spool.tail(2_000)))


def _free_bytes(folder: Path, unknown: int = 0) -> int:
    with suppress(OSError):
        return shutil.disk_usage(folder).free
    return unknown
