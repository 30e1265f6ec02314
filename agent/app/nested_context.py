"""The context of a nested session: the calling session's context with its own tools, limits and rights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.errors import UsageError
from agent.extensions.agents import AGENTS_HEAD, REPORT_RULES, AgentDefinition
from agent.extensions.mcp import restricted_tool
from agent.loop import Agent, CompactionState, TurnContext, request_compaction, same_tool
from agent.model_port import RequestSettings
from agent.permissions import FOREIGN_PREFIX
from agent.session import Session, agent_prompt
from tools.base import SMALL_WINDOW_TOKENS, Tool, ToolError
from tools.files import FileError
from tools.processes import Inbox
from tools.registry import definitions
from tools.spawning import SpawnRequest
from transcripts import Block

from .agent_rights import AgentApprover, AgentHooks, NarrowedPermissions, refused_to_agents
from .agent_start import give_skills
from .context_building import compaction_state, overheads, request_settings, require_price, shows
from .options import EFFORTS
from .services import Services


class NestedCall(Struct, frozen=True):
    """A call that starts an agent: its session, the request and the definition of the agent.

    definition  None: the agent works like the session, with the additions of the request
    forked      the agent works in a copy of the conversation
    """

    services: Services
    parent: Session
    context: TurnContext
    agent: Agent
    request: SpawnRequest
    definition: AgentDefinition | None = None
    forked: bool = False

    @property
    def about(self) -> dict[str, Any]:
        """Return the facts about the agent that the opening of its transcript contains."""
        agent = self.agent
        return {
            "agent": agent.name,
            "number": agent.number,
            "call": self.request.call,
            "task": agent.task,
        }


async def nested_context(call: NestedCall, session: Session, changed: Callable[[], None]) -> TurnContext:
    """Return the context of the nested `session`; `changed` is called when the agent begins or ends a wait.

    Raises ToolError if the call asks for an unknown tool or model.
    """
    context = call.context
    agent = call.agent
    definition = call.definition
    if context.sandbox is not None:  # so that what its system prompt says about commands is true
        await context.sandbox.check()
    tools = _tools(call)
    settings, state = await model_of_agent(call.services, context, definition)
    if not call.forked:  # a fork keeps the cached prefix, including tools that it may not use
        settings = replace(settings, system=_system(call, tools), tools=definitions(tools.values()))
        state.overhead = sum(overheads(settings, call.services.counter).values())
    own = replace(
        context.tool_context,
        session=session.sid,
        cwd=context.tool_context.folder,
        seen={},
        in_view=lambda seq: shows(session.folded, seq),
        lookup=partial(call.services.repository.originals, session),
        inbox=Inbox(),
        plan_mode=None,
        page_bytes=lambda: state.page_bytes,
        spawn=None,
    )
    refused = partial(refused_to_agents, call.parent, context)
    assert context.agents is not None
    nested = replace(
        context,
        settings=settings,
        tools=tools,
        tool_context=own,
        compaction=state,
        approver=AgentApprover(
            context.approver, agent=agent, pool=context.agents, refused=refused, changed=changed
        ),
        hooks=None if context.hooks is None else AgentHooks(context.hooks, agent),
        permissions=NarrowedPermissions(context.permissions, definition.mode if definition else None),
        fall_back=None,
        max_turns=_most_requests(call),
        max_cost=session.cost + agent.budget,
        checkpoints=None if context.checkpoints is None else context.checkpoints.for_agent(),
        agents=None,
        follows_memory=context.follows_memory and (definition is None or definition.memory),
    )
    own.compact = partial(request_compaction, session, nested)
    own.offers = lambda name: name in nested.tools
    give_skills(call.services, session, nested)
    return nested


async def preloaded_skills(call: NestedCall, context: TurnContext) -> list[Block]:
    """Return the instructions of the skills that the definition names; emits a warning for one that fails."""
    blocks = list[Block]()
    tools = context.tool_context
    names = call.definition.skills if call.definition is not None else ()
    skills = tools.skills() if names and tools.skills is not None else None
    for name in names:
        try:
            if skills is None:
                raise ToolError(f"cannot load the skill {name}: skills are not available here")
            blocks += (await skills.load(name, "")).content
        except (FileError, ToolError) as error:
            call.services.warn(f"[{call.agent.label}] {str(error).partition(chr(10))[0]}")
    return blocks


def _most_requests(call: NestedCall) -> int:
    of_definition = call.definition.max_turns if call.definition is not None else None
    return min(filter(None, (50, call.request.max_turns, of_definition)))


def _system(call: NestedCall, tools: Mapping[str, Tool]) -> tuple[str, ...]:
    """Return the definition's system prompt, with the session's parts about commands and the project."""
    system = call.context.settings.system
    definition = call.definition
    if definition is None:
        return (*system, *filter(None, [call.request.system]))
    kept = (*system[:1], *(text for text in system[1:] if not text.startswith(AGENTS_HEAD)))
    own = (definition.prompt, REPORT_RULES)
    brief = call.services.window <= SMALL_WINDOW_TOKENS
    texts = agent_prompt(kept, own, tools, has_memory=definition.memory, brief=brief)
    return (*texts, *filter(None, [call.request.system]))


def _tools(call: NestedCall) -> dict[str, Tool]:
    """Return the tools that the agent is offered, in the session's order. Raises ToolError."""
    tools = {name: tool for name, tool in call.context.tools.items() if tool.for_agents}
    wanted = call.request.tools
    definition = call.definition
    if unknown := [name for name in wanted or () if name not in tools]:
        known = ", ".join(tools)
        raise ToolError(f"Cannot offer unknown tool {unknown[0]!r}. Available tools: {known}.")
    if definition is None or wanted is not None:
        return {name: tool for name, tool in tools.items() if wanted is None or name in wanted}
    without = _named(tools, tuple(name for name in definition.without if not name.startswith(FOREIGN_PREFIX)))
    offered = tools if definition.tools is None else _named(tools, definition.tools)
    if definition.tools and not offered:
        names = ", ".join(definition.tools)
        raise ToolError(f"Cannot start agent {definition.name}: none of its tools is available ({names}).")
    if "mcp" in tools:
        tools["mcp"] = restricted_tool(tools["mcp"], definition.tools, definition.without)
    return {name: tool for name, tool in tools.items() if name in offered and name not in without}


