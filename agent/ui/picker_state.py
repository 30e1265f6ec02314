"""A menu on the screen as pure data: rows -> state -> lines. Keys make a new state, nothing is drawn here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .escape import one_line
from .labels import RenderContext
from .text_cells import clip, fit, width, wrap

if TYPE_CHECKING:
    from agent.menus import Menu, MenuRow

MARK = "❯ "
LABEL = "search: "
SEPARATOR = " · "
KEYS = ("Enter chooses · Esc cancels · type to search", "type to search · Enter · Esc")
QUESTION_KEYS = ("Enter or a digit chooses · Esc cancels", "Enter or a digit · Esc")
MOST_TITLE = 4  # lines of a question
INDENT = "    "
ROOMY = 8  # lines from which on there is place for the facts of each row


@dataclass(frozen=True, slots=True)
class PickerState:
    """What is chosen from, what is searched for, and which of the places found is marked (from 0)."""

    menu: Menu
    places: tuple[int, ...]  # of the rows that fit the words
    words: str = ""
    at: int = 0

    @property
    def marked(self) -> MenuRow | None:
        return self.menu.rows[self.places[self.at]] if self.places else None


@dataclass(frozen=True, slots=True)
class DrawnPicker:
    """Lines to show; where the cursor is, as (line, character); how many rows a page has."""

    lines: list[str]
    cursor: tuple[int, int]
    page: int


def opened(menu: Menu) -> PickerState:
    """The state of a menu that was just opened: everything is there, the first row is marked."""
    return PickerState(menu, tuple(range(len(menu.rows))))


def moved(state: PickerState, by: int) -> PickerState:
    """Mark another row; beyond the ends is at the ends."""
    return replace(state, at=max(0, min(state.at + by, len(state.places) - 1)))


def searched(state: PickerState, words: str) -> PickerState:
    """Show the rows that hold all of the words, whatever their case; mark the first."""
    wanted = words.casefold().split()
    found = [place for place, row in enumerate(state.menu.rows) if _holds(row, wanted)]
    return PickerState(state.menu, tuple(found), words)


def draw(state: PickerState, look: RenderContext, rows: int) -> DrawnPicker:
    """The menu in at most `rows` lines of `look.columns` cells. The marked row is always there."""
    head, cursor = _head(state, look)
    foot = [look.theme.paint("dim", clip(_keys(state.menu, look.columns), look.columns))]
    if rows < len(head) + len(foot) + 2:
        foot = []
    if rows < len(head) + 1:
        kept = head[-1:] if state.menu.filters else head[:1]
        head, cursor = kept if rows > 1 else [], (0, cursor[1] if rows > 1 else 0)
    room = max(rows - len(head) - len(foot), 1)
    body, page = _body(state, look, room)
    return DrawnPicker([fit(line, look.columns) for line in (*head, *body, *foot)], cursor, page)


def _holds(row: MenuRow, wanted: list[str]) -> bool:
    text = "\n".join((row.title, row.more, row.value, f"#{row.key}", *row.facts)).casefold() if wanted else ""
    return all(word in text for word in wanted)


def _head(state: PickerState, look: RenderContext) -> tuple[list[str], tuple[int, int]]:
    """The title, the line of the search, and where its cursor is."""
    paint = look.theme.paint
    words = one_line(state.menu.title)
    if not state.menu.filters:  # a question is read whole
        return [paint("bold", line) for line in wrap(words, look.columns)[:MOST_TITLE]], (0, 0)
    title = paint("bold", clip(words, look.columns))
    place = f"  {state.at + 1} of {len(state.places)}" if state.places else "  none fits"
    label = LABEL if look.columns >= len(LABEL) + len(place) + 4 else ""
    room = max(look.columns - len(label) - len(place) - 1, 1)
    typed = _end(one_line(f"|{state.words}|")[1:-1], room)  # marked off: blanks at the ends are typed too
    return [title, paint("accent", label) + typed + " " + paint("dim", place)], (1, len(label) + len(typed))


def _end(text: str, room: int) -> str:
    """As much of the end as fits."""
    text = text[-room:]
    while width(text) > room:
        text = text[1:]
    return text


def _keys(menu: Menu, columns: int) -> str:
    """What the keys do, in fewer words where there is little room."""
    words = KEYS if menu.filters else QUESTION_KEYS
    return words[0] if width(words[0]) <= columns else words[1]


def _body(state: PickerState, look: RenderContext, room: int) -> tuple[list[str], int]:
    """The marked row and as many around it as fit, and how many those are."""
    if not state.places:
        return [], 1
    facts = room >= ROOMY
    low = high = state.at
    lines = _row(state, low, look, facts)[:room]
    grows = True
    while grows:
        grows = False
        for at in (high + 1, low - 1):
            more = _row(state, at, look, facts) if 0 <= at < len(state.places) else []
            if more and len(lines) + len(more) <= room:
                lines = [*lines, *more] if at > high else [*more, *lines]
                low, high, grows = min(low, at), max(high, at), True
    return lines, high - low + 1


def _row(state: PickerState, at: int, look: RenderContext, facts: bool) -> list[str]:
    """The lines of one of the rows found. The marked one tells all of its facts, others those that fit."""
    place, marked, paint = state.places[at], at == state.at, look.theme.paint
    row, room = state.menu.rows[place], max(look.columns - len(MARK), 1)
    words = one_line(row.title)
    if state.menu.filters:
        known = f"#{one_line(row.key)}  " if row.key else ""
        titles = [clip(known + (words or "(no words)"), room)]
    else:
        titles = wrap(f"{state.menu.key(place)} {words}", room)
    mark = MARK if marked else " " * len(MARK)
    lines = [f"{mark if number == 0 else ' ' * len(MARK)}{title}" for number, title in enumerate(titles)]
    if marked:
        lines = [paint("accent", line) for line in lines]
    if facts and row.facts:
        inner = max(look.columns - len(INDENT), 1)
        told = list(_joined([one_line(fact) for fact in row.facts], inner))
        lines += [paint("dim", INDENT + line) for line in (told if marked else told[:1])]
    return lines


def _joined(facts: list[str], room: int) -> Iterator[str]:
    """The facts in lines, each as full as may be."""
    line = ""
    for fact in facts:
        longer = f"{line}{SEPARATOR}{fact}" if line else fact
        if line and width(longer) > room:
            yield line
            longer = fact
        line = longer
    if line:
        yield line
