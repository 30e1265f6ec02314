"""The permissions of an agent: at most those of its calling session, without anything denied there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent import shell
from agent.loop import Agent, AgentPool, Place, TurnContext
from agent.permissions import Mode, PermissionRules, PermissionStore, SandboxSettings
from agent.ports import Allow, Approver, Deny, HookAnswer, HookEvent, Hooks, PermissionQuestion
from agent.session import Session
from tools.base import Access, ToolContext, ToolError
from tools.files import FileError
from tools.guarded import worktree_places
from tools.processes import filter_environment
from transcripts import Exchange, Prompt

# From the narrowest to the widest: each mode allows at most what the next one allows or asks about.
MODES_BY_WIDTH: tuple[Mode, ...] = ("plan", "dontAsk", "manual", "acceptEdits", "bypassPermissions")
REFUSED_BEFORE = "the user denied this to the session that started you, so it is denied to its agents too"


class NarrowedPermissions(PermissionStore):
    """The permissions of a session in a mode that allows at most as much. Grants are made to the session.

    In plan mode a command must be provably read-only, even in the sandbox.
    """

    def __init__(self, origin: PermissionStore, mode: Mode | None) -> None:
        self._origin = origin
        self._mode = mode
        self.path = origin.path
        self.denied = origin.denied

    @property
    def rules(self) -> PermissionRules:
        rules = self._origin.rules
        mode = rules.mode if self._mode is None else min(rules.mode, self._mode, key=MODES_BY_WIDTH.index)
        if mode == rules.mode:
            return rules
        return replace(rules, mode=mode, asks_sandboxed=rules.asks_sandboxed or mode == "plan")

    @rules.setter
    def rules(self, rules: PermissionRules) -> None:
        self._grant(rules)

    def _grant(self, rules: PermissionRules) -> None:
        """Use the rules for the session too, in its own mode."""
        before = self._origin.rules
        self._origin.rules = replace(rules, mode=before.mode, asks_sandboxed=before.asks_sandboxed)

    @property
    def sandbox(self) -> SandboxSettings:
        return self._origin.sandbox

    @sandbox.setter
    def sandbox(self, sandbox: SandboxSettings) -> None:
        self._origin.sandbox = sandbox

    def set_mode(self, mode: Mode) -> None:
        """Set the session's mode, as the user asked; the agent's mode stays at least as narrow as before."""
        self._origin.set_mode(mode)


class IsolatedPermissions(NarrowedPermissions):
    """The permissions of an agent in its worktree, to which paths and rules are relative.

    The state of its sandbox is its own; grants are made to the session.
    """

    def __init__(self, origin: PermissionStore, mode: Mode | None, folder: Path, tools: ToolContext) -> None:
        super().__init__(origin, mode)
        environ = filter_environment(tools.environ, tools.pass_env)
        self._folder = str(folder)
        self._reading = lambda: shell.ProjectEnvironment(str(folder), environ)
        self._written = tuple(worktree_places(str(folder)))
        self._sandboxed = False
        self._sandbox_read_only = False

    @property
    def rules(self) -> PermissionRules:
        return replace(
            super().rules,
            folder=self._folder,
            reading=self._reading,
            sandboxed=self._sandboxed,
            sandbox_read_only=self._sandbox_read_only,
        )

    @rules.setter
    def rules(self, rules: PermissionRules) -> None:
        self._sandboxed = rules.sandboxed
        self._sandbox_read_only = rules.sandbox_read_only
        before = self._origin.rules
        self._grant(
            replace(
                rules,
                folder=before.folder,
                reading=before.reading,
                sandboxed=before.sandboxed,
                sandbox_read_only=before.sandbox_read_only,
                sandbox_required=before.sandbox_required,
            )
        )

    @property
    def sandbox(self) -> SandboxSettings:
        """The settings of the session, with the places that a commit in the worktree writes."""
        return self._origin.sandbox.with_entries({"write": self._written})

    @sandbox.setter
    def sandbox(self, sandbox: SandboxSettings) -> None:
        write = tuple(path for path in sandbox.write if path not in self._written)
        self._origin.sandbox = replace(sandbox, write=write)


class AgentApprover(Struct, frozen=True):
    """An approver for an agent: asks in the agent's name, one question at a time.

    refused   returns the accesses that the user denied in this turn
    changed   called when a wait begins or ends
    """

    approver: Approver
    agent: Agent
    pool: AgentPool
    refused: Callable[[], set[Place]]
    changed: Callable[[], None]

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        """See ports.Approver."""
        if self.refused() & _places(question.access):
            return Deny(REFUSED_BEFORE, unattended=True)
        agent = self.agent
        pool = self.pool
        agent.asks = True
        agent.answered.clear()
        self.changed()
        try:
            if agent.background and pool.attending:
                agent.may_ask.clear()
                pool.notify(f"{agent.label} asks for permission to use {question.tool}; answer with /agents")
                await agent.may_ask.wait()
            async with self.pool.asking:
                answer = await self.approver.ask(replace(question, asker=self.agent.label))
        finally:
            agent.asks = False
            agent.answered.set()
            self.changed()
        if isinstance(answer, Deny) and not answer.unattended:
            self.pool.refused |= _places(question.access)
            self.agent.stops = answer.stop
        return answer


def _places(accesses: Iterable[Access]) -> set[Place]:
    return {(access.kind, access.target) for access in accesses if access.kind != "none"}


def refused_to_agents(session: Session, context: TurnContext) -> set[Place]:
    """Return the accesses the user denied since the newest prompt, to the session or to one of its agents."""
    prompts = (each for each in reversed(session.folded.entries) if isinstance(each, Prompt))
    since = next((each.seq for each in prompts if each.fact.source == "user"), 0)
    pool = context.agents
    if pool is not None and pool.refused_since != since:
        pool.refused = set()
        pool.refused_since = since
    return _refused_to(session, context, since) | (pool.refused if pool is not None else set())


def _refused_to(session: Session, context: TurnContext, since: int) -> set[Place]:
    denied = {call.id for call in context.permissions.denied}
    found: set[Place] = set()
    for entry in reversed(session.folded.entries if denied else ()):
        if entry.seq < since:
            break
        for use in entry.uses.values() if isinstance(entry, Exchange) else ():
            tool = context.tools.get(use.name)
            if use.id not in denied or tool is None:
                continue
            try:
                access = tool.access(tool.parse(use.input), context.tool_context)
            except (FileError, ToolError):
                continue
            found |= _places(access)
    return found


class AgentHooks(Struct, frozen=True):
    """The session's hooks as an agent runs them: their input names the agent."""

    hooks: Hooks
    agent: Agent

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        """See ports.Hooks."""
        names = {"agent_id": self.agent.sid, "agent_type": self.agent.name}
        return await self.hooks.run(event, {**about, **names})
