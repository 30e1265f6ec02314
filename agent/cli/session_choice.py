"""Which session to go on with, before the program shows its face: named, the newest, or chosen from a list.

A session that another process has open is not waited for: the person may look at it, or go on in a copy.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from agent.app.options import Options
from agent.app.setup import RunSetup
from agent.errors import ChoiceCancelled, UsageError
from agent.menus import Menu, MenuRow, question
from agent.session.repository import SessionRepository
from agent.session.session_rows import menu
from agent.ui.escape import one_line
from agent.ui.tty import at_screen, at_terminal
from transcripts.masking import SecretMasks, secret_values
from transcripts.record_errors import SessionInUse
from transcripts.session_lock import holder

SHOWN = 20  # sessions listed where there is no screen to move in


def with_session(setup: RunSetup) -> RunSetup | None:
    """The setup with the session to resume made sure of; None when the person only wanted to look.

    Raises UsageError, StoreError, ChoiceCancelled.
    """
    options = setup.options
    if options.resume is None and not options.continue_:
        return setup
    records = SessionRepository(setup.folder, keep=True, tell=lambda text: None)
    if options.resume and records.is_recording(options.resume):
        return setup
    path = _path(records, setup)
    chosen = replace(setup, options=options._replace(continue_=False, resume=path.stem))
    pid = None if options.fork_session else holder(path)
    return chosen if pid is None else _in_use(chosen, SessionInUse(path.stem, pid or None))


def asked(error: SessionInUse, leave: str) -> Menu:
    """What to do about a session in use: the values are view, fork and leave, whose words are given."""
    who = f"pid {error.pid}" if error.pid else "another process"
    return question(
        f"Session {error.sid} is in use by {who}",
        view="View it: print the conversation so far",
        fork="Fork it: go on in a copy, that one stays as it is",
        leave=leave,
    )


def _path(records: SessionRepository, setup: RunSetup) -> Path:
    if setup.options.continue_:
        return records.newest()
    return records.named(setup.options.resume or _pick(records, setup))


def _pick(records: SessionRepository, setup: RunSetup) -> str:
    """The id of the session that the person chooses from a list."""
    listed = records.listed()
    if not listed:
        raise UsageError("there is no session in this folder to resume")
    if not _person(setup.options):
        raise UsageError("--resume needs an id here; `makeroom sessions` lists them")
    row = _choose(menu(listed, setup.clock.now(), SecretMasks(secret_values(setup.environ))), setup.options)
    if row is None:
        raise ChoiceCancelled("no session was chosen")
    return row.value


def _in_use(setup: RunSetup, error: SessionInUse) -> RunSetup | None:
    if not _person(setup.options):
        raise error
    row = _choose(asked(error, "Quit"), setup.options)
    match row.value if row else "leave":
        case "view":
            from .sessions_command import main

            main(["show", error.sid], setup.folder)
            return None
        case "fork":
            return replace(setup, options=setup.options._replace(fork_session=True))
        case _:
            raise ChoiceCancelled(str(error))


def _person(options: Options) -> bool:
    return not options.headless and at_terminal()


def _choose(shown: Menu, options: Options) -> MenuRow | None:
    if at_screen(options.plain):
        from agent.ui.picker import choose_now

        return choose_now(shown, options.color)
    lines = [one_line(shown.title), *map(_line, shown.lines()[:SHOWN])]
    sys.stdout.write("\n".join(lines) + "\n")
    while True:
        sys.stdout.write("Which? (a number, or Enter to leave) ")
        sys.stdout.flush()
        answer = sys.stdin.readline().strip()
        if not answer or (row := shown.keyed(answer)) is not None:
            return row if answer else None


def _line(text: str) -> str:
    return f"  {one_line(text)}"
