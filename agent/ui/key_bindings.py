"""The key bindings, on top of prompt_toolkit's Emacs keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import (
    Always,
    Condition,
    Filter,
    FilterOrBool,
    has_selection,
    is_searching,
    vi_mode,
    vi_navigation_mode,
    vi_selection_mode,
    vi_waiting_for_text_object_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl

from tools.text import pluralize
from transcripts.patterns import lazy_pattern

from .approval import full_question
from .input_drawing import move_by_row
from .input_editor import EXIT_WORDS, delete_grapheme, move_by_grapheme
from .keyboard import FOCUS_IN, FOCUS_OUT
from .keymap import base_bindings
from .paste_chips import ChipLabels
from .picker import add_picker_keys
from .question_form import SURE_S, add_form_keys
from .repl_state import QueuedInput, ReplState, find_images
from .terminal_text import one_line

MAX_PATHS_CHARS = 8_192  # a longer paste is no list of paths
IMAGE_HINT_S = 4.0
_ENDS_AS_IMAGE = lazy_pattern(r"(?i)\.(?:png|jpe?g|gif|webp)['\"]?\s*\Z")
PAGE_LINES = 5  # that PgUp and PgDn scroll a question
REPEAT_S = 2.0  # within which a second Ctrl-C or Ctrl-D leaves
ESCAPE_REPEAT_S = 1.0  # within which a second Esc counts


# A question leaves these to their keys; what else edits, moves or switches was meant for something else.
_ACTIONS_AT_QUESTIONS = ("interrupt", "redraw", "outputs", "suspend")
_EDITING_KEYS = (
    *(f"c-{letter}" for letter in "abcdefghiknopqrstuvwxy@_\\]^"),  # not those of Enter and Esc
    *("left", "right", "up", "down", "home", "end", "insert", "delete", "pageup", "pagedown", "s-tab"),
    *("c-left", "c-right", "c-up", "c-down", "s-left", "s-right", "s-up", "s-down"),
    *(f"f{number}" for number in range(1, 13)),
)


def build_key_bindings(state: ReplState) -> KeyBindings:
    """All keys of a session at the screen."""
    bindings = base_bindings()
    _add_editing_keys(bindings, state)
    _add_grapheme_keys(bindings, state)
    _add_session_keys(bindings, state)
    _add_question_keys(bindings, state)
    picking = Condition(lambda: state.picker.state is not None and state.approval.panel is None)
    add_picker_keys(bindings, state.picker, picking)
    form = state.approval.form
    form.say = lambda hint: state.status_hint.show("answers", hint, SURE_S)
    add_form_keys(bindings, form, Condition(lambda: form.state is not None and state.approval.panel is None))
    return bindings


def _add_editing_keys(bindings: KeyBindings, state: ReplState) -> None:
    editor = state.editor
    writing = Condition(lambda: get_app().current_buffer is editor.buffer)

    @bindings.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer is editor.buffer and _ENDS_AS_IMAGE.search(event.data[-MAX_PATHS_CHARS:]):
            event.app.create_background_task(_take_images(state, event.data))
        elif event.current_buffer is editor.buffer:
            editor.paste(event.data)
        else:
            event.current_buffer.insert_text(" ".join(event.data.split()))

    _add_row_keys(bindings, state, writing & ~is_searching)
    bind = partial(_bind, bindings, state)
    bind("editor", writing & ~is_searching, lambda: _open_editor(state))
    bind("submit", writing & ~is_searching, lambda: _enter(state))
    taking = writing & ~is_searching & ~vi_navigation_mode & ~vi_selection_mode
    bind("image", taking, lambda: _take_clipboard(state))
    bind("newline", writing, lambda: editor.buffer.insert_text("\n"))
    bind("complete", writing, lambda: editor.complete(state.command_names()))
    bind("stash", writing & ~is_searching, lambda: _stash(state))


def _add_row_keys(bindings: KeyBindings, state: ReplState, writing: Filter) -> None:
    """Keys that go up and down; vim's own j and k go by lines, and at the edge through the history."""
    for up, down in (("up", "down"), ("c-p", "c-n")):
        bindings.add(up, filter=writing)(lambda event: _up(state))
        bindings.add(down, filter=writing)(lambda event: _down(state))
    at_queue = Condition(lambda: bool(state.queue.queued) and state.editor.buffer.document.on_first_line)
    bindings.add("k", filter=writing & vi_navigation_mode & at_queue)(lambda event: _back(state))
    moving = writing & (vi_navigation_mode | vi_selection_mode)
    bindings.add("g", "k", filter=moving)(lambda event: _moves_by_row(state, -1))
    bindings.add("g", "j", filter=moving)(lambda event: _moves_by_row(state, 1))


