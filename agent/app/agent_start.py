"""Let a session start agents: what runs them is loaded with the first, 10 ms that most sessions save."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from agent.events import AgentProgress, Notice
from agent.extensions.agents.agent_definitions import find_agent
from agent.loop.agent_pool import AGENT_TOPIC, Agent, AgentPool
from agent.loop.context import TurnContext
from agent.session.session import Session
from tools.base import SpawnRequest, SpawnResult, ToolError

from .composition import Services

_RUN_MODULE = f"{__package__}.nested_session"


def give_agents(services: Services, session: Session, context: TurnContext) -> None:
    """Let the tools of a session start agents; what earlier ones have reported to nobody is told."""
    tools = context.tool_context

    def runner() -> Any:
        return import_module(_RUN_MODULE)

    async def run(agent: Agent, request: SpawnRequest) -> SpawnResult:
        result: SpawnResult = await runner().run_agent(services, session, context, agent, request)
        return result

    pool = context.agents = AgentPool(session, context.max_cost, run)
    pool.tell = lambda agent: services.emit(AgentProgress(agent.status))
    pool.notify = lambda text: services.emit(Notice(text))
    pool.inbox, pool.attending = tools.inbox, not services.setup.options.headless
    tools.spawn = _spawning(services, pool)
    notes = (note.about for note in session.folded.metadata if note.topic == AGENT_TOPIC)
    if any(about.get("background") for about in notes):
        for report in runner().undelivered_reports(session, services.repository.home, services.counter):
            tools.inbox.post(report)


def _spawning(services: Services, pool: AgentPool) -> Callable[[SpawnRequest], Awaitable[SpawnResult]]:
    """How the tools start an agent; see tools.base.ToolContext."""

    async def spawn(request: SpawnRequest) -> SpawnResult:
        definition, options = find_agent(services.agents, request.agent), services.setup.options
        if request.agent and definition is None:
            known = ", ".join(services.agents)
            raise ToolError(f"There is no agent {request.agent!r}.\nThe agents are: {known}.")
        beside = request.background or (definition is not None and definition.background)
        returns = not options.headless or options.input_format != "text"  # somebody, to hear of it
        name = definition.name if definition is not None else ""
        return await pool.spawn(replace(request, agent=name, background=beside and returns))

    return spawn
