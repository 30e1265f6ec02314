"""The first lines of a session on the screen: model and directory, the last session, a suggestion."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agent.events import Emit, Notice
from agent.extensions import ProjectItem, ignored_by_place
from agent.formatting import short_model
from agent.ports import Status
from agent.session import BranchWatch
from agent.version import __version__, program_name
from tools.sandbox import short_path
from transcripts import ProjectRecords, format_age
from transcripts.wording import pluralize, shorten

from .options import Options
from .project_approval import record_decision
from .services import Services
from .setup import RunSetup
from .unusual_places import OTHER_SPELLINGS


class Opening:
    """The opening of a run, which begins when it is first awaited: see `open_run`."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._task: asyncio.Task[bool] | None = None

    async def over(self) -> bool:
        """Wait for the opening, and return whether a new session was announced."""
        self._task = self._task or asyncio.ensure_future(open_run(self.services))
        return await asyncio.shield(self._task)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def open_run(services: Services) -> bool:
    """Decide about the project's items, show warnings, and announce a new session.

    Returns whether one was announced: not in a headless or resumed session, and not if the model's name is
    unknown before the server is asked.
    """
    await services.settle()
    config = services.setup.config
    options = services.setup.options
    is_open = options.sandbox == "off" or not services.setup.has_other_spellings
    spelling = "" if is_open else OTHER_SPELLINGS
    for warning in filter(None, (*config.warnings, *services.setup.memory.unread(), spelling)):
        services.warn(warning)
    _tell_ignored(services)
    model = certain_model(services)
    if options.headless or options.resume is not None or not model:
        return False
    announce(services.setup, model, services.emit)
    return True


def _tell_ignored(services: Services) -> None:
    """Name the parts of extensions that have no effect, once until they change."""
    places = ignored_by_place(services.ignored_parts)
    if not places:
        return
    named = [f"{', '.join(dict.fromkeys(part.name for part in parts))} in {place}" for place, parts in places]
    item = ProjectItem("notice", name="ignored settings", shows="", content="; ".join(named).encode())
    if services.approvals.decided(item) is None:
        services.emit(Notice(_ignored_line(named)))
        record_decision(services.approvals, [item], True, services.emit)


def _ignored_line(named: Sequence[str]) -> str:
    """Return the line about parts without effect, which names the first ones and counts the others."""
    shown: list[str] = []
    for text in named:
        if shown and sum(map(len, shown)) + len(text) > 400:
            break
        shown.append(shorten(text, 400))
    left = len(named) - len(shown)
    more = f"; and parts of {pluralize(left, 'more place')}" if left else ""
    return f"without effect: {'; '.join(shown)}{more} (see /doctor)"


def certain_model(services: Services) -> str:
    """Return the name of the model, "" if the server decides it: a compatible one, without a chosen model."""
    setup = services.setup
    is_certain = setup.config.official or setup.options.offline or setup.model_name
    return services.selection.facts.id if is_certain else ""


def starting_status(services: Services) -> Status:
    """Return the status before there is a session."""
    setup = services.setup
    return Status(
        certain_model(services),
        tokens=None,
        window=0,
        state="NORMAL",
        cost=0.0,
        mode=setup.mode,
        session="",
        folder=str(setup.folder),
        note="starting",
    )


def start_command(options: Options) -> str:
    """Return the command that leads to the same sessions and model again, with a space at its end."""
    folder = options.folder
    if folder is not None and options.sample:  # it was added to the directory that the user named
        above = str(Path(folder).parent)
        folder = above if above != "." else None
    flags = ["--offline"] if options.offline else []
    flags += ["--sample"] if options.sample else []
    flags += [f"-C {shlex.quote(folder)}"] if folder is not None else []
    flags += [f"--worktree {options.worktree}"] if options.worktree else []
    return "".join(f"{word} " for word in (program_name(), *flags))


def announce(setup: RunSetup, model: str, emit: Emit) -> None:
    """Announce a new session."""
    for line in start_lines(setup, model):
        emit(Notice(line))


def start_lines(setup: RunSetup, model: str) -> list[str]:
    """Return the lines of a new session: model, directory and branch, the last session, a suggestion."""
    named = "the built-in rule-based demo" if setup.options.offline else short_model(model)
    branch = BranchWatch(setup.folder).name(setup.clock.monotonic())
    where = f"{short_path(str(setup.folder))}{f' ({branch})' if branch else ''}"
    lines = [f"makeroom {__version__} with {named} in {where}"]
    records = ProjectRecords(setup.folder)
    last = None if setup.options.no_session else records.last_written()
    if last is not None:
        title = shorten(setup.masks.all(last.name or last.first_prompt), 40)
        age = format_age(last.last_active, setup.clock.now())
        advice = f"Continue it with {start_command(setup.options)}-c"
        advice = "It is still open elsewhere" if records.is_open(last.sid) else advice
        lines.append(f"Last session ({age}): '{title}'. {advice}")
    lines.append(f"{_suggestion(setup)}. /help lists commands and keys")
    return lines


def _suggestion(setup: RunSetup) -> str:
    if setup.options.offline:
        return 'Try "what does this project do?" and "fix the failing test"'
    with suppress(OSError), os.scandir(setup.folder) as entries:
        if all(each.name.startswith(".") for each in entries):
            return "Describe what you want to build"
    return 'Try "what does this project do?", or mention a file with @'
