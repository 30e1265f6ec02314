"""Draw the input: wrapped text, highlighted chips and matches, and the place of the cursor."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import BufferControl, UIContent
from wcwidth import iter_graphemes

from .paste_chips import ChipLabels
from .terminal_text import (
    CODE_TAB_CELLS,
    RenderContext,
    cell_width,
    escape_prose,
    fitting_chars,
    longest_end,
    longest_start,
)

INPUT_PROMPT = "❯ "
# prompt_toolkit's names for parts of a line -> our roles.
_ROLES = {
    "chip": "chip",
    "hint": "dim",
    "incsearch": "found",
    "incsearch.current": "found",
    "selected": "found",
}


class InputDrawing:
    """The rows of the input. Too many rows scroll, no further than the cursor requires."""

    def __init__(self, control: BufferControl) -> None:
        self._control = control
        self._first = 0  # index of the first row on the screen

    def draw(self, ctx: RenderContext, max_rows: int) -> tuple[list[str], tuple[int, int]]:
        """Draw at most `max_rows` rows, and return them with the cursor's (row, column) in them."""
        margin = len(INPUT_PROMPT)
        room = _input_room(ctx.columns)
        content = self._control.create_content(room, max_rows, preview_search=True)
        rows: list[str] = []
        cursor = (0, 0)
        for at in range(content.line_count):
            fragments = content.get_line(at)
            line, spans = _rows_of(content, at, room)
            if at == content.cursor_position.y:
                row, column = place_in_rows(line, spans, content.cursor_position.x)
                cursor = (len(rows) + row, column)
            rows += [_painted(fragments, *span, ctx).rstrip(" ") for span in spans]
        self._first = max(0, min(self._first, cursor[0], len(rows) - max_rows), cursor[0] - max_rows + 1)
        prompt = ctx.paint("shell" if self._control.buffer.text.startswith("!") else "prompt", INPUT_PROMPT)
        shown = [(" " * margin if at else prompt) + row for at, row in enumerate(rows)]
        shown = shown[self._first : self._first + max_rows]
        return shown, (cursor[0] - self._first, cursor[1] + margin)


def move_by_row(control: BufferControl, labels: ChipLabels, columns: int, by: Literal[-1, 1]) -> bool:
    """Move the cursor up or down by one row of the drawn input, as close to its column as possible.

    Return False at the first and the last row. Columns are cells, not characters. `labels` draws the
    control's text.
    """
    room = _input_room(columns)
    buffer = control.buffer
    content = control.create_content(room, 1)
    at = content.cursor_position.y
    line, spans = _rows_of(content, at, room)
    row, column = place_in_rows(line, spans, content.cursor_position.x)
    column = column if buffer.preferred_column is None else buffer.preferred_column
    if 0 <= row + by < len(spans):
        row += by
    elif 0 <= at + by < content.line_count:
        at += by
        line, spans = _rows_of(content, at, room)
        row = 0 if by > 0 else len(spans) - 1
    else:
        return False
    begin, end = spans[row]
    pieces = [*iter_graphemes(line[begin:end])]  # the cursor is on one: a space follows the text
    place = begin + fitting_chars(pieces[:-1], column)
    place = labels.place_in_text(buffer.document.lines[at], place)
    buffer.cursor_position = buffer.document.translate_row_col_to_index(at, place)
    buffer.preferred_column = column
    return True


def _input_room(columns: int) -> int:
    """Return the width in cells of a row of the input without its margin."""
    return max(columns - len(INPUT_PROMPT), 2)


def _rows_of(content: UIContent, at: int, room: int) -> tuple[str, list[tuple[int, int]]]:
    """Return the drawn text of a buffer line, followed by a space, and the spans of its rows."""
    line = "".join(piece[1] for piece in content.get_line(at))
    return line, row_spans(line, room)


def draw_one_row(buffer: Buffer, label: str, ctx: RenderContext) -> tuple[str, int]:
    """Draw a buffer after a label, with as much text before the cursor as fits; return its column too."""
    room = max(ctx.columns - cell_width(label) - 1, 1)
    before = longest_end(_shown(buffer.document.text_before_cursor), room)
    after = longest_start(_shown(buffer.document.text_after_cursor), room - cell_width(before))
    return ctx.paint("prompt", label) + before + after, cell_width(label) + cell_width(before)


def _shown(text: str) -> str:
    return escape_prose(" ".join(text.split("\n")).expandtabs(CODE_TAB_CELLS))


@lru_cache(maxsize=2048)
def row_spans(line: str, room: int) -> list[tuple[int, int]]:
    """Return (begin, end) of each row of a line: a full row ends after its last space or wide character.

    A word that is longer than a row is broken where the row is full.
    """
    spans = []
    begin = 0
    if line.isascii():
        while len(line) - begin > room:
            end = line.rfind(" ", begin, begin + room) + 1 or begin + room
            spans.append((begin, end))
            begin = end
        return [*spans, (begin, len(line))]
    at = 0
    last_break = 0
    width = 0
    for piece in iter_graphemes(line):
        wide = cell_width(piece)
        if wide > 1:
            last_break = at
        if width + wide > room and at > begin:
            end = last_break if last_break > begin else at
            spans.append((begin, end))
            begin = end
            width = cell_width(line[begin:at])
        at += len(piece)
        width += wide
        if wide > 1 or piece == " ":
            last_break = at
    return [*spans, (begin, at)]


def place_in_rows(line: str, spans: list[tuple[int, int]], at: int) -> tuple[int, int]:
    """Return (row, column) of an index in the line."""
    row = max((number for number, (begin, _) in enumerate(spans) if begin <= at), default=0)
    return row, cell_width(line[spans[row][0] : at])


def _painted(fragments: StyleAndTextTuples, begin: int, end: int, ctx: RenderContext) -> str:
    """Paint a part of a buffer line, each piece in its role."""
    painted = ""
    at = 0
    for style, text, *_ in fragments:
        cut = text[max(begin - at, 0) : max(end - at, 0)]
        at += len(text)
        role = next((_ROLES[name] for name in _class_names(style) if name in _ROLES), None)
        painted += ctx.paint(role, cut) if role and cut else cut
    return painted


def _class_names(style: str) -> list[str]:
    return [word.removeprefix("class:") for word in style.split() if word.startswith("class:")]
