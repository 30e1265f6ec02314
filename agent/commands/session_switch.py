"""Going on with another session at run time: chosen from a list, named, or a copy of one in use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.cli.session_choice import asked
from agent.events import CommandOutput, Notice
from agent.session.scrollback import show_briefly
from agent.session.session_rows import line, menu
from transcripts.masking import SecretMasks, secret_values
from transcripts.record_errors import SessionInUse

if TYPE_CHECKING:
    from agent.app.controller import Controller

SHOWN = 20


async def list_sessions(agent: Controller) -> None:
    """Tell the newest sessions, a line each."""
    masks = _masks(agent)
    lines = [line(one, masks) for one in await asyncio.to_thread(agent.services.repository.listed)]
    more = [f"and {len(lines) - SHOWN} older ones: makeroom sessions"] if len(lines) > SHOWN else []
    agent.emit(CommandOutput("\n".join([*lines[:SHOWN], *more])) if lines else Notice("no sessions yet"))


async def chosen_session(agent: Controller) -> str | None:
    """The id of another session that the person chooses; where nobody can, they are listed."""
    session, context = agent.in_use
    if agent.chooser is None:
        await list_sessions(agent)
        agent.emit(Notice("/resume ID goes on with one of these"))
        return None
    listed = await asyncio.to_thread(agent.services.repository.listed)
    others = [one for one in listed if one.sid != session.sid]
    if not others:
        agent.emit(Notice("there is no other session in this folder"))
        return None
    row = await agent.chooser.choose(menu(others, context.clock.now(), _masks(agent)))
    return row.value if row else None


async def go_on_with(agent: Controller, wanted: str) -> None:
    """Use another session from now on, by id or name. Raises StoreError, UsageError."""
    session, _ = agent.in_use
    factory = agent.factory
    if (
        not agent.services.repository.is_recording(wanted)
        and agent.services.repository.named(wanted).stem == session.sid
    ):
        agent.emit(Notice(f"{session.sid} is the session that you are in"))
        return
    try:
        await agent.use(*factory.resume(wanted))
    except SessionInUse as error:
        if agent.chooser is None:
            raise
        row = await agent.chooser.choose(asked(error, "Stay in this session"))
        if row is not None and row.value == "view":
            from agent.cli.sessions_command import shown

            agent.emit(CommandOutput(await asyncio.to_thread(shown, error.sid, agent.setup.folder)))
        if row is None or row.value != "fork":
            return
        await agent.use(*factory.fork_of(error.sid))
    show_briefly(agent.in_use[0], agent.emit)


def _masks(agent: Controller) -> SecretMasks:
    return SecretMasks(secret_values(agent.setup.environ))
