"""One sitting at the terminal, from the first paint to the last line."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .input_queue import QueuedInput
from .key_actions import KeyActions
from .key_bindings import bindings
from .repl_state import ReplState, set_up
from .row_layout import RowLayout

if TYPE_CHECKING:
    from agent.events import Notice
    from agent.ports import Factory

HEAD_START = 0.05  # seconds for the first keys, before loading competes with them
GRACE = 5.0  # seconds that what runs may take to end when the person leaves
SIGNALS = ((signal.SIGTERM, 143), (signal.SIGHUP, 129))


async def sit(
    make: Factory, places: tuple[Path, Path], color: str, prompt: str, mask: Callable[[str], str]
) -> int:
    """Paint, make the agent, work until the person leaves; `places` are the project and our state."""
    desk = set_up(*places, color, mask)
    frame = RowLayout(desk)
    desk.approval.changed = desk.picker.changed = frame.asked
    terminal = desk.terminal
    keys = bindings(KeyActions(desk), desk.editor, desk.approval, desk.picker)
    terminal.build(frame.windows.layout, keys, frame.compose)
    terminal.on_resize(desk.stage.stale)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: desk.stage.emit(_mishap(context)))
    for number, code in SIGNALS:
        loop.add_signal_handler(number, desk.leave, code)
    tasks: list[asyncio.Task[None]] = []
    code = 1
    try:
        code = await terminal.app.run_async(
            pre_run=lambda: tasks.append(loop.create_task(_live(desk, make, prompt))),
            set_exception_handler=False,
        )
        return code
    except EOFError:  # the terminal is gone
        desk.journal.write()
        code = 129
        return code
    finally:
        await _close(desk, tasks, code)
        loop.set_exception_handler(None)
        for number, _ in SIGNALS:
            loop.remove_signal_handler(number)


async def _live(desk: ReplState, make: Factory, prompt: str) -> None:
    """Runs from the first paint on: load what is slow, make the agent, work off what is typed."""
    try:
        _restore_draft(desk)
        if prompt:
            desk.work.add(QueuedInput(prompt, prompt, prompt))
        await asyncio.sleep(HEAD_START)
        await asyncio.to_thread(_load)
        driver = make(desk.emit, desk.approval, desk.picker)
        desk.turns.driver = driver
        desk.terminal.invalidate()
        await driver.ready()
        desk.terminal.invalidate()
        await desk.work.go()
    except Exception as error:  # noqa: BLE001  handed to the caller through the application
        app = desk.terminal.app
        if app.is_running and not app.is_done:
            app.exit(exception=error)


def _load() -> None:
    from . import render

    _ = render


def _restore_draft(desk: ReplState) -> None:
    left = desk.draft.orphan()
    if not left:
        return
    from agent.events import Notice

    if desk.editor.buffer.text:
        desk.editor.remember(left)
        desk.stage.emit(Notice("What you had not sent last time is in the history (↑)"))
    else:
        desk.editor.put_back(desk.editor.chips.paste(left))
        desk.stage.emit(Notice("Restored what you had not sent last time; Ctrl-C clears it"))


async def _close(desk: ReplState, tasks: list[asyncio.Task[None]], code: int) -> None:
    """End what runs, close the agent, print what is left. The terminal is restored already."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=GRACE)
    from agent.events import Notice

    driver = desk.turns.driver
    session = driver.status().session if driver else ""
    try:
        if driver is not None:
            await driver.close()
    finally:
        desk.stage.settle()
        for trouble in filter(None, (desk.past.trouble, desk.draft.trouble)):
            desk.stage.emit(Notice(trouble, "warning"))
        if code <= 128:
            desk.draft.keep("")
        if session and desk.turns.prompted:
            hint = f"Go on with: makeroom --resume {session}"
            desk.terminal.above("\n" + desk.terminal.theme.paint("dim", hint))
        desk.terminal.rest()


def _mishap(context: dict[str, Any]) -> Notice:
    from agent.events import Notice

    error = context.get("exception")
    words = f"{type(error).__name__}: {error}" if error else str(context.get("message"))
    return Notice(f"internal error: {words}", "error")