def _add_grapheme_keys(bindings: KeyBindings, state: ReplState) -> None:
    """Keys that move and delete by what people see as one character, wherever text is written."""
    buffer = state.editor.buffer
    approval = state.approval
    reasoning = Condition(lambda: approval.panel is not None and approval.panel.reasoning)
    writing = Condition(lambda: get_app().current_buffer is buffer)
    asked = Condition(lambda: approval.form.state is not None and approval.panel is None)
    commanding = vi_navigation_mode | vi_waiting_for_text_object_mode
    typing = (writing | reasoning | asked | is_searching) & ~commanding
    for at, deleting, moving in ((-1, "backspace", ("left", "c-b")), (1, "delete", ("right", "c-f"))):
        bindings.add(deleting, filter=typing)(
            lambda event, at=at: delete_grapheme(event.current_buffer, at),
        )
        for key in moving:
            bindings.add(key, filter=typing & ~has_selection)(
                lambda event, at=at: move_by_grapheme(event.current_buffer, at)
            )


def _add_session_keys(bindings: KeyBindings, state: ReplState) -> None:
    buffer = state.editor.buffer
    idle = Condition(lambda: get_app().current_buffer is buffer) & ~is_searching

    bind = partial(_bind, bindings, state)
    bind("mode", ~is_searching, lambda: _cycle_mode(state))
    bind("leave", idle, lambda: _delete_or_leave(state))
    # vim's own Esc leaves what it calls a mode, a selection, and a command that has begun
    bindings.add("escape", filter=idle & (~vi_mode | vi_navigation_mode))(lambda event: _escape(state))
    bind("interrupt", ~is_searching, lambda: _interrupt_or_clear(state))
    bindings.add("<sigint>")(lambda event: _interrupt_or_clear(state))
    in_foreground = Condition(lambda: state.has_view and state.view.live_view.runs_command)
    bind("background", idle & in_foreground, lambda: state.queue.add_command("/background"))
    lines = {f"/{name}": state.keymap.keys[name] for name in ("tasks", "model", "effort")}
    for line, sequences in {**lines, **state.keymap.commands}.items():
        for keys in sequences:
            bindings.add(*keys, filter=idle)(lambda event, line=line: state.queue.add_command(line))
    bindings.add(FOCUS_IN)(lambda event: _note_focus(state, True))
    bindings.add(FOCUS_OUT)(lambda event: _note_focus(state, False))
    bind("redraw", Always(), state.terminal.redraw)
    bind("outputs", Always(), lambda: _toggle_full(state))
    bind("suspend", Always(), lambda: get_app().suspend_to_background())


def _bind(
    bindings: KeyBindings, state: ReplState, action: str, active: FilterOrBool, act: Callable[[], object]
) -> None:
    """Bind the keys of an action to `act`."""
    for keys in state.keymap.keys[action]:
        bindings.add(*keys, filter=active)(lambda event: act())


def _open_editor(state: ReplState) -> None:
    state.editor.expand_chips()
    state.editor.buffer.open_in_editor(validate_and_handle=False)


def _cycle_mode(state: ReplState) -> None:
    """Shift-Tab: the completion before, or the next permission mode."""
    if state.editor.buffer.complete_state is not None:
        state.editor.buffer.complete_previous()
    elif state.driver is None:
        state.early_modes += 1
    else:
        state.driver.cycle_mode()


