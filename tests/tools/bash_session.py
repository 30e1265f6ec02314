"""A session of the bash tool in a directory, and a look at the processes that it leaves behind."""

from __future__ import annotations

import asyncio
import os
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tools.base import ToolCall, ToolContext, ToolResult
from tools.bash import BashArguments, run_bash
from tools.processes.foreground import CommandLimits
from tools.processes.jobs import BackgroundJob
from tools.processes.runner import command_runner

MODES = ("namespace", "subreaper")
GUARD_S = 30.0  # bounds a wait that takes a fraction of a second; never a measurement


def text(result: ToolResult) -> str:
    """Return the text, without the line for more than five seconds, which a busy machine makes of less."""
    whole = "\n".join(getattr(block, "text", "") for block in result.content)
    return re.sub(r"\n\[took \d+\.\d s\]", "", whole)


@dataclass
class BashSession:
    """A session in `folder` and its event loop. Every process started from it carries `mark`."""

    folder: Path
    mode: str = "namespace"
    limits: CommandLimits = field(default_factory=CommandLimits)
    mark: str = field(default_factory=lambda: f"mark-{uuid.uuid4().hex}")
    shown: list[str] = field(default_factory=list)
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)

    def __post_init__(self) -> None:
        self.count = 0
        environ = {**os.environ, "TEST_MARK": self.mark}
        environ["MAKEROOM_NAMESPACE"] = "on" if self.mode == "namespace" else "off"
        self.context = ToolContext(
            self.folder, self.folder, self.folder / ".task_outputs", self.folder / "journals", environ=environ
        )

    async def arun(self, command: str = "", **more: Any) -> ToolResult:
        self.count += 1
        call = ToolCall(self.context, f"{self.count}.0", self.shown.append)
        return await run_bash(BashArguments(command=command, **more), call, self.limits)

    def run(self, command: str = "", **more: Any) -> ToolResult:
        return self.runner.run(self.arun(command, **more))

    def say(self, command: str = "", **more: Any) -> str:
        """The text of the result."""
        return text(self.run(command, **more))

    def timed_out(self, command: str, shown: str) -> str:
        """Return the text of a command that runs into its time limit, which shows what it did before.

        The limit is short, and longer each time that a busy machine let it pass before that.
        """
        said = ""
        for timeout in (300, 1_200, 4_800, 19_200):
            said = self.say(command, timeout=timeout)
            if shown in said:
                break
        return said

    def limit(self, **limits: Any) -> None:
        self.limits = replace(self.limits, **limits)

    def how(self) -> str:
        """Return the name of the mechanism that contains the commands."""
        return self.runner.run(self._how())

    async def _how(self) -> str:
        return (await command_runner(self.context).supervisor()).how

    @property
    def jobs(self) -> dict[str, BackgroundJob]:
        return command_runner(self.context).jobs

    def wait_for(self, job: str) -> None:
        """Wait until the background command has ended."""
        self.runner.run(asyncio.wait_for(self.jobs[job].has_ended.wait(), GUARD_S))

    def close(self) -> None:
        self.runner.run(command_runner(self.context).close())

    def survivors(self) -> list[str]:
        return survivors(self.mark)


def survivors(mark: str) -> list[str]:
    """The command lines of all living processes whose environment or arguments hold `mark`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            words = _proc_file(pid, "cmdline")
            if mark.encode() not in words + _proc_file(pid, "environ") or int(pid) == os.getpid():
                continue
            state = _proc_file(pid, "stat").rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if state != b"Z":
            found.append(words.replace(b"\0", b" ").decode("utf-8", "replace"))
    return found


def _proc_file(pid: str, name: str) -> bytes:
    """The content of a file about a process. It is read for each process after each test of a command."""
    fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(fd, 1 << 17), b""))
    finally:
        os.close(fd)


def wait_until(true: Callable[[], Any], seconds: float = GUARD_S) -> bool:
    """Wait for a condition that another process makes true; return False if that takes too long."""
    limit = time.monotonic() + seconds
    while not true():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True
