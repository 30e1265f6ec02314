"""The actions of keys in a session at the screen."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Literal

from prompt_toolkit.application.current import get_app
from prompt_toolkit.layout import BufferControl

from agent.app import RunSetup
from transcripts.patterns import lazy_pattern
from transcripts.wording import pluralize

from .approval import full_question
from .input_drawing import move_by_row
from .input_editor import EXIT_WORDS, delete_grapheme
from .paste_chips import ChipLabels
from .repl_state import QueuedInput, ReplState
from .terminal_text import one_line

_ENDS_AS_IMAGE = lazy_pattern(r"(?i)\.(?:png|jpe?g|gif|webp)['\"]?\s*\Z")
REPEAT_S = 2.0  # within which a second Ctrl-C or Ctrl-D leaves


def open_editor(state: ReplState) -> None:
    state.editor.expand_chips()
    state.editor.buffer.open_in_editor(validate_and_handle=False)


def cycle_mode(state: ReplState) -> None:
    """Select the previous completion, or switch to the next permission mode (Shift-Tab)."""
    if state.editor.buffer.complete_state is not None:
        state.editor.buffer.complete_previous()
    elif state.driver is None:
        state.early_modes += 1
    else:
        state.driver.cycle_mode()


def take_clipboard(state: ReplState) -> None:
    """Insert the image on the clipboard (Ctrl-V)."""
    _take_images_soon(state, None)


def take_paste(state: ReplState, pasted: str) -> None:
    """Insert a paste into the input; images that it names become chips."""
    # A longer paste is not a list of paths.
    if _ENDS_AS_IMAGE.search(pasted[-8_192:]):
        _take_images_soon(state, pasted)
    else:
        state.editor.paste(pasted)


def _take_images_soon(state: ReplState, pasted: str | None) -> None:
    """Insert images when they are read; until then, the input is not sent."""
    taking = _take_images(state, pasted, state.editor.buffer.document.text_before_cursor)
    task = state.terminal.app.create_background_task(taking)
    state.taking_images.add(task)

    def taken(task: asyncio.Task[None]) -> None:
        state.taking_images.discard(task)
        if state.submits_when_taken and not state.taking_images and not task.cancelled():
            state.submits_when_taken = False
            submit(state)

    task.add_done_callback(taken)


async def _take_images(state: ReplState, pasted: str | None, before: str) -> None:
    """Insert chips for the images that a paste names, behind `before`; None stands for the clipboard.

    A paste that names anything else is inserted as text.
    """
    editor = state.editor
    buffer = editor.buffer
    images = []
    try:
        images = await _find_images(state.setup, pasted)
    except ValueError as error:
        state.status_hint.show("image", str(error), seconds=4.0)
    typed_since = len(buffer.document.text_before_cursor) - len(before)
    if typed_since > 0 and buffer.text.startswith(before):
        buffer.cursor_position -= typed_since
    else:
        typed_since = 0
    for path, about in images:
        buffer.insert_text(editor.paste_chips.image(path, about) + " ")
    if pasted is not None and not images:
        editor.paste(pasted)
    buffer.cursor_position += typed_since
    state.terminal.invalidate()


def hint_at_answers(state: ReplState) -> None:
    """Show the keys that are answers, after a key that is not one or that came too early."""
    panel = state.approval.panel
    keys = f"1-{len(panel.choices)}" if panel is not None else ""
    hint = f"Answer the question first ({keys}, or arrows and Enter)"
    state.status_hint.show("answers", hint, seconds=REPEAT_S)


def submit(state: ReplState) -> None:
    """Break the line after a backslash, take a completion, or send or queue the input (Enter)."""
    editor = state.editor
    if editor.newline_after_backslash() or editor.accept_menu(state.commands()):
        return
    if state.taking_images:
        state.submits_when_taken = True
        return
    expanded = editor.text
    if not expanded.strip():
        return
    chips = editor.paste_chips
    written = editor.buffer.text
    shown = chips.labelled(written)
    typed = chips.typed(written)
    marked = chips.marked(written)
    text = editor.take()
    state.status_hint.clear()  # it was about an earlier key
    state.terminal.begin_writing()
    if not state.queue.running and not state.queue.queued:
        editor.forget_chips(text)
    if expanded.strip() in EXIT_WORDS:
        state.leave(0)
        return
    state.queue.add(QueuedInput(text=text, expanded=expanded, shown=shown, typed=typed, marked=marked))
    if editor.stashed:
        editor.stash()


def interrupt_or_clear(state: ReplState) -> None:
    """Interrupt running work, or clear the input, or leave at the second press (Ctrl-C)."""
    if _interrupt(state):
        return
    if state.editor.buffer.text:
        state.submits_when_taken = False
        state.editor.clear()
    elif state.status_hint.shows("leave"):
        state.leave(0)
    else:
        key = state.setup.key_names["interrupt"] or "Ctrl-C"  # it also works as a signal
        state.status_hint.show("leave", f"Press {key} again to exit", seconds=REPEAT_S)


def escape(state: ReplState) -> None:
    """Close the completions or interrupt; at the second press clear the input or rewind (Esc)."""
    if state.editor.close_menu() or _interrupt(state):
        return
    written = bool(state.editor.buffer.text)
    if not state.status_hint.shows("escape"):
        hint = f"Press Esc again to {'clear the input' if written else 'rewind'}"
        state.status_hint.show("escape", hint, seconds=1.0)
    elif written:
        state.editor.clear()
        state.status_hint.clear()
    else:
        state.status_hint.clear()
        state.queue.add_command("/rewind")


def _interrupt(state: ReplState) -> bool:
    """Interrupt running work and move the queue back to the input. Return False if nothing runs."""
    if not state.queue.running:
        return False
    live_view = state.view.live_view
    if live_view.interrupting:  # it takes long to end
        if state.status_hint.shows("stuck"):
            state.leave(130)
        state.status_hint.show("stuck", "Still interrupting; press again to exit", seconds=REPEAT_S)
        return True
    live_view.interrupting = state.queue.interrupt()
    _take_queue_back(state)
    state.refresh()
    return True


def _take_queue_back(state: ReplState) -> None:
    """Move the queue back to the input, except commands among several lines, which would be prompt text."""
    queued = [*state.queue.queued]
    state.queue.queued.clear()
    several = len(queued) + bool(state.editor.buffer.text) > 1
    left_out = [item.shown for item in queued if several and item.is_command]
    state.editor.put_back(*(item.text for item in queued if not (several and item.is_command)))
    if left_out:  # all are in the history
        state.view.notice(f"not run: {', '.join(map(one_line, left_out))} (press ↑ to edit)")


def delete_or_leave(state: ReplState) -> None:
    """Delete forward; exit from an empty line, at the second press if background work runs (Ctrl-D)."""
    status = state.driver.status() if state.driver else None
    jobs, agents = (status.jobs, status.agents) if status else (0, 0)
    if state.editor.buffer.text:
        delete_grapheme(state.editor.buffer, 1)
    elif (jobs or agents) and not state.status_hint.shows("jobs"):
        commands = [pluralize(jobs, "background command")] if jobs else []
        key = state.setup.key_names["leave"]
        running = " and ".join([*commands, *([pluralize(agents, "agent")] if agents else [])])
        state.status_hint.show(
            "jobs", f"{running} would be stopped; press {key} again to exit", seconds=REPEAT_S
        )
    else:
        state.leave(0)


def move_to_background(state: ReplState) -> None:
    """Move the running command to the background (Ctrl-B); a second press at once is a habit from tmux."""
    if not state.status_hint.shows("background"):
        state.queue.add_command("/background")
        state.status_hint.show("background", "Moving to the background", seconds=1.0)


def toggle_full(state: ReplState) -> None:
    """Print the turn's outputs again in full and show later ones in full, or in short again (Ctrl-O).

    The terminal's scrollback cannot be changed, so the second press takes nothing back.
    """
    state.terminal.full = not state.terminal.full
    hint = "Full output is off for later outputs"
    if state.terminal.full:
        count = state.view.print_in_full()
        again = (
            f"; {pluralize(count, 'output')} printed again"
            if count
            else " for later outputs; /search finds earlier ones"
        )
        hint = f"Full output is on{again}"
    state.status_hint.show("full", hint, seconds=REPEAT_S)


def stash(state: ReplState) -> None:
    """Stash the draft; restore it on an empty line, or after another prompt was sent (Ctrl-S)."""
    key = state.setup.key_names["stash"]
    if not state.editor.stash():
        hint = f"Nothing to stash: write a draft first, then press {key}"
    elif state.editor.stashed:
        hint = f"Draft stashed; it returns after the next prompt, or with {key}"
    else:
        hint = "Draft restored"
    state.status_hint.show("stash", hint, seconds=REPEAT_S)


def go_up(state: ReplState) -> None:
    """Move up by a row, from the first row to the previous entry (Up)."""
    if not move_row(state, -1):
        go_back(state)


def go_back(state: ReplState) -> None:
    """Take the newest queued line back for editing, or go back in the history.

    A queued command stays in the queue while the input has text: in it, it would become prompt text.
    """
    buffer = state.editor.buffer
    queued = state.queue.queued
    if queued and buffer.complete_state is None and not (buffer.text and queued[-1].is_command):
        state.editor.put_back(queued.pop().text)
        state.refresh()
    else:
        buffer.auto_up()


def go_down(state: ReplState) -> None:
    """Move down by a row, from the last row forward in the history (Down)."""
    if not move_row(state, 1):
        state.editor.buffer.auto_down()


def move_row(state: ReplState, by: Literal[-1, 1]) -> bool:
    """Move by a row within the input. Return False at its edge, and while completions are open."""
    control = get_app().layout.current_control
    if not isinstance(control, BufferControl) or control.buffer.complete_state is not None:
        return False
    labels = ChipLabels(state.editor.paste_chips)
    return move_by_row(control, labels, columns=state.terminal.size().columns, by=by)


def print_question(state: ReplState) -> None:
    """Print the whole question above (Ctrl-O)."""
    panel = state.approval.panel
    if panel is not None:
        panel.end_seen = True
        state.terminal.print_above("\n".join(full_question(panel.question, state.terminal.render_context())))


async def _find_images(setup: RunSetup, pasted: str | None) -> list[tuple[str, str]]:
    """Return (path, name and size) of the images that a paste names, for None of the one on the clipboard.

    Raises ValueError with the reason if there is none.
    """
    module = await asyncio.to_thread(import_module, "agent.app.pasted_images")
    try:
        if pasted is not None:
            found = await asyncio.to_thread(module.named_images, pasted)
        else:
            state_dir = setup.config.state_dir
            found = [await asyncio.to_thread(module.clipboard_image, setup.helper_environ, state_dir)]
    except module.NoImage as error:
        raise ValueError(str(error)) from error
    return [(str(image.path), f"{one_line(image.path.name)}, {image.size}") for image in found]
