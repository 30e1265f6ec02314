"""Menus: what a person can choose from, as plain data. Faces draw them; see ports.Chooser."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MenuRow:
    """One thing to choose. `value` is what choosing it comes to; `facts` are small, the weightiest first.

    `more` is searched by the filter and not shown. `key` is what the row is known by: it is shown,
    and typed line by line; without one that is its place from 1.
    """

    value: str
    title: str
    facts: tuple[str, ...] = ()
    more: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Menu:
    """A title and its rows. `filters` tells that it is a long list in which typing searches."""

    title: str
    rows: tuple[MenuRow, ...]
    filters: bool = True

    def key(self, place: int) -> str:
        """What is typed for the row at a place (from 0)."""
        return self.rows[place].key or str(place + 1)

    def keyed(self, key: str) -> MenuRow | None:
        """The row that a typed key stands for."""
        return next((row for place, row in enumerate(self.rows) if self.key(place) == key), None)

    def lines(self) -> list[str]:
        """The menu for a face that prints line by line; controls are not escaped."""
        keys = [self.key(place) for place in range(len(self.rows))]
        return [
            f"{key:>3}  {'  '.join((*row.facts[:2], row.title[:100]))}"
            for key, row in zip(keys, self.rows, strict=True)
        ]


def question(title: str, **answers: str) -> Menu:
    """A question with a few answers: each name is a value, its words are shown."""
    return Menu(title, tuple(MenuRow(value, words) for value, words in answers.items()), filters=False)
