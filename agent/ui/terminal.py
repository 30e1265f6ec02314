"""The terminal of one session: the application, its frame-by-frame drawing, and printing above it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import TextIO, cast

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.layout.layout import Layout
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from .keyboard import keyboard
from .labels import RenderContext
from .terminal_writer import Printer, TerminalWriter, reflows
from .theme import PLAIN_STYLES, STYLES, Theme, wants_colour

FRAME = 0.02  # seconds for which printing is gathered: at most 50 writes a second
ESCAPE = 0.05  # seconds after which an escape byte that came alone is the key
SEQUENCE = 0.1  # seconds after which the start of a key sequence is a key of its own


class Terminal:
    """Owns the screen. `full` tells whether outputs are shown whole."""

    def __init__(self, color: str) -> None:
        self.theme = Theme(wants_colour(color, os.environ, True))
        self.full = False
        self.paper = TerminalWriter(sys.stdout.fileno())
        self._look: RenderContext | None = None
        self._printing: asyncio.TimerHandle | None = None
        self._printed_at = 0.0
        self.app: Application[int]
        self._printer: Printer

    def build(self, layout: Layout, keys: KeyBindings, frame: Callable[[], None]) -> None:
        """Make the application. `frame` is called before each drawing."""
        depth = ColorDepth.DEPTH_4_BIT if self.theme.colour else ColorDepth.DEPTH_1_BIT
        output = Vt100_Output(
            cast(TextIO, self.paper),
            self.size,
            term=os.environ.get("TERM"),
            default_color_depth=depth,
            enable_cpr=False,
        )
        self.app = Application(
            layout=layout,
            key_bindings=keys,
            style=Style.from_dict(dict(STYLES if self.theme.colour else PLAIN_STYLES)),
            color_depth=depth,
            input=keyboard(sys.stdin, self._press),
            output=output,
            erase_when_done=True,
            terminal_size_polling_interval=None,
            before_render=lambda _: frame(),
        )
        self.app.ttimeoutlen, self.app.timeoutlen = ESCAPE, SEQUENCE
        whole = reflows(os.environ.get("TERM", ""), os.environ.get("XTERM_VERSION", ""))
        self._printer = Printer(self.app, self.paper, whole)

    def on_resize(self, also: Callable[[], None]) -> None:
        """Redraw when the size changes, after `also`."""

        def resized() -> None:
            also()
            self._printer.resize()

        self.app._on_resize = resized  # type: ignore[method-assign]

    def size(self) -> Size:
        """Rows and columns now; a terminal that does not know is taken for 24 by 80."""
        try:
            columns, rows = os.get_terminal_size(self.paper.fileno())
        except OSError:
            columns, rows = 0, 0
        return Size(rows=rows or 24, columns=columns or 80)

    def look(self) -> RenderContext:
        """How to draw now."""
        columns = self.size().columns
        if self._look is None or (self._look.columns, self._look.full) != (columns, self.full):
            self._look = RenderContext(columns, self.theme, self.full)
        return self._look

    def above(self, text: str) -> None:
        """Print finished lines above, soon."""
        self._printer.add(text)
        self._print_soon()

    def send(self, codes: str) -> None:
        """Send codes that draw nothing, at once and on their own."""
        self.paper.write(codes)

    def redraw(self) -> None:
        self._printer.redraw()

    def invalidate(self) -> None:
        """Draw again, soon; what could not be printed before is tried again."""
        self.app.invalidate()
        if self._printer.waits:
            self._print_soon()

    def rest(self) -> None:
        """Print what is left when the live part is gone."""
        if self._printing is not None:
            self._printing.cancel()
        self._printer.rest()

    def _print_soon(self) -> None:
        if self._printing is None and self.app.is_running:
            loop = asyncio.get_running_loop()
            self._printing = loop.call_at(max(self._printed_at + FRAME, loop.time()), self._print)

    def _print(self) -> None:
        self._printing = None
        self._printed_at = asyncio.get_running_loop().time()
        self._printer.flush()

    def _press(self, key: KeyPress) -> None:
        self.app.key_processor.feed(key)
        self.app.key_processor.process_keys()
