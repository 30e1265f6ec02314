"""Write frames to the terminal, each in one synchronised update, in the charset of the locale.

prompt_toolkit calls the renderer when it would draw its windows.
"""

from __future__ import annotations

import os
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.cursor_shapes import CursorShape
from prompt_toolkit.data_structures import Size
from prompt_toolkit.layout import Layout
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import DummyStyle

from .frame_update import Frame, frame_update
from .standard_streams import encode_for_terminal
from .terminal_text import painted_width, wrap_painted, write_fully

BEGIN_UPDATE = "\x1b[?2026h"
END_UPDATE = "\x1b[?2026l"


class FrameOutput(Vt100_Output):
    """An output that writes each flush as one synchronised update, in the charset of the locale.

    Output to a terminal that is gone (EIO after a hang-up) is dropped.
    """

    def __init__(self, stdout: TextIO, get_size: Callable[[], Size], term: str | None) -> None:
        super().__init__(stdout, get_size, term=term, enable_cpr=False)
        self._written: list[str] = []
        self._in_frame = False
        self._gone = False

    def write_raw(self, data: str) -> None:
        self._written.append(data)

    def write(self, data: str) -> None:
        """Write text without its control sequences."""
        self.write_raw(data.replace("\x1b", "?"))

    def flush(self) -> None:
        if self._in_frame or not self._written:
            return
        text = "".join((BEGIN_UPDATE, *self._written, END_UPDATE))
        self._written.clear()
        if not self._gone:
            try:
                text = text.replace("\r\n", "\n") if adds_returns(self.fileno()) else text
                write_fully(self.fileno(), encode_for_terminal(text, os.environ))
            except OSError:
                self._gone = True

    @contextmanager
    def one_update(self) -> Iterator[None]:
        """Send everything written inside as one update."""
        self._in_frame = True
        try:
            yield
        finally:
            self._in_frame = False
            self.flush()


def adds_returns(descriptor: int) -> bool:
    """Return whether the terminal's driver adds a carriage return before each line feed."""
    try:
        output_modes = int(termios.tcgetattr(descriptor)[1])
    except termios.error:
        return False
    return bool(output_modes & termios.OPOST and output_modes & termios.ONLCR)


class FrameRenderer(Renderer):
    """A replacement for prompt_toolkit's renderer that draws frames of rows instead of windows.

    `compose` makes the next frame. Finished rows are printed above it once, and then no longer belong to it.
    `on_shown` is called before the first frame, and before the first one after another program used the
    screen; `on_hidden` when another program gets the screen, or at the end.
    """

    def __init__(self, output: FrameOutput) -> None:
        self.compose: Callable[[], Frame] = Frame
        self.waits = False  # whether the size of the terminal is unknown at the moment
        self.on_shown: Callable[[], None] = lambda: None
        self.on_hidden: Callable[[], None] = lambda: None
        self.frame = Frame()
        self._size = output.get_size()
        self.is_shown = False  # whether the screen is ours: false before the first frame and in an editor
        self._printed: list[str] = []
        self._shape: CursorShape | None = None  # None: the terminal's own
        super().__init__(DummyStyle(), output)

    def print_above(self, text: str) -> None:
        """Print finished lines with the next frame."""
        self._printed += text.split("\n")

    @property
    def prints(self) -> bool:
        """Return whether the next frame prints anything."""
        return bool(self._printed)

    def take_printed(self) -> str:
        """Return and remove the lines that wait to be printed, for a terminal without frames."""
        text = "".join(line + "\r\n" for line in self._printed)
        self._printed.clear()
        return text

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        """Turn the last frame into the next one, in one update."""
        if self.waits:
            return
        if not self.is_shown:
            self.output.enable_bracketed_paste()
            self.output.disable_autowrap()
            self.is_shown = True
            self.on_shown()
        size = self.output.get_size()
        if size != self._size:
            self.forget_size()
        self._size = size
        frame = self.compose()
        # a line may have been drawn for a wider screen
        printed = [row for line in self._printed for row in _rows_of(line, size.columns)]
        self._printed.clear()
        if update := frame_update(self.frame, frame, printed=printed, height=size.rows):
            self.output.write_raw(update)
        self.frame = frame
        if (shape := app.cursor.get_cursor_shape(app)) != self._shape:
            self.output.set_cursor_shape(shape)
            self._shape = shape
        self.output.flush()
        app.layout.visible_windows = [*layout.find_all_windows()]

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase the frame; the cursor ends at its start."""
        self.blank()
        self.output.enable_autowrap()
        self.output.flush()
        self.reset()

    def reset(self, _scroll: bool = False, leave_alternate_screen: bool = True) -> None:
        self.frame = Frame()
        self._shape = None
        if self.is_shown:
            self.is_shown = False
            self.on_hidden()
            self.output.disable_bracketed_paste()
        super().reset(_scroll, leave_alternate_screen)

    def blank(self, up: int | None = None, height: int = 0) -> None:
        """Blank the rows of the frame one by one, at least `height`, and forget it.

        The cursor is in its row `up`. tmux moves the screen into its history when all of it is erased at
        once. A terminal that became shorter may have dropped rows below the cursor, so the way back up is
        shorter than the frame is high.
        """
        up = self.frame.cursor[0] if up is None else up
        height = max(len(self.frame.rows), up + 1, height)
        self.output.write_raw("\r")
        self.output.cursor_up(up)
        self.output.write_raw("\x1b7")  # DECSC: save the cursor
        for _ in range(height - 1):
            self.output.erase_end_of_line()
            self.output.cursor_down(1)
        self.output.erase_end_of_line()
        self.output.write_raw("\x1b8")  # DECRC: restore the cursor
        self.output.erase_down()
        self.frame = Frame()

    def forget_size(self) -> None:
        """Blank the frame after a resize, so that the next one is drawn from scratch.

        A terminal that reflows has by now broken the rows of the frame into more rows than were drawn.
        """
        if not reflows_rows(os.environ.get("TERM", ""), os.environ.get("XTERM_VERSION", "")):
            self.blank()
            return
        size = self.output.get_size()
        columns = max(size.columns, 1)
        row, column = self.frame.cursor
        broken = (-(-painted_width(line) // columns) for line in self.frame.rows[:row])
        # Rows below the cursor are broken too: they may reach the end of the screen. Those that scrolled away
        # at its top are in the history of the terminal, where nothing can be erased.
        self.blank(column // columns + sum(max(rows, 1) for rows in broken), height=size.rows)


def _rows_of(line: str, columns: int) -> list[str]:
    return [line] if len(line) <= columns else wrap_painted(line, columns)


def reflows_rows(term: str, xterm_version: str) -> bool:
    """Return whether a narrower terminal breaks long rows, as all except the console and xterm do."""
    return not (term == "linux" or xterm_version)
