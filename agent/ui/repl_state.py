"""The parts of a REPL session: terminal, editor, view, dialogs, and the queue with the task that runs it."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from agent.app import RunSetup
from agent.errors import program_changed, unexpected
from agent.ports import CommandSummary, Driver, WaitingPrompt
from agent.typed_text import is_command

from .approval import ApprovalDialog
from .completion import CompletionSource, FileIndex
from .input_editor import InputEditor
from .keymap import read_keymap
from .notifications import Notifications, wants_notifications
from .picker import Picker
from .prompt_history import PromptHistory
from .terminal import Terminal
from .unsent_input import UnsentInput

if TYPE_CHECKING:
    from .transcript_view import TranscriptView


class QueuedInput(Struct, frozen=True):
    """A prompt or a command.

    `text` may contain chips and is "" for the command of a key, `expanded` has their texts instead, and
    `shown` is the echo. `typed` is the text without pastes, None if nothing was pasted. `marked` is
    `expanded` with tags around its pastes, "" if nothing was pasted.
    """

    text: str
    expanded: str
    shown: str
    typed: str | None = None
    marked: str = ""

    @property
    def prompt(self) -> str:
        """Return the text that the model is sent."""
        return self.marked or self.expanded

    @property
    def is_command(self) -> bool:
        """Return whether it begins like a command. The text of a chip does not count: a paste is a prompt."""
        return is_command(self.shown.strip()) or self.shown.lstrip().startswith("!")


class InputQueue:
    """The queued inputs, in order, and the one task that processes them."""

    def __init__(self, state: ReplState) -> None:
        self._state = state
        self.queued: deque[QueuedInput] = deque()  # waiting, oldest first
        self._added = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._taken: QueuedInput | None = None  # the last one added to a running turn

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def add(self, item: QueuedInput) -> None:
        """Queue an item; a read-only command runs immediately, alongside a running turn."""
        driver = self._state.driver
        if self.running and item.is_command and driver and driver.may_run_during_turn(item.expanded.strip()):
            self._state.terminal.app.create_background_task(run_input(self._state, driver, item))
            return
        self.queued.append(item)
        self._added.set()
        self._state.queue_changed()

    def add_command(self, line: str) -> None:
        """Queue the command of a key."""
        self.add(QueuedInput(text="", expanded=line, shown=line))

    def take(self) -> WaitingPrompt | None:
        """Implement ports.WaitingPrompts: a command and the items after it wait for the end of the turn."""
        if not self.queued or self.queued[0].is_command:
            return None
        self._taken = self.queued.popleft()
        self._state.view.print_prompt(self._taken.shown)
        self._state.queue_changed()
        return WaitingPrompt(self._taken.prompt, self._taken.typed)

    def give_back(self) -> None:
        """Implement ports.WaitingPrompts: put the prompt into the input, as after an interruption."""
        if self._taken is not None:
            self._state.editor.put_back(self._taken.text)

    def interrupt(self) -> bool:
        """Cancel the running item. Return False if nothing runs."""
        return self._task is not None and self._task.cancel()

    async def process(self, driver: Driver) -> None:
        """Run items, one at a time, until cancelled."""
        while True:
            while not self.queued:
                self._added.clear()
                await self._added.wait()
            item = self.queued.popleft()
            self._state.refresh()  # it is no longer shown as waiting
            await self._run_one(driver, item)

    async def _run_one(self, driver: Driver, item: QueuedInput) -> None:
        self._task = asyncio.ensure_future(run_input(self._state, driver, item))
        try:
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()
        finally:
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # that of `ready`, which is raised where the session waits for it
            self._task = None
            self._state.queue_changed()


class StatusHint:
    """A hint about the last key, which is shown at the end of the status line for a moment."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._name = self._text = ""
        self._until = 0.0

    def show(self, name: str, text: str, *, seconds: float) -> None:
        """Show the text for `seconds`; `name` is for `shows`. Called by keys, which redraw the screen."""
        loop = asyncio.get_running_loop()
        self._name = name
        self._text = text
        self._until = loop.time() + seconds
        loop.call_later(seconds + 0.01, self._on_change)

    def clear(self, name: str = "") -> None:
        """Remove the hint, or only the hint of this name."""
        if name in ("", self._name):
            self._name = self._text = ""

    def shows(self, name: str) -> bool:
        """Return whether the hint of that name is still shown, that is, its key was pressed twice."""
        return self._name == name and bool(self.text)

    @property
    def text(self) -> str:
        return self._text if asyncio.get_running_loop().time() < self._until else ""


