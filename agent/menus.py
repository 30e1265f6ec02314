"""Menus as plain data: what can be chosen, sessions above all. The faces draw them; see `ports.Chooser`."""

from __future__ import annotations

from msgspec import Struct

from tools.text import pluralize
from transcripts import SessionInUse, SessionSummary, format_age
from transcripts.secrets import SecretMasks

from .formatting import format_timestamp, shorten

MAX_SESSION_TITLE_CHARS = MAX_KEYED_TITLE_CHARS = 100
MAX_SEARCHED_PROMPT_CHARS = 2_000  # of a first prompt, which the menu's filter looks through


class MenuRow(Struct, frozen=True):
    """One row. Choosing it yields `value`; `facts` are short, the most important first.

    `more` is searched by the filter but not shown. `key` identifies the row: it is shown, and typed where a
    menu is answered line by line; without one that is the row's place, from 1.
    """

    value: str
    title: str
    facts: tuple[str, ...] = ()
    more: str = ""
    key: str = ""


class Menu(Struct, frozen=True):
    """A title and its rows. `filters`: a long list in which typing searches. `at`: the row marked first.

    `switches`: choosing a row switches it, and the menu comes again.
    """

    title: str
    rows: tuple[MenuRow, ...]
    filters: bool = True
    at: int = 0
    switches: bool = False

    def key_of(self, place: int) -> str:
        """Return the key for the row at a place (from 0)."""
        return self.rows[place].key or str(place + 1)

    def row_for_key(self, key: str) -> MenuRow | None:
        """The row that a typed key stands for."""
        return next((row for place, row in enumerate(self.rows) if self.key_of(place) == key), None)

    def keyed_lines(self) -> list[str]:
        """The rows with their keys, for printing line by line; control characters are not escaped."""
        return [
            "  ".join((f"{self.key_of(place):>3}", *row.facts[:2], shorten(row.title, MAX_KEYED_TITLE_CHARS)))
            for place, row in enumerate(self.rows)
        ]


def question_menu(title: str, **answers: str) -> Menu:
    """A question with a few answers: each keyword is a value, its argument the text shown."""
    return Menu(title, tuple(MenuRow(value, text) for value, text in answers.items()), filters=False)


def session_line(summary: SessionSummary, masks: SecretMasks, depth: int = 0) -> str:
    """One line of `makeroom sessions`, indented for a nested one. Controls are not escaped."""
    name = summary.name or summary.agent
    title = masks.all(f"[{name}] {summary.first_prompt}" if name else summary.first_prompt)
    prompts = pluralize(summary.prompts, "prompt")
    head = f"{summary.sid}  {format_timestamp(summary.last_active)}  {prompts:>11}  {_size(summary.size):>8}"
    fork = f"(fork of {masks.all(summary.fork_of)}) " if summary.fork_of else ""
    return f"{head}  {'  └ ' * depth}{fork}{shorten(title, MAX_SESSION_TITLE_CHARS)}"


def session_menu(summaries: list[SessionSummary], now: float, masks: SecretMasks) -> Menu:
    """The sessions to choose from; values are ids. `now` in seconds since the epoch."""

    def facts(one: SessionSummary) -> tuple[str, ...]:
        found = (format_age(one.last_active, now), pluralize(one.prompts, "prompt"), _size(one.size), one.sid)
        return (*found, f"fork of {masks.all(one.fork_of)}") if one.fork_of else found

    rows = tuple(
        MenuRow(
            one.sid,
            title=masks.all(one.name or one.first_prompt)[:MAX_SEARCHED_PROMPT_CHARS],
            facts=facts(one),
            more=masks.all(one.first_prompt)[:MAX_SEARCHED_PROMPT_CHARS],
        )
        for one in summaries
    )
    return Menu("Go on with which session?", rows)


def in_use_menu(error: SessionInUse, leave: str) -> Menu:
    """Ask about a session in use: the values are view, fork and leave, whose words are given."""
    who = f"pid {error.pid}" if error.pid else "another process"
    return question_menu(
        f"Session {error.sid} is in use by {who}",
        view="View it: print the conversation so far",
        fork="Fork it: go on in a copy, that one stays as it is",
        leave=leave,
    )


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
