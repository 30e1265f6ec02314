"""What each key does. The doing itself is in the REPL, the editor, the approval and the picker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from .approval import ApprovalDialog
from .input_editor import InputEditor
from .picker import Picker, add_keys

PAGE = 5


class ReplActions(Protocol):
    """What keys can ask of the REPL."""

    def submit(self) -> None:
        """Send what is written, or queue it."""

    def interrupt_or_clear(self) -> None:
        """Ctrl-C."""

    def escape(self) -> None:
        """Esc, when no menu and no question is open."""

    def leave(self) -> None: ...

    def cycle_mode(self) -> None: ...

    def toggle_full(self) -> None: ...

    def redraw(self) -> None: ...

    def stash(self) -> None:
        """Put the draft away, or take it back."""

    def show_tasks(self) -> None:
        """Show the background commands."""

    def recall_queued(self) -> bool:
        """Take the newest queued line back into the input. False when there is none."""

    def print_question(self) -> None:
        """Print the whole question above."""

    def command_names(self) -> list[str]: ...


Add = Callable[..., Callable[[Callable[[KeyPressEvent], None]], Callable[[KeyPressEvent], None]]]


def bindings(
    hands: ReplActions, editor: InputEditor, approval: ApprovalDialog, picker: Picker
) -> KeyBindings:
    """All keys of ours, over prompt_toolkit's Emacs keys."""
    made = KeyBindings()
    _editing(made, hands, editor)
    _session(made, hands, editor)
    _question(made, hands, editor, approval)
    add_keys(made, picker, Condition(lambda: picker.state is not None and approval.panel is None))
    return made


def _editing(made: KeyBindings, hands: ReplActions, editor: InputEditor) -> None:
    writing = Condition(lambda: get_app().current_buffer is editor.buffer)

    @made.add("enter", filter=writing & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        if editor.newline_after_backslash() or editor.accept_menu(hands.command_names()):
            return
        hands.submit()

    @made.add("c-j", filter=writing)
    @made.add("escape", "enter", filter=writing)
    def _(event: KeyPressEvent) -> None:
        editor.buffer.insert_text("\n")

    @made.add("tab", filter=writing)
    def _(event: KeyPressEvent) -> None:
        if not editor.complete(hands.command_names()):
            editor.complete_path()

    @made.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer is editor.buffer:
            editor.paste(event.data)
        else:
            event.current_buffer.insert_text(" ".join(event.data.split()))

    @made.add("up", filter=writing & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        if editor.buffer.text or not hands.recall_queued():
            editor.buffer.auto_up()

    @made.add("c-s", filter=writing & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        hands.stash()

    @made.add("c-g", filter=writing & ~is_searching)
    @made.add("c-x", "c-e", filter=writing)
    def _(event: KeyPressEvent) -> None:
        editor.expand()
        editor.buffer.open_in_editor(validate_and_handle=False)


def _session(made: KeyBindings, hands: ReplActions, editor: InputEditor) -> None:
    idle = Condition(lambda: get_app().current_buffer is editor.buffer) & ~is_searching

    @made.add("c-c", filter=~is_searching)
    @made.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        hands.interrupt_or_clear()

    @made.add("c-d", filter=idle)
    def _(event: KeyPressEvent) -> None:
        if editor.buffer.text:
            editor.buffer.delete()
        else:
            hands.leave()

    @made.add("escape", filter=idle)
    def _(event: KeyPressEvent) -> None:
        if not editor.close_menu():
            hands.escape()

    @made.add("s-tab")
    def _(event: KeyPressEvent) -> None:
        if editor.buffer.complete_state is not None:
            editor.buffer.complete_previous()
        else:
            hands.cycle_mode()

    @made.add("c-l")
    def _(event: KeyPressEvent) -> None:
        hands.redraw()

    @made.add("c-o")
    def _(event: KeyPressEvent) -> None:
        hands.toggle_full()

    @made.add("c-t", filter=idle)
    def _(event: KeyPressEvent) -> None:
        hands.show_tasks()

    @made.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()


def _question(made: KeyBindings, hands: ReplActions, editor: InputEditor, approval: ApprovalDialog) -> None:
    listening = Condition(lambda: approval.listening)
    reasoning = Condition(lambda: approval.panel is not None and approval.panel.reasoning)
    waiting = Condition(lambda: approval.panel is not None)

    @made.add(Keys.Any, filter=waiting & ~listening & ~reasoning)
    def _(event: KeyPressEvent) -> None:
        editor.buffer.insert_text(event.data)
        approval.disturb()

    @made.add(Keys.BracketedPaste, filter=waiting & ~reasoning)
    def _(event: KeyPressEvent) -> None:
        editor.paste(event.data)
        approval.disturb()

    @made.add(Keys.Any, filter=listening)
    def _(event: KeyPressEvent) -> None:
        editor.buffer.insert_text(approval.press(event.data))

    @made.add("enter", filter=listening)
    def _(event: KeyPressEvent) -> None:
        approval.enter()

    for key, step in (("up", -1), ("down", 1), ("s-tab", -1), ("tab", 1)):
        made.add(key, filter=listening)(lambda event, step=step: approval.move(step))
    for key, step in (("pageup", -PAGE), ("pagedown", PAGE)):
        made.add(key, filter=listening)(lambda event, step=step: approval.scroll(step))

    @made.add("escape", filter=listening)
    def _(event: KeyPressEvent) -> None:
        approval.refuse(stop=True)

    @made.add("c-o", filter=listening)
    def _(event: KeyPressEvent) -> None:
        hands.print_question()

    @made.add("enter", filter=reasoning)
    def _(event: KeyPressEvent) -> None:
        reason = event.current_buffer.text
        approval.refuse(reason.strip())

    @made.add("escape", filter=reasoning)
    def _(event: KeyPressEvent) -> None:
        approval.back()
