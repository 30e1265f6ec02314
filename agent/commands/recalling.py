"""Commands that find text again: /recall, /search."""

from __future__ import annotations

import asyncio
import re

from msgspec.structs import replace

from agent.app import Controller, start_command
from agent.events import CommandOutput, Event, Notice
from compact import Evicted, text_slope
from transcripts import Folded, Result
from transcripts.patterns import lazy_pattern
from transcripts.search import Originals, Scope, is_recall_id
from transcripts.wording import shorten

from .running import usage_notice

MAX_EVICTED_LINES = 20
MAX_BEGINNING_CHARS = 60  # of the text of a block in a list
_LINE_NUMBER = lazy_pattern(r"^ *\d+\t", re.MULTILINE)  # as `read` shows them


def with_beginning(label: str, text: str) -> str:
    """Return a label with the first words of its text, as in `read src/a.py: import os from …`."""
    plain = _LINE_NUMBER.sub("", text[:400])
    words = shorten(" ".join(plain.split()), MAX_BEGINNING_CHARS)
    return f"{label}: {words}" if words else label


async def show_evicted(controller: Controller, argument: str) -> Event | None:
    """Run /recall."""
    session, context = controller.in_use
    lookup = context.tool_context.lookup
    if not argument:
        originals = None if lookup is None else lookup()
        return await asyncio.to_thread(_evicted_list, session.folded, originals)
    if lookup is None:
        return Notice("cannot recall: this session has no transcript", "warning")
    if not is_recall_id(argument):
        return await _search(controller, argument, "session")
    try:
        originals = replace(lookup(), typed=True, program=start_command(controller.setup.options))
        return CommandOutput(await asyncio.to_thread(originals.original, argument))
    except KeyError as error:
        return Notice(str(error.args[0]), "warning")


async def search_project(controller: Controller, argument: str) -> Event | None:
    """Run /search."""
    if not argument:
        return usage_notice("search")
    return await _search(controller, argument, "project")


async def _search(controller: Controller, words: str, scope: Scope) -> Event:
    _, context = controller.in_use
    if (lookup := context.tool_context.lookup) is None:
        return Notice("cannot search: this session has no transcript", "warning")
    found = await asyncio.to_thread(lookup().find, words, scope)
    lines = found.lines(context.clock.now(), columns=80)
    if lines:
        notes = [*filter(None, (found.note, "Use /recall ID to show the whole text."))]
        return CommandOutput("\n".join([*lines, *notes]), "rows", len(notes))
    more = "; use /search to search earlier sessions too" if scope == "session" and not found.note else ""
    return Notice("; ".join(filter(None, (f"no matches for {words!r}{more}", found.note))))


def _evicted_list(folded: Folded, originals: Originals | None) -> CommandOutput:
    """List blocks that are no longer in the context, up to MAX_EVICTED_LINES, and how to show them."""
    found = Evicted.all_of(folded)
    slope = text_slope(folded)
    if not found:
        return CommandOutput(
            "Nothing has been cleared or summarized yet.\nUse /recall WORDS to search the whole transcript."
        )
    shown = found if len(found) < MAX_EVICTED_LINES else found[: MAX_EVICTED_LINES - 2]
    lines = []
    for one in shown:
        label = _evicted_label(one, folded, originals)
        lines.append(f"{one.id:>7}  {round(slope * one.tokens):>8,} tokens  {one.by:>5}  {label}")
    hidden = len(found) - len(shown)
    notes = [f"... and {hidden:,} more; use /recall WORDS to find them"] if hidden else []
    first = found[0]
    notes.append(f"Use /recall {first.id} to show this block, /recall {first.by} to show all of {first.by}.")
    return CommandOutput("\n".join([*lines, *notes]), "rows", len(notes))


def _evicted_label(one: Evicted, folded: Folded, originals: Originals | None) -> str:
    """Describe a block, a result with its first words; the labels of other blocks contain theirs already."""
    seq = int(one.id.removeprefix("r").partition(".")[0])
    if originals is None or not isinstance(folded.fact_at(seq), Result):
        return one.what
    try:
        return with_beginning(one.what, originals.original(one.id))
    except KeyError:  # its stored output is gone
        return one.what
