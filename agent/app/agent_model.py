"""The model that an agent works with: the session's, or the one that its definition names."""

from __future__ import annotations

from dataclasses import replace

from agent.errors import UsageError
from agent.extensions.agents.agent_definitions import AgentDefinition
from agent.loop.context import CompactionState, TurnContext
from agent.model_port import RequestSettings
from tools.base import ToolError

from .composition import Services
from .context_building import compaction_state, request_settings, require_price
from .options import EFFORTS


async def model_of_agent(
    services: Services, context: TurnContext, definition: AgentDefinition | None
) -> tuple[RequestSettings, CompactionState]:
    """What the requests of an agent ask for, and what its compactions plan with.

    The system prompt and the tools are still the session's. Raises ToolError where there is no such model.
    """
    settings, state = context.settings, context.compaction
    selection = services.selection
    if definition is not None and definition.model:
        resolved = selection.model.catalog.resolve(definition.model)
        if resolved != settings.model:
            selection = selection.beside(resolved)
            try:
                await selection.choose(resolved)
                require_price(services.setup, selection.facts)
            except UsageError as error:
                raise ToolError(f"The agent {definition.name} cannot work: {error}") from error
            other = replace(services, selection=selection)
            made = request_settings(other, None, context.permissions.rules)
            settings = replace(made, system=settings.system, tools=settings.tools)
            state = compaction_state(other, settings)
    if definition is not None and definition.effort in EFFORTS and selection.facts.effort:
        settings = replace(settings, effort=definition.effort)
    return settings, replace(state, requested_focus=None, told="")
