"""Sessions in a list: as a line of text, and as rows of a menu."""

from __future__ import annotations

from agent.dates import stamp, when
from agent.menus import Menu, MenuRow
from tools.text_encoding import pluralize
from transcripts.listing import SessionSummary
from transcripts.masking import SecretMasks

WIDTH = 100  # characters of a title
SEARCHED = 2_000  # characters of a first prompt that the filter looks through


def line(one: SessionSummary, masks: SecretMasks) -> str:
    """One line of `makeroom sessions`. Controls are not escaped."""
    named = masks.all(f"[{one.name}] {one.first}" if one.name else one.first)
    prompts = pluralize(one.turns, "prompt")
    return f"{one.sid}  {stamp(one.at)}  {prompts:>11}  {_size(one.size):>8}  {named[:WIDTH]}"


def menu(listed: list[SessionSummary], now: float, masks: SecretMasks) -> Menu:
    """The sessions to choose from; values are ids."""
    rows = tuple(
        MenuRow(
            one.sid,
            masks.all(one.name or one.first)[:SEARCHED],
            (when(one.at, now), pluralize(one.turns, "prompt"), _size(one.size), one.sid),
            masks.all(one.first)[:SEARCHED],
        )
        for one in listed
    )
    return Menu("Go on with which session?", rows)


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
