"""Write to the terminal: one frame is one write, and finished text is printed above the live part.

What is live is drawn by prompt_toolkit's renderer at the bottom. To print above it, the live part is
erased, the text written and the live part drawn again, all in one write between the marks of a
synchronised update (DEC mode 2026; terminals that do not know it ignore it). The screen is never cleared.
"""

from __future__ import annotations

import io
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.screen import Screen

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"


class TerminalWriter(io.TextIOBase):
    """The terminal's descriptor as the stream that prompt_toolkit writes to. UTF-8 in any locale.

    A terminal that is gone (EIO after a hang-up) swallows what is written: `gone` tells.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._parts: list[str] | None = None
        self.gone = False

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, text: str) -> int:
        if self._parts is not None:
            self._parts.append(text)
        elif text:
            self._push(f"{BEGIN}{text}{END}")
        return len(text)

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Everything written inside goes out as one frame."""
        outer, self._parts = self._parts, []
        try:
            yield
        finally:
            text, self._parts = "".join(self._parts), outer
            self.write(text)

    def _push(self, text: str) -> None:
        rest = memoryview(text.encode("utf-8", "replace"))
        while rest and not self.gone:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError:
                self.gone = True


class Printer:
    """Prints above the live part of one application. What comes while it is hidden waits."""

    def __init__(self, app: Application[int], paper: TerminalWriter, reflows: bool) -> None:
        self._app = app
        self._paper = paper
        self._reflows = reflows
        self._waiting: list[str] = []
        plain_erase = app.renderer.erase

        def erase(leave_alternate_screen: bool = True) -> None:
            self._blank(app.renderer._cursor_pos.y)
            plain_erase(leave_alternate_screen)

        app.renderer.erase = erase  # type: ignore[method-assign]

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def add(self, text: str) -> None:
        """Print finished lines (ANSI, joined by newlines) once, above, at the next `flush`."""
        self._waiting.append(text)

    def flush(self) -> None:
        """Print what waits, if the screen is ours at the moment."""
        app = self._app
        if not self._waiting or not app.is_running or app._running_in_terminal:
            return
        text = self._take()
        with self._paper.frame():
            at = app.renderer._cursor_pos
            self._erase(at.y)
            app.output.write_raw(text)
            app.output.flush()
            app._redraw()

    def rest(self) -> None:
        """Print what waits when the live part is no more."""
        if self._waiting:
            self._paper.write(self._take())

    def resize(self) -> None:
        """Draw the live part anew after the terminal changed its size.

        A terminal that reflows has by now broken the rows we drew into more rows than we moved over.
        """
        app = self._app
        if app._running_in_terminal:
            return
        columns = app.output.get_size().columns
        at, screen = app.renderer._cursor_pos, app.renderer._last_screen
        up = _rows_above(screen, at, columns) if self._reflows and screen else at.y
        with self._paper.frame():
            self._erase(up)
            app._redraw()

    def redraw(self) -> None:
        """Draw the live part from nothing, where it stands."""
        with self._paper.frame():
            self._erase(self._app.renderer._cursor_pos.y)
            self._app._redraw()

    def _take(self) -> str:
        text = "".join(piece + "\n" for piece in self._waiting)
        self._waiting.clear()
        return text.replace("\n", "\r\n")

    def _blank(self, up: int) -> None:
        """Make the rows of the live part blank one by one; the cursor stays in its row.

        tmux moves what is on the screen into its history when all of it is erased at once.
        """
        screen = self._app.renderer._last_screen
        height = max(screen.height if screen else 0, up + 1)
        output = self._app.output
        output.write_raw("\r")
        output.cursor_up(up)
        for _ in range(height - 1):
            output.erase_end_of_line()
            output.cursor_down(1)
        output.erase_end_of_line()
        output.cursor_up(height - 1 - up)
        output.cursor_forward(self._app.renderer._cursor_pos.x)

    def _erase(self, up: int) -> None:
        renderer, output = self._app.renderer, self._app.output
        self._blank(up)
        output.write_raw("\r")
        output.cursor_up(up)
        output.erase_down()
        output.reset_attributes()
        output.enable_autowrap()
        output.flush()
        renderer._cursor_pos = Point(x=0, y=0)
        renderer._last_screen = None
        renderer._last_style = None


def reflows(term: str, xterm_version: str) -> bool:
    """Whether the terminal breaks long rows anew when it gets narrower: all but the console and xterm do."""
    return not (term == "linux" or xterm_version)


def _rows_above(screen: Screen, at: Point, columns: int) -> int:
    """Rows between the top of the live part and the cursor, after reflow to `columns`."""
    rows = at.x // max(columns, 1)
    for y in range(at.y):
        used = max((x for x, cell in screen.data_buffer[y].items() if cell.char != " "), default=-1) + 1
        rows += max(-(-used // max(columns, 1)), 1)
    return rows
