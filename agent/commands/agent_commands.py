"""The command about agents, the sessions that this one has started: /agents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agent.app.controller import Controller
from agent.events import CommandOutput, Event, Notice
from agent.formatting import format_count
from agent.loop.agent_pool import AGENT_TOPIC, Agent
from agent.session.conversation_text import conversation_text
from tools.files.text_encoding import pluralize


async def show_agents(controller: Controller, argument: str) -> Event | None:
    """Show the agents of this session, what they do and what they cost, and answer their questions. With a \
number, show what that one did so far; `stop N` ends one in the background, `stop` all of them."""
    session, context = controller.in_use
    if context.agents is None:
        return Notice("this session starts no agents")
    pool, (verb, _, rest) = context.agents, argument.partition(" ")
    known = {agent.number: agent for agent in pool.agents}
    if verb == "stop":
        one = known.get(int(rest)) if rest.isdecimal() else None
        ended = pool.interrupt(one) if one is not None or not rest else 0
        return Notice(f"{pluralize(ended, 'agent')} in the background ended")
    notes = [note.about for note in session.folded.metadata if note.topic == AGENT_TOPIC]
    by_number = {about.get("number"): about for about in notes}
    if number := argument.removeprefix("#"):
        noted = by_number.get(int(number)) if number.isdecimal() else None
        if noted is None:
            return Notice("/agents N shows one; N is its number in the list of /agents", "warning")
        home, masks = controller.services.repository.home, controller.setup.masks
        sid, since = str(noted.get("session")), int(noted.get("since") or 0)
        return CommandOutput(await asyncio.to_thread(conversation_text, sid, home, masks, since))
    earlier = [_earlier_line(about) for about in notes if about.get("number") not in known]
    lines = [*earlier, *map(agent_line, known.values())]
    if not lines:
        return Notice("no agent was started so far")
    controller.emit(CommandOutput("\n".join(lines)))
    await pool.let_ask()
    return None


def agent_line(agent: Agent) -> str:
    """An agent in a list: `#1  explore  find the parser  (done, 12 requests, 34k tokens, $0.0210)`."""
    end = "interrupted" if agent.stopped else "ended early" if agent.error else "done"
    state = end if agent.ended else agent.status.doing
    figures = f"{pluralize(agent.requests, 'request')}, {format_count(agent.tokens)} tokens"
    return f"#{agent.number}  {agent.name}  {agent.task}  ({state}; {figures}, ${agent.dollars:.4f})"


def _earlier_line(about: Mapping[str, Any]) -> str:
    return f"#{about.get('number')}  {about.get('agent')}  {about.get('task')}  (before this run)"
