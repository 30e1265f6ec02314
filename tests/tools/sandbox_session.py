"""A session whose commands run in the sandbox, in a project with a home of its own."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.processes.runner import CommandRunner, command_runner

from .bash_session import BashSession


@dataclass
class SandboxedSession(BashSession):
    """A session in a project directory; what its environment names as the home is beside it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.home = self.folder.parent / "home"
        self.home.mkdir(exist_ok=True)
        self.context.journals = self.folder.parent / "state" / "journals"
        assert isinstance(self.context.environ, dict)
        self.context.environ["HOME"] = str(self.home)
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "CARGO_HOME", "GOPATH"):
            self.context.environ.pop(name, None)

    @property
    def commands(self) -> CommandRunner:
        return command_runner(self.context)

    def require_sandbox(self, *levels: str) -> None:
        """Skip the test where no sandbox can be had, or none of these levels."""
        level, why = self.runner.run(self.commands.sandbox())
        if level == "none" or (levels and level not in levels):
            pytest.skip(f"the wall here is {level}: {why}")

    async def output(self, line: str, sandboxed: bool = True) -> str:
        """Return the output of a command line, stdout and stderr."""
        pieces: list[bytes] = []
        command, _ = await self.commands.start(line, self.folder, pieces.append, sandboxed=sandboxed)
        await asyncio.wait({command.exited})
        await asyncio.wait({command.closed}, timeout=0.3)
        command.close()
        return b"".join(pieces).decode().strip()

    def prints(self, line: str, sandboxed: bool = True) -> str:
        return self.runner.run(self.output(line, sandboxed))

    def told(self, line: str) -> list[str]:
        """Return the notices about guarded files after a sandboxed command line."""

        async def run() -> list[str]:
            command, _ = await self.commands.start(line, self.folder, lambda data: None, sandboxed=True)
            await asyncio.wait({command.over})
            return await self.commands.guard.settle()

        return self.runner.run(run())

    def end(self) -> None:
        self.close()
        assert not self.survivors()
        self.runner.close()


def sandboxed_session(folder: Path) -> SandboxedSession:
    """A session in a new project within the directory."""
    project = folder.resolve() / "project"
    project.mkdir(exist_ok=True)
    return SandboxedSession(project)


def git(folder: Path, *words: str) -> None:
    """Run git outside of any sandbox, as no one in particular."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    import subprocess

    subprocess.run(["git", *author, *words], cwd=folder, env=environ, check=True, capture_output=True)
