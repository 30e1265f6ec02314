"""Sessions to choose from: as lines of text, as rows of a menu, and what to do about one that is in use."""

from __future__ import annotations

from agent.formatting import format_age, format_timestamp
from agent.menus import Menu, MenuRow, question_menu
from tools.text_encoding import pluralize
from transcripts.listing import SessionSummary
from transcripts.masking import SecretMasks
from transcripts.record_errors import SessionInUse

MAX_SESSION_TITLE_CHARS = 100
MAX_SEARCHED_PROMPT_CHARS = 2_000  # of a first prompt, which the menu's filter looks through


def session_line(summary: SessionSummary, masks: SecretMasks) -> str:
    """One line of `makeroom sessions`. Controls are not escaped."""
    title = masks.all(f"[{summary.name}] {summary.first_prompt}" if summary.name else summary.first_prompt)
    prompts = pluralize(summary.prompts, "prompt")
    head = f"{summary.sid}  {format_timestamp(summary.last_active)}  {prompts:>11}  {_size(summary.size):>8}"
    return f"{head}  {title[:MAX_SESSION_TITLE_CHARS]}"


def session_menu(summaries: list[SessionSummary], now: float, masks: SecretMasks) -> Menu:
    """The sessions to choose from; values are ids. `now` in seconds since the epoch."""
    rows = tuple(
        MenuRow(
            one.sid,
            masks.all(one.name or one.first_prompt)[:MAX_SEARCHED_PROMPT_CHARS],
            (format_age(one.last_active, now), pluralize(one.prompts, "prompt"), _size(one.size), one.sid),
            masks.all(one.first_prompt)[:MAX_SEARCHED_PROMPT_CHARS],
        )
        for one in summaries
    )
    return Menu("Go on with which session?", rows)


def in_use_menu(error: SessionInUse, leave: str) -> Menu:
    """What to do about a session in use: the values are view, fork and leave, whose words are given."""
    who = f"pid {error.pid}" if error.pid else "another process"
    return question_menu(
        f"Session {error.sid} is in use by {who}",
        view="View it: print the conversation so far",
        fork="Fork it: go on in a copy, that one stays as it is",
        leave=leave,
    )


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
