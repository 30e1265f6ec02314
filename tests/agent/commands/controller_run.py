"""A controller in a directory, against the strict server: for tests of commands and whole turns."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent import commands
from agent.app import Options
from agent.app.config import Config
from agent.app.controller import Controller
from agent.app.setup import RunSetup
from agent.cli.verify_command import verify_transcript
from agent.events import CommandOutput, Emit, Event, Notice
from agent.loop.context import TurnContext
from agent.menus import Menu, MenuRow
from agent.model.anthropic.messages import encode_message
from agent.ports import Allow, Deny, PermissionQuestion
from tests.agent.known_sandbox import remember_sandbox
from tests.strict_api.demo_bridge import demo_reply
from tests.strict_api.server import Server, ServerOptions
from transcripts.listing import ProjectRecords
from transcripts.session_lock import path_of

READ_ALL = "Read every Python file in the src directory one by one"


class AllowAll:
    """Allows every call, once."""

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        return Allow("once")


class ScriptedChooser:
    """Chooses rows by their values, in order, and keeps the menus; "" chooses none."""

    def __init__(self, *values: str) -> None:
        self.values = list(values)
        self.menus: list[Menu] = []

    async def choose(self, menu: Menu) -> MenuRow | None:
        self.menus.append(menu)
        value = self.values.pop(0)
        return next(row for row in menu.rows if row.value == value) if value else None


@dataclass
class ControllerRun:
    """A controller in a directory, and the events of the last line that it was given."""

    controller: Controller
    server: Server
    events: list[Event]

    def emitted(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def text(self) -> str:
        return "\n".join(event.text for event in self.events if isinstance(event, Notice | CommandOutput))

    async def do(self, *lines: str) -> str:
        """Run prompts and commands; returns the text that the last one emitted."""
        for line in lines:
            self.events.clear()
            if line.startswith(("/", "!")):
                await self.controller.command(line)
            else:
                finished = await self.controller.prompt(line)
                assert finished.reason == "done", finished
        return self.text()

    def bodies(self) -> list[bytes]:
        session, _ = self.controller.in_use
        return [encode_message(message) for message in session.folded.view]


@asynccontextmanager
async def started(setup: RunSetup, server: Server) -> AsyncIterator[ControllerRun]:
    events: list[Event] = []
    controller = Controller(setup, events.append, AllowAll(), commands)
    await controller.ready()
    try:
        yield ControllerRun(controller, server, events)
    finally:
        await controller.close()


async def no_warning(context: TurnContext, emit: Emit) -> None:
    """Replace `warn_without_sandbox`: leave it to the first command to set up the sandbox."""


def run_controller(folder: Path, work: Callable[[ControllerRun], Awaitable[None]], **options: Any) -> Server:
    """Do `work` with a controller in `folder`. The server may refuse no request but one that is too long.

    Every request has to be made again from the record, unless `verified` is False. The kind of sandbox is
    known, and only a command sets it up, unless `sandbox_known` is False.
    """
    home = folder / "home"
    window = options.pop("window", 200_000)
    faults, verified = options.pop("faults", ()), options.pop("verified", True)
    environ = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(home / "state"), **options.pop("environ", {})}
    binds = None if "model" in options else True
    configured = options.pop("configured", {})
    cache, hooks = options.pop("cache", "5m"), options.pop("hooks", None)
    sandbox_known = options.pop("sandbox_known", True)
    with Server(
        options.pop("respond", demo_reply), ServerOptions(window=window, binds_thinking=binds)
    ) as server:
        server.faults.add(*faults)
        config = Config(
            base_url=server.base_url,
            key="test-key-12345",
            model="claude-sonnet-5-5",
            user_dir=home / "config",
            cache_dir=home / "cache",
            state_dir=home / "state",
            cache=cache,
        )
        config = replace(config, **configured)
        given = Options(**{"context_window": window, **options})

        async def whole() -> None:
            async with started(RunSetup(given, config, folder, environ, hooks=hooks), server) as run:
                await work(run)

        with pytest.MonkeyPatch.context() as patch:
            if sandbox_known:
                remember_sandbox(home / "state", environ)
                patch.setattr("agent.app.controller.warn_without_sandbox", no_warning)
            asyncio.run(whole())
        assert [text for text in server.refused if "too long" not in text] == []
        for sid in ProjectRecords(folder).sids() if verified else ():
            # every request can be made again from the record
            verify_transcript(path_of(folder, sid), folder)
        return server


def files(folder: Path, count: int = 6, lines: int = 200) -> None:
    """Make files of Python in `src`."""
    (folder / "src").mkdir()
    for number in range(count):
        text = "\n".join(f"def task_{number}_{row}(): return 'value {row}'" for row in range(lines))
        (folder / "src" / f"part_{number}.py").write_text(text, "utf-8")
