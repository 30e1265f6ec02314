"""What a session begins with on the screen: model and place, the last session, what to try."""

from __future__ import annotations

import os
from contextlib import suppress

from agent.events import Emit, Notice
from agent.formatting import shorten
from agent.loop.context import TurnContext
from agent.loop.cost_preview import show_resumed
from agent.session.environment_context import BranchWatch
from agent.session.session import Session
from agent.version import __version__
from tools.sandbox.wall import short_path
from transcripts.listing import newest_summary
from transcripts.render_text import format_age

from .setup import RunSetup

MAX_LAST_TITLE_CHARS = 40  # of the last session
HELP_HINT = "/help lists commands and keys"


def greet(setup: RunSetup, session: Session, context: TurnContext, emit: Emit) -> None:
    """Say what the session is: how it went so far, or that it is new."""
    if session.folded.entries:
        show_resumed(session, context, emit)
    else:
        announce(setup, context.settings.model, emit)


def announce(setup: RunSetup, model: str, emit: Emit) -> None:
    """Say that a session is new."""
    for line in start_lines(setup, model):
        emit(Notice(line))


def start_lines(setup: RunSetup, model: str) -> list[str]:
    """The lines of a new session: model, folder and branch; the last session, if any; what to try."""
    named = "the built-in rule-based demo" if setup.options.offline else model
    branch = BranchWatch(setup.folder).name(setup.clock.monotonic())
    where = f"{short_path(str(setup.folder))}{f' ({branch})' if branch else ''}"
    lines = [f"makeroom {__version__} with {named} in {where}"]
    last = None if setup.options.no_session else newest_summary(setup.folder)
    if last is not None:
        title = shorten(setup.masks.all(last.name or last.first_prompt), MAX_LAST_TITLE_CHARS)
        age = format_age(last.last_active, setup.clock.now())
        lines.append(f"Last session, {age}: '{title}'; makeroom -c goes on with it")
    lines.append(f"{_what_to_try(setup)}; {HELP_HINT}")
    return lines


def _what_to_try(setup: RunSetup) -> str:
    if setup.options.offline:
        return 'Try "what does this project do?" and "fix the failing test"'
    with suppress(OSError), os.scandir(setup.folder) as entries:
        if all(each.name.startswith(".") for each in entries):
            return "Say what you want to make"
    return 'Try "what does this project do?", or name a file with @'
