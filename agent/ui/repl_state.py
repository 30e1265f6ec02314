"""The parts of one REPL, made and joined: terminal, editor, stage, question, menu, work, hint, draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .approval import ApprovalDialog
from .completion import CompletionSource, FileIndex
from .input_editor import InputEditor
from .input_history import InputAutosave, PromptHistory, UnsentInput
from .input_queue import InputQueue
from .picker import Picker
from .status import StatusHint
from .terminal import Terminal
from .transcript_view import TranscriptView
from .turn_runner import TurnRunner

if TYPE_CHECKING:
    from agent.events import Event


@dataclass(slots=True)
class ReplState:
    """Everything that a sitting works with. Joined by `set_up`."""

    terminal: Terminal
    editor: InputEditor
    stage: TranscriptView
    approval: ApprovalDialog
    picker: Picker
    turns: TurnRunner
    work: InputQueue
    hint: StatusHint
    past: PromptHistory
    draft: UnsentInput
    journal: InputAutosave

    def emit(self, event: Event) -> None:
        """What the driver tells; a prompt that was taken back goes into the input."""
        from agent.events import PromptRestored

        if isinstance(event, PromptRestored):
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


def set_up(folder: Path, state: Path, color: str, mask: Callable[[str], str] = str) -> ReplState:
    """Make the parts of a sitting in `folder`, which keeps its files in `state`, masked."""
    made: list[ReplState] = []

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
    past, draft = PromptHistory(state / "history", mask), UnsentInput(state, folder, mask)
    stage = TranscriptView(terminal.above, terminal.look, lambda: made[0].changed(), terminal.send)
    editor = InputEditor(past, CompletionSource(commands, FileIndex(folder)), lambda: made[0].journal.touch())
    leave: Callable[[int], None] = lambda code: made[0].leave(code)  # noqa: E731
    turns = TurnRunner(stage, editor, terminal.invalidate, leave)
    made.append(
        ReplState(
            terminal,
            editor,
            stage,
            ApprovalDialog(terminal.invalidate),
            Picker(terminal.invalidate),
            turns,
            InputQueue(turns.perform, changed, beside),
            StatusHint(terminal.invalidate),
            past,
            draft,
            InputAutosave(draft, unsent),
        )
    )
    return made[0]