def _add_question_keys(bindings: KeyBindings, state: ReplState) -> None:
    approval = state.approval
    listening = Condition(lambda: approval.listening)
    reasoning = Condition(lambda: approval.panel is not None and approval.panel.reasoning)
    waiting = Condition(lambda: approval.panel is not None)
    choosing = waiting & ~reasoning
    unread = waiting & ~listening & ~reasoning

    def drop(event: KeyPressEvent) -> None:
        approval.note_typing()
        _hint_at_answers(state)

    for key in (Keys.Any, "enter", "escape"):  # with vim's keys Esc would make commands of the answers
        bindings.add(key, filter=unread)(drop)
    bindings.add(Keys.BracketedPaste, filter=choosing)(drop)
    kept = {keys[0] for action in _ACTIONS_AT_QUESTIONS for keys in state.keymap.keys[action]}
    for stray in _EDITING_KEYS:
        if stray not in kept:
            bindings.add(stray, filter=choosing)(drop)

    @bindings.add(Keys.Any, filter=listening)
    def _(event: KeyPressEvent) -> None:
        if not approval.press(event.data):
            _hint_at_answers(state)

    bindings.add("enter", filter=reasoning)(lambda event: approval.refuse(event.current_buffer.text.strip()))
    for key, step in (("up", -1), ("down", 1), ("s-tab", -1), ("tab", 1)):
        bindings.add(key, filter=listening)(lambda event, step=step: approval.move(step))
    for key, step in (("pageup", -PAGE_LINES), ("pagedown", PAGE_LINES)):
        bindings.add(key, filter=listening)(lambda event, step=step: approval.scroll(step))
    bindings.add("enter", filter=listening)(lambda event: approval.enter())
    bindings.add("escape", filter=listening)(lambda event: approval.refuse(stop=True))
    for keys in state.keymap.keys["outputs"]:
        bindings.add(*keys, filter=listening)(lambda event: _print_question(state))
    bindings.add("escape", filter=reasoning)(lambda event: approval.ask_again())


def _take_clipboard(state: ReplState) -> None:
    """Ctrl-V: take the image on the clipboard."""
    state.terminal.app.create_background_task(_take_images(state, None))


async def _take_images(state: ReplState, pasted: str | None) -> None:
    """Put chips for the images that a paste names into the input; None: for that on the clipboard.

    A paste that names anything else is one like any other.
    """
    editor = state.editor
    images = []
    try:
        images = await find_images(state.setup, pasted)
    except ValueError as error:
        state.status_hint.show("image", str(error), IMAGE_HINT_S)
    for path, about in images:
        editor.buffer.insert_text(editor.paste_chips.image(path, about) + " ")
    if pasted is not None and not images:
        editor.paste(pasted)
    state.terminal.invalidate()


def _note_focus(state: ReplState, focused: bool) -> None:
    """The terminal gained or lost the focus."""
    state.notifications.focused = focused


def _hint_at_answers(state: ReplState) -> None:
    """A key came that is no answer, or came before the question could be read: say what is."""
    panel = state.approval.panel
    keys = " ".join(choice.digit for choice in panel.choices) if panel is not None else ""
    state.status_hint.show("answers", f"A question waits: {keys}, or an arrow and Enter", REPEAT_S)


def _enter(state: ReplState) -> None:
    """Enter: end a line with a backslash, take a completion, else send what is written, or queue it."""
    editor = state.editor
    if editor.newline_after_backslash() or editor.accept_menu(state.commands()):
        return
    expanded = editor.text
    if not expanded.strip():
        return
    chips = editor.paste_chips
    written = editor.buffer.text
    shown = chips.labelled(written)
    typed = chips.typed(written)
    text = editor.take()
    state.status_hint.clear()  # on what was before
    state.terminal.begin_writing()
    if not state.queue.running and not state.queue.queued:
        editor.forget_chips(text)
    if expanded.strip() in EXIT_WORDS:
        state.leave(0)
        return
    state.queue.add(QueuedInput(text, expanded, shown, typed))
    if editor.stashed:
        editor.stash()


def _interrupt_or_clear(state: ReplState) -> None:
    """Ctrl-C: end what runs, else clear what is written, else leave the second time."""
    if _interrupt(state):
        return
    if state.editor.buffer.text:
        state.editor.clear()
    elif state.status_hint.shows("leave"):
        state.leave(0)
    else:
        key = state.setup.key_names["interrupt"] or "Ctrl-C"  # which is a signal, too
        state.status_hint.show("leave", f"Press {key} again to leave", REPEAT_S)


def _escape(state: ReplState) -> None:
    """Esc: close the completions, end what runs; twice clears what is written, or goes back."""
    if state.editor.close_menu() or _interrupt(state):
        return
    written = bool(state.editor.buffer.text)
    if not state.status_hint.shows("escape"):
        hint = "Esc again clears" if written else "Esc again rewinds"
        state.status_hint.show("escape", hint, ESCAPE_REPEAT_S)
    elif written:
        state.editor.clear()
        state.status_hint.clear()
    else:
        state.status_hint.clear()
        state.queue.add_command("/rewind")


