"""A git worktree for an agent, with permissions, a sandbox and file state of its own.

    /p                              the session's project
    /p/.makeroom/worktrees/fixer-1  the directory of an agent `fixer`, on branch fixer-1 from HEAD

The agent's paths and rules are relative to its worktree. When it ends without changes, the worktree is
removed. Otherwise its report names branch and path, and a summary of the changes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct

from agent.errors import UsageError
from agent.events import Notice
from agent.loop import SessionSandbox, TurnContext
from tools.base import ToolError
from tools.processes import command_runner
from tools.search import Checkout
from transcripts import ChannelBlock

from .agent_rights import IsolatedPermissions
from .nested_context import NestedCall
from .permission_loading import home_of
from .worktrees import Worktree, Worktrees, git_outside_session

ISOLATED = """\
You work in a git worktree of your own, {path}, on the branch {branch}. It contains the last commit of the \
project, without uncommitted changes. Do all work in this directory: your changes stay on the branch."""
KEPT = "Its changes are not in the project but in the worktree {path}, on the branch {branch}"


class AgentWorktree(Struct, frozen=True):
    """The worktree of the agent of a call.

    folder  the directory in it that corresponds to the session's
    start   the checkout whose HEAD, the commit `base`, the branch began at
    """

    call: NestedCall
    worktree: Worktree
    folder: Path
    start: Path
    base: str

    @property
    def introduction(self) -> ChannelBlock:
        """The words to the agent about its worktree."""
        return ChannelBlock(ISOLATED.format(path=self.folder, branch=self.worktree.name))

    async def enter(self, context: TurnContext) -> None:
        """Let the context of the agent work in the worktree, with commands of its own."""
        tools = context.tool_context
        tools.folder = self.folder
        tools.cwd = self.folder
        tools.jobs = None
        tools.locks = {}
        tools.records = None
        mode = self.call.definition.mode if self.call.definition is not None else None
        permissions = IsolatedPermissions(
            self.call.context.permissions, mode=mode, folder=self.folder, tools=tools
        )
        tools.may_read = lambda tool, path: permissions.rules.may_search(tool, path)
        context.permissions = permissions
        context.checkpoints = None
        if context.sandbox is not None:
            home = home_of(self.call.services.setup.environ)
            context.sandbox = SessionSandbox(tools, permissions=permissions, home=home)
            await context.sandbox.warm()

    async def leave(self, context: TurnContext) -> None:
        """End the commands of the agent, and its sandbox."""
        tools = context.tool_context
        if tools.folder == self.folder:  # else they are the session's
            await command_runner(tools).close()
        if context.sandbox is not None and context.sandbox.tools is tools:
            await context.sandbox.close()

    async def settle(self) -> str:
        """Remove the worktree if nothing has changed in it; else return the part of the report about it."""
        kept = KEPT.format(path=self.worktree.path, branch=self.worktree.name)
        async with git_outside_session(self.start, self.call.services.setup.environ) as git:
            try:
                changes = await self.worktree.work_since(git, self.base)
                if changes:
                    return f"{kept}:\n{changes}"
                await self.worktree.discard(git, self.start)
            except UsageError as error:
                return f"{kept} ({error})"
        return ""

    async def abandon(self, context: TurnContext | None) -> None:
        """End what an interrupted agent has started, and show the user the worktree if it is kept."""
        if context is not None:
            await self.leave(context)
        if kept := await self.settle():
            self.call.services.emit(Notice(f"[{self.call.agent.label}] {kept}"))


async def open_worktree(call: NestedCall) -> AgentWorktree:
    """Create a worktree for the agent of a call. Raises ToolError."""
    services = call.services
    folder = services.setup.folder
    name = call.definition.name if call.definition is not None else "agent"
    worktrees = Worktrees.around(folder)
    checkout = Checkout.around(folder)
    if worktrees is None or checkout is None:
        raise ToolError(f"Cannot start agent {name}: `isolation: worktree` requires a git repository.")
    prefix = "".join(each if each.isalnum() else "-" for each in name)  # names of plugins contain a colon
    try:
        async with git_outside_session(folder, services.setup.environ) as git:
            worktree, warnings = await worktrees.open(git, "", prefix=prefix, start=checkout.top)
            base = await worktree.head(git)
    except UsageError as error:
        raise ToolError(f"Cannot start agent {name}: {error}") from error
    for warning in warnings:
        services.warn(f"[{call.agent.label}] {warning}")
    place = worktree.path / worktrees.inside(folder)
    await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
    return AgentWorktree(call, worktree=worktree, folder=place, start=checkout.top, base=base)
