"""The key bindings, on top of prompt_toolkit's Emacs keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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

from .input_editor import delete_grapheme, move_by_grapheme
from .key_actions import (
    cycle_mode,
    delete_or_leave,
    escape,
    go_back,
    go_down,
    go_up,
    hint_at_answers,
    interrupt_or_clear,
    move_row,
    move_to_background,
    open_editor,
    print_question,
    stash,
    submit,
    take_clipboard,
    take_paste,
    toggle_full,
)
from .keyboard import FOCUS_IN, FOCUS_OUT
from .keymap import base_bindings
from .picker import TO_THE_END, add_picker_keys
from .question_form import SURE_S, add_form_keys
from .repl_state import ReplState

PAGE_LINES = 5  # by which PgUp and PgDn scroll a question
# Actions whose keys work during a question; other keys that edit, move or switch were meant for the input.
_ACTIONS_AT_QUESTIONS = ("interrupt", "redraw", "outputs", "suspend")
_EDITING_KEYS = (
    *(f"c-{letter}" for letter in "abcdefghiknopqrstuvwxy@_\\]^"),  # not those of Enter and Esc
    *("left", "right", "up", "down", "home", "end", "insert", "delete", "pageup", "pagedown", "s-tab"),
    *("c-left", "c-right", "c-up", "c-down", "s-left", "s-right", "s-up", "s-down"),
    *(f"f{number}" for number in range(1, 13)),
)


def build_key_bindings(state: ReplState) -> KeyBindings:
    """Bind all keys of a session at the screen."""
    bindings = base_bindings()
    _add_editing_keys(bindings, state)
    _add_grapheme_keys(bindings, state)
    _add_session_keys(bindings, state)
    _add_question_keys(bindings, state)
    picking = Condition(lambda: state.picker.state is not None and state.approval.panel is None)
    add_picker_keys(bindings, state.picker, picking)
    form = state.approval.form
    form.say = state.approval.say = lambda hint: state.status_hint.show("answers", hint, seconds=SURE_S)
    add_form_keys(bindings, form, Condition(lambda: form.state is not None and state.approval.panel is None))
    return bindings


def _add_editing_keys(bindings: KeyBindings, state: ReplState) -> None:
    editor = state.editor
    writing = Condition(lambda: get_app().current_buffer is editor.buffer)

    @bindings.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer is editor.buffer:
            take_paste(state, event.data)
        else:
            event.current_buffer.insert_text(" ".join(event.data.split()))

    _add_row_keys(bindings, state, writing & ~is_searching)
    bind = partial(_bind, bindings, state)
    bind("editor", writing & ~is_searching, lambda: open_editor(state))
    bind("submit", writing & ~is_searching, lambda: submit(state))
    taking = writing & ~is_searching & ~vi_navigation_mode & ~vi_selection_mode
    bind("image", taking, lambda: take_clipboard(state))
    bind("newline", writing, lambda: editor.buffer.insert_text("\n"))
    bind("complete", writing, lambda: editor.complete(state.command_names()))
    bind("stash", writing & ~is_searching, lambda: stash(state))


def _add_row_keys(bindings: KeyBindings, state: ReplState, writing: Filter) -> None:
    """Bind keys that move up and down; vim's j and k move by lines, and through the history at the edge."""
    for up, down in (("up", "down"), ("c-p", "c-n")):
        bindings.add(up, filter=writing)(lambda event: go_up(state))
        bindings.add(down, filter=writing)(lambda event: go_down(state))
    at_queue = Condition(lambda: bool(state.queue.queued) and state.editor.buffer.document.on_first_line)
    bindings.add("k", filter=writing & vi_navigation_mode & at_queue)(lambda event: go_back(state))
    moving = writing & (vi_navigation_mode | vi_selection_mode)
    bindings.add("g", "k", filter=moving)(lambda event: move_row(state, -1))
    bindings.add("g", "j", filter=moving)(lambda event: move_row(state, 1))


