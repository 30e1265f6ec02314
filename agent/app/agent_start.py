"""Let a session start agents and use skills; the code that runs them is loaded on first use (10 ms each)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any

from msgspec.structs import replace

from agent.events import AgentProgress, Notice
from agent.extensions.agents import find_agent
from agent.loop import AGENT_TOPIC, Agent, AgentPool, TurnContext
from agent.session import Session
from tools.base import ToolError
from tools.spawning import SpawnRequest, SpawnResult

from .services import Services

_RUN_MODULE = f"{__package__}.nested_session"


def give_agents(services: Services, session: Session, context: TurnContext) -> None:
    """Let the tools of a session start agents, and deliver the undelivered reports of earlier agents."""
    tools = context.tool_context

    def runner() -> Any:
        return import_module(_RUN_MODULE)

    async def run(agent: Agent, request: SpawnRequest) -> SpawnResult:
        result: SpawnResult = await runner().run_agent(services, session, context, agent, request)
        return result

    pool = context.agents = AgentPool(session, max_cost=context.max_cost, run=run)
    pool.tell = lambda agent: services.emit(AgentProgress(agent.status))
    pool.notify = lambda text: services.emit(Notice(text))
    pool.inbox = tools.inbox
    pool.attending = not services.setup.options.headless
    tools.spawn = _spawning(services, pool)
    notes = (note.about for note in session.folded.metadata if note.topic == AGENT_TOPIC)
    if any(about.get("background") for about in notes):
        home = services.repository.home
        reports = runner().undelivered_reports(session, home, services.counter, pool.notify)
        for report in reports:
            tools.inbox.post(report.block, report.label, report.since)


def _spawning(services: Services, pool: AgentPool) -> Callable[[SpawnRequest], Awaitable[SpawnResult]]:
    """Return the function with which tools start an agent; see tools.base.ToolContext."""

    async def spawn(request: SpawnRequest) -> SpawnResult:
        definition = find_agent(services.agents, request.agent)
        options = services.setup.options
        if request.agent and definition is None:
            names = ", ".join(services.agents)
            raise ToolError(f"Unknown agent: {request.agent!r}.\nAvailable agents: {names}.")
        in_background = request.background or (definition is not None and definition.background)
        returns = not options.headless or options.input_format != "text"  # a later turn can take the report
        name = definition.name if definition is not None else ""
        return await pool.spawn(replace(request, agent=name, background=in_background and returns))

    return spawn


_SKILLS_MODULE = f"{__package__}.skill_runs"


def give_skills(
    services: Services,
    session: Session,
    context: TurnContext,
    use_model: Callable[[str], Awaitable[None]] | None = None,
) -> None:
    """Let the tools of a session, and its prompts, use commands and skills.

    `use_model` changes the session's model. It is None in a nested session, where a skill gets no rights, no
    model and no effort of its own.
    """

    @cache
    def made() -> Any:
        return import_module(_SKILLS_MODULE).SessionSkills(services, session, context, use_model)

    context.tool_context.skills = lambda: made() if services.skills.skills else None
