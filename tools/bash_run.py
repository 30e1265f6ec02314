"""Run one command in the foreground: until it ends, its time is up, or its output is too much.

Says how it came out as values; the words for the model are bash_result.py's.
"""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .command_hints import looks_like_prompt, opens_editor
from .jobs import DRAIN, BackgroundJob, CommandRunner, code_of
from .spool import CAP, Spool
from .supervisor_client import CommandHandle

SHOWN = 8_192  # bytes of new output shown at once while a command runs
PACE = 0.1  # seconds between two showings
_WINDING_UP = 0.05  # seconds for processes that end together with their shell (`>(tee log)`)


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """What a command may take. Times in seconds, sizes in bytes.

    120 s and 600 s are Claude Code's; `editor` is the patience with a program that would wait for keys;
    after `quiet` without output an unfinished line that asks counts as a prompt.
    """

    timeout: float = 120.0
    longest: float = 600.0
    editor: float = 5.0
    quiet: float = 45.0
    output: int = CAP
    disk: int = 1024**3


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command came out. `code` is as a shell tells it (128 + n for a signal), None when not known.

    `why` says what ended it if it did not end by itself. `folder` is where its shell was at last, None when
    it did not say. `job` is what it left running.
    """

    code: int | None
    signal: str | None
    why: Literal["", "timeout", "output", "editor", "lost"]
    took: float
    limit: float
    folder: str | None = None
    job: BackgroundJob | None = None
    left: tuple[tuple[int, str], ...] = ()
    prompted: bool = False
    used: int = 0  # bytes of disk that were free before and are not now


class ProgressThrottle:
    """Passes new output on while a command runs, at a human pace and never more than can be seen."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._new = bytearray()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._timer: asyncio.TimerHandle | None = None

    def take(self, data: bytes) -> None:
        self._new += data[-SHOWN:]
        if len(self._new) > SHOWN:
            del self._new[:-SHOWN]
            self._decode.reset()
            while self._new and 0x80 <= self._new[0] < 0xC0:  # the rest of a character that was cut
                del self._new[0]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PACE, self._flush)

    def _flush(self) -> None:
        self._timer = None
        text = self._decode.decode(bytes(self._new))
        self._new.clear()
        if text:
            self._show(text)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def run_foreground(
    jobs: CommandRunner, line: str, spool: Spool, limits: CommandLimits, show: ProgressThrottle
) -> CommandEnd:
    """Run a command line in the session's folder. `limits.timeout` is this command's time.

    Raises SupervisorLost or OSError when it cannot be started. When cancelled, everything that it started is
    sent TERM before this returns, and KILL half a second later.
    """
    loop = asyncio.get_running_loop()
    began, free = loop.time(), free_bytes(jobs.context.folder)
    full: asyncio.Future[None] = loop.create_future()
    last = began

    def take(data: bytes) -> None:
        nonlocal last
        last = loop.time()
        if not spool.feed(data) and not full.done():
            full.set_result(None)
        show.take(data)

    command, report = await jobs.start(line, jobs.context.cwd, take)
    done = False
    try:
        pid = await command.pid
        if isinstance(pid, OSError):
            raise pid
        patience = min(limits.timeout, limits.editor) if opens_editor(line) else limits.timeout
        await _either(command.exited, full, patience)
        took, asleep = loop.time() - began, loop.time() - last
        why = await _finish(jobs, command, full, patience < limits.timeout)
        job, left = await _leave(jobs, line, command, spool)
        done = True
    finally:
        show.stop()
        if not done:
            jobs.drop(command)
    code, name = code_of(command.exited.result() if command.exited.done() else None)
    prompted = bool(why == "timeout" and asleep >= min(limits.quiet, patience / 2) and _asks(spool))
    used = free - free_bytes(jobs.context.folder)
    return CommandEnd(code, name, why, took, patience, _reported(report), job, left, prompted, used)


async def _either(one: asyncio.Future[Any], other: asyncio.Future[Any], timeout: float) -> None:
    if not one.done():
        await asyncio.wait({one, other}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


async def _finish(
    jobs: CommandRunner, command: CommandHandle, full: asyncio.Future[None], editor: bool
) -> Literal["", "timeout", "output", "editor", "lost"]:
    """End what is not over, and take the last of its output."""
    why: Literal["", "timeout", "output", "editor", "lost"] = ""
    if command.exited.done():
        if not command.closed.done():
            await _either(command.closed, full, DRAIN)
        if not full.done():
            return "lost" if command.exited.result() is None else ""
        why = "output"
    elif full.done():
        why = "output"
    else:
        why = "editor" if editor else "timeout"
    await jobs.end(command)
    if not command.closed.done() and why != "output":
        await asyncio.wait({command.closed}, timeout=DRAIN)
    return why


async def _leave(
    jobs: CommandRunner, line: str, command: CommandHandle, spool: Spool
) -> tuple[BackgroundJob | None, tuple[tuple[int, str], ...]]:
    """What the command left running becomes a command in the background, so that it can be seen and ended."""
    if command.strays and not command.over.done():
        await asyncio.wait({command.over}, timeout=_WINDING_UP)
        left = tuple(await jobs.left(command))
        if left and not command.over.done():
            return jobs.add(line, command, spool, left_over=True), left
    command.close()
    return None, ()


def _asks(spool: Spool) -> bool:
    return looks_like_prompt(spool.tail(2_000).decode("utf-8", "replace"))


def _reported(report: Path) -> str | None:
    """The folder that the shell wrote, None when it did not come to that (exec, a trap of its own, KILL)."""
    try:
        text = os.fsdecode(report.read_bytes())
    except OSError:
        return None
    report.unlink(missing_ok=True)
    return text.removesuffix("\n") or None


def free_bytes(folder: Path) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