def _add_grapheme_keys(bindings: KeyBindings, state: ReplState) -> None:
    """Bind keys that move and delete by one visible character, wherever text is written."""
    buffer = state.editor.buffer
    approval = state.approval
    commenting = Condition(lambda: approval.panel is not None and approval.panel.writing)
    writing = Condition(lambda: get_app().current_buffer is buffer)
    asked = Condition(lambda: approval.form.state is not None and approval.panel is None)
    commanding = vi_navigation_mode | vi_waiting_for_text_object_mode
    typing = (writing | commenting | asked | is_searching) & ~commanding
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
    bind("mode", ~is_searching, lambda: cycle_mode(state))
    bind("leave", idle, lambda: delete_or_leave(state))
    # vim's own Esc ends a mode, a selection, or a partial command
    bindings.add("escape", filter=idle & (~vi_mode | vi_navigation_mode))(lambda event: escape(state))
    bind("interrupt", ~is_searching, lambda: interrupt_or_clear(state))
    bindings.add("<sigint>")(lambda event: interrupt_or_clear(state))
    in_foreground = Condition(lambda: state.has_view and state.view.live_view.runs_command)
    bind("background", idle & in_foreground, lambda: move_to_background(state))
    lines = {f"/{name}": state.keymap.keys[name] for name in ("tasks", "model", "effort")}
    for line, sequences in {**lines, **state.keymap.commands}.items():
        for keys in sequences:
            bindings.add(*keys, filter=idle)(lambda event, line=line: state.queue.add_command(line))
    bindings.add(FOCUS_IN)(lambda event: _note_focus(state, True))
    bindings.add(FOCUS_OUT)(lambda event: _note_focus(state, False))
    bind("redraw", Always(), state.terminal.redraw)
    bind("outputs", Always(), lambda: toggle_full(state))
    bind("suspend", Always(), lambda: get_app().suspend_to_background())


def _bind(
    bindings: KeyBindings, state: ReplState, action: str, active: FilterOrBool, act: Callable[[], object]
) -> None:
    """Bind the keys of an action to `act`."""
    for keys in state.keymap.keys[action]:
        bindings.add(*keys, filter=active)(lambda event: act())


def _add_question_keys(bindings: KeyBindings, state: ReplState) -> None:
    approval = state.approval
    listening = Condition(lambda: approval.listening)
    commenting = Condition(lambda: approval.panel is not None and approval.panel.writing)
    waiting = Condition(lambda: approval.panel is not None)
    choosing = waiting & ~commenting
    early = waiting & ~listening & ~commenting

    def drop(event: KeyPressEvent) -> None:
        approval.note_typing()
        hint_at_answers(state)

    for key in (Keys.Any, "enter", "escape"):  # in vim mode, Esc would turn answers into commands
        bindings.add(key, filter=early)(drop)
    bindings.add(Keys.BracketedPaste, filter=choosing)(drop)
    kept = {keys[0] for action in _ACTIONS_AT_QUESTIONS for keys in state.keymap.keys[action]}
    for stray in _EDITING_KEYS:
        if stray not in kept:
            bindings.add(stray, filter=choosing)(drop)

    @bindings.add(Keys.Any, filter=listening)
    def _(event: KeyPressEvent) -> None:
        if not approval.press(event.data):
            hint_at_answers(state)

    bindings.add("enter", filter=commenting)(lambda event: approval.send(event.current_buffer.text.strip()))
    for key, step in (("up", -1), ("down", 1)):
        bindings.add(key, filter=listening)(lambda event, step=step: approval.move(step))
    bindings.add("tab", filter=listening)(lambda event: approval.comment())
    pages = {"pageup": -PAGE_LINES, "pagedown": PAGE_LINES, "home": -TO_THE_END, "end": TO_THE_END}
    for key, step in pages.items():
        bindings.add(key, filter=listening)(lambda event, step=step: approval.scroll(step))
    bindings.add("enter", filter=listening)(lambda event: approval.enter())
    bindings.add("escape", filter=listening)(lambda event: approval.deny(stop=True))
    for keys in state.keymap.keys["outputs"]:
        bindings.add(*keys, filter=listening)(lambda event: print_question(state))
    bindings.add("escape", filter=commenting)(lambda event: approval.ask_again())


def _note_focus(state: ReplState, focused: bool) -> None:
    """Note that the terminal gained or lost the focus."""
    state.notifications.focused = focused
