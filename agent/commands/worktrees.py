"""The command /worktree."""

from __future__ import annotations

from functools import partial

from agent.app import Controller, Worktrees
from agent.errors import UsageError
from agent.events import CommandOutput, Event, Notice
from agent.version import program_name
from tools.search import run_git_script
from tools.text import escaped
from transcripts import ProjectRecords


async def show_worktrees(controller: Controller, argument: str) -> Event:
    """Run /worktree."""
    tools = controller.in_use.context.tool_context
    worktrees = Worktrees.around(tools.folder)
    listed = [] if worktrees is None else worktrees.listed()
    if not listed:
        return Notice("no worktrees; start makeroom with --worktree to work in one")
    git = partial(run_git_script, tools)
    lines = []
    for each in listed:
        try:
            state = str(await each.state(git))
        except UsageError as error:
            state = f"unknown state: {error}"
        here = tools.folder.is_relative_to(each.path)
        elsewhere = ProjectRecords(each.path).holder() is not None
        note = "  (open in another session)" if elsewhere else ""
        note = "  (this session)" if here else note
        lines.append(escaped(f"{each.name:<20}  {state}{note}"))
    controller.emit(CommandOutput("\n".join(lines)))
    return Notice(
        f"run {program_name()} --worktree NAME to continue in one; exit that session to merge or remove it"
    )
