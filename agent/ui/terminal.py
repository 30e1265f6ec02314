"""The terminal of one session: frames go out in one write each, finished text is printed above the live part.

What is live is drawn by prompt_toolkit's renderer at the bottom. To print above it, the live part is
erased, the text written and the live part drawn again, all in one write between the marks of a
synchronised update (DEC mode 2026; terminals that do not know it ignore it). The screen is never cleared.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.key_binding import KeyBindings, KeyPress
from prompt_toolkit.layout import Dimension, FormattedTextControl, Layout, Window
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from .keyboard import keyboard_input
from .terminal_text import RenderContext, Theme, wants_colour, write_fully

BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
PRINT_INTERVAL_S = 0.02  # for which printing is gathered: at most 50 writes a second
ESCAPE_TIMEOUT_S = 0.05  # after which an escape byte that came alone is the key
SEQUENCE_TIMEOUT_S = 0.1  # after which the start of a key sequence is a key of its own
CLOSE_TIMEOUT_S = 5.0  # that the work beside an application may take to end
EXIT_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
TERMINAL_GONE_CODE = 128 + signal.SIGHUP
# Classes of prompt_toolkit for what is laid out by its windows -> (style with colours, without).
WINDOW_STYLES: Mapping[str, tuple[str, str]] = {
    "rule": ("ansibrightblack", ""),
    "prompt": ("bold", "bold"),
    "shell": ("bold ansiyellow", "bold reverse"),
    "chip": ("ansicyan", "underline"),
    "menu.current": ("ansicyan bold", "bold"),
    "menu.about": ("ansibrightblack", ""),
    "hint": ("ansibrightblack", ""),
    "search": ("ansicyan", "bold"),
}


@contextmanager
def signal_handlers(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Handle signals in the running loop."""
    loop = asyncio.get_running_loop()
    for number, handle in handlers.items():
        loop.add_signal_handler(number, handle)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


@contextmanager
def exit_on_signals(leave: Callable[[int], None]) -> Iterator[None]:
    """Call `leave` with the exit code of a signal that ends the program: 128 and its number."""
    with signal_handlers({number: partial(leave, 128 + number) for number in EXIT_SIGNALS}):
        yield


