"""Lay out the live part of the screen: running work, the input or a dialog, and the status line."""

from __future__ import annotations

import time
from pathlib import PurePath
from typing import NamedTuple

from msgspec.structs import replace
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import BufferControl, HSplit, Layout, SearchBufferControl, Window
from prompt_toolkit.layout.processors import HighlightIncrementalSearchProcessor

from agent.formatting import format_count, short_model, whole_percent
from agent.keys import with_keys
from agent.ports import Status
from transcripts.wording import pluralize

from .approval import draw_approval
from .approval_answers import ApprovalChoice
from .frame_update import Frame
from .input_drawing import INPUT_PROMPT, InputDrawing, draw_one_row
from .live_view import draw_todos
from .paste_chips import ChipLabels
from .picker import picker_window
from .question_form import draw_form
from .repl_state import ReplState
from .terminal_text import RenderContext, cell_width, clip, clip_painted, foreign_line, one_line

MAX_COMPLETION_ROWS = 6
STATUS_SEPARATOR = " · "
SHORTCUT_GAP = "   "
SHORTCUTS = (
    "/ commands   @ files   ! shell   ↑ history   Ctrl-R search",
    "newline: {newline} or \\ {submit}",
    "Esc interrupt   Esc Esc rewind   {mode} change the permission mode",
    "{outputs} full outputs on or off   {editor} external editor   {redraw} redraw   {suspend} suspend",
    "{image} paste image   {stash} stash the draft   {background} move command to background",
    "{tasks} background commands   {complete} complete   {model} model   {effort} effort",
    "{interrupt} clear, twice to exit   {leave} exit",
)
# Permission mode -> (its name on the status line, role)
MODE_LABELS = {
    "manual": ("asks before edits", "dim"),
    "acceptEdits": ("accepts edits", "highlight"),
    "plan": ("plan mode", "accent"),
    "dontAsk": ("denies instead of asking", "accent"),
    "bypassPermissions": ("BYPASSES PERMISSIONS", "error"),
}
# For the modes that also ask before commands where these are not sandboxed.
ASKING_MODE_LABELS = {
    "manual": ("asks before edits and commands", "dim"),
    "acceptEdits": ("accepts edits, asks before commands", "highlight"),
}
# Fill level of the context -> (its label on the status line, role)
CONTEXT_LABELS = {
    "NORMAL": ("", "good"),
    "WARNING": ("filling up", "warning"),
    "CRITICAL": ("nearly full", "bad"),
    "BLOCKING": ("at the limit", "error"),
    "EXHAUSTED": ("full", "error"),
}


class _StatusPart(NamedTuple):
    """A part of the status line; the highest rank is dropped first.

    `stays`: the user's own status line is followed by it.
    """

    rank: int
    role: str
    text: str
    stays: bool = False


