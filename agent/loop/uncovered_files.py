"""Find files and git objects that a sandboxed command may destroy and `/rewind` could not restore."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from agent import shell
from agent.checkpoints import Checkpoints, shown_paths
from agent.events import Emit
from tools.base import Access
from tools.processes import command_runner
from tools.search import run_git_script

from .changed_files import keep_refs, report_if_slow
from .context import TurnContext

UNCOVERED = "the project is too large for a checkpoint, so its changes could not be undone"


class Uncovered(NamedTuple):
    """The reason to ask before commands run, "" if whatever they may destroy can be restored.

    held  the sandbox makes some of it read-only, so that the commands only succeed outside
    """

    why: str = ""
    held: bool = False


async def find_uncovered(context: TurnContext, emit: Emit, accesses: Sequence[Access]) -> Uncovered:
    """Find what commands may destroy and `/rewind` could not restore."""
    checkpoints = context.checkpoints
    if checkpoints is None:
        return Uncovered()
    runs = [access for access in accesses if access.kind == "run"]
    guard = command_runner(context.tool_context).guard
    guard.may_prune = any(shell.pruning(*each) for access in runs for each in _lines(context, access))
    checkpoints.use_git(context.tool_context)
    covered = await report_if_slow(checkpoints, emit, asyncio.to_thread(checkpoints.recording.coverage))
    if covered == "nothing":
        return Uncovered(UNCOVERED)
    if any(_changed(context, access, ("", *checkpoints.recording.nested)) for access in runs):
        await keep_refs(checkpoints, emit, context.tool_context)
    found: dict[str, None] = {}
    for access in runs:
        found |= dict.fromkeys(await _lost(context, checkpoints, access))
        found |= dict.fromkeys(await _pruned(context, checkpoints, access))
    if not found:
        return Uncovered()
    lost = [f"{checkpoints.root / path}/" for path in found]
    held = any(f"{place}/".startswith(path) for place in _held(context) for path in lost)
    return Uncovered(f"/rewind could not restore {shown_paths(list(found), 4)}", held)


def _held(context: TurnContext) -> list[str]:
    """Return the places that the sandbox makes read-only in the project, which Landlock cannot."""
    profile = command_runner(context.tool_context).profile
    holds = profile is not None and context.permissions.rules.hides_files
    return [str(place) for place in profile.read_only] if profile is not None and holds else []


async def _lost(context: TurnContext, checkpoints: Checkpoints, access: Access) -> list[str]:
    recording = checkpoints.recording
    profile = command_runner(context.tool_context).profile
    links = [f"{name}/.git" for name in recording.nested]  # files in worktrees; the sandbox keeps them
    # Landlock holds and hides nothing in a project, where the checkpoints are.
    holds = profile is not None and context.permissions.rules.hides_files
    own = {place.name for place in profile.records} if profile is not None and holds else set()
    uncovered = shell.UncoveredFiles(
        folders=[name for name in dict.fromkeys([*recording.skipped, *links]) if name not in own],
        files=recording.unkept,
        others=[str(place) for place in profile.writable] if profile is not None else [],
        held=recording.held,
        read_only=_held(context),
    )
    lost = _lost_by(_lines(context, access), uncovered)
    if rebuildable := {*lost} & {*recording.rebuildable}:
        users = {name: await asyncio.to_thread(recording.own_files, name) for name in rebuildable}
        rebuilt = [name for name in rebuildable if not users[name]]
        lost = _lost_by(_lines(context, access), replace(uncovered, rebuildable=rebuilt))
        lost = [path for name in lost for path in users.get(name) or [name]]
    unkept = _changed(context, access, list(recording.keeper.unkept))
    return lost + [f"branches and stash of {name or 'the repository'}" for name in unkept]


def _lost_by(lines: Sequence[tuple[str, shell.Places]], uncovered: shell.UncoveredFiles) -> list[str]:
    return [
        path
        for at, (line, places) in enumerate(lines)
        for path in shell.lost_paths(line, places, uncovered, of_script=at > 0)
    ]


async def _pruned(context: TurnContext, checkpoints: Checkpoints, access: Access) -> list[str]:
    """Return a phrase for the objects of each repository that git would delete for good."""
    found = {shell.pruning(line, places) for line, places in _lines(context, access)}
    if found == {""}:
        return []
    recording = checkpoints.recording
    names = _changed(context, access, ("", *recording.nested))
    if "kept" in found:
        return [f"the commits of {name or 'the repository'}" for name in names]
    git = partial(run_git_script, context.tool_context)
    names = await recording.keeper.with_unreachable(git, names)
    return [f"unreachable objects of {name or 'the repository'}" for name in names]


def _changed(context: TurnContext, access: Access, repositories: Sequence[str]) -> list[str]:
    """Return those of the repositories that a command may change."""
    found = {
        name
        for line, places in _lines(context, access)
        for name in shell.changed_repositories(line, places, repositories)
    }
    return [name for name in repositories if name in found]


def _lines(context: TurnContext, access: Access) -> list[tuple[str, shell.Places]]:
    """Return the line of a command, followed by those of the project's scripts that it runs."""
    rules = context.permissions.rules
    places = rules.places(access)
    judge = rules.judge
    behind = shell.lines_behind(access.target, places, judge) if judge is not None else ()
    return [(access.target, places), *behind]
