"""Commands that move between sessions: /clear, /sessions, /resume, /rewind, /fork, /rename, /export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent.app.rewind import menu, points, rewind_by_choice, rewind_to
from agent.events import CommandOutput, Notice
from agent.session.session import name_of
from transcripts.export import export_text, write_private
from transcripts.masking import SecretMasks, secret_values

from .session_switch import chosen_session, go_on_with, list_sessions

if TYPE_CHECKING:
    from agent.app.controller import Controller


async def clear(agent: Controller, argument: str) -> None:
    """Start a new conversation. The old one stays on disk, and its id is shown."""
    old, _ = agent.in_use
    await agent.use(*agent.factory.new())
    if old.folded.last_seq:
        agent.emit(Notice(f"a new conversation; /resume {old.sid} goes back to the old one"))
    else:
        agent.emit(Notice("a new conversation"))


async def list_(agent: Controller, argument: str) -> None:
    """List the sessions of this folder, newest first."""
    await list_sessions(agent)


async def resume(agent: Controller, argument: str) -> None:
    """Go on with an earlier session. Takes its id, the beginning of it, or its name; bare lets you choose."""
    wanted = argument or await chosen_session(agent)
    if wanted:
        await go_on_with(agent, wanted)


async def rewind(agent: Controller, argument: str) -> None:
    """Go back to before an earlier prompt. Bare lets you choose; `/rewind N` takes the conversation back, \
`/rewind N files` the files, `/rewind N both` both. N is the number in the list, the oldest prompt is 1. \
What would happen to files is shown first, `yes` at the end does it, `yes theirs` also to those that \
somebody else changed since."""
    session, _ = agent.in_use
    listed = points(session.folded)
    if not listed:
        agent.emit(Notice("there is nothing to go back to"))
    elif argument:
        await rewind_to(agent, argument, listed)
    elif agent.chooser is not None:
        await rewind_by_choice(agent, agent.chooser, listed)
    else:
        agent.emit(CommandOutput("\n".join(menu(agent, listed).lines())))
        agent.emit(Notice("/rewind N goes back to before that prompt (add `files` or `both`)"))


async def fork(agent: Controller, argument: str) -> None:
    """Go on in a copy. The session so far stays as it is."""
    old, _ = agent.in_use
    await agent.use(*agent.factory.fork(old))
    agent.emit(Notice(f"this is now {agent.in_use[0].sid}, a copy of {old.sid}"))


async def rename(agent: Controller, argument: str) -> None:
    """Give this session a name. It can be resumed by it."""
    session, _ = agent.in_use
    holder = agent.services.repository.holder_of(argument, session.sid) if argument else None
    if holder:
        words = f"the session {holder} has the name {argument!r} already; give another"
        agent.emit(Notice(words, "warning"))
        return
    if argument:
        session.add_metadata("name", {"name": argument})
    name = name_of(session.folded.notes)
    agent.emit(Notice(f"the name is {name!r}" if name else "this session has no name"))


async def export(agent: Controller, argument: str) -> None:
    """Write the session to a file. The ending chooses: .md (the default), .html, .jsonl."""
    session, _ = agent.in_use
    path = Path(argument).expanduser() if argument else Path(f"{session.sid}.md")
    if not path.is_absolute():
        path = agent.setup.folder / path
    try:
        masks = SecretMasks((*session.masks.values, *secret_values(agent.setup.environ)))
        text = export_text(session.folded, session.sid, path.suffix or ".md", session.deferred, masks)
    except ValueError as error:
        agent.emit(Notice(str(error), "warning"))
        return
    try:
        write_private(path, text)
    except FileExistsError:
        agent.emit(Notice(f"{path} exists already; give another name", "warning"))
        return
    agent.emit(Notice(f"written to {path}"))
