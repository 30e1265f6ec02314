"""Run a session in a git worktree: open it before the session, and keep, merge or remove it afterwards."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from agent.app import (
    Options,
    RunSetup,
    Worktree,
    Worktrees,
    git_outside_session,
    start_command,
)
from agent.checkpoints import GitRunner
from agent.errors import ChoiceCancelled, UsageError
from agent.menus import question_menu
from agent.ui import print_diff
from tools.text import escaped
from transcripts import ProjectRecords
from transcripts.wording import pluralize

from .session_choice import can_ask, choose_from

Found = TypeVar("Found")


def offer_worktree(options: Options, folder: Path, places: Iterable[Path]) -> Options:
    """Offer to work in a new worktree if another session is open in one of the places.

    Raises ChoiceCancelled.
    """
    holders = (ProjectRecords(place).holder() for place in places)
    pid = next((holder for holder in holders if holder is not None), None)
    if pid is None or not can_ask(options) or Worktrees.around(folder) is None:
        return options
    menu = question_menu(
        f"Another session{f' (pid {pid})' if pid else ''} is open in this project",
        here="Work in the same files",
        worktree="Work in a new git worktree, on a branch of its own",
        quit="Quit",
    )
    row = choose_from(menu, options)
    if row is None or row.value == "quit":
        raise ChoiceCancelled("no directory was chosen")
    return replace(options, worktree="") if row.value == "worktree" else options


def enter_worktree(options: Options, folder: Path) -> tuple[Options, Path]:
    """Open the worktree that the options name; return them with its name, and the directory to work in.

    Raises UsageError.
    """
    worktrees = Worktrees.around(folder)
    if worktrees is None:
        raise UsageError(f"--worktree requires a git repository; {folder} is not in one")
    name = options.worktree or ""
    inside = worktrees.inside(folder)
    worktree, warnings = _with_git(worktrees.project, lambda git: _opened(worktrees, git, name, inside))
    place = worktree.path / inside
    if ProjectRecords(place).holder() is not None:
        warnings.append(
            f"another session is open in the worktree {worktree.name}; both change the same files"
        )
    options = replace(options, worktree=worktree.name, remarks=(*options.remarks, *warnings))
    return options, place


async def _opened(
    worktrees: Worktrees, git: GitRunner, name: str, inside: Path
) -> tuple[Worktree, list[str]]:
    """Return the worktree of that name, and warnings; about a new one also what it does not contain.

    Raises UsageError, also if it lacks the directory `inside`; then no new one is left.
    """
    is_new = not (name and Worktree(worktrees.project, name).exists)
    worktree, warnings = await worktrees.open(git, name)
    if not (worktree.path / inside).is_dir():
        if not is_new:
            raise UsageError(f"the worktree {worktree.name} has no directory {inside}")
        await worktree.discard(git, worktrees.project)
        raise UsageError(
            f"the last commit has no directory {inside}; commit it first, or start in {worktrees.project}"
        )
    if is_new and (count := await worktrees.left_behind(git, worktree)):
        changes = f"uncommitted changes in {pluralize(count, 'file')}"
        warnings.append(f"the new worktree begins at the last commit: {changes} of the project are not in it")
    return worktree, warnings


def leave_worktree(setup: RunSetup, code: int) -> None:
    """Ask whether to keep, merge or remove the worktree of a session that has ended. Raises UsageError."""
    worktrees = Worktrees.around(setup.folder)
    if worktrees is None or code > 128:
        return
    worktree = Worktree(worktrees.project, setup.options.worktree or "")
    os.chdir(worktree.project)
    state = _with_git(worktree.project, worktree.state)
    pid = ProjectRecords(setup.folder).holder()
    answer = "keep"
    if pid is None and can_ask(setup.options):
        keep = "Keep the worktree"
        title = f"Worktree {worktree.name}: {state}"
        if state.clean:
            menu = question_menu(title, keep=keep, remove="Remove the worktree and its branch")
        else:
            menu = question_menu(
                title, keep=keep, merge=f"Show the changes, and merge them into {state.onto}"
            )
        row = choose_from(menu, setup.options)
        answer = row.value if row is not None else "keep"
    if answer == "merge":
        try:
            answer = _merge(worktree, setup.options, state.onto)
        except UsageError as error:
            _tell(f"error: {error}")
            state = _with_git(worktree.project, worktree.state)
    if answer == "remove":
        _with_git(worktree.project, worktree.remove)
        _tell(f"removed the worktree {worktree.name}; its sessions are now those of {worktree.project}")
    else:
        command = start_command(setup.options).rstrip()
        _tell(f"kept the worktree {worktree.name} ({state}); continue in it with {command}")


def _merge(worktree: Worktree, options: Options, onto: str) -> str:
    """Show the changes and merge them if the user confirms; return "remove" if they were merged."""
    print_diff(_with_git(worktree.project, worktree.diff), options.color, limit=200)
    menu = question_menu(f"Merge these changes into {onto}?", no="No", yes="Yes, and remove the worktree")
    row = choose_from(menu, options)
    if row is None or row.value == "no":
        return "keep"
    _with_git(worktree.project, worktree.merge)
    _tell(f"merged the worktree {worktree.name} into {onto}")
    return "remove"


def _tell(text: str) -> None:
    sys.stderr.write(f"{escaped(text)}\n")


def _with_git(project: Path, action: Callable[[GitRunner], Awaitable[Found]]) -> Found:
    """Run an action with git where there is no session."""

    async def run() -> Found:
        async with git_outside_session(project, os.environ) as git:
            return await action(git)

    return asyncio.run(run())