class ReplState:
    """The state of a session at the screen.

    `driver` is None until it is created, after the first paint; `prompted`: there was a prompt.
    """

    def __init__(self, setup: RunSetup) -> None:
        state_dir = setup.config.state_dir
        mask = setup.masks.text
        self.setup = setup
        self.resumed = setup.options.resume is not None  # an earlier session
        self.began = time.time()
        self.driver: Driver | None = None
        self.prompted = False
        self.early_modes = 0  # changes of the mode before there was a driver
        self.taking_images: set[asyncio.Task[None]] = set()  # tasks that read pasted images
        self.submits_when_taken = False
        self.terminal = Terminal(setup.options.color, setup.config.theme)
        if setup.config.editing == "vim":
            self.terminal.set_editing("vim")
        self.terminal.mask = mask
        self.keymap = read_keymap(setup.config.user_dir / "keybindings.toml")
        setup.key_names.update(self.keymap.names(setup.environ))
        self.terminal.key_names = setup.key_names
        self.history = PromptHistory(state_dir / "history", mask)
        self.unsent_input = UnsentInput(state_dir, setup.folder, mask)
        completer = CompletionSource(self.commands, FileIndex(setup.folder))
        self.editor = InputEditor(self.history, completer, self._save_soon)
        self.approval = ApprovalDialog(self.terminal.invalidate)
        self.picker = Picker(self.terminal.invalidate)
        self.picker.give_back = self.editor.paste
        self.status_hint = StatusHint(self.terminal.invalidate)
        self.queue = InputQueue(self)
        wanted = wants_notifications(setup.config.notify, setup.environ)
        send = self.terminal.send if wanted else lambda codes: None
        self.notifications = Notifications(send, setup.environ, setup.folder.name, setup.masks.all)

    @cached_property
    def view(self) -> TranscriptView:
        """Return the screen above the input. It is created at its first use, after the first paint."""
        # 25 ms: the events, facts and their rendering
        from .transcript_view import TranscriptView

        view = TranscriptView(self.terminal, self.refresh, self.editor.restore)
        self.approval.show_plan = view.print_markdown
        return view

    @property
    def has_view(self) -> bool:
        """Return whether anything was shown above the input yet."""
        return "view" in self.__dict__

    def commands(self) -> Sequence[CommandSummary]:
        """List the slash commands; none before the driver is created."""
        return self.driver.commands() if self.driver is not None else ()

    def command_names(self) -> list[str]:
        """Return the names of the slash commands, without the slash."""
        return [each.name.removeprefix("/") for each in self.commands()]

    def refresh(self) -> None:
        """Show a change soon; while a turn runs, the next tick shows it."""
        live_view = self.view.live_view
        live_view.queued = [item.shown for item in self.queue.queued]
        if live_view.started_at is None or live_view.queued:
            self.terminal.invalidate()

    def show_title(self) -> None:
        """Show the title of the session in the title of the window."""
        if self.driver is not None:
            self.notifications.show_session(self.driver.status().title)

    def leave(self, code: int) -> None:
        """End the session. After a signal, unsent input is kept for the next session.

        Otherwise only a stashed draft goes into the history, because it is not on the screen.
        """
        if code > 128:
            self.unsent_input.save(self._unsent_text())
        else:
            self.editor.remember(self.editor.stashed)
        self.terminal.exit(code)

    def queue_changed(self) -> None:
        """Save and show the queue after a change."""
        self._save_soon()
        self.refresh()

    def _save_soon(self) -> None:
        self.unsent_input.save_soon(self._unsent_text)

    def _unsent_text(self) -> str:
        stashed = self.editor.paste_chips.expand(self.editor.stashed)
        texts = (*(item.expanded for item in self.queue.queued), stashed, self.editor.text)
        return "\n".join(text for text in texts if text)


async def run_input(state: ReplState, driver: Driver, item: QueuedInput) -> None:
    """Run a prompt or a command to its end. A cancellation is shown as an interruption, not raised."""
    view = state.view
    if view.live_view.started_at is not None:  # alongside a running turn
        if item.text:  # of a key, it is no line that the user wrote
            view.print_prompt(item.shown)
        await _run_command(state, driver, item)
        return
    view.begin(item.shown, echo_turns=item.is_command)
    state.notifications.show("working")
    begun = time.monotonic()
    try:
        if not item.is_command or driver.needs_session(item.expanded.strip()):
            await driver.ready()  # an exception ends the session: it is not an error of this line
        await _run_guarded(state, driver, item)
    except asyncio.CancelledError:
        view.end_interrupted(item.is_command)
        _restore_unanswered(state, item)
    finally:
        view.finish()
        state.notifications.turn_ended(time.monotonic() - begun)


async def _run_guarded(state: ReplState, driver: Driver, item: QueuedInput) -> None:
    try:
        await (_run_command if item.is_command else _run_prompt)(state, driver, item)
    except Exception as error:  # noqa: BLE001  border: the screen and the draft survive an error
        state.view.notice(describe_failure(error, state.began), "error")


def describe_failure(error: Exception, began: float) -> str:
    """Describe an error that nothing handled. After an upgrade, old and new modules do not fit together."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, ImportError) or any(_changed_since(frame.filename, began) for frame in frames):
        return program_changed(error)
    where = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}"
    return f"{unexpected(error)} ({where}). /bug writes a report"


def _changed_since(path: str, began: float) -> bool:
    try:
        return Path(path).stat().st_ctime > began
    except OSError:
        return False


async def _run_prompt(state: ReplState, driver: Driver, item: QueuedInput) -> None:
    state.prompted = True
    ended = await driver.prompt(item.prompt, typed=item.typed)
    if not state.view.turn_ended:
        state.view.emit(ended)
    if ended.reason == "interrupted":
        _restore_unanswered(state, item)


async def _run_command(state: ReplState, driver: Driver, item: QueuedInput) -> None:
    line = item.expanded.strip()
    stays = await driver.command(line)
    state.show_title()
    state.prompted = state.prompted or state.view.turn_ended  # the command ran a turn
    if not stays:
        state.leave(0)
        return
    is_known = line.startswith("!") or line[1:].split(maxsplit=1)[0] in state.command_names()
    if not is_known:  # Up corrects a typo; put back into the input, it would be in front of the next line
        state.status_hint.show("typo", "Press ↑ to edit the line", seconds=5.0)


def _restore_unanswered(state: ReplState, item: QueuedInput) -> None:
    """Put a prompt that got no answer back into the input."""
    if not state.view.live_view.answered and not item.is_command:
        state.editor.put_back(item.text)
