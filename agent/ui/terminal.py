"""The terminal of one session: frames go out in one write each, finished text is printed above the live part.

What is live stands at the bottom. A frame writes only what changed since the last one, finished text
included, between the marks of a synchronised update (DEC mode 2026; terminals that do not know it ignore
it). The screen is never cleared.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.key_binding import KeyBindings, KeyPress
from prompt_toolkit.layout import Layout
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import DummyStyle

from .frame_update import Frame, frame_update
from .keyboard import keyboard_input
from .palettes import choose_palette
from .terminal_charset import encode_for_terminal
from .terminal_text import (
    RenderContext,
    Theme,
    painted_width,
    shows_links,
    wants_colour,
    wrap_painted,
    write_fully,
)

BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
PRINT_INTERVAL_S = 0.02  # for which printing is gathered: at most 50 writes a second
ESCAPE_TIMEOUT_S = 0.05  # after which an escape byte that came alone is the key
SEQUENCE_TIMEOUT_S = 0.1  # after which the start of a key sequence is a key of its own
CLOSE_TIMEOUT_S = 5.0  # that the work beside an application may take to end
EXIT_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
TERMINAL_GONE_CODE = 128 + signal.SIGHUP


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
    """Writes each flush as one synchronised update, in the charset of the locale.

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
                text = text.replace("\r\n", "\n") if adds_returns(self.fileno()) else text
                write_fully(self.fileno(), encode_for_terminal(text, os.environ))
            except OSError:
                self._gone = True

    @contextmanager
    def one_update(self) -> Iterator[None]:
        """Everything written inside goes out as one update."""
        self._in_frame = True
        try:
            yield
        finally:
            self._in_frame = False
            self.flush()


def adds_returns(descriptor: int) -> bool:
    """Whether the terminal's driver sends a carriage return before each line feed by itself."""
    try:
        output_modes = int(termios.tcgetattr(descriptor)[1])
    except termios.error:
        return False
    return bool(output_modes & termios.OPOST and output_modes & termios.ONLCR)