def max_input_rows(rows: int) -> int:
    """Return the number of screen rows that the input may take."""
    return max(rows // 3, 2)


def draw_completions(buffer: Buffer, ctx: RenderContext, room: int) -> list[str]:
    """Draw the completions around the selected one with their summaries, or the shortcuts after a `?`."""
    state = buffer.complete_state
    if state is None or not state.completions:
        return _shortcut_rows(ctx, room) if buffer.text == "?" else []
    at = state.complete_index
    count = len(state.completions)
    first = max(0, min((at or 0) - MAX_COMPLETION_ROWS + 2, count - MAX_COMPLETION_ROWS))
    shown = state.completions[first : first + MAX_COMPLETION_ROWS]
    names = [clip(one_line(entry.display_text), max(ctx.columns - 4, 1)) for entry in shown]
    widest = min(max(map(cell_width, names), default=0), max(ctx.columns // 2, 1))
    rows = []
    for place, (entry, name) in enumerate(zip(shown, names, strict=True), first):
        row = ctx.paint("current", f"❯ {name}") if place == at else f"  {name}"
        pad = " " * (widest - cell_width(name) + 2)
        about = clip(one_line(entry.display_meta_text), max(ctx.columns - cell_width(name) - len(pad) - 3, 0))
        rows.append(row + (ctx.paint("dim", pad + about) if about else ""))
    if count > len(shown):
        rows.append(
            ctx.clipped(
                "dim", f"  {first + 1}-{first + len(shown)} of {count} · ↑ ↓ to select, or keep typing"
            )
        )
    return rows


def _shortcut_rows(ctx: RenderContext, room: int) -> list[str]:
    """Draw the shortcuts in at most `room` rows, each on one row if it fits."""
    rows: list[str] = []
    for line in SHORTCUTS:
        row = ""
        for shortcut in filter(None, with_keys(line, ctx.keys, SHORTCUT_GAP).split(SHORTCUT_GAP)):
            if row and cell_width(row + SHORTCUT_GAP + shortcut) > ctx.columns:
                rows.append(row)
                row = ""
            row += SHORTCUT_GAP + shortcut if row else shortcut
        rows += [row] if row else []
    drawn = [part for row in rows for part in ctx.wrapped("dim", row)]
    if len(drawn) <= room:
        return drawn
    return [*drawn[: max(room - 1, 0)], ctx.clipped("dim", "… /help keys for all keys")]


def status_line(status: Status | None, queued: int, ctx: RenderContext) -> str:
    """Draw model, context, cost, mode, directory and queue on one line. No status: the agent is starting.

    Parts that do not fit are dropped, the least important first.
    """
    if status is None:
        return ctx.paint("dim", "starting"[: ctx.columns])
    parts = _status_parts(status, queued)
    if status.own_line:
        return _with_own_line(status, parts, ctx)
    while len(parts) > 1 and cell_width(STATUS_SEPARATOR.join(part.text for part in parts)) > ctx.columns:
        parts.remove(max(parts, key=lambda part: part.rank))
    shown = [ctx.paint(part.role, part.text[: ctx.columns]) for part in parts]
    return clip_painted(ctx.paint("dim", STATUS_SEPARATOR).join(shown), ctx.columns)


def _with_own_line(status: Status, parts: list[_StatusPart], ctx: RenderContext) -> str:
    """Return the output of the user's status command, followed by the parts that are always shown."""
    kept = [part for part in parts if part.stays]
    rest = STATUS_SEPARATOR.join(part.text for part in kept)
    room = ctx.columns - cell_width(rest) - cell_width(STATUS_SEPARATOR)
    own = [clip_painted(foreign_line(status.own_line, ctx.theme), room)] if room > 0 else []
    shown = [*own, *(ctx.paint(part.role, part.text) for part in kept)]
    return clip_painted(ctx.paint("dim", STATUS_SEPARATOR).join(shown), ctx.columns)


def _status_parts(status: Status, queued: int) -> list[_StatusPart]:
    """Return the parts of the status line from left to right."""
    words, context_role = CONTEXT_LABELS.get(status.state, ("", "dim"))
    context = ""
    if status.window:
        used = min(whole_percent(status.tokens or 0, status.window), 999)
        context = f"{used}% of {format_count(status.window)}"
        context += f", {words}" if words else ""
    mode_name = "acceptEdits" if status.accepts_edits else status.mode
    labels = MODE_LABELS | ASKING_MODE_LABELS if status.asks_commands else MODE_LABELS
    mode, mode_role = labels.get(mode_name, (one_line(mode_name), "dim"))
    cost = f"${status.cost:.2f}" if status.cost >= 0.005 else f"${status.cost:.4f}"
    cost = cost if status.cost >= 0.00005 else ""
    if not status.priced:
        cost = f"at least {cost}" if cost else "cost unknown"
    model = short_model(status.model)
    unsaved = f"NOT SAVED: {one_line(status.unsaved)}" if status.unsaved else ""
    asking = f"{one_line(status.asks)} waits for your answer (/agents)" if status.asks else ""
    jobs = pluralize(status.jobs, "job") if status.jobs else ""
    agents = pluralize(status.agents, "agent") if status.agents else ""
    parts = (
        _StatusPart(-1, role="error", text=unsaved, stays=True),
        _StatusPart(4, role="dim", text=" ".join(filter(None, (one_line(model), status.effort)))),
        _StatusPart(0, role=context_role, text=context, stays=status.state != "NORMAL"),
        _StatusPart(3, role="dim", text=cost),
        _StatusPart(1, role=mode_role, text=mode, stays=True),
        _StatusPart(2, role="accent", text=f"{queued} queued" if queued else "", stays=True),
        _StatusPart(2, role="accent", text=jobs, stays=True),
        _StatusPart(2, role="accent", text=agents, stays=True),
        _StatusPart(1, role="warning", text=asking, stays=True),
        _StatusPart(6, role="dim", text=one_line(status.note)),
        _StatusPart(7, role="dim", text=one_line(PurePath(status.folder).name)),
        _StatusPart(5, role="dim", text=one_line(status.branch)),
    )
    return [part for part in parts if part.text]


def _chooses(state: ReplState) -> bool:
    """Return whether a menu or a question of the model waits for an answer."""
    return state.picker.state is not None or state.approval.form.state is not None


class ScreenLayout:
    """The composer of frames: running work, a rule, the input or a dialog, and the status line.

    The windows of prompt_toolkit draw nothing; the focused one takes the keys.
    """

    def __init__(self, state: ReplState) -> None:
        self._state = state
        self._reason = Buffer(multiline=False)  # the reason of a denial, or a remark
        self._reasoned: ApprovalChoice | None = None  # the answer that it goes with
        self._search = SearchBufferControl()
        self._vi_mode: InputMode | None = None  # of the input, while a dialog replaces it
        control = BufferControl(
            state.editor.buffer,
            search_buffer_control=self._search,
            preview_search=True,
            input_processors=[HighlightIncrementalSearchProcessor(), ChipLabels(state.editor.paste_chips)],
        )
        self._input = InputDrawing(control)
        self._input_window = Window(control)
        self._reason_window = Window(BufferControl(self._reason))
        self._picker_window = picker_window()
        self._words = BufferControl()  # the user's own answer to a question of the model
        self._words_window = Window(self._words)
        dialogs = [self._reason_window, self._words_window, self._picker_window]
        windows = [self._input_window, *dialogs, Window(self._search)]
        self.layout = Layout(HSplit(windows), focused_element=self._input_window)

    def compose(self) -> Frame:
        """Compose the next frame, which fits the screen and always has the input and the status line."""
        state = self._state
        rows = state.terminal.size().rows
        ctx = state.terminal.render_context()
        panel = state.approval.panel
        picking = _chooses(state)
        if state.has_view:
            state.view.live_view.pause_clocks(panel is not None or picking, time.monotonic())
        self._focus()
        status = state.driver.status() if state.driver else None
        body, cursor = self._body(ctx, rows)
        gap = [""] if rows >= 15 and len(body) < rows - 3 else []
        room = max(rows - len(body) - 3 - 2 * len(gap), 0)
        hides = picking and panel is None
        working = state.has_view and state.view.live_view.started_at is not None
        shown = () if status is None or picking or panel is not None else status.todos
        todos = draw_todos(shown, ctx, rows=room // 2, working=working)
        left = room - len(todos) if state.has_view and not hides else 0
        lines = state.view.live_lines(left) if left > 0 else []
        lines = [*lines, *todos]
        above = [*gap, *lines, *gap] if lines else gap
        rule = ctx.paint("dim", "─" * ctx.columns)
        below = (*above, rule, *body, clip_painted(self._status_line(status, ctx), ctx.columns))
        over = max(len(below) - rows, 0)  # rows that scroll away could not be erased
        row = max(cursor[0] + len(above) + 1 - over, 0)
        return Frame(below[over:], (row, min(cursor[1], ctx.columns - 1)))

    def dialog_changed(self) -> None:
        """Focus the window of a dialog that appeared, disappeared, or asks for words, and redraw soon."""
        self._focus()
        panel = self._state.approval.panel
        commented = panel.commented if panel is not None else None
        if panel is None or (commented is not None and self._reasoned is not commented):
            self._reasoned = commented
            self._reason.reset()
        self._state.terminal.invalidate()

    def _body(self, ctx: RenderContext, rows: int) -> tuple[list[str], tuple[int, int]]:
        """Draw the rows between the rule and the status line; return the cursor's (row, column) too."""
        state = self._state
        panel = state.approval.panel
        if panel is not None:
            lines, marked = draw_approval(panel, ctx, rows - int(panel.writing) - 3)
            if not panel.writing:
                return lines, (marked, 0)
            reason, column = draw_one_row(self._reason, INPUT_PROMPT, ctx)
            return [*lines, reason], (len(lines), column)
        if state.approval.form.state is not None:
            return draw_form(state.approval.form.state, ctx, max(rows - 3, 1))
        if state.picker.state is not None:
            state.picker.compose(ctx, max(rows - 3, 1))
            return state.picker.drawn.lines, state.picker.drawn.cursor
        lines, cursor = self._input.draw(ctx, max_input_rows(rows))
        if self.layout.is_searching:
            search, column = draw_one_row(self._search.buffer, "search: ", ctx)
            cursor = (len(lines), column)
            lines = [*lines, search]
        return [*lines, *draw_completions(state.editor.buffer, ctx, rows - len(lines) - 4)], cursor

    def _focus(self) -> None:
        """Focus the window that takes the keys: during a dialog, none of them may edit the hidden draft."""
        wanted = self._reason_window if self._state.approval.panel is not None else self._input_window
        if _chooses(self._state) and self._state.approval.panel is None:
            wanted = self._picker_window
            if (form := self._state.approval.form.state) is not None:
                wanted = self._words_window
                self._words.buffer = form.own
        layout = self.layout
        if layout.current_window is wanted or (layout.is_searching and wanted is self._input_window):
            return
        if layout.is_searching:  # otherwise the input would still show the match
            del layout.search_links[self._search]
            self._search.buffer.reset()
        self._take_letters(wanted is not self._input_window)
        layout.focus(wanted)

    def _take_letters(self, dialog: bool) -> None:
        """Take letters as answers while a dialog is shown, whatever the vim mode of the input is."""
        vi = self._state.terminal.app.vi_state
        if dialog and self._vi_mode is None:
            self._vi_mode = vi.input_mode
            vi.input_mode = InputMode.NAVIGATION  # ends a partial command
            vi.input_mode = InputMode.INSERT
        elif not dialog and self._vi_mode is not None:
            vi.input_mode = self._vi_mode
            self._vi_mode = None

    def _status_line(self, status: Status | None, ctx: RenderContext) -> str:
        """Return the status followed by the hint about the last key; in a narrow window only the hint."""
        hint = self._state.status_hint.text
        if not hint:
            return self._usual_status(status, ctx)
        room = ctx.columns - cell_width(hint) - len(STATUS_SEPARATOR)
        if room < 20:
            return ctx.clipped("dim", hint)
        usual = self._usual_status(status, replace(ctx, columns=room))
        return usual + ctx.paint("dim", STATUS_SEPARATOR + hint)

    def _usual_status(self, status: Status | None, ctx: RenderContext) -> str:
        state = self._state
        if not (mode := state.terminal.vim_mode):
            return status_line(status, len(state.queue.queued), ctx)
        room = replace(ctx, columns=max(ctx.columns - len(mode) - len(STATUS_SEPARATOR), 1))
        mode = ctx.paint("accent", mode + STATUS_SEPARATOR)
        return mode + status_line(status, len(state.queue.queued), room)
