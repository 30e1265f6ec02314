"""Ask once about the hooks, servers and other active items of a checkout, which are disabled until then.

`ITEM_SOURCES` lists the functions that find items. To add a kind of item, write a function and add a line.
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
from agent.extensions.mcp import ServerFiles, mcp_items, user_server_items
from agent.extensions.plugins import plugin_items
from agent.extensions.skills import skill_items
from agent.menus import Menu, MenuRow
from agent.ports import Chooser
from transcripts.wording import cause_of, pluralize, shorten

from .memory_approval import MEMORY_KIND, memory_items
from .setup import RunSetup

ITEM_SOURCES: tuple[ItemSource, ...] = (
    mcp_items,
    settings_items,
    skill_items,
    agent_items,
    plugin_items,
    memory_items,
)
# Kind of item -> the nouns that it is counted as, where the kind itself is not a thing to count
COUNTED_AS = {
    "environment": ("set of environment variables", "sets of environment variables"),
    "model": ("model setting",),
}
MAX_LISTED_ITEMS = 30  # in the question; /trust lists all
MAX_SHOWS_CHARS = 400  # of the command or address of an item
STATE_WORDS = {True: "enabled", False: "disabled", None: "undecided"}


async def settle_project_items(setup: RunSetup, chooser: Chooser | None, emit: Emit) -> Approvals:
    """Return the decisions about the project's items, after asking for the missing ones.

    If no user can choose, undecided items stay disabled, and one warning names them.
    """
    approvals, items = await asyncio.to_thread(_found, setup)
    if open_items := approvals.undecided(items):
        if chooser is None:
            emit(Notice(_unattended(open_items), "warning"))
        else:
            await _ask(approvals, open_items, chooser, emit)
    return approvals


async def project_items(setup: RunSetup) -> list[ProjectItem]:
    """Return the project's items that need a decision, as they are now."""
    return await asyncio.to_thread(_listed, setup)


async def choose_items(
    approvals: Approvals, items: Sequence[ProjectItem], chooser: Chooser, emit: Emit
) -> bool:
    """Let the user mark items in a menu, and record the marks; return False if they left it with Esc."""
    marked = [approvals.allows(item) for item in items]
    at = 1
    while True:
        rows = [
            MenuRow(str(place), _title(item, mark), key=str(place))
            for place, (item, mark) in enumerate(zip(items, marked, strict=True), 1)
        ]
        title = "Select the items to enable; the last row is Done"
        menu = Menu(title, (*rows, MenuRow("0", "Done")), at=at - 1, switches=True)
        chosen = await chooser.choose(menu)
        if chosen is None:
            return False
        if chosen.value == "0":
            break
        at = int(chosen.value)
        marked[at - 1] = not marked[at - 1]
    for allowed in (True, False):
        alike = [item for item, mark in zip(items, marked, strict=True) if mark is allowed]
        if changed := [item for item in alike if approvals.allows(item) is not allowed]:
            record_decision(approvals, changed, allowed, emit)
    return True


def record_decision(approvals: Approvals, items: Sequence[ProjectItem], allowed: bool, emit: Emit) -> None:
    """Record a decision about items; one that cannot be saved applies to this run, with a warning."""
    try:
        approvals.record(items, allowed)
    except OSError as error:
        why = cause_of(error)
        text = f"cannot save the decision in {approvals.path}: {why}. It applies to this run only."
        emit(Notice(text, "warning"))


def item_lines(items: Sequence[ProjectItem], approvals: Approvals | None = None) -> list[str]:
    """Return a line for each item: kind, name and what it runs, after its state if `approvals` are given."""
    widths = [max(map(len, column)) for column in zip(*((one.kind, one.name) for one in items), strict=True)]
    lines = []
    for item in items:
        state = f"{STATE_WORDS[approvals.decided(item)]:<16}" if approvals is not None else ""
        shows = shorten(item.shows, MAX_SHOWS_CHARS)
        lines.append(f"  {state}{item.kind:<{widths[0]}}  {item.name:<{widths[1]}}  {shows}".rstrip())
    return lines


def _found(setup: RunSetup) -> tuple[Approvals, list[ProjectItem]]:
    return Approvals(setup.config.approvals_path, setup.folder), _listed(setup)


def _listed(setup: RunSetup) -> list[ProjectItem]:
    sources = setup.options.setting_sources
    if sources is not None and "project" not in sources:
        return []
    own = user_server_items(ServerFiles(setup.folder, setup.config.user_dir), setup.environ)
    found = (source(setup.folder, setup.environ) for source in ITEM_SOURCES)
    return [*chain.from_iterable(found), *own]


async def _ask(approvals: Approvals, items: Sequence[ProjectItem], chooser: Chooser, emit: Emit) -> None:
    lines = item_lines(items[:MAX_LISTED_ITEMS])
    if (more := len(items) - MAX_LISTED_ITEMS) > 0:
        lines.append(f"  and {more} more (list all with /trust)")
    emit(CommandOutput("\n".join([f"{_owner(items).capitalize()} defines {_counted(items)}:", *lines])))
    # The first answer changes nothing, and text typed for the prompt is not an answer.
    rows = (
        MenuRow("choose", "Choose one by one"),
        MenuRow("all", "Enable all (asks again when they change)"),
        MenuRow("none", "Enable none (change later with /trust)"),
    )
    them = "this item" if len(items) == 1 else f"these {len(items)} items"
    answer = await chooser.choose(Menu(f"Enable {them}?", rows, appears_unasked=True))
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
    parts = [f"enabled: {_counted(allowed)}"] if allowed else []
    parts += [f"disabled: {_counted(off)}"] if off else []
    return f"{'; '.join(parts)} ({'decide' if waiting else 'change'} with /trust)"


def _title(item: ProjectItem, marked: bool) -> str:
    return f"[{'x' if marked else ' '}] {item.kind} {item.name}: {shorten(item.shows, MAX_SHOWS_CHARS)}"


def _unattended(items: Sequence[ProjectItem]) -> str:
    if len(items) == 1:
        state = "that is not approved; it is disabled"
    else:
        state = "that are not approved; they are disabled"
    place = "" if _everywhere(items) else " here"
    return f"{_owner(items)} defines {_counted(items)} {state}. Run makeroom{place} in a terminal to decide."


def _everywhere(items: Sequence[ProjectItem]) -> bool:
    return all(item.everywhere for item in items)


def _owner(items: Sequence[ProjectItem]) -> str:
    if all(item.kind == MEMORY_KIND for item in items):
        return "a directory above this project"
    return "your home directory" if _everywhere(items) else "this project"


def _counted(items: Sequence[ProjectItem]) -> str:
    """Return the number of items of each kind: "2 hooks and 1 command"."""
    numbers = Counter(one.kind for one in items).items()
    *first, last = [pluralize(number, *COUNTED_AS.get(kind, (kind,))) for kind, number in numbers]
    return f"{', '.join(first)} and {last}" if first else last
