"""Share out the rows of the screen: each frame is composed here before the windows draw it."""

from __future__ import annotations

from .approval import draw
from .layout import LayoutSources, ScreenWindows, input_rows, menu_lines, most_input_rows, windows
from .repl_state import ReplState
from .status import status_line

ROOMY = 15  # rows from which on there is air around what runs


class RowLayout:
    """What the windows show in this frame. The input and the status line always have their place."""

    def __init__(self, desk: ReplState) -> None:
        self._desk = desk
        self._above: list[str] = []
        self._question: list[str] = []
        sources = LayoutSources(
            lambda: self._above,
            lambda: self._question,
            self._reasoning,
            desk.picker,
            self._status,
            lambda: (desk.terminal.size().rows, desk.terminal.size().columns),
        )
        self.windows: ScreenWindows = windows(desk.editor, sources)

    def compose(self) -> None:
        """Work out the lines above the input, and the question or the menu in its place."""
        desk = self._desk
        rows, columns = desk.terminal.size()
        panel = desk.approval.panel
        waits = panel is not None or desk.picker.state is not None
        desk.stage.live.wait_for_person(waits, desk.stage.now())
        used = 2  # the rule and the status line
        self._question = []
        desk.picker.compose(desk.terminal.look(), 0 if panel is not None else max(rows - used - 1, 1))
        if panel is not None:
            used += int(panel.reasoning)
            panel.draft = desk.editor.chips.labelled(desk.editor.buffer.text)
            self._question = draw(panel, desk.terminal.look(), rows - used - 1)
            used += len(self._question)
        elif desk.picker.state is None:
            used += min(input_rows(desk.editor, columns), most_input_rows(rows)) + menu_lines(desk.editor)
        air = 1 if rows >= ROOMY else 0
        room = 0 if desk.picker.state is not None else max(rows - used - 1 - 2 * air, 0)
        lines = desk.stage.lines(room)
        self._above = [*[""] * air, *lines, *[""] * air] if lines else [""] * air
        self._focus()

    def asked(self) -> None:
        """A question or a menu came, went, or wants a reason: put the keys where they belong, draw soon."""
        self._focus()
        self._desk.terminal.invalidate()

    def _focus(self) -> None:
        layout = self.windows.layout
        wanted = self.windows.reason_window if self._reasoning() else self.windows.input
        if self._picking():
            wanted = self.windows.menu
        if layout.current_window is wanted or (layout.is_searching and wanted is self.windows.input):
            return
        self.windows.reason.reset()
        layout.focus(wanted)

    def _reasoning(self) -> bool:
        panel = self._desk.approval.panel
        return panel is not None and panel.reasoning

    def _picking(self) -> bool:
        return self._desk.picker.state is not None and self._desk.approval.panel is None

    def _status(self) -> str:
        desk = self._desk
        look = desk.terminal.look()
        if desk.hint.text:
            return look.theme.paint("dim", desk.hint.text[: look.columns])
        driver = desk.turns.driver
        return status_line(driver.status() if driver else None, len(desk.work.queued), look)
