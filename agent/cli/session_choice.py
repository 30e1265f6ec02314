"""Choose the session to resume before the screen is shown: by name, the newest, or from a list.

If another process has the session open, or it was not recorded on this machine, the user may view it or
continue in a copy.
"""

from __future__ import annotations

import asyncio
import sys

from msgspec.structs import replace

from agent.app import Options, RunSetup
from agent.errors import ChoiceCancelled, UsageError
from agent.menus import Menu, MenuRow, copy_menu, session_menu
from agent.session import SessionRepository
from agent.ui import at_screen, at_terminal, one_line
from agent.version import program_name
from transcripts import FromElsewhere, SessionInUse

from .sessions_command import run_sessions


def with_session(setup: RunSetup) -> RunSetup | None:
    """Return the setup with the session to resume, None if the user only viewed it.

    Raises UsageError, StoreError, ChoiceCancelled.
    """
    options = setup.options
    files = setup.session_files

    def tell(line: str) -> None:
        """Show no warning yet: the same one is shown when the session begins."""

    files.load_key(setup.config.state_dir, setup.folder, tell)
    repository = SessionRepository(setup.folder, keep=True, tell=tell, files=files)
    if options.resume and repository.is_recording(options.resume):
        return setup
    if options.continue_:
        path = repository.newest(scripted=options.headless or options.input_format != "text")
    else:
        path = repository.named(options.resume or _pick(repository, setup))
    found = replace(options, continue_=False, resume=path.stem)
    chosen = replace(setup, options=found)
    try:
        if not options.from_elsewhere:
            files.require_own(path)
        if not options.fork_session:
            files.require_closed(path)
    except (FromElsewhere, SessionInUse) as error:
        return _with_copy(chosen, error)
    return chosen


def _pick(repository: SessionRepository, setup: RunSetup) -> str:
    """Let the user choose a session from a list; returns its id."""
    listed = repository.records.continuable()
    if not listed:
        raise UsageError("cannot resume: this directory has no sessions")
    if not can_ask(setup.options):
        raise UsageError(
            f"--resume requires an id without a terminal; run `{program_name()} sessions` to list them"
        )
    menu = session_menu(listed, setup.clock.now(), setup.masks)
    row = choose_from(menu, setup.options)
    if row is None:
        raise ChoiceCancelled("no session was chosen")
    return row.value


def _with_copy(setup: RunSetup, error: SessionInUse | FromElsewhere) -> RunSetup | None:
    """Let the user view a session that continues only in a copy, copy it, or quit."""
    if not can_ask(setup.options):
        raise error
    row = choose_from(copy_menu(error, "Quit"), setup.options)
    match row.value if row else "leave":
        case "view":
            run_sessions(["show", error.sid], setup.folder)
            return None
        case "copy" if isinstance(error, SessionInUse):
            return replace(setup, options=replace(setup.options, fork_session=True))
        case "copy":
            options = replace(setup.options, from_elsewhere=True, fork_session=False, at=None)
            return replace(setup, options=options)
        case _:
            raise ChoiceCancelled(str(error))


def can_ask(options: Options) -> bool:
    """Return whether a user can answer before the session."""
    return not options.headless and at_terminal()


def choose_from(menu: Menu, options: Options) -> MenuRow | None:
    """Let the user choose a row while no session uses the screen; None if they cancel."""
    if at_screen(options.plain):
        from agent.ui import run_picker  # saves --continue the 110 ms of prompt_toolkit

        return asyncio.run(run_picker(menu, options.color))
    lines = [one_line(menu.title), *(f"  {one_line(line)}" for line in menu.keyed_lines()[:20])]
    sys.stdout.write("\n".join(lines) + "\n")
    while True:
        sys.stdout.write("Number (Enter to cancel): ")
        sys.stdout.flush()
        answer = sys.stdin.readline().strip()
        if not answer or (row := menu.row_for_key(answer)) is not None:
            return row if answer else None
        sys.stdout.write(f"'{one_line(answer)}' is not one of the numbers above\n")