def _interrupt(state: ReplState) -> bool:
    """End what runs, and give what is queued back to the input. False when nothing runs."""
    if not state.queue.running:
        return False
    live_view = state.view.live_view
    if live_view.interrupting:  # it takes long to end: a way out
        if state.status_hint.shows("stuck"):
            state.leave(130)
        state.status_hint.show("stuck", "Still ending; press again to leave", REPEAT_S)
        return True
    live_view.interrupting = state.queue.interrupt()
    _take_queue_back(state)
    state.refresh()
    return True


def _take_queue_back(state: ReplState) -> None:
    """Give what is queued back to the input; commands among several lines would be words of a prompt."""
    queued = [*state.queue.queued]
    state.queue.queued.clear()
    several = len(queued) + bool(state.editor.buffer.text) > 1
    left = [item.shown for item in queued if several and item.is_command]
    state.editor.put_back(*(item.text for item in queued if not (several and item.is_command)))
    if left:  # all are in the history
        state.view.notice(f"not run: {', '.join(map(one_line, left))}; ↑ brings each back")


def _delete_or_leave(state: ReplState) -> None:
    """Ctrl-D: delete forward; on an empty line leave, with background jobs only the second time."""
    status = state.driver.status() if state.driver else None
    jobs, agents = (status.jobs, status.agents) if status else (0, 0)
    if state.editor.buffer.text:
        delete_grapheme(state.editor.buffer, 1)
    elif (jobs or agents) and not state.status_hint.shows("jobs"):
        commands = [pluralize(jobs, "background command")] if jobs else []
        key = state.setup.key_names["leave"]
        running = " and ".join([*commands, *([pluralize(agents, "agent")] if agents else [])])
        state.status_hint.show("jobs", f"{running} would end; {key} again leaves", REPEAT_S)
    else:
        state.leave(0)


def _toggle_full(state: ReplState) -> None:
    """Ctrl-O: print the turn's outputs in full, and so from now on; or shorten them again."""
    state.terminal.full = not state.terminal.full
    hint = "Outputs are shown in short"
    if state.terminal.full:
        count = state.view.print_in_full()
        hint = "Outputs are shown whole" + (f"; {count} printed again" if count else " from now on")
    state.status_hint.show("full", hint, REPEAT_S)


def _stash(state: ReplState) -> None:
    """Ctrl-S: put the draft away; it comes back on an empty line, or when another prompt was sent."""
    key = state.setup.key_names["stash"]
    if not state.editor.stash():
        hint = f"{key} puts away what is written"
    elif state.editor.stashed:
        hint = f"Put away; back after the next prompt, or with {key}"
    else:
        hint = "Taken back"
    state.status_hint.show("stash", hint, REPEAT_S)


def _up(state: ReplState) -> None:
    """Up: go up by a row, from the first one back."""
    if not _moves_by_row(state, -1):
        _back(state)


def _back(state: ReplState) -> None:
    """Take the newest queued line back, else go back in the history.

    A queued command stays where something is written: among its lines it would be words of a prompt.
    """
    buffer = state.editor.buffer
    queued = state.queue.queued
    if queued and buffer.complete_state is None and not (buffer.text and queued[-1].is_command):
        state.editor.put_back(queued.pop().text)
        state.refresh()
    else:
        buffer.auto_up()


def _down(state: ReplState) -> None:
    """Down: go down by a row, from the last one forward in the history."""
    if not _moves_by_row(state, 1):
        state.editor.buffer.auto_down()


def _moves_by_row(state: ReplState, by: Literal[-1, 1]) -> bool:
    """Move by a row within what is written; False at its edge, and where completions are moved through."""
    control = get_app().layout.current_control
    if not isinstance(control, BufferControl) or control.buffer.complete_state is not None:
        return False
    labels = ChipLabels(state.editor.paste_chips)
    return move_by_row(control, labels, columns=state.terminal.size().columns, by=by)


def _print_question(state: ReplState) -> None:
    """Ctrl-O at a question: print all of it above."""
    panel = state.approval.panel
    if panel is not None:
        state.terminal.print_above("\n".join(full_question(panel.question, state.terminal.render_context())))
