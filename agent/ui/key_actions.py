"""What keys come to, for the whole desk; keys.py says which key is which."""

from __future__ import annotations

from .approval import whole
from .input_editor import LEAVING
from .input_queue import QueuedInput
from .repl_state import ReplState

TWICE = 2.0  # seconds within which a second Ctrl-C leaves
AGAIN = 1.0  # seconds within which a second Esc counts


class KeyActions:
    """The person's hands on a desk. Implements keys.Hands."""

    def __init__(self, desk: ReplState) -> None:
        self._desk = desk

    def submit(self) -> None:
        """Send what is written, or queue it."""
        editor = self._desk.editor
        whole = editor.text
        if not whole.strip():
            return
        shown = editor.chips.labelled(editor.buffer.text)
        text = editor.take()
        if not self._desk.work.running and not self._desk.work.queued:
            editor.chips.forget(text + editor.stashed)  # nothing else can hold a chip any more
        if whole.strip() in LEAVING:
            self._desk.leave(0)
        else:
            self._desk.work.add(QueuedInput(text, whole, shown))
            if editor.stashed:
                editor.stash()

    def interrupt_or_clear(self) -> None:
        """Ctrl-C: ends what runs, else clears what is written, else leaves the second time."""
        desk = self._desk
        if self._interrupt():
            return
        if desk.editor.buffer.text:
            desk.editor.take()
        elif desk.hint.again("leave", TWICE):
            desk.leave(0)
        else:
            desk.hint.show("leave", "Press Ctrl-C again to leave", TWICE)

    def escape(self) -> None:
        """Esc: ends what runs; twice clears what is written, or goes back in the conversation."""
        desk = self._desk
        if self._interrupt():
            return
        written = bool(desk.editor.buffer.text)
        if not desk.hint.again("escape", AGAIN):
            desk.hint.show("escape", "Esc again clears" if written else "Esc again rewinds", AGAIN)
        elif written:
            desk.editor.take()
        else:
            desk.work.add(QueuedInput("", "/rewind", "/rewind"))

    def leave(self) -> None:
        """Ctrl-D on an empty line; with background jobs only the second time."""
        desk = self._desk
        jobs = desk.turns.driver.status().jobs if desk.turns.driver else 0
        would = "1 background command" if jobs == 1 else f"{jobs} background commands"
        if jobs and not desk.hint.again("jobs", TWICE):
            desk.hint.show("jobs", f"{would} would end; Ctrl-D again leaves", TWICE)
        else:
            desk.leave(0)

    def cycle_mode(self) -> None:
        """Shift+Tab: the next permission mode."""
        if self._desk.turns.driver is not None:
            self._desk.turns.driver.cycle_mode()

    def toggle_full(self) -> None:
        """Ctrl-O: the turn's outputs again, whole, and so from now on; or short ones."""
        desk = self._desk
        desk.terminal.full = not desk.terminal.full
        words = "Outputs are shown in short"
        if desk.terminal.full:
            again = desk.stage.print_whole()
            words = "Outputs are shown whole" + (f"; {again} printed again" if again else " from now on")
        desk.hint.show("full", words, TWICE)

    def redraw(self) -> None:
        """Ctrl-L."""
        self._desk.terminal.redraw()

    def stash(self) -> None:
        """Ctrl-S: put the draft away; it comes back on an empty line, or when another prompt was sent."""
        desk = self._desk
        if not desk.editor.stash():
            words = "Ctrl-S puts away what is written"
        elif desk.editor.stashed:
            words = "Put away; back after the next prompt, or with Ctrl-S"
        else:
            words = "Taken back"
        desk.hint.show("stash", words, TWICE)

    def show_tasks(self) -> None:
        """Ctrl-T: what runs in the background."""
        self._desk.work.add(QueuedInput("", "/tasks", "/tasks"))

    def recall_queued(self) -> bool:
        """Up on an empty line: take the newest queued line back. False when there is none."""
        item = self._desk.work.take_last()
        if item is None:
            return False
        self._desk.editor.put_back(item.text)
        self._desk.changed()
        return True

    def print_question(self) -> None:
        """Print the whole question above."""
        panel = self._desk.approval.panel
        if panel is not None:
            self._desk.terminal.above("\n".join(whole(panel.question, self._desk.terminal.look())))

    def command_names(self) -> list[str]:
        """The names of the slash commands, without the slash."""
        driver = self._desk.turns.driver
        return [name.removeprefix("/") for name, _ in driver.commands()] if driver else []

    def _interrupt(self) -> bool:
        desk = self._desk
        if not desk.work.running:
            return False
        if desk.stage.live.interrupting:  # it takes long to end: a way out
            if desk.hint.again("stuck", TWICE):
                desk.leave(130)
            desk.hint.show("stuck", "Still ending; press again to leave", TWICE)
            return True
        desk.stage.live.interrupting = desk.work.interrupt()
        desk.editor.put_back(*(item.text for item in desk.work.take_all()))
        desk.changed()
        desk.terminal.invalidate()
        return True
