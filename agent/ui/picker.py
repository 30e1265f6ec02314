"""Choose from a menu, which replaces the input and keeps its draft.

The menu is pure data: keys make a new state, and a state is drawn as lines. Before a session there is no
screen yet, so `run_picker` opens one for the menu. A question with few answers takes Enter and digits only
after a pause, so that a key that was meant for the input does not answer it. Text that was typed while a
menu appeared unasked goes into the input when the menu closes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from prompt_toolkit.filters import Condition, FilterOrBool
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from wcwidth import iter_graphemes_reverse

from agent.menus import Menu, MenuRow

from .frame_update import Frame
from .terminal import Terminal, exit_on_signals
from .terminal_text import (
    RenderContext,
    cell_width,
    clip,
    clip_painted,
    hang,
    longest_end,
    one_line,
    prose_line,
    typed_line,
    wrap,
)

MARKER = "❯ "
SEARCH_LABEL = "search: "
FACT_INDENT = "    "
MAX_QUESTION_LINES = 4
ANSWER_DELAY_S = 0.3  # after a question appeared, before it can be answered; twice that after other keys
TO_THE_END = 1 << 30  # rows
ERASING_KEYS: Mapping[str, Callable[[str], str]] = {  # key -> the search words after it
    "backspace": lambda words: words.removesuffix(next(iter_graphemes_reverse(words), "")),
    "c-w": lambda words: words.rstrip().rpartition(" ")[0],
}


class PickerState(Struct, frozen=True):
    """The menu, the search words, and the index of the selected row among the rows found.

    At a question, `words` are text for the input.
    """

    menu: Menu
    found: tuple[int, ...]  # indexes in the menu of the rows that match the words
    words: str = ""
    at: int = 0

    @property
    def marked(self) -> MenuRow | None:
        return self.menu.rows[self.found[self.at]] if self.found else None

    @property
    def for_input(self) -> str:
        """Return the text that was not meant for the menu."""
        if self.menu.filters and (self.found or not self.menu.appears_unasked):
            return ""
        return self.words if self.words.strip() else ""


class DrawnPicker(Struct, frozen=True):
    """Lines to show, the cursor as (line, character), and the number of rows in a page."""

    lines: list[str]
    cursor: tuple[int, int]
    page: int


NOT_DRAWN = DrawnPicker(lines=[], cursor=(0, 0), page=1)


def search_menu(menu: Menu, words: str = "") -> PickerState:
    """Return the menu with only the rows that contain all words, the first one selected."""
    wanted = words.casefold().split()
    found = (place for place, row in enumerate(menu.rows) if _holds(row, wanted))
    return PickerState(menu, found=tuple(found), words=words)


def move_mark(state: PickerState, by: int) -> PickerState:
    """Select another row, at most the first or the last."""
    return replace(state, at=max(0, min(state.at + by, len(state.found) - 1)))


def _holds(row: MenuRow, wanted: list[str]) -> bool:
    text = "\n".join((row.title, row.more, row.value, f"#{row.key}", *row.facts)).casefold() if wanted else ""
    return all(word in text for word in wanted)


def draw_picker(state: PickerState, ctx: RenderContext, rows: int) -> DrawnPicker:
    """Draw the menu in at most `rows` lines, which always include the selected row."""
    head, cursor = _head(state, ctx)
    foot = [_key_hint(state.menu, ctx)]
    if state.for_input and not state.menu.filters:
        label = "for the input: "
        foot = [ctx.clipped("dim", label + longest_end(typed_line(state.words), ctx.columns - len(label)))]
    if rows < len(head) + len(foot) + 2:
        foot = []
    if rows < len(head) + 1:
        kept = head[-1:] if state.menu.filters else head[:1]
        head = kept if rows > 1 else []
        cursor = (0, cursor[1] if rows > 1 else 0)
    body, page = _body(state, ctx, max(rows - len(head) - len(foot), 1))
    blank_lines = 3
    if foot and _lines_of_all(state, ctx, rows) + len(head) + len(foot) + blank_lines <= rows:
        head = ["", *head, ""]
        foot = ["", *foot]
        cursor = (cursor[0] + 1, cursor[1])
    lines = [clip_painted(line, ctx.columns) for line in (*head, *body, *foot)]
    return DrawnPicker(lines=lines, cursor=cursor, page=page)


def _key_hint(menu: Menu, ctx: RenderContext) -> str:
    if menu.switches:
        long = "Enter or Space to toggle · Esc to cancel · type to search"
        return ctx.hint(long, "Enter or Space · Esc to cancel")
    if menu.filters:
        return ctx.hint("Enter to choose · Esc to cancel · type to search", "type to search · Enter · Esc")
    return ctx.hint("Enter or a digit to choose · Esc to cancel", "Enter or a digit · Esc")


def _lines_of_all(state: PickerState, ctx: RenderContext, most: int) -> int:
    """Return the number of lines of the whole menu without a search, counting at most `most` rows."""
    full_menu = search_menu(state.menu)
    return sum(len(_row(full_menu, at, ctx, facts=True)) for at in range(min(len(full_menu.found), most)))


def _head(state: PickerState, ctx: RenderContext) -> tuple[list[str], tuple[int, int]]:
    """Draw the title and the search line; return the cursor's (row, column) too."""
    title = one_line(state.menu.title)
    if not state.menu.filters:  # a question has no search line
        return ctx.wrapped("bold", title)[:MAX_QUESTION_LINES], (0, 0)
    goes = "move it to the input" if state.menu.appears_unasked else "clear"
    none = f"  no match, Ctrl-U to {goes}" if ctx.columns >= 60 else "  no match"
    place = f"  {state.at + 1} of {len(state.found)}" if state.found else none
    label = SEARCH_LABEL if ctx.columns >= len(SEARCH_LABEL) + len(place) + 4 else ""
    room = max(ctx.columns - len(label) - len(place) - 1, 1)
    typed = longest_end(typed_line(state.words), room)
    search = ctx.paint("accent", label) + typed + " " + ctx.paint("dim", place)
    titles = ctx.wrapped("bold", title)[:MAX_QUESTION_LINES]
    return [*titles, search], (len(titles), len(label) + len(typed))


