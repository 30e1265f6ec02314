"""The driver of a screen: it takes commands that need no session while all that a session takes is loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from agent.events import Emit, TurnFinished
from agent.ports import Approver, Chooser, Status, WaitingPrompts

from .composition import make_services
from .setup import RunSetup, next_mode
from .start_screen import Opening, starting_status

if TYPE_CHECKING:
    from .controller import CommandTable, Controller

CONTROLLER_MODULE = f"{__package__}.controller"  # with 100 others, 100 ms


class EarlyDriver:
    """Implements ports.Driver: until its controller is made by itself, then by that one.

    Commands that need no session work on it as on a controller.
    """

    def __init__(
        self,
        setup: RunSetup,
        emit: Emit,
        approver: Approver,
        command_table: CommandTable,
        chooser: Chooser | None = None,
    ) -> None:
        self.chooser, self.command_table = chooser, command_table
        self.opening = Opening(make_services(setup, emit, approver, chooser))
        self.services = self.opening.services
        self.emit = self.services.emit
        self.ended = False
        self._setup, self._mode = setup, setup.mode
        self._on_change: Callable[[], None] | None = None
        self._made: Controller | None = None
        self._ready: asyncio.Task[Controller] | None = None

    @property
    def setup(self) -> RunSetup:
        """What the run works by, also where that was changed since."""
        return self._setup if self._made is None else self._made.setup

    @setup.setter
    def setup(self, changed: RunSetup) -> None:
        if self._made is None:
            self._setup = changed
        else:
            self._made.setup = changed

    async def open(self) -> bool:
        """See ports.Driver."""
        return await self.opening.over()

    async def ready(self) -> None:
        """See ports.Driver."""
        await self._controller()

    async def _controller(self) -> Controller:
        """The controller, ready; it goes on with what was chosen before."""
        self._ready = self._ready or asyncio.ensure_future(self._start())
        return await asyncio.shield(self._ready)

    async def _start(self) -> Controller:
        await self.open()
        make = (await asyncio.to_thread(import_module, CONTROLLER_MODULE)).Controller
        services = self.services
        made: Controller = make(
            self._setup, services.emit, services.approver, self.command_table, self.chooser, self.opening
        )
        made.first_mode = self._mode
        if self._on_change is not None:
            made.watch_status(self._on_change)
        self._made = made
        await made.ready()
        return made

    async def prompt(self, text: str, *, typed: str | None = None) -> TurnFinished:
        """See ports.Driver."""
        return await (await self._controller()).prompt(text, typed=typed)

    async def command(self, line: str) -> bool:
        """See ports.Driver."""
        if self.needs_session(line):
            return await (await self._controller()).command(line)
        await self.open()
        await self.command_table.run_command(self, line)
        return not self.ended

    def needs_session(self, line: str) -> bool:
        """See ports.Driver."""
        return self.command_table.needs_session(line)

    def may_run_during_turn(self, line: str) -> bool:
        """See ports.Driver."""
        return self.command_table.may_run_during_turn(line)

    def commands(self) -> Sequence[tuple[str, str]]:
        """See ports.Driver."""
        return self.services.summaries_behind(self.command_table.command_summaries())

    def cycle_mode(self) -> str:
        """See ports.Driver."""
        if self._made is not None:
            return self._made.cycle_mode()
        self._mode = next_mode(self._mode, self.setup)
        return self._mode

    def status(self) -> Status:
        """See ports.Driver."""
        return starting_status(self.services) if self._made is None else self._made.status()

    def watch_status(self, on_change: Callable[[], None]) -> None:
        """See ports.Driver."""
        self._on_change = on_change
        if self._made is not None:
            self._made.watch_status(on_change)

    def take_prompts_from(self, waiting: WaitingPrompts) -> None:
        """See ports.Driver."""
        self.services.waiting = waiting

    async def close(self) -> None:
        """See ports.Driver."""
        if self._ready is not None:
            self._ready.cancel()
        if self._made is not None:
            await self._made.close()
            return
        self.opening.cancel()
        await self.services.close()
