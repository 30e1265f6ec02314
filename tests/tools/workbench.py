"""A place to run commands in, and eyes for what they leave behind. For the tests of the bash tool."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tools.base import ToolCall, ToolContext, ToolResult
from tools.bash import BASH, Bash
from tools.jobs import close, jobs_of

MODES = ("namespace", "subreaper")
GUARD = 30.0  # seconds that bound a wait which takes a fraction of one; never a measurement


def text(outcome: ToolResult) -> str:
    return "\n".join(getattr(block, "text", "") for block in outcome.content)


@dataclass
class Bench:
    """A project, a session in it and its event loop. Every process started from it carries `mark`."""

    folder: Path
    mode: str = "namespace"
    tool: Bash = BASH
    mark: str = field(default_factory=lambda: f"mark-{uuid.uuid4().hex}")
    shown: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runner = asyncio.Runner()
        self.count = 0
        environ = {**os.environ, "BENCH_MARK": self.mark}
        environ["MAKEROOM_NAMESPACE"] = "on" if self.mode == "namespace" else "off"
        self.context = ToolContext(
            self.folder, self.folder, self.folder / ".task_outputs", self.folder / "journals", environ=environ
        )

    def call(self) -> ToolCall:
        self.count += 1
        return ToolCall(self.context, f"{self.count}.0", self.shown.append)

    async def arun(self, command: str = "", **more: Any) -> ToolResult:
        return await self.tool.run(BASH.arguments(command=command, **more), self.call())

    def run(self, command: str = "", **more: Any) -> ToolResult:
        return self.runner.run(self.arun(command, **more))

    def say(self, command: str = "", **more: Any) -> str:
        return text(self.run(command, **more))

    def limit(self, **limits: Any) -> None:
        self.tool = replace(self.tool, limits=replace(self.tool.limits, **limits))

    def how(self) -> str:
        return self.runner.run(self._how())

    async def _how(self) -> str:
        return (await jobs_of(self.context).supervisor()).how.result()

    def close(self) -> None:
        self.runner.run(close(self.context))

    def survivors(self) -> list[str]:
        return survivors(self.mark)


def survivors(mark: str) -> list[str]:
    """The command lines of all living processes whose environment or arguments hold `mark`."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes()
                state = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
                if state != "Z" and mark.encode() in (folder / "environ").read_bytes() + words:
                    found.append(words.replace(b"\0", b" ").decode("utf-8", "replace"))
            except OSError:
                continue
    return found


def wait_until(true: Callable[[], Any], seconds: float = GUARD) -> bool:
    """Whether it becomes true; for what another process does. The bound guards against a hang."""
    limit = time.monotonic() + seconds
    while not true():
        if time.monotonic() > limit:
            return False
        time.sleep(0.005)
    return True
