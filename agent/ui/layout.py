"""Lay out the live part of the screen: what runs, the input or a question or a menu, and the status line."""

from __future__ import annotations

import time
from pathlib import PurePath

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    SearchBufferControl,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput, HighlightIncrementalSearchProcessor

from agent.formatting import format_count
from agent.ports import Status

from .approval import draw_approval
from .input_editor import InputEditor
from .keyboard import ChipLabels
from .picker import picker_window
from .repl_state import ReplState
from .terminal import lines_window
from .terminal_text import RenderContext, cell_width, clip, clip_painted, one_line

INPUT_PROMPT = "❯ "
MAX_COMPLETION_ROWS = 6
MIN_ROWS_WITH_GAPS = 15  # from which on there are blank rows around what runs
STATUS_SEPARATOR = " · "
SHORTCUTS = (
    "/ commands   @ files   ! shell   ↑ history   Ctrl-R search",
    "newline: Shift+Enter, Alt+Enter, Ctrl-J or \\ Enter",
    "Esc interrupts   Esc Esc rewinds   Shift+Tab changes the mode",
    "Ctrl-O outputs whole, or short   Ctrl-G editor   Ctrl-L redraw   Ctrl-Z suspend",
    "Ctrl-S puts the draft away   Ctrl-T background commands   Tab completes",
    "Ctrl-C clears, twice leaves   Ctrl-D leaves",
)
# Permission mode -> (its name on the status line, role)
MODE_LABELS = {
    "manual": ("asks first", "dim"),
    "acceptEdits": ("accepts edits", "highlight"),
    "plan": ("plans only", "accent"),
    "dontAsk": ("denies what is not allowed", "accent"),
    "bypassPermissions": ("BYPASSES PERMISSIONS", "error"),
}
CONTEXT_ROLES = {
    "NORMAL": "good",
    "WARNING": "warning",
    "CRITICAL": "bad",
    "BLOCKING": "error",
    "EXHAUSTED": "error",
}


