"""Carry out one item of work with the driver, with the screen alive while it runs."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from .input_editor import InputEditor
from .input_queue import QueuedInput
from .live_view import TICK
from .transcript_view import TranscriptView

if TYPE_CHECKING:
    from agent.ports import Driver


class TurnRunner:
    """Runs prompts and commands. `driver` is set once it is there; `leave` ends the session."""

    def __init__(
        self,
        stage: TranscriptView,
        editor: InputEditor,
        invalidate: Callable[[], None],
        leave: Callable[[int], None],
    ) -> None:
        self._stage = stage
        self._editor = editor
        self._invalidate = invalidate
        self._leave = leave
        self.driver: Driver | None = None
        self.prompted = False  # whether there was any prompt

    async def perform(self, item: QueuedInput) -> None:
        """Do one item to its end. Being cancelled is an interruption: told, not raised."""
        stage, driver = self._stage, self.driver
        if driver is None:
            return
        if stage.live.began is not None:
            stage.echo(item.shown)
            await self._command(driver, item)
            return
        stage.live.start(stage.now())
        stage.ended, stage.echo_next = False, item.is_command
        stage.echo(item.shown)
        ticking = asyncio.ensure_future(self._tick())
        try:
            await self._watched(driver, item)
        finally:
            ticking.cancel()
            stage.settle()
            stage.live.stop()
            stage.live.flow.end()
            self._invalidate()

    async def _watched(self, driver: Driver, item: QueuedInput) -> None:
        from agent.events import Notice, TurnFinished  # not before the first paint

        stage = self._stage
        try:
            if item.is_command:
                await self._command(driver, item)
            else:
                await self._prompt(driver, item)
        except asyncio.CancelledError:
            if not stage.ended:
                stage.emit(TurnFinished("interrupted", 0, "interrupted", 130))
            self._restore(item)
        except Exception as error:  # noqa: BLE001  border: the screen and the draft outlive a fault below
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
            stage.emit(Notice(f"{type(error).__name__}: {error} ({where})", "error"))

    async def _prompt(self, driver: Driver, item: QueuedInput) -> None:
        self.prompted = True
        ended = await driver.prompt(item.whole)
        if not self._stage.ended:
            self._stage.emit(ended)
        if ended.reason == "interrupted":
            self._restore(item)

    async def _command(self, driver: Driver, item: QueuedInput) -> None:
        line = item.whole.strip()
        stays = await driver.command(line)
        self.prompted = self.prompted or self._stage.ended  # it began a turn
        if not stays:
            self._leave(0)
            return
        names = {name.removeprefix("/") for name, _ in driver.commands()}
        known = line.startswith("!") or line[1:].split(maxsplit=1)[0] in names
        if not known and not self._editor.buffer.text:
            self._editor.put_back(item.text)  # a typo is corrected, not typed again

    def _restore(self, item: QueuedInput) -> None:
        """Give a prompt that got no answer back for editing."""
        if not self._stage.live.answered and not item.is_command:
            self._editor.put_back(item.text)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._stage.settle()
            self._invalidate()
