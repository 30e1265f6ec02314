"""Ask once about all that a checkout brings and nobody has decided about; it is off until it is allowed.

`ITEM_SOURCES` lists what finds such items: to add a kind of them, write a function and add a line.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from agent.events import CommandOutput, Emit, Notice
from agent.extensions import Approvals, ItemSource, ProjectItem
from agent.extensions.agents import agent_items
from agent.extensions.hooks import settings_items
from agent.extensions.mcp import mcp_items
from agent.extensions.skills import skill_items
from agent.formatting import shorten
from agent.menus import Menu, MenuRow
from agent.ports import Chooser
from tools.text import pluralize

from .setup import RunSetup

ITEM_SOURCES: tuple[ItemSource, ...] = (mcp_items, settings_items, skill_items, agent_items)
MAX_LISTED_ITEMS = 30  # in the question; /trust lists all
MAX_SHOWS_CHARS = 400  # of what an item runs
STATE_WORDS = {True: "on", False: "off", None: "off, undecided"}


async def settle_project_items(setup: RunSetup, chooser: Chooser | None, emit: Emit) -> Approvals:
    """The decisions about what the project brings, after asking for those that are missing.

    Where nobody can choose, what is undecided stays off, and one warning says so.
    """
    approvals, items = await asyncio.to_thread(_found, setup)
    if open_items := approvals.undecided(items):
        if chooser is None:
            emit(Notice(_unattended(open_items), "warning"))
        else:
            await _ask(approvals, open_items, chooser, emit)
    return approvals


async def project_items(setup: RunSetup) -> list[ProjectItem]:
    """All that the project brings and that needs a decision, as it is now."""
    return await asyncio.to_thread(_listed, setup)


async def choose_items(
    approvals: Approvals, items: Sequence[ProjectItem], chooser: Chooser, emit: Emit
) -> bool:
    """Switch items on and off in a menu until the person has done; False where it was left by Esc."""
    at = 1
    while True:
        rows = [
            MenuRow(str(place), _title(item, approvals), key=str(place))
            for place, item in enumerate(items, 1)
        ]
        title = "Which may act? Done is the last row"
        menu = Menu(title, (*rows, MenuRow("0", "Done", key="0")), at=at - 1, switches=True)
        chosen = await chooser.choose(menu)
        if chosen is None or chosen.value == "0":
            return chosen is not None
        at = int(chosen.value)
        item = items[at - 1]
        record_decision(approvals, [item], not approvals.allows(item), emit)


def record_decision(approvals: Approvals, items: Sequence[ProjectItem], allowed: bool, emit: Emit) -> None:
    """Decide about items; a decision that cannot be kept is told, and holds for this run."""
    try:
        approvals.record(items, allowed)
    except OSError as error:
        emit(Notice(f"{approvals.path}: {error.strerror or error}: this is not kept", "warning"))


def item_lines(items: Sequence[ProjectItem], approvals: Approvals | None = None) -> list[str]:
    """A line for each item: its kind, its name, what it runs; with its state where there are decisions."""
    widths = [max(map(len, column)) for column in zip(*((one.kind, one.name) for one in items), strict=True)]
    lines = []
    for item in items:
        state = f"{STATE_WORDS[approvals.decided(item)]:<16}" if approvals is not None else ""
        shows = shorten(item.shows, MAX_SHOWS_CHARS)
        lines.append(f"  {state}{item.kind:<{widths[0]}}  {item.name:<{widths[1]}}  {shows}".rstrip())
    return lines


def _found(setup: RunSetup) -> tuple[Approvals, list[ProjectItem]]:
    return Approvals(setup.config.state_dir / "approvals.json", setup.folder), _listed(setup)


def _listed(setup: RunSetup) -> list[ProjectItem]:
    sources = setup.options.setting_sources
    if sources is not None and "project" not in sources:
        return []
    return list(chain.from_iterable(source(setup.folder, setup.environ) for source in ITEM_SOURCES))


async def _ask(approvals: Approvals, items: Sequence[ProjectItem], chooser: Chooser, emit: Emit) -> None:
    lines = item_lines(items[:MAX_LISTED_ITEMS])
    if (more := len(items) - MAX_LISTED_ITEMS) > 0:
        lines.append(f"  and {more} more; /trust lists all")
    emit(CommandOutput("\n".join([f"{_bringer(items).capitalize()} brings {_counted(items)}:", *lines])))
    # The first answer changes nothing, and words typed for the prompt are no answer: they filter the rows.
    rows = (
        MenuRow("choose", "Look through it and choose"),
        MenuRow("all", "Allow all of it; a change asks again"),
        MenuRow("none", "Allow none of it; /trust changes that later"),
    )
    answer = await chooser.choose(Menu(f"May what {_bringer(items)} brings act? It is listed above", rows))
    if answer is not None and answer.value != "choose":
        record_decision(approvals, items, answer.value == "all", emit)
    elif answer is not None and await choose_items(approvals, items, chooser, emit):
        record_decision(approvals, approvals.undecided(items), False, emit)
    emit(Notice(_outcome(approvals, items)))


def _outcome(approvals: Approvals, items: Sequence[ProjectItem]) -> str:
    """Summarize the decisions about the items in one line."""
    allowed = [item for item in items if approvals.allows(item)]
    off = [item for item in items if not approvals.allows(item)]
    waiting = bool(approvals.undecided(items))
    said = [f"allowed: {_counted(allowed)}" if allowed else f"nothing is allowed{' yet' if waiting else ''}"]
    said += [f"off: {_counted(off)}"] if off else []
    return "; ".join((*said, "/trust asks again" if waiting else "/trust changes that"))


def _title(item: ProjectItem, approvals: Approvals) -> str:
    mark = "x" if approvals.allows(item) else " "
    return f"[{mark}] {item.kind} {item.name}: {shorten(item.shows, MAX_SHOWS_CHARS)}"


def _unattended(items: Sequence[ProjectItem]) -> str:
    off = f"{_bringer(items)} brings {_counted(items)} that nobody has approved: off here"
    return f"{off}; start makeroom {'' if _everywhere(items) else 'in it '}at a terminal to decide"


def _everywhere(items: Sequence[ProjectItem]) -> bool:
    return all(item.everywhere for item in items)


def _bringer(items: Sequence[ProjectItem]) -> str:
    return "your home folder" if _everywhere(items) else "this project"


def _counted(items: Sequence[ProjectItem]) -> str:
    """Return the number of items of each kind: "2 hooks and 1 command"."""
    *first, last = [pluralize(number, kind) for kind, number in Counter(one.kind for one in items).items()]
    return f"{', '.join(first)} and {last}" if first else last