def input_rows(editor: InputEditor, columns: int) -> int:
    """How many rows the input would take, unbounded."""
    room = max(columns - len(INPUT_PROMPT), 1)
    lines = editor.paste_chips.labelled(editor.buffer.text).split("\n")
    return sum(-(-(cell_width(line.expandtabs(4)) + 1) // room) for line in lines)


def max_input_rows(rows: int) -> int:
    """How many of the screen's rows the input may take."""
    return max(rows // 3, 2)


def completion_rows(editor: InputEditor) -> int:
    """How many rows the completions or the shortcuts take now."""
    state = editor.buffer.complete_state
    if state is not None and state.completions:
        more = len(state.completions) > MAX_COMPLETION_ROWS
        return min(len(state.completions), MAX_COMPLETION_ROWS) + more
    return len(SHORTCUTS) if editor.buffer.text == "?" else 0


def draw_completions(buffer: Buffer, columns: int) -> StyleAndTextTuples:
    """The completions around the current one with their summaries, or else the shortcuts."""
    state = buffer.complete_state
    if not state:
        return [("class:hint", "\n".join(clip(line, columns) for line in SHORTCUTS))]
    at, count = state.complete_index, len(state.completions)
    first = max(0, min((at or 0) - MAX_COMPLETION_ROWS + 2, count - MAX_COMPLETION_ROWS))
    shown = state.completions[first : first + MAX_COMPLETION_ROWS]
    names = [clip(one_line(entry.display_text), max(columns - 4, 1)) for entry in shown]
    widest = min(max(map(cell_width, names), default=0), max(columns // 2, 1))
    rows: StyleAndTextTuples = []
    for place, (entry, name) in enumerate(zip(shown, names, strict=True), first):
        style, mark = ("class:menu.current", "❯") if place == at else ("class:menu", " ")
        pad = " " * (widest - cell_width(name) + 2)
        about = clip(one_line(entry.display_meta_text), max(columns - cell_width(name) - len(pad) - 3, 0))
        newline = "\n" if rows else ""
        rows += [(style, f"{newline}{mark} {name}"), ("class:menu.about", pad + about)]
    if count > len(shown):
        more = f"\n  {first + 1}-{first + len(shown)} of {count} · ↑ ↓, or type on"
        rows.append(("class:menu.about", clip(more, columns)))
    return rows


def status_line(status: Status | None, queued: int, ctx: RenderContext) -> str:
    """Model, context, cost, mode, place and what waits, on one line; `status` is None before the agent.

    What does not fit is left out, the least important first.
    """
    if status is None:
        return ctx.paint("dim", "starting…"[: ctx.columns])
    parts = _status_parts(status, queued)
    while len(parts) > 1 and cell_width(STATUS_SEPARATOR.join(text for _, _, text in parts)) > ctx.columns:
        parts.remove(max(parts, key=lambda part: part[0]))
    shown = [ctx.paint(role, text[: ctx.columns]) for _, role, text in parts]
    return clip_painted(ctx.paint("dim", STATUS_SEPARATOR).join(shown), ctx.columns)


def _status_parts(status: Status, queued: int) -> list[tuple[int, str, str]]:
    """(rank, role, text) in the order of showing; the highest rank is left out first."""
    context_role = CONTEXT_ROLES.get(status.state, "dim")
    context = ""
    if status.window:
        context = f"{min(100 * (status.tokens or 0) // status.window, 999)}% of {format_count(status.window)}"
        context += "" if status.state == "NORMAL" else f" {status.state}"
    mode, mode_role = MODE_LABELS.get(status.mode, (one_line(status.mode), "dim"))
    cost = f"${status.cost:.2f}" if status.cost >= 0.005 else f"${status.cost:.4f}"
    cost = cost if status.cost >= 0.00005 else ""
    if not status.priced:
        cost = f"{cost} and more" if cost else "price unknown"
    parts = (
        (4, "dim", " ".join(filter(None, (one_line(status.model), status.effort)))),
        (0, context_role, context),
        (3, "dim", cost),
        (1, mode_role, mode),
        (2, "accent", f"{queued} queued" if queued else ""),
        (2, "accent", f"{status.jobs} job{'s' * (status.jobs > 1)}" if status.jobs else ""),
        (6, "dim", one_line(status.note)),
        (7, "dim", one_line(PurePath(status.folder).name)),
        (5, "dim", one_line(status.branch)),
    )
    return [part for part in parts if part[2]]


class ScreenLayout:
    """The windows, and what they show in this frame: each frame is composed before they draw it.

    The input and the status line always have their place.
    """

    def __init__(self, state: ReplState) -> None:
        self._state = state
        self._above: list[str] = []
        self._question: list[str] = []
        self._reason = Buffer(multiline=False)  # in which the reason of a "no" is written
        self._search = SearchBufferControl(input_processors=[BeforeInput("search: ", style="class:search")])
        self._input_window = self._build_input_window()
        self._reason_window = Window(
            BufferControl(self._reason), height=1, get_line_prefix=lambda line, wrapped: [("", INPUT_PROMPT)]
        )
        self._picker_window = picker_window(state.picker)
        self.layout = Layout(self._build_rows(), focused_element=self._input_window)

    def compose(self) -> None:
        """Work out the lines above the input, and the question or the menu in its place."""
        state = self._state
        rows, columns = state.terminal.size()
        ctx = state.terminal.render_context()
        panel, picking = state.approval.panel, state.picker.state is not None
        if state.has_view:
            state.view.live_view.pause_clocks(panel is not None or picking, time.monotonic())
        used = 2  # the rule and the status line
        self._question = []
        state.picker.compose(ctx, 0 if panel is not None else max(rows - used - 1, 1))
        if panel is not None:
            used += int(panel.reasoning)
            self._question = draw_approval(panel, ctx, rows - used - 1)
            used += len(self._question)
        elif not picking:
            used += min(input_rows(state.editor, columns), max_input_rows(rows))
            used += completion_rows(state.editor)
        gap = [""] if rows >= MIN_ROWS_WITH_GAPS else []
        room = 0 if picking else max(rows - used - 1 - 2 * len(gap), 0)
        lines = state.view.live_lines(room) if state.has_view else []
        self._above = [*gap, *lines, *gap] if lines else gap
        self._focus()

    def dialog_changed(self) -> None:
        """A question or a menu came, went, or wants a reason: focus its window, draw soon."""
        self._focus()
        self._reason.reset()
        self._state.terminal.invalidate()

    def _focus(self) -> None:
        """At a question keys have no other place than its reason: none of them edits the hidden draft."""
        wanted = self._reason_window if self._state.approval.panel is not None else self._input_window
        if self._state.picker.state is not None and self._state.approval.panel is None:
            wanted = self._picker_window
        layout = self.layout
        if layout.current_window is wanted or (layout.is_searching and wanted is self._input_window):
            return
        layout.focus(wanted)

    def _reasoning(self) -> bool:
        panel = self._state.approval.panel
        return panel is not None and panel.reasoning

    def _status_lines(self) -> list[str]:
        state = self._state
        ctx = state.terminal.render_context()
        if state.status_hint.text:
            return [ctx.paint("dim", state.status_hint.text[: ctx.columns])]
        status = state.driver.status() if state.driver else None
        return [status_line(status, len(state.queue.queued), ctx)]

    def _build_rows(self) -> HSplit:
        editor, picker, terminal = self._state.editor, self._state.picker, self._state.terminal
        asking = Condition(lambda: bool(self._question))
        writing = ~asking & ~Condition(lambda: bool(picker.drawn.lines))
        completions = Window(
            FormattedTextControl(lambda: draw_completions(editor.buffer, terminal.size().columns)),
            height=lambda: Dimension.exact(completion_rows(editor)),
            dont_extend_height=True,
        )
        rows = [
            lines_window(lambda: self._above),
            Window(height=1, char="─", style="class:rule"),
            ConditionalContainer(self._input_window, writing),
            ConditionalContainer(self._picker_window, Condition(lambda: bool(picker.drawn.lines))),
            ConditionalContainer(lines_window(lambda: self._question), asking),
            ConditionalContainer(self._reason_window, Condition(self._reasoning)),
            ConditionalContainer(Window(self._search, height=1), is_searching),
            ConditionalContainer(completions, writing),
            lines_window(self._status_lines),
            Window(height=Dimension(min=0, preferred=0)),
        ]
        return HSplit(rows, align=VerticalAlign.JUSTIFY)

    def _build_input_window(self) -> Window:
        editor, terminal = self._state.editor, self._state.terminal

        def prefix(line: int, wrapped: int) -> StyleAndTextTuples:
            style = "class:shell" if editor.buffer.text.startswith("!") else "class:prompt"
            return [(style, INPUT_PROMPT if line == 0 and wrapped == 0 else " " * len(INPUT_PROMPT))]

        control = BufferControl(
            editor.buffer,
            search_buffer_control=self._search,
            preview_search=True,
            input_processors=[HighlightIncrementalSearchProcessor(), ChipLabels(editor.paste_chips)],
        )
        return Window(
            control,
            wrap_lines=True,
            get_line_prefix=prefix,
            height=lambda: Dimension(min=1, max=max_input_rows(terminal.size().rows)),
            dont_extend_height=True,
        )
