"""Let the person choose from a menu: it takes the place of the input, whose draft is kept.

Before a session there is no screen yet: `choose_now` has one of its own for as long as it takes. A question
with few answers hears Enter and digits only after 300 ms, so that a key that was meant for what stood there
before does not answer it.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from prompt_toolkit.data_structures import Point
from prompt_toolkit.filters import Condition, FilterOrBool
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.containers import HSplit, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.layout import Layout

from .labels import RenderContext
from .picker_state import DrawnPicker, PickerState, draw, moved, opened, searched

if TYPE_CHECKING:
    from agent.menus import Menu, MenuRow

QUIET = 0.3  # seconds
FAR = 1 << 30  # rows: to the end
NOTHING = DrawnPicker([], (0, 0), 1)
KEPT: Mapping[str, Callable[[str], str]] = {  # what a key leaves of the words of a search
    "backspace": lambda words: words[:-1],
    "c-w": lambda words: words.rstrip().rpartition(" ")[0],
    "c-u": lambda words: "",
}
SIGNALS = ((signal.SIGTERM, 143), (signal.SIGHUP, 129))


class Picker:
    """Implements ports.Chooser. `state` is the menu on the screen, or None; `drawn` is its last drawing."""

    def __init__(self, changed: Callable[[], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self.state: PickerState | None = None
        self.drawn = NOTHING
        self.changed = changed
        self._monotonic = monotonic
        self._one = asyncio.Lock()
        self._answer: asyncio.Future[MenuRow | None] | None = None
        self._since = 0.0

    async def choose(self, menu: Menu) -> MenuRow | None:
        """Show the menu and wait; cancelling takes it off the screen."""
        async with self._one:
            self._answer = asyncio.get_running_loop().create_future()
            self.state, self._since = opened(menu), self._monotonic()
            self.changed()
            try:
                return await self._answer
            finally:
                self.state, self._answer = None, None
                self.changed()

    def compose(self, look: RenderContext, rows: int) -> None:
        """Draw the menu anew, in at most so many rows; nothing when there is none."""
        self.drawn = draw(self.state, look, rows) if self.state is not None and rows > 0 else NOTHING

    def move(self, by: int) -> None:
        """Mark another row."""
        if self.state is not None:
            self._become(moved(self.state, by))

    def page(self, by: int) -> None:
        """Mark the row so many pages on."""
        self.move(by * max(self.drawn.page - 1, 1))

    def type(self, text: str) -> None:
        """Search for more, or answer a question by its digit."""
        state = self.state
        if state is None:
            return
        if state.menu.filters:
            self._become(searched(state, state.words + " ".join(text.split("\n"))))
        elif (row := state.menu.keyed(text)) is not None:
            self._take(row)

    def erase(self, kept: Callable[[str], str]) -> None:
        """Take something off the words of the search."""
        if self.state is not None and self.state.words:
            self._become(searched(self.state, kept(self.state.words)))

    def enter(self) -> None:
        """Choose the marked row."""
        if self.state is not None and self.state.marked is not None:
            self._take(self.state.marked)

    def cancel(self) -> None:
        """Choose nothing."""
        self._end(None)

    def _take(self, row: MenuRow) -> None:
        calm = self._monotonic() - self._since >= QUIET
        if calm or (self.state is not None and self.state.menu.filters):
            self._end(row)

    def _end(self, row: MenuRow | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(row)

    def _become(self, state: PickerState) -> None:
        self.state = state
        self.changed()


def add_keys(made: KeyBindings, picker: Picker, active: FilterOrBool) -> None:
    """The keys of a menu; while it is there no other key may do anything to the draft."""
    for key, step in (("up", -1), ("c-p", -1), ("s-tab", -1), ("down", 1), ("c-n", 1), ("tab", 1)):
        made.add(key, filter=active)(lambda event, step=step: picker.move(step))
    for key, step in (("home", -FAR), ("end", FAR)):
        made.add(key, filter=active)(lambda event, step=step: picker.move(step))
    for key, step in (("pageup", -1), ("pagedown", 1)):
        made.add(key, filter=active)(lambda event, step=step: picker.page(step))
    for key in ("escape", "c-c", "c-d", "<sigint>"):
        made.add(key, filter=active)(lambda event: picker.cancel())
    made.add("enter", filter=active)(lambda event: picker.enter())
    for key, kept in KEPT.items():
        made.add(key, filter=active)(lambda event, kept=kept: picker.erase(kept))
    made.add(Keys.BracketedPaste, filter=active)(lambda event: picker.type(event.data))

    @made.add(Keys.Any, filter=active)
    def _(event: KeyPressEvent) -> None:
        if not isinstance(event.key_sequence[0].key, Keys):
            picker.type(event.data)


def menu_window(picker: Picker) -> Window:
    """The menu to choose from, as it was composed last; it takes the keys, and shows where one types."""

    def fragments() -> StyleAndTextTuples:
        return to_formatted_text(ANSI("\n".join(picker.drawn.lines)))

    control = FormattedTextControl(
        fragments,
        focusable=True,
        get_cursor_position=lambda: Point(picker.drawn.cursor[1], picker.drawn.cursor[0]),
    )
    return Window(control, height=lambda: Dimension.exact(len(picker.drawn.lines)), dont_extend_height=True)


def choose_now(menu: Menu, color: str) -> MenuRow | None:
    """Let the person choose while no session has the screen. Raises SystemExit when a signal ends it."""
    return asyncio.run(_choose_now(menu, color))


async def _choose_now(menu: Menu, color: str) -> MenuRow | None:
    from .terminal import Terminal

    terminal = Terminal(color)
    picker = Picker(terminal.invalidate)
    keys = KeyBindings()
    add_keys(keys, picker, Condition(lambda: picker.state is not None))
    window = menu_window(picker)
    terminal.build(
        Layout(HSplit([window]), focused_element=window),
        keys,
        lambda: picker.compose(terminal.look(), terminal.size().rows - 1),
    )
    terminal.on_resize(lambda: None)
    chosen: list[MenuRow | None] = []

    async def work() -> None:
        chosen.append(await picker.choose(menu))
        terminal.app.exit(result=0)

    loop, tasks = asyncio.get_running_loop(), []
    for number, code in SIGNALS:
        loop.add_signal_handler(number, partial(terminal.app.exit, result=code))
    try:
        left = await terminal.app.run_async(pre_run=lambda: tasks.append(loop.create_task(work())))
    except EOFError:  # the terminal is gone
        left = 129
    finally:
        for task in tasks:
            task.cancel()
        for number, _ in SIGNALS:
            loop.remove_signal_handler(number)
    if left:
        sys.exit(left)
    return chosen[0]
