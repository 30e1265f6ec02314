"""The parts of one REPL, made and joined: terminal, editor, stage, question, menu, work, hint, draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .approval import Approval
from .completion import Files, Words
from .input_editor import Editor
from .input_history import Draft, Journal, Past
from .input_queue import Work
from .picker import Picker
from .status import Hint
from .terminal import Terminal
from .transcript_view import Stage
from .turn_runner import Turns

if TYPE_CHECKING:
    from agent.events import Event


@dataclass(slots=True)
class Desk:
    """Everything that a sitting works with. Joined by `set_up`."""

    terminal: Terminal
    editor: Editor
    stage: Stage
    approval: Approval
    picker: Picker
    turns: Turns
    work: Work
    hint: Hint
    past: Past
    draft: Draft
    journal: Journal

    def emit(self, event: Event) -> None:
        """What the driver tells; a prompt that was taken back goes into the input."""
        from agent.events import TakenBack

        if isinstance(event, TakenBack):
            self.editor.put_back(self.editor.chips.paste(event.text))
        self.stage.emit(event)

    def leave(self, code: int) -> None:
        """End the sitting. After a signal what is written stays for the next one.

        Else a draft that was put away goes into the history: it is not on the screen to be missed.
        """
        if code > 128:
            self.journal.write()
        else:
            self.editor.remember(self.editor.chips.expand(self.editor.stashed))
        app = self.terminal.app
        if app.is_running and not app.is_done:
            app.exit(result=code)

    def changed(self) -> None:
        """Something to be seen changed; while work runs, the next tick shows it."""
        self.stage.live.queued = [item.shown for item in self.work.queued]
        if self.stage.live.began is None or self.stage.live.queued:
            self.terminal.invalidate()


def set_up(folder: Path, state: Path, color: str, mask: Callable[[str], str] = str) -> Desk:
    """Make the parts of a sitting in `folder`, which keeps its files in `state`, masked."""
    made: list[Desk] = []

    def commands() -> list[tuple[str, str]]:
        driver = made[0].turns.driver
        return list(driver.commands()) if driver is not None else []

    def unsent() -> str:
        waiting = [item.whole for item in made[0].work.queued]
        editor = made[0].editor
        away = editor.chips.expand(editor.stashed)
        return "\n".join(text for text in (*waiting, away, editor.text) if text)

    def beside(line: str) -> bool:
        driver = made[0].turns.driver
        return driver is not None and driver.beside(line)

    def changed() -> None:
        made[0].journal.touch()
        made[0].changed()

    terminal = Terminal(color)
    past, draft = Past(state / "history", mask), Draft(state, folder, mask)
    stage = Stage(terminal.above, terminal.look, lambda: made[0].changed(), terminal.send)
    editor = Editor(past, Words(commands, Files(folder)), lambda: made[0].journal.touch())
    leave: Callable[[int], None] = lambda code: made[0].leave(code)  # noqa: E731
    turns = Turns(stage, editor, terminal.invalidate, leave)
    made.append(
        Desk(
            terminal,
            editor,
            stage,
            Approval(terminal.invalidate),
            Picker(terminal.invalidate),
            turns,
            Work(turns.perform, changed, beside),
            Hint(terminal.invalidate),
            past,
            draft,
            Journal(draft, unsent),
        )
    )
    return made[0]
