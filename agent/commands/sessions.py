"""Commands that move between sessions: /clear, /sessions, /resume, /rewind, /fork, /rename, /export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent.events import Notice, Said
from agent.going_back import prompts, rewind_to
from agent.scrollback import show_briefly
from transcripts.export import export_text
from transcripts.facts import Noted
from transcripts.masking import Masks, secret_values

if TYPE_CHECKING:
    from agent.driver import Agent


async def clear(agent: Agent, argument: str) -> None:
    """Start a new conversation. The old one stays on disk, and its id is shown."""
    old, _ = agent.in_use
    await agent.take(*agent.workshop.new_session())
    if old.folded.last_seq:
        agent.emit(Notice(f"a new conversation; /resume {old.sid} goes back to the old one"))
    else:
        agent.emit(Notice("a new conversation"))


async def list_(agent: Agent, argument: str) -> None:
    """List the sessions of this folder, newest first."""
    lines = agent.workshop.records.listed()[:20]
    agent.emit(Said("\n".join(lines)) if lines else Notice("no sessions yet"))


async def resume(agent: Agent, argument: str) -> None:
    """Go on with an earlier session. Takes its id, the beginning of it, or its name."""
    if not argument:
        await list_(agent, "")
        agent.emit(Notice("/resume ID goes on with one of these"))
        return
    await agent.take(*agent.workshop.resume(argument))
    show_briefly(agent)


async def rewind(agent: Agent, argument: str) -> None:
    """Go back to before an earlier prompt. Bare lists them; `/rewind N` takes the conversation back, \
`/rewind N files` the files, `/rewind N both` both."""
    session, _ = agent.in_use
    listed = prompts(session.folded)
    if not listed:
        agent.emit(Notice("there is nothing to go back to"))
        return
    if not argument:
        lines = [f"{number:>3}  {' '.join(text.split())[:70]}" for number, (_, text) in enumerate(listed, 1)]
        agent.emit(Said("\n".join(lines)))
        agent.emit(Notice("/rewind N goes back to before that prompt (add `files` or `both`)"))
        return
    await rewind_to(agent, argument, listed)


async def fork(agent: Agent, argument: str) -> None:
    """Go on in a copy. The session so far stays as it is."""
    old, _ = agent.in_use
    await agent.take(*agent.workshop.fork(old))
    agent.emit(Notice(f"this is now {agent.in_use[0].sid}, a copy of {old.sid}"))


async def rename(agent: Agent, argument: str) -> None:
    """Give this session a name. It can be resumed by it."""
    session, _ = agent.in_use
    if argument:
        session.noted("name", {"name": argument})
    names = [note for note in session.folded.notes if isinstance(note, Noted) and note.topic == "name"]
    agent.emit(Notice(f"the name is {names[-1].about['name']!r}" if names else "this session has no name"))


async def export(agent: Agent, argument: str) -> None:
    """Write the session to a file. The ending chooses: .md (the default), .html, .jsonl."""
    session, _ = agent.in_use
    path = Path(argument).expanduser() if argument else Path(f"{session.sid}.md")
    if not path.is_absolute():
        path = agent.setup.folder / path
    if path.exists():
        agent.emit(Notice(f"{path} exists already; give another name", "warning"))
        return
    try:
        masks = Masks((*session.masks.values, *secret_values(agent.setup.environ)))
        text = export_text(session.folded, session.sid, path.suffix or ".md", session.shelf, masks)
    except ValueError as error:
        agent.emit(Notice(str(error), "warning"))
        return
    path.write_text(text, "utf-8")
    agent.emit(Notice(f"written to {path}"))
