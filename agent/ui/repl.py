"""Run the REPL: one application for the whole session, from the first paint to the last line.

The prompt is painted before the agent is created. Finished text is on the screen and not kept here.
"""

from __future__ import annotations

import asyncio
from functools import partial
from importlib import import_module
from typing import Any

from agent import events
from agent.app import RunSetup
from agent.errors import program_changed
from agent.ports import Factory
from transcripts.wording import shorten

from .approval import question_head
from .key_bindings import build_key_bindings
from .layout import ScreenLayout
from .plain_repl import PlainRepl
from .repl_state import QueuedInput, ReplState
from .terminal import exit_on_signals
from .terminal_text import at_screen, one_line


async def run_repl(make_driver: Factory, setup: RunSetup) -> int:
    """Take prompts and commands until the user leaves the session; return the exit code.

    `make_driver` is called once, after the first paint. Exceptions of `Driver.ready` are raised here, after
    the terminal was restored.
    """
    if at_screen(setup.options.plain):
        return await _run_screen(make_driver, setup)
    setup.key_names.update(dict.fromkeys(setup.key_names, ""))
    return await PlainRepl(make_driver, setup.masks.text).run(setup.options.prompt)


async def _run_screen(make_driver: Factory, setup: RunSetup) -> int:
    state = ReplState(setup)
    screen = ScreenLayout(state)
    state.approval.on_change = partial(_question_changed, state, screen)
    state.picker.on_change = screen.dialog_changed
    state.terminal.watch_screen(state.notifications.start, state.notifications.stop)
    state.terminal.show(screen.layout, build_key_bindings(state), screen.compose)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: state.view.notice(_fault_message(context), "error"))
    code = 1
    with exit_on_signals(state.leave):
        try:
            work = partial(_work, state, make_driver, setup.options.prompt)
            code = await state.terminal.run(work, state.leave)
            return code
        finally:
            await _close(state, code)
            loop.set_exception_handler(None)


def _question_changed(state: ReplState, screen: ScreenLayout) -> None:
    """Announce a question that appeared, disappeared, or asks for words."""
    panel = state.approval.panel
    form = state.approval.form.state
    if form is not None:
        state.notifications.question_waits(form.questions[0].question)
    elif panel is None:
        state.notifications.show("working")
        state.status_hint.clear("answers")
    elif not panel.writing:
        state.notifications.question_waits(question_head(panel.question))
    screen.dialog_changed()


async def _work(state: ReplState, make_driver: Factory, prompt: str) -> None:
    """Load slow modules, create the driver, and process the input, from the first paint on."""
    state.terminal.ask_ground()
    if prompt:
        state.queue.add(QueuedInput(text=prompt, expanded=prompt, shown=prompt))
    if state.resumed:  # there is something to draw immediately
        await _load_drawing(state)
    await asyncio.to_thread(import_module, f"{__package__}.transcript_view")
    driver = state.driver = await make_driver(partial(_emit, state), state.approval, state.picker)
    for _ in range(state.early_modes):
        driver.cycle_mode()
    driver.watch_status(state.terminal.invalidate)
    driver.take_prompts_from(state.queue)
    state.terminal.invalidate()
    if not await driver.open():
        await driver.ready()
    for trouble in filter(None, (*state.keymap.troubles, state.history.trouble)):
        state.view.notice(trouble, "warning")
    state.history.trouble = ""  # it was shown
    if state.resumed:
        _offer_draft(state)
    state.terminal.invalidate()
    working = asyncio.ensure_future(state.queue.process(driver))
    try:
        await driver.ready()  # an exception ends the session, whatever is being typed
        state.show_title()
        state.terminal.invalidate()  # the status is known now
        await _load_drawing(state)
    except BaseException:
        await _end(working)
        raise
    await working


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end, whatever its outcome."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _load_drawing(state: ReplState) -> None:
    """Import the modules that draw answers; rich and pygments take 120 ms, so not before the first paint."""
    try:
        for module in ("markdown", "diff_drawing"):
            await asyncio.to_thread(import_module, f"{__package__}.{module}")
    except ImportError as error:
        state.view.notice(program_changed(error), "error")


def _offer_draft(state: ReplState) -> None:
    """Add the input that was not sent when the program ended to the history, where Up finds it."""
    left = state.unsent_input.take_orphan()
    if left:
        state.editor.remember(left)
        state.editor.buffer.reset(state.editor.buffer.document)  # makes it load the history again
        words = shorten(one_line(left), 50)
        state.view.notice(f"the last session ended before this was sent: '{words}' (press ↑ to edit)")


def _emit(state: ReplState, event: events.Event) -> None:
    """Pass an event to the view; settings of the screen are applied here."""
    if not isinstance(event, events.ScreenSetting):
        state.view.emit(event)
        if isinstance(event, events.RequestStarted | events.TurnFinished):
            state.show_title()
    elif event.name == "theme":
        state.terminal.set_theme(event.value)
        state.view.notice(f"theme: {event.value}")
    else:
        state.terminal.set_editing(event.value)
        state.view.notice(f"editing: {'vim' if state.terminal.vim_mode else 'emacs'}")


async def _close(state: ReplState, code: int) -> None:
    """Close the driver and print the rest. Work has ended, and the terminal is restored already."""
    driver = state.driver
    terminal = state.terminal
    session = driver.status().session if driver else ""
    try:
        if driver is not None:
            await driver.close()
    finally:
        state.view.flush_deltas()
        for trouble in filter(None, (state.history.trouble, state.unsent_input.trouble)):
            state.view.notice(trouble, "warning")
        if code <= 128:
            state.unsent_input.save("")
        if session and state.prompted and driver and not driver.status().unsaved:
            hint = f"Resume this session with: {driver.status().start_command}--resume {session}"
            terminal.print_above("\n" + terminal.theme.paint("dim", hint))
        terminal.print_rest()


def _fault_message(context: dict[str, Any]) -> str:
    """Return the message of the event loop's exception handler, on one line."""
    error = context.get("exception")
    return f"internal error: {f'{type(error).__name__}: {error}' if error else context.get('message')}"