def _named(tools: Mapping[str, Tool], names: tuple[str, ...]) -> set[str]:
    """Return the tools that these names mean; another program's tool without an equivalent is skipped."""
    return {tool.name for name in names for tool in _each(tools, name)}


def _each(tools: Mapping[str, Tool], name: str) -> list[Tool]:
    if name.endswith("*"):
        return [tool for tool in tools.values() if tool.name.startswith(name[:-1])]
    found = same_tool(tools, name)
    return [] if found is None else [found]


async def model_of_agent(
    services: Services, context: TurnContext, definition: AgentDefinition | None
) -> tuple[RequestSettings, CompactionState]:
    """Return the request settings of an agent, and the state for its compactions.

    The system prompt and the tools are still the session's. Raises ToolError for an unknown model.
    """
    settings = context.settings
    state = context.compaction
    selection = services.selection
    if definition is not None and definition.model:
        resolved = selection.model.catalog.resolve(definition.model)
        if resolved != settings.model:
            selection = selection.for_model(resolved)
            try:
                await selection.choose(resolved)
                require_price(services.setup, selection.facts)
            except UsageError as error:
                raise ToolError(f"Cannot start agent {definition.name}: {error}") from error
            other = replace(services, selection=selection)
            made = request_settings(other, None, context.permissions.rules)
            settings = replace(made, system=settings.system, tools=settings.tools, tag=settings.tag)
            state = compaction_state(other, settings)
    if definition is not None and definition.effort in EFFORTS and selection.facts.effort:
        settings = replace(settings, effort=definition.effort)
    return settings, replace(state, requested_focus=None, shown_reason="")
