"""The terminal of one session: each frame is one write, and finished text is printed above the live part.

The live part is at the bottom. A frame writes only the changes since the last one, including finished text,
between the marks of a synchronised update (DEC mode 2026; terminals that do not know it ignore it). The
screen is never cleared.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from prompt_toolkit.application import Application
from prompt_toolkit.cursor_shapes import ModalCursorShapeConfig, SimpleCursorShapeConfig
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.key_binding import KeyBindings, KeyPress
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import Layout
from prompt_toolkit.selection import SelectionType

from agent.keys import KEY_NAMES

from .file_links import shows_links
from .frame_renderer import FrameOutput, FrameRenderer
from .frame_update import Frame
from .keyboard import ESCAPE_TIMEOUT_S, keyboard_input
from .palettes import choose_palette
from .terminal_text import RenderContext, Theme, wants_colour

VIM_MODES = {InputMode.INSERT: "INSERT", InputMode.REPLACE: "REPLACE"}
VISUAL_MODES = {SelectionType.LINES: "VISUAL LINE", SelectionType.BLOCK: "VISUAL BLOCK"}
# tmux resizes its screen immediately, but reports a second change only 0.25 s after the first: a frame drawn
# in between is cut, and its rows are no longer where they seem to be.
SIZE_SETTLE_S = 0.3
CLOSE_TIMEOUT_S = 5.0  # for the work alongside an application to end
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
    """Call `leave` with the exit code of a signal that ends the program: 128 plus its number."""
    with signal_handlers({number: partial(leave, 128 + number) for number in EXIT_SIGNALS}):
        yield


class LiveScreen:
    """The live part of one application, and the text printed above it, which waits while it is hidden.

    `mask` removes secrets from a text.
    """

    def __init__(self, app: Application[int], output: FrameOutput) -> None:
        self.app = app
        self.mask: Callable[[str], str] = str
        self._output = output
        self._renderer = app.renderer = FrameRenderer(output)
        self._print_timer: asyncio.TimerHandle | None = None
        self._printed_at = 0.0
        self._resized: asyncio.TimerHandle | None = None

    def print_above(self, text: str) -> None:
        """Print finished lines (ANSI, joined by newlines) once, above the live part, soon."""
        self._renderer.print_above(self.mask(text))
        self._print_soon()

    def print_rest(self) -> None:
        """Print the waiting text after the live part was removed."""
        if self._print_timer is not None:
            self._print_timer.cancel()
        self.send(self._renderer.take_printed())

    def send(self, codes: str) -> None:
        """Write immediately, in a separate update."""
        if codes:
            self._output.write_raw(codes)
            self._output.flush()

    def invalidate(self) -> None:
        """Redraw soon, and print the waiting text in the same frame, so that no frame lacks it."""
        if self._renderer.prints:
            self._print_soon()
        else:
            self.app.invalidate()

    def resize(self) -> None:
        """Redraw the live part after a resize, once the new size is certain."""
        if self._resized is not None:
            self._resized.cancel()
            self._resized = None
        if "TMUX" in os.environ:
            self._renderer.waits = True
            loop = asyncio.get_running_loop()
            size = self._output.get_size()
            self._resized = loop.call_later(SIZE_SETTLE_S, lambda: self._draw_settled(size))
        else:
            self._draw_resized()

    def _draw_settled(self, reported: Size) -> None:
        if self._output.get_size() != reported:
            self.resize()  # it changed again
            return
        self._renderer.waits = False
        self._draw_resized()

    def _draw_resized(self) -> None:
        with self._output.one_update():
            if self._renderer.is_shown:
                self._renderer.forget_size()
            self._draw_now()

    def redraw(self) -> None:
        """Erase the live part and draw it again from scratch."""
        with self._output.one_update():
            self._renderer.blank()
            self._draw_now()

    def _draw_now(self) -> None:
        """Draw a frame before this returns, or soon while another program uses the screen."""
        if self.app.context is not None and self._renderer.is_shown:
            self.app.context.copy().run(self._renderer.render, self.app, self.app.layout)
        else:
            self.app.invalidate()

    def _print_soon(self) -> None:
        if self._print_timer is None and self.app.is_running:
            loop = asyncio.get_running_loop()
            at = max(self._printed_at + 0.02, loop.time())  # at most 50 writes a second
            self._print_timer = loop.call_at(at, self._print)

    def _print(self) -> None:
        """Print the waiting text, if the screen is ours at the moment."""
        self._print_timer = None
        self._printed_at = asyncio.get_running_loop().time()
        if self._renderer.prints and self.app.is_running:
            self._draw_now()


class Terminal(LiveScreen):
    """The owner of the screen and its application. `full`: outputs are shown in full."""

    def __init__(self, color: str, theme: str = "auto") -> None:
        self._theme_name = theme
        palette = choose_palette(theme, os.environ)
        self.theme = Theme(wants_colour(color, os.environ), palette=palette, links=shows_links(os.environ))
        self.full = False
        self.key_names: Mapping[str, str] = KEY_NAMES
        self.folder = str(Path.cwd()) if self.theme.links else ""
        output = FrameOutput(sys.stdout, self.size, term=os.environ.get("TERM"))
        app: Application[int] = Application(
            input=keyboard_input(
                sys.stdin,
                deliver=self._press,
                note_ground=self._note_ground,
                set_timeout=self._set_timeout,
            ),
            output=output,
            erase_when_done=True,
            reverse_vi_search_direction=True,  # `/` searches back in the history, as in shells
            terminal_size_polling_interval=None,
        )
        app.ttimeoutlen = ESCAPE_TIMEOUT_S
        app.timeoutlen = 0.1  # then the start of a key sequence counts as a key
        super().__init__(app, output)

    def watch_screen(self, on_shown: Callable[[], None], on_hidden: Callable[[], None]) -> None:
        """Call `on_shown` when we get the screen, and `on_hidden` when another program gets it."""
        self._renderer.on_shown = on_shown
        self._renderer.on_hidden = on_hidden

    def show(self, layout: Layout, keys: KeyBindings, compose: Callable[[], Frame]) -> None:
        """Set the keys, the windows that take them, and the function that makes each frame."""
        self.app.layout = layout
        self.app.key_bindings = keys
        self._renderer.compose = compose

    async def run(
        self, work: Callable[[], Coroutine[object, object, None]], leave: Callable[[int], None]
    ) -> int:
        """Run the application, and `work` alongside it from the first paint on; return the exit code.

        An exception of `work` ends the application and is raised here. When the application ends, `work` is
        cancelled and has CLOSE_TIMEOUT_S to end too. `leave` is called with an exit code if the terminal
        is gone.
        """
        tasks: list[asyncio.Task[None]] = []

        async def work_while_shown() -> None:
            # The application has just set its own handler, which would erase the whole frame.
            with signal_handlers({signal.SIGWINCH: self.resize}):
                await work()

        def start() -> None:
            tasks.append(asyncio.get_running_loop().create_task(work_while_shown()))
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
        """Return the current size; 80 by 24 for a terminal that does not know it."""
        try:
            columns, rows = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            columns = 0
            rows = 0
        return Size(rows=rows or 24, columns=columns or 80)

    def render_context(self) -> RenderContext:
        """Return the current context for drawing."""
        return RenderContext(
            columns=self.size().columns,
            theme=self.theme,
            full=self.full,
            keys=self.key_names,
            folder=self.folder,
        )

    def set_theme(self, name: str, is_light: bool | None = None) -> None:
        """Switch to another theme."""
        self._theme_name = name
        self.theme = replace(self.theme, palette=choose_palette(name, os.environ, is_light))
        self.invalidate()

    def ask_ground(self) -> None:
        """Ask the terminal for its background; the response arrives as input. Others ignore the request."""
        if self._theme_name == "auto" and self.theme.colour and os.environ.get("TERM") != "linux":
            self.send("\x1b]11;?\x1b\\")

    def _note_ground(self, is_light: bool) -> None:
        if self._theme_name == "auto":
            self.set_theme("auto", is_light)

    @property
    def vim_mode(self) -> str:
        """Return the name of vim's current mode, "" with other keys."""
        if self.app.editing_mode is not EditingMode.VI:
            return ""
        if (selected := self.app.current_buffer.selection_state) is not None:
            return VISUAL_MODES.get(selected.type, "VISUAL")
        return VIM_MODES.get(self.app.vi_state.input_mode, "NORMAL")

    def set_editing(self, keys: str) -> None:
        """Edit with the keys of "vim" or of "emacs"."""
        wants_vim = keys == "vim"
        self.app.editing_mode = EditingMode.VI if wants_vim else EditingMode.EMACS
        self.app.cursor = ModalCursorShapeConfig() if wants_vim else SimpleCursorShapeConfig()
        self.begin_writing()

    def begin_writing(self) -> None:
        """Take the next key as text, even with the keys of vim."""
        self.app.vi_state.input_mode = InputMode.INSERT

    def _press(self, key: KeyPress) -> None:
        self.app.key_processor.feed(key)
        self.app.key_processor.process_keys()

    def _set_timeout(self, seconds: float) -> None:
        self.app.ttimeoutlen = seconds

    def _exit_with_fault(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self.app.is_running and not self.app.is_done:
            self.app.exit(exception=error)