def _body(state: PickerState, ctx: RenderContext, room: int) -> tuple[list[str], int]:
    """Draw the selected row and as many rows around it as fit; return their number too."""
    if not state.found:
        return [], 1
    facts = room >= 8  # on a shorter screen rows show only their titles
    low = high = state.at
    lines = _row(state, low, ctx, facts)[:room]
    grows = True
    while grows:
        grows = False
        for at in (high + 1, low - 1):
            more = _row(state, at, ctx, facts) if 0 <= at < len(state.found) else []
            if more and len(lines) + len(more) <= room:
                lines = [*lines, *more] if at > high else [*more, *lines]
                low = min(low, at)
                high = max(high, at)
                grows = True
    return lines, high - low + 1


def _row(state: PickerState, at: int, ctx: RenderContext, facts: bool) -> list[str]:
    """Draw one of the rows found. The selected one shows all of its facts, others those that fit."""
    place = state.found[at]
    marked = at == state.at
    row = state.menu.rows[place]
    room = max(ctx.columns - len(MARKER), 1)
    title = (prose_line if state.menu.filters else one_line)(row.title)
    blank = " " * len(MARKER)
    if state.menu.filters:
        key = f"#{one_line(row.key)}  " if row.key else ""
        titles = [clip(key + (title or "(empty)"), room)]
    else:
        titles = wrap(f"{state.menu.key_of(place)} {title}", room)
    lines = hang(titles, first=MARKER if marked else blank, others=blank)
    if marked:
        lines = [ctx.paint("accent", line) for line in lines]
    if facts and row.facts:
        inner = max(ctx.columns - len(FACT_INDENT), 2)
        joined = list(_joined([one_line(fact) for fact in row.facts], inner))
        shown = [clip(line, inner) for line in joined[:1]]
        if marked:
            shown = [part for line in joined for part in wrap(line, inner)]
        lines += [ctx.paint("dim", FACT_INDENT + line) for line in shown]
    return lines


