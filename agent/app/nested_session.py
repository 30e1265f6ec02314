"""Run a session within a tool call of another one: `spawn`, whose contract tools.base.ToolContext gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from agent.events import Event, Notice
from agent.loop.context import ActiveSession, TurnContext
from agent.loop.turn import run_turn
from agent.session.environment_context import environment_context
from agent.session.session import Session, text_of_reply
from tools.base import SpawnRequest, SpawnResult, Tool, ToolError
from tools.inbox import Inbox
from tools.registry import definitions
from transcripts.facts import Reply
from transcripts.messages import TextBlock

from .composition import Services
from .context_building import overheads, shows


async def spawn(
    services: Services, parent: Session, context: TurnContext, request: SpawnRequest
) -> SpawnResult:
    """Run a nested session to its end; `parent` is charged for it. It cannot start sessions itself.

    Raises ToolError where a tool is named that the parent does not have.
    """
    session = services.repository.new()
    session.use_prices(parent.prices)
    nested = _nested_context(services, (parent, context), session, request)
    settings = nested.settings
    session.open(
        settings.system,
        settings.tools,
        model=settings.model,
        window=nested.compaction.window.size,
        folder=str(context.tool_context.folder),
        parent=parent.sid,
    )
    environment = environment_context(context.tool_context.folder, context.clock.now())
    session.user((TextBlock(environment), TextBlock(request.prompt)))

    def emit(event: Event) -> None:
        if isinstance(event, Notice):
            services.emit(event)

    try:
        ended = await run_turn(session, nested, emit)
        return SpawnResult(_last_text(session), session.sid, ended.turns, ended.error)
    finally:
        nested.tool_context.inbox.hand_over(context.tool_context.inbox)
        for model, spent in session.spending.items():
            parent.charge_nested(session.sid, model, spent)
        session.close("left")


def _offered(tools: Mapping[str, Tool], names: tuple[str, ...] | None) -> dict[str, Tool]:
    if unknown := [name for name in names or () if name not in tools]:
        known = ", ".join(tools)
        raise ToolError(f"There is no tool named {unknown[0]!r} to offer. The tools are: {known}.")
    return {name: tool for name, tool in tools.items() if names is None or name in names}


def _nested_context(
    services: Services, calling: ActiveSession, session: Session, request: SpawnRequest
) -> TurnContext:
    """The calling session's context with the nested one's own tools, limits and view of the files."""
    parent, context = calling
    tools = _offered(context.tools, request.tools)
    system = (*context.settings.system, *([request.system] if request.system else []))
    settings = replace(context.settings, system=system, tools=definitions(tools.values()))
    overhead = sum(overheads(settings, services.counter).values())
    state = replace(context.compaction, overhead=overhead, requested_focus=None, told="")
    own = replace(
        context.tool_context,
        session=session.sid,
        cwd=context.tool_context.folder,
        seen={},
        in_view=lambda seq: shows(session.folded, seq),
        lookup=partial(services.repository.originals, session),
        inbox=Inbox(),
        compact=lambda focus: setattr(state, "requested_focus", focus),
        spawn=None,
    )
    return replace(
        context,
        settings=settings,
        tools=tools,
        tool_context=own,
        compaction=state,
        fall_back=None,
        max_turns=request.max_turns or context.max_turns,
        max_cost=None if context.max_cost is None else max(0.0, context.max_cost - parent.cost),
    )


def _last_text(session: Session) -> str:
    texts = [text_of_reply(fact) for fact in session.folded.facts if isinstance(fact, Reply)]
    return next((text for text in reversed(texts) if text.strip()), "")