class FrameOutput(Vt100_Output):
    """Writes each flush as one synchronised update, UTF-8 in any locale.

    A terminal that is gone (EIO after a hang-up) swallows what is written.
    """

    _in_frame = _gone = False

    def flush(self) -> None:
        if self._in_frame or not self._buffer:
            return
        text = "".join((BEGIN_UPDATE, *self._buffer, END_UPDATE))
        self._buffer.clear()
        if not self._gone:
            try:
                write_fully(self.fileno(), text.encode("utf-8", "replace"))
            except OSError:
                self._gone = True

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Everything written inside goes out as one update."""
        self._in_frame = True
        try:
            yield
        finally:
            self._in_frame = False
            self.flush()


class LiveScreen:
    """The live part of one application, and what is printed above it. While that is hidden, texts wait.

    `mask` takes out of a text what nobody may see.
    """

    def __init__(self, app: Application[int], output: FrameOutput) -> None:
        self.app = app
        self.mask: Callable[[str], str] = str
        self._output = output
        self._waiting: list[str] = []
        self._print_timer: asyncio.TimerHandle | None = None
        self._printed_at = 0.0
        plain_erase = app.renderer.erase

        def erase(leave_alternate_screen: bool = True) -> None:
            self._blank_rows(app.renderer._cursor_pos.y)
            plain_erase(leave_alternate_screen)

        app.renderer.erase = erase  # type: ignore[method-assign]

    def print_above(self, text: str) -> None:
        """Print finished lines (ANSI, joined by newlines) once, above the live part, soon."""
        self._waiting.append(self.mask(text))
        self._print_soon()

    def print_rest(self) -> None:
        """Print what waits when the live part is no more."""
        if self._print_timer is not None:
            self._print_timer.cancel()
        self.send(self._take())

    def send(self, codes: str) -> None:
        """Write at once, in an update of its own."""
        if codes:
            self._output.write_raw(codes)
            self._output.flush()

    def invalidate(self) -> None:
        """Draw again, soon, and in the same frame print what waits: no frame then lacks finished text."""
        if self._waiting:
            self._print_soon()
        else:
            self.app.invalidate()

    def resize(self) -> None:
        """Draw the live part anew after the terminal changed its size.

        A terminal that reflows has by now broken the rows we drew into more rows than we moved over.
        """
        if self.app._running_in_terminal:
            return
        at, screen = self.app.renderer._cursor_pos, self.app.renderer._last_screen
        up = at.y
        if screen and reflows_rows(os.environ.get("TERM", ""), os.environ.get("XTERM_VERSION", "")):
            up = _rows_above(screen, at, self._output.get_size().columns)
        self.redraw("", up)

    def _print_soon(self) -> None:
        if self._print_timer is None and self.app.is_running:
            loop = asyncio.get_running_loop()
            at = max(self._printed_at + PRINT_INTERVAL_S, loop.time())
            self._print_timer = loop.call_at(at, self._print)

    def _print(self) -> None:
        """Print what waits, if the screen is ours at the moment."""
        self._print_timer = None
        self._printed_at = asyncio.get_running_loop().time()
        if self._waiting and self.app.is_running and not self.app._running_in_terminal:
            self.redraw(self._take())

    def _take(self) -> str:
        text = "".join(piece + "\n" for piece in self._waiting)
        self._waiting.clear()
        return text.replace("\n", "\r\n")

    def redraw(self, above: str = "", up: int | None = None) -> None:
        """Erase the live part, write `above` where it stood, and draw it again from nothing.

        The cursor is `up` rows down in it: as many as when it was drawn, unless the terminal moved it.
        """
        renderer, output = self.app.renderer, self._output
        up = renderer._cursor_pos.y if up is None else up
        with output.frame():
            self._blank_rows(up)
            output.write_raw("\r")
            output.cursor_up(up)
            output.erase_down()
            output.reset_attributes()
            output.enable_autowrap()
            renderer._cursor_pos = Point(x=0, y=0)
            renderer._last_screen = renderer._last_style = None
            output.write_raw(above)
            self.app._redraw()

    def _blank_rows(self, up: int) -> None:
        """Make the rows of the live part blank one by one; the cursor stays in its row, `up` rows down.

        tmux moves what is on the screen into its history when all of it is erased at once.
        """
        screen = self.app.renderer._last_screen
        height = max(screen.height if screen else 0, up + 1)
        output = self._output
        output.write_raw("\r")
        output.cursor_up(up)
        for _ in range(height - 1):
            output.erase_end_of_line()
            output.cursor_down(1)
        output.erase_end_of_line()
        output.cursor_up(height - 1 - up)
        output.cursor_forward(self.app.renderer._cursor_pos.x)


def reflows_rows(term: str, xterm_version: str) -> bool:
    """Whether the terminal breaks long rows anew when it gets narrower: all but the console and xterm do."""
    return not (term == "linux" or xterm_version)


def _rows_above(screen: Screen, at: Point, columns: int) -> int:
    """Rows between the top of the live part and the cursor, after reflow to `columns`."""
    rows = at.x // max(columns, 1)
    for y in range(at.y):
        used = max((x for x, cell in screen.data_buffer[y].items() if cell.char != " "), default=-1) + 1
        rows += max(-(-used // max(columns, 1)), 1)
    return rows


class Terminal(LiveScreen):
    """Owns the screen and its application. `full`: whether outputs are shown in full."""

    def __init__(self, color: str) -> None:
        self.theme = Theme(wants_colour(color, os.environ))
        self.full = False
        colour = self.theme.colour
        styles = {name: coloured if colour else plain for name, (coloured, plain) in WINDOW_STYLES.items()}
        output = FrameOutput(sys.stdout, self.size, term=os.environ.get("TERM"), enable_cpr=False)
        app: Application[int] = Application(
            style=Style.from_dict(styles),
            color_depth=ColorDepth.DEPTH_4_BIT if colour else ColorDepth.DEPTH_1_BIT,
            input=keyboard_input(sys.stdin, self._press),
            output=output,
            erase_when_done=True,
            terminal_size_polling_interval=None,
        )
        app.ttimeoutlen, app.timeoutlen = ESCAPE_TIMEOUT_S, SEQUENCE_TIMEOUT_S
        app._on_resize = self.resize  # type: ignore[method-assign]
        super().__init__(app, output)

    def show(self, layout: Layout, keys: KeyBindings, compose: Callable[[], None]) -> None:
        """Set what the application shows, and its keys. `compose` is called before each drawing."""
        self.app.layout, self.app.key_bindings = layout, keys
        self.app.before_render += lambda _: compose()

    async def run(
        self, work: Callable[[], Coroutine[object, object, None]], leave: Callable[[int], None]
    ) -> int:
        """Run the application, and `work` beside it from the first paint on; returns the exit code.

        An exception of `work` ends the application and is raised here. When the application ends, `work` is
        cancelled and has CLOSE_TIMEOUT_S to end too. `leave` is called with an exit code when the terminal
        is gone.
        """
        tasks: list[asyncio.Task[None]] = []

        def start() -> None:
            tasks.append(asyncio.get_running_loop().create_task(work()))
            tasks[0].add_done_callback(self._exit_with_fault)

        try:
            return await self.app.run_async(pre_run=start, set_exception_handler=False)
        except EOFError:
            leave(TERMINAL_GONE_CODE)
            return TERMINAL_GONE_CODE
        finally:
            if tasks:
                tasks[0].cancel()
                await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT_S)

    def exit(self, code: int) -> None:
        """End the application, unless it has ended."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit(result=code)

    def size(self) -> Size:
        """Rows and columns now; a terminal that does not know is taken for 24 by 80."""
        try:
            columns, rows = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            columns, rows = 0, 0
        return Size(rows=rows or 24, columns=columns or 80)

    def render_context(self) -> RenderContext:
        """How to draw now."""
        return RenderContext(self.size().columns, self.theme, self.full)

    def _press(self, key: KeyPress) -> None:
        self.app.key_processor.feed(key)
        self.app.key_processor.process_keys()

    def _exit_with_fault(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self.app.is_running and not self.app.is_done:
            self.app.exit(exception=error)


def lines_window(source: Callable[[], list[str]], **control: Any) -> Window:
    """A window exactly as high as the lines (ANSI text) it shows; `source` is called at every frame.

    `control` is passed on to its FormattedTextControl.
    """
    drawn: list[tuple[str, StyleAndTextTuples]] = []

    def fragments() -> StyleAndTextTuples:
        text = "\n".join(source())
        if not drawn or drawn[0][0] != text:
            drawn[:] = [(text, to_formatted_text(ANSI(text)))]
        return drawn[0][1]

    shown = FormattedTextControl(fragments, **control)
    return Window(shown, height=lambda: Dimension.exact(len(source())), dont_extend_height=True)
