"""Menus as plain data: what can be chosen. The faces draw them; see `ports.Chooser`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MenuRow:
    """One row. Choosing it yields `value`; `facts` are short, the most important first.

    `more` is searched by the filter but not shown. `key` identifies the row: it is shown, and typed where a
    menu is answered line by line; without one that is the row's place, from 1.
    """

    value: str
    title: str
    facts: tuple[str, ...] = ()
    more: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Menu:
    """A title and its rows. `filters`: a long list in which typing searches."""

    title: str
    rows: tuple[MenuRow, ...]
    filters: bool = True

    def key_of(self, place: int) -> str:
        """What is typed for the row at a place (from 0)."""
        return self.rows[place].key or str(place + 1)

    def row_for_key(self, key: str) -> MenuRow | None:
        """The row that a typed key stands for."""
        return next((row for place, row in enumerate(self.rows) if self.key_of(place) == key), None)

    def keyed_lines(self) -> list[str]:
        """The rows with their keys, for printing line by line; control characters are not escaped."""
        return [
            f"{self.key_of(place):>3}  {'  '.join((*row.facts[:2], row.title[:100]))}"
            for place, row in enumerate(self.rows)
        ]


def question_menu(title: str, **answers: str) -> Menu:
    """A question with a few answers: each keyword is a value, its argument the text shown."""
    return Menu(title, tuple(MenuRow(value, text) for value, text in answers.items()), filters=False)
