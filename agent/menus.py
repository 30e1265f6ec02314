"""Menus as plain data, above all those of sessions. Faces draw them; see `ports.Chooser`."""

from __future__ import annotations

from msgspec import Struct

from agent.formatting import format_bytes
from transcripts import FromElsewhere, SessionInUse, SessionSummary, format_age, short_sid
from transcripts.secrets import SecretMasks
from transcripts.wording import pluralize, shorten

MAX_SESSION_TITLE_CHARS = MAX_KEYED_TITLE_CHARS = 100
MAX_SEARCHED_PROMPT_CHARS = 2_000  # of a first prompt that the menu's filter searches


class MenuRow(Struct, frozen=True):
    """One row. Choosing it yields `value`; `facts` are short, the most important first.

    `more` is searched by the filter but not shown. `key` identifies the row: it is shown, and it is what the
    user types where menus are answered line by line. Without a key, that is the row's number, from 1.
    """

    value: str
    title: str
    facts: tuple[str, ...] = ()
    more: str = ""
    key: str = ""


class Menu(Struct, frozen=True):
    """A title and its rows. `filters`: typing searches, as in a long list. `at`: the row selected at first.

    `switches`: choosing a row toggles it, and the menu is shown again. `appears_unasked`: the user may be
    typing a prompt; words that match no row go into the input.
    """

    title: str
    rows: tuple[MenuRow, ...]
    filters: bool = True
    at: int = 0
    switches: bool = False
    appears_unasked: bool = False

    def key_of(self, place: int) -> str:
        """Return the key for the row at a place (from 0)."""
        return self.rows[place].key or str(place + 1)

    def row_for_key(self, key: str) -> MenuRow | None:
        """Return the row for a typed key, None if there is none."""
        return next((row for place, row in enumerate(self.rows) if self.key_of(place) == key), None)

    def keyed_lines(self) -> list[str]:
        """Return the rows with their keys, one line each; control characters are not escaped."""
        lines = []
        for place, row in enumerate(self.rows):
            line = f"{self.key_of(place):>3}  {shorten(row.title, MAX_KEYED_TITLE_CHARS)}"
            lines.append(f"{line}  ({', '.join(row.facts[:2])})" if row.facts else line)
        return lines


def question_menu(title: str, **answers: str) -> Menu:
    """Return a question with a few answers: each keyword is a value, its argument the text shown."""
    return Menu(title, tuple(MenuRow(value, text) for value, text in answers.items()), filters=False)


def session_line(summary: SessionSummary, now: float, masks: SecretMasks, depth: int = 0) -> str:
    """Return a line of `makeroom sessions`, indented if nested. Control characters are not escaped.

    `now` is in seconds since the epoch.
    """
    name = summary.name or summary.agent
    title = masks.all(f"[{name}] {summary.first_prompt}" if name else summary.first_prompt)
    fork = f"(fork of {masks.all(short_sid(summary.fork_of))}) " if summary.fork_of else ""
    age = format_age(summary.last_active, now)
    prompts = pluralize(summary.prompts, "prompt")
    head = f"{short_sid(summary.sid):<8}  {age:<15}  {prompts:>11}"
    return f"{head}  {'  └ ' * depth}{fork}{shorten(title, MAX_SESSION_TITLE_CHARS)}"


def session_menu(summaries: list[SessionSummary], now: float, masks: SecretMasks) -> Menu:
    """Return the menu of sessions; its values are ids. `now` is in seconds since the epoch."""

    def facts(one: SessionSummary) -> tuple[str, ...]:
        prompts = pluralize(one.prompts, "prompt")
        found = (format_age(one.last_active, now), prompts, format_bytes(one.size), short_sid(one.sid))
        return (*found, f"fork of {masks.all(short_sid(one.fork_of))}") if one.fork_of else found

    rows = tuple(
        MenuRow(
            one.sid,
            title=masks.all(one.name or one.first_prompt)[:MAX_SEARCHED_PROMPT_CHARS],
            facts=facts(one),
            more=masks.all(one.first_prompt)[:MAX_SEARCHED_PROMPT_CHARS],
        )
        for one in summaries
    )
    return Menu("Resume which session?", rows)


def copy_menu(error: SessionInUse | FromElsewhere, leave: str) -> Menu:
    """Return the menu for a session that continues only in a copy: view, copy, or leave with this text."""
    if isinstance(error, SessionInUse):
        why = f"is in use by {f'pid {error.pid}' if error.pid else 'another process'}"
        how = "Fork: continue in a copy and leave the original unchanged"
    else:
        why = "was not recorded on this machine, or was changed"
        how = "Continue: in a copy, without its system prompt and tools"
    view = "View: print the conversation so far"
    return question_menu(f"Session {error.sid} {why}", view=view, copy=how, leave=leave)