class FrameRenderer(Renderer):
    """Stands in for prompt_toolkit's renderer: draws frames that are composed as rows, not its windows.

    `compose` makes the next frame. Finished rows are printed above it, once, and are no part of it any more.
    """

    def __init__(self, output: FrameOutput) -> None:
        self.compose: Callable[[], Frame] = Frame
        self.frame = Frame()
        self._size = output.get_size()
        self._printed: list[str] = []
        super().__init__(DummyStyle(), output)

    def print_above(self, text: str) -> None:
        """Have finished lines printed with the next frame."""
        self._printed += text.split("\n")

    @property
    def prints(self) -> bool:
        """Whether the next frame prints anything."""
        return bool(self._printed)

    def take_printed(self) -> str:
        """What was to be printed, for a terminal without frames."""
        text = "".join(line + "\r\n" for line in self._printed)
        self._printed.clear()
        return text

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        """Write what turns the last frame into the next, in one update."""
        if not self._bracketed_paste_enabled:
            self.output.enable_bracketed_paste()
            self.output.disable_autowrap()
            self._bracketed_paste_enabled = True
        size = self.output.get_size()
        if size != self._size:
            self.forget_size()
        self._size = size
        frame = self.compose()
        # a line may have been drawn for a wider screen
        printed = [row for line in self._printed for row in _rows_of(line, size.columns)]
        self._printed.clear()
        if update := frame_update(self.frame, frame, printed, size.rows):
            self.output.write_raw(update)
        self.frame = frame
        self.output.flush()
        app.layout.visible_windows = [*layout.find_all_windows()]

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Take the frame off the screen; the cursor is then where it began."""
        self.blank()
        self.output.enable_autowrap()
        self.output.flush()
        self.reset()

    def reset(self, _scroll: bool = False, leave_alternate_screen: bool = True) -> None:
        self.frame = Frame()
        super().reset(_scroll, leave_alternate_screen)

    def blank(self, up: int | None = None) -> None:
        """Make the rows of the frame blank one by one, and forget it; the cursor is `up` rows down in it.

        tmux moves what is on the screen into its history when all of it is erased at once.
        """
        up = self.frame.cursor[0] if up is None else up
        height = max(len(self.frame.rows), up + 1)
        self.output.write_raw("\r")
        self.output.cursor_up(up)
        for _ in range(height - 1):
            self.output.erase_end_of_line()
            self.output.cursor_down(1)
        self.output.erase_end_of_line()
        self.output.cursor_up(height - 1)
        self.output.erase_down()
        self.frame = Frame()

    def forget_size(self) -> None:
        """The terminal has another size: blank the frame, so that the next one is drawn from nothing.

        A terminal that reflows has by now broken the rows we drew into more rows than we moved over.
        """
        columns = max(self.output.get_size().columns, 1)
        row, column = self.frame.cursor
        broken = (-(-painted_width(line) // columns) for line in self.frame.rows[:row])
        reflows = reflows_rows(os.environ.get("TERM", ""), os.environ.get("XTERM_VERSION", ""))
        self.blank(column // columns + sum(max(rows, 1) for rows in broken) if reflows else None)


def _rows_of(line: str, columns: int) -> list[str]:
    return [line] if len(line) <= columns else wrap_painted(line, columns)


class LiveScreen:
    """The live part of one application, and what is printed above it. While that is hidden, texts wait.

    `mask` takes out of a text what nobody may see.
    """

    def __init__(self, app: Application[int], output: FrameOutput) -> None:
        self.app = app
        self.mask: Callable[[str], str] = str
        self._output = output
        self._renderer = app.renderer = FrameRenderer(output)
        self._print_timer: asyncio.TimerHandle | None = None
        self._printed_at = 0.0

    def print_above(self, text: str) -> None:
        """Print finished lines (ANSI, joined by newlines) once, above the live part, soon."""
        self._renderer.print_above(self.mask(text))
        self._print_soon()

    def print_rest(self) -> None:
        """Print what waits when the live part is no more."""
        if self._print_timer is not None:
            self._print_timer.cancel()
        self.send(self._renderer.take_printed())

    def send(self, codes: str) -> None:
        """Write at once, in an update of its own."""
        if codes:
            self._output.write_raw(codes)
            self._output.flush()

    def invalidate(self) -> None:
        """Draw again, soon, and in the same frame print what waits: no frame then lacks finished text."""
        if self._renderer.prints:
            self._print_soon()
        else:
            self.app.invalidate()

    def resize(self) -> None:
        """Draw the live part anew after the terminal changed its size."""
        if not self.app._running_in_terminal:
            with self._output.one_update():
                self._renderer.forget_size()
                self.app._redraw()

    def redraw(self) -> None:
        """Erase the live part and draw it again from nothing."""
        with self._output.one_update():
            self._renderer.blank()
            self.app._redraw()

    def _print_soon(self) -> None:
        if self._print_timer is None and self.app.is_running:
            loop = asyncio.get_running_loop()
            at = max(self._printed_at + PRINT_INTERVAL_S, loop.time())
            self._print_timer = loop.call_at(at, self._print)

    def _print(self) -> None:
        """Print what waits, if the screen is ours at the moment."""
        self._print_timer = None
        self._printed_at = asyncio.get_running_loop().time()
        if self._renderer.prints and self.app.is_running:
            self.app._redraw()


def reflows_rows(term: str, xterm_version: str) -> bool:
    """Whether the terminal breaks long rows anew when it gets narrower: all but the console and xterm do."""
    return not (term == "linux" or xterm_version)


class Terminal(LiveScreen):
    """Owns the screen and its application. `full`: whether outputs are shown in full."""

    def __init__(self, color: str) -> None:
        palette = choose_palette("auto", os.environ)
        self.theme = Theme(wants_colour(color, os.environ), palette=palette, links=shows_links(os.environ))
        self.full = False
        self.folder = str(Path.cwd()) if self.theme.links else ""
        output = FrameOutput(sys.stdout, self.size, term=os.environ.get("TERM"), enable_cpr=False)
        app: Application[int] = Application(
            input=keyboard_input(sys.stdin, self._press),
            output=output,
            erase_when_done=True,
            terminal_size_polling_interval=None,
        )
        app.ttimeoutlen, app.timeoutlen = ESCAPE_TIMEOUT_S, SEQUENCE_TIMEOUT_S
        app._on_resize = self.resize  # type: ignore[method-assign]
        super().__init__(app, output)

    def show(self, layout: Layout, keys: KeyBindings, compose: Callable[[], Frame]) -> None:
        """Set the keys, the windows that take them, and what makes each frame."""
        self.app.layout, self.app.key_bindings = layout, keys
        self._renderer.compose = compose

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
        return RenderContext(self.size().columns, self.theme, self.full, folder=self.folder)

    def _press(self, key: KeyPress) -> None:
        self.app.key_processor.feed(key)
        self.app.key_processor.process_keys()

    def _exit_with_fault(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self.app.is_running and not self.app.is_done:
            self.app.exit(exception=error)