def _joined(facts: list[str], room: int) -> Iterator[str]:
    """Join the facts to lines that are as full as possible."""
    line = ""
    for fact in facts:
        longer = f"{line} · {fact}" if line else fact
        if line and cell_width(longer) > room:
            yield line
            longer = fact
        line = longer
    if line:
        yield line


class EarlyDigit(NamedTuple):
    """A digit, pressed once or more: it answers with `row` when the timer fires, or else begins a text."""

    row: MenuRow
    text: str
    timer: asyncio.TimerHandle


class Picker:
    """A ports.Chooser. `state` is the menu on the screen, or None; `drawn` is its last drawing.

    `on_change` is called when a menu appears or disappears; keys redraw the screen anyway. A question may
    appear while the user types a prompt: keys of a text do not answer it, and `give_back` gets the text.

    Before a session, `digit_pause_s` is set: a prompt may begin with a digit, so one answers only if no other
    character follows it in that time.
    """

    def __init__(
        self, on_change: Callable[[], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.state: PickerState | None = None
        self.drawn = NOT_DRAWN
        self.on_change = on_change
        self.give_back: Callable[[str], object] = lambda text: None
        self.digit_pause_s = 0.0
        self._digit: EarlyDigit | None = None
        self._one_at_a_time = asyncio.Lock()
        self._answer: asyncio.Future[MenuRow | None] | None = None
        self._monotonic = monotonic
        self._listens_at = 0.0  # when a question takes answers

    async def choose(self, menu: Menu) -> MenuRow | None:
        """Show the menu and wait; cancelling removes it from the screen."""
        async with self._one_at_a_time:
            self._answer = asyncio.get_running_loop().create_future()
            self.state = move_mark(search_menu(menu), menu.at)
            self._listens_at = self._monotonic() + ANSWER_DELAY_S
            self.on_change()
            try:
                return await self._answer
            finally:
                self._take_digit()
                self._give_back()
                self.state = None
                self._answer = None
                self.on_change()

    def compose(self, ctx: RenderContext, rows: int) -> None:
        """Draw the menu in at most `rows` lines; nothing without a menu."""
        self.drawn = draw_picker(self.state, ctx, rows) if self.state is not None and rows > 0 else NOT_DRAWN

    def move(self, by: int) -> None:
        """Select another row."""
        if self.state is not None:
            self.state = move_mark(self.state, by)

    def page(self, by: int) -> None:
        """Select the row `by` pages further."""
        self.move(by * max(self.drawn.page - 1, 1))

    def type(self, text: str) -> None:
        """Extend the search, answer a question by a digit, or toggle a row by the space bar."""
        state = self.state
        if state is None:
            return
        if state.menu.switches and text == " ":
            self.enter()
        elif state.menu.filters:
            self.state = search_menu(state.menu, state.words + text)
        else:
            self._type_at_question(state, text)

    def _type_at_question(self, state: PickerState, text: str) -> None:
        """Answer by a digit. Other text is for the input, and so is a digit that comes too early.

        Only text restarts the pause, so a digit that is pressed again and again answers after it.
        """
        if (early := self._digit) is not None and not text.strip(early.text):
            self._digit = EarlyDigit(early.row, text=early.text + text, timer=early.timer)
            return
        if digit := self._take_digit():
            state = replace(state, words=state.words + digit.text)
        row = state.menu.row_for_key(text)
        is_repeated = row is not None and not state.words.strip(text)
        if row is not None and self._is_settled and digit is None:
            self.state = replace(state, words="") if is_repeated else state
            self._answer_with(row, text)
            return
        self.state = replace(state, words=state.words + text)
        if not is_repeated:
            self._listens_at = self._monotonic() + 2 * ANSWER_DELAY_S

    def _answer_with(self, row: MenuRow, digit: str) -> None:
        """End with the row of a digit, after the pause in which it may become the start of a text."""
        if not self.digit_pause_s:
            self.end(row)
            return
        timer = asyncio.get_running_loop().call_later(self.digit_pause_s, self.end, row)
        self._digit = EarlyDigit(row, text=digit, timer=timer)

    def _take_digit(self) -> EarlyDigit | None:
        """Return the digit that has not answered yet, which it no longer does."""
        digit = self._digit
        self._digit = None
        if digit is not None:
            digit.timer.cancel()
        return digit

    def erase(self, kept: Callable[[str], str]) -> None:
        """Replace the typed words by what `kept` returns for them."""
        state = self.state
        if state is not None and state.words:
            words = kept(state.words)
            is_search = state.menu.filters
            self.state = search_menu(state.menu, words) if is_search else replace(state, words=words)

    def clear(self) -> None:
        """Erase all words; those that were not meant for the search go into the input."""
        if self.state is not None and self.state.menu.filters:
            self._give_back()
        self.erase(lambda words: "")

    def _give_back(self) -> None:
        if self.state is not None and (text := self.state.for_input):
            self.give_back(text)

    def enter(self) -> None:
        """Choose the selected row, or that of a digit before."""
        if digit := self._take_digit():
            self.end(digit.row)
            return
        state = self.state
        if state is not None and state.marked is not None and (state.menu.filters or self._is_settled):
            self.end(state.marked)

    @property
    def _is_settled(self) -> bool:
        return self._monotonic() >= self._listens_at

    def end(self, row: MenuRow | None = None) -> None:
        """Close the menu with the chosen row, or without one."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(row)


def add_picker_keys(bindings: KeyBindings, picker: Picker, active: FilterOrBool) -> None:
    """Bind the keys of a menu; while it is shown, no other key may change the draft."""
    actions: dict[str, Callable[[], None]] = {
        **dict.fromkeys(("up", "c-p", "s-tab"), partial(picker.move, -1)),
        **dict.fromkeys(("down", "c-n", "tab"), partial(picker.move, 1)),
        **dict.fromkeys(("escape", "c-c", "c-d", "<sigint>"), picker.end),
        "home": partial(picker.move, -TO_THE_END),
        "end": partial(picker.move, TO_THE_END),
        "pageup": partial(picker.page, -1),
        "pagedown": partial(picker.page, 1),
        "enter": picker.enter,
        "c-u": picker.clear,
        **{key: partial(picker.erase, kept) for key, kept in ERASING_KEYS.items()},
    }
    bind_dialog_keys(bindings, actions, picker.type, active)


def bind_dialog_keys(
    bindings: KeyBindings,
    actions: Mapping[str, Callable[[], None]],
    take: Callable[[str], None],
    active: FilterOrBool,
) -> None:
    """Bind the keys of a dialog that replaces the input; `take` gets typed and pasted text."""
    for key, act in actions.items():
        bindings.add(key, filter=active)(lambda event, act=act: act())
    bindings.add(Keys.BracketedPaste, filter=active)(lambda event: take(event.data))

    @bindings.add(Keys.Any, filter=active)
    def _(event: KeyPressEvent) -> None:
        if not isinstance(event.key_sequence[0].key, Keys):
            take(event.data)


def picker_window() -> Window:
    """Return the window that takes the keys of a menu."""
    return Window(FormattedTextControl(focusable=True))


def _type_later(terminal: Terminal, text: str) -> None:
    """Leave a text to the next application that reads this terminal."""
    store_typeahead(terminal.app.input, [KeyPress(Keys.BracketedPaste, text)])


async def run_picker(menu: Menu, color: str) -> MenuRow | None:
    """Show a menu while no session uses the screen. Raises SystemExit if a signal ends it.

    Text for the input becomes the first keys of the session's screen.
    """
    terminal = Terminal(color)
    picker = Picker(terminal.invalidate)
    picker.give_back = partial(_type_later, terminal)
    picker.digit_pause_s = 0.25
    keys = KeyBindings()
    add_picker_keys(keys, picker, Condition(lambda: picker.state is not None))
    window = picker_window()

    def compose() -> Frame:
        picker.compose(terminal.render_context(), terminal.size().rows - 1)
        return Frame(tuple(picker.drawn.lines) or ("",), picker.drawn.cursor)

    terminal.show(Layout(HSplit([window]), focused_element=window), keys, compose)
    chosen: list[MenuRow | None] = []

    async def choose() -> None:
        chosen.append(await picker.choose(menu))
        terminal.exit(0)

    with exit_on_signals(terminal.exit):
        code = await terminal.run(choose, terminal.exit)
    if code:
        sys.exit(code)
    return chosen[0]
