"""The live part of the screen as windows: what runs, the input or a question, the menu, the status line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.layout.containers import ConditionalContainer, HSplit, VerticalAlign, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl, SearchBufferControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.layout import Layout
from prompt_toolkit.layout.processors import BeforeInput, HighlightIncrementalSearchProcessor

from .escape import one_line
from .input_editor import InputEditor
from .paste_chips import ChipLabels
from .picker import Picker, menu_window
from .text_cells import clip, width

PROMPT = "❯ "
MENU_ROWS = 6
SHORTCUTS = (
    "/ commands   @ files   ! shell   ↑ history   Ctrl-R search",
    "newline: Shift+Enter, Alt+Enter, Ctrl-J or \\ Enter",
    "Esc interrupts   Esc Esc rewinds   Shift+Tab changes the mode",
    "Ctrl-O outputs whole, or short   Ctrl-G editor   Ctrl-L redraw   Ctrl-Z suspend",
    "Ctrl-S puts the draft away   Ctrl-T background commands   Tab completes",
    "Ctrl-C clears, twice leaves   Ctrl-D leaves",
)


@dataclass(frozen=True, slots=True)
class LayoutSources:
    """Where the windows get what they show; called at every frame, so cheap. Lines are ANSI text."""

    above: Callable[[], list[str]]  # what runs
    question: Callable[[], list[str]]  # the question, or []
    reasoning: Callable[[], bool]
    picker: Picker
    status: Callable[[], str]
    size: Callable[[], tuple[int, int]]  # rows, columns


@dataclass(frozen=True, slots=True)
class ScreenWindows:
    """The layout, and the buffer in which the reason of a "no" is written."""

    layout: Layout
    reason: Buffer
    input: Window
    reason_window: Window
    menu: Window


def windows(editor: InputEditor, sources: LayoutSources) -> ScreenWindows:
    """Build the layout once; it reads the sources at each frame."""
    reason = Buffer(multiline=False)
    search = SearchBufferControl(input_processors=[BeforeInput("search: ", style="class:search")])
    typed = _input_window(editor, search, sources)
    why = Window(BufferControl(reason), height=1, get_line_prefix=lambda line, wrapped: [("", PROMPT)])
    menu = menu_window(sources.picker)
    asking = Condition(lambda: bool(sources.question()))
    picking = Condition(lambda: bool(sources.picker.drawn.lines))
    rows = [
        _lines(sources.above),
        Window(height=1, char="─", style="class:rule"),
        ConditionalContainer(typed, ~asking & ~picking),
        ConditionalContainer(menu, picking),
        ConditionalContainer(_lines(sources.question), asking),
        ConditionalContainer(why, Condition(sources.reasoning)),
        ConditionalContainer(Window(search, height=1), is_searching),
        ConditionalContainer(_menu(editor, sources), ~asking & ~picking),
        _lines(lambda: [sources.status()]),
        Window(height=Dimension(min=0, preferred=0)),
    ]
    layout = Layout(HSplit(rows, align=VerticalAlign.JUSTIFY), focused_element=typed)
    return ScreenWindows(layout, reason, typed, why, menu)


def input_rows(editor: InputEditor, columns: int) -> int:
    """How many rows the input would take, unbounded."""
    room = max(columns - len(PROMPT), 1)
    lines = editor.chips.labelled(editor.buffer.text).split("\n")
    return sum(-(-(width(line.expandtabs(4)) + 1) // room) for line in lines)


def most_input_rows(rows: int) -> int:
    """How many rows the input may take."""
    return max(rows // 3, 2)


def menu_lines(editor: InputEditor) -> int:
    """How many rows the menu takes now."""
    state = editor.buffer.complete_state
    if state is not None and state.completions:
        more = len(state.completions) > MENU_ROWS
        return min(len(state.completions), MENU_ROWS) + more
    return len(SHORTCUTS) if editor.buffer.text == "?" else 0


def _input_window(editor: InputEditor, search: SearchBufferControl, sources: LayoutSources) -> Window:
    control = BufferControl(
        editor.buffer,
        search_buffer_control=search,
        preview_search=True,
        input_processors=[HighlightIncrementalSearchProcessor(), ChipLabels(editor.chips)],
    )

    def prefix(line: int, wrapped: int) -> StyleAndTextTuples:
        first = line == 0 and wrapped == 0
        style = "class:shell" if editor.buffer.text.startswith("!") else "class:prompt"
        return [(style, PROMPT if first else " " * len(PROMPT))]

    return Window(
        control,
        wrap_lines=True,
        get_line_prefix=prefix,
        height=lambda: Dimension(min=1, max=most_input_rows(sources.size()[0])),
        dont_extend_height=True,
    )


def _lines(source: Callable[[], list[str]]) -> Window:
    """A window exactly as high as the lines it shows."""
    drawn: list[tuple[str, StyleAndTextTuples]] = []

    def fragments() -> StyleAndTextTuples:
        text = "\n".join(source())
        if not drawn or drawn[0][0] != text:
            drawn[:] = [(text, to_formatted_text(ANSI(text)))]
        return drawn[0][1]

    return Window(
        FormattedTextControl(fragments),
        height=lambda: Dimension.exact(len(source())),
        dont_extend_height=True,
    )


def _menu(editor: InputEditor, sources: LayoutSources) -> Window:
    def fragments() -> StyleAndTextTuples:
        columns = sources.size()[1]
        if not editor.buffer.complete_state:
            return [("class:hint", "\n".join(clip(line, columns) for line in SHORTCUTS))]
        return _completions(editor.buffer, columns)

    return Window(
        FormattedTextControl(fragments),
        height=lambda: Dimension.exact(menu_lines(editor)),
        dont_extend_height=True,
    )


def _completions(buffer: Buffer, columns: int) -> StyleAndTextTuples:
    state = buffer.complete_state
    if state is None:
        return []
    at = state.complete_index
    first = max(0, min((at or 0) - MENU_ROWS + 2, len(state.completions) - MENU_ROWS))
    shown = state.completions[first : first + MENU_ROWS]
    names = [clip(one_line(entry.display_text), max(columns - 4, 1)) for entry in shown]
    widest = min(max((width(name) for name in names), default=0), max(columns // 2, 1))
    rows: StyleAndTextTuples = []
    for offset, (entry, name) in enumerate(zip(shown, names, strict=True)):
        marked = first + offset == at
        pad = " " * (widest - width(name) + 2)
        about = clip(one_line(entry.display_meta_text), max(columns - width(name) - len(pad) - 3, 0))
        rows.append(("class:menu.current" if marked else "class:menu", f"{'❯' if marked else ' '} {name}"))
        rows.append(("class:menu.about", f"{pad}{about}\n" if offset < len(shown) - 1 else pad + about))
    if len(state.completions) > len(shown):
        last = first + len(shown)
        more = f"\n  {first + 1}-{last} of {len(state.completions)} · ↑ ↓, or type on"
        rows.append(("class:menu.about", clip(more, columns)))
    return rows
