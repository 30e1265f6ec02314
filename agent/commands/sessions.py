"""Commands about sessions: /clear, /sessions, /resume, /fork, /rename, /export."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from agent.app import Controller
from agent.errors import UsageError
from agent.events import CommandOutput, Event, Notice
from agent.loop import show_resumed, tokens_when_cold
from agent.menus import copy_menu, session_line, session_menu
from agent.ports import Chooser
from agent.typed_text import unquoted
from agent.version import program_name
from tools.files import FOLDER_FLAGS, closing, safe_open, write_new
from transcripts import FromElsewhere, Opened, SessionInUse, SessionSummary, short_sid
from transcripts.export import conversation_text, encoded, export_pieces
from transcripts.storage import expand_home
from transcripts.wording import cause_of, pluralize

from .table import usage_of

MAX_LISTED_SESSIONS = 20
_FOLLOWING = FOLDER_FLAGS & ~os.O_NOFOLLOW


async def new_session(controller: Controller, argument: str) -> Event | None:
    """Run /clear."""
    old, _ = controller.in_use
    await controller.use(*controller.factory.new(), source="clear")
    back = f"; run /resume {old.sid} to return to the old one" if old.folded.last_seq else ""
    return Notice(f"started a new conversation{back}")


async def list_sessions(controller: Controller, argument: str) -> Event:
    """Run /sessions."""
    masks = controller.setup.masks
    listed = controller.services.repository.records.continuable
    now = controller.in_use.context.clock.now()
    lines = [session_line(one, now, masks) for one in await asyncio.to_thread(listed)]
    if (older := len(lines) - MAX_LISTED_SESSIONS) > 0:
        what = pluralize(older, "older session")
        lines[MAX_LISTED_SESSIONS:] = [f"... and {what}; list them with `{program_name()} sessions`"]
    if not lines:
        return Notice("no sessions yet")
    return CommandOutput("\n".join(lines), "rows", sentences=1 if older > 0 else 0)


async def _other_sessions(controller: Controller, words: str = "") -> list[SessionSummary]:
    """Return the other sessions with all of the words in their name or first prompt, newest first."""
    listed = await asyncio.to_thread(controller.services.repository.records.continuable)
    others = [one for one in listed if one.sid != controller.in_use.session.sid]
    texts = [f"{one.name} {one.first_prompt}".casefold() for one in others]
    sought = words.casefold().split()
    return [one for one, text in zip(others, texts, strict=True) if all(word in text for word in sought)]


async def _choose_session(controller: Controller, chooser: Chooser, listed: list[SessionSummary]) -> str:
    """Let the user choose a session from a list; returns its id, "" if none was chosen."""
    menu = session_menu(listed, controller.in_use.context.clock.now(), controller.setup.masks)
    row = await chooser.choose(menu)
    return "" if row is None else row.value


async def _named_session(controller: Controller, wanted: str) -> str:
    """Return the id or the file of the session that `wanted` names or whose first prompt has its words.

    If several sessions match, the user chooses: "" if none was chosen. Raises UsageError if no session
    matches, or if several match and no one can choose.
    """
    records = controller.services.repository
    chooser = controller.chooser
    try:
        return wanted if records.is_recording(wanted) else records.named(wanted).stem
    except UsageError:
        found = await _other_sessions(controller, wanted)
        if not found or (len(found) > 1 and chooser is None):
            raise
    if chooser is None or len(found) == 1:
        return found[0].sid
    return await _choose_session(controller, chooser, found)


async def resume_session(controller: Controller, argument: str) -> Event | None:
    """Run /resume."""
    chooser = controller.chooser
    if argument:
        argument = await _named_session(controller, argument)
    elif chooser is None:
        controller.emit(await list_sessions(controller, ""))
        return Notice(usage_of("resume"))
    elif others := await _other_sessions(controller):
        argument = await _choose_session(controller, chooser, others)
    else:
        return Notice("this directory has no other sessions")
    if argument in ("", controller.in_use.session.sid):
        return Notice(f"{argument} is the current session") if argument else None
    try:
        await controller.use(*await controller.factory.resume(argument))
        await controller.factory.restore_choices(*controller.in_use)
    except (SessionInUse, FromElsewhere) as error:
        if chooser is None:
            raise
        row = await chooser.choose(copy_menu(error, "Stay in this session"))
        if row is not None and row.value == "view":
            folder = controller.setup.folder
            masks = controller.setup.masks
            text = await asyncio.to_thread(conversation_text, error.sid, folder, masks)
            return CommandOutput(text)
        if row is None or row.value != "copy":
            return None
        factory = controller.factory
        is_foreign = isinstance(error, FromElsewhere)
        copy = await (factory.adopt(error.sid) if is_foreign else factory.fork_of(error.sid))
        await controller.use(*copy, source="fork")
    await show_resumed(*controller.in_use, controller.emit, tokens_when_cold)
    return None


async def fork_session(controller: Controller, argument: str) -> Event | None:
    """Run /fork."""
    old, _ = controller.in_use
    await controller.use(*await controller.factory.fork(old), source="fork")
    return Notice(f"continuing in {short_sid(controller.in_use.session.sid)}, a copy of {short_sid(old.sid)}")


async def rename_session(controller: Controller, argument: str) -> Event | None:
    """Run /rename."""
    session, _ = controller.in_use
    argument = " ".join(argument.split())
    opened = next((fact for fact in session.folded.facts if isinstance(fact, Opened)), None)
    if opened is not None and opened.parent is not None:
        reason = f"the session of an agent is resumed by its id, {session.sid}"
        return Notice(f"cannot name this session: {reason}", "warning")
    owner = controller.services.repository.holder_of(argument, session.sid) if argument else None
    if owner:
        return Notice(f"cannot name this session '{argument}': {owner} has that name", "warning")
    if argument:
        session.add_metadata("name", {"name": argument})
    name = session.folded.name
    return Notice(f"this session is named '{name}'" if name else "this session has no name; run /rename NAME")


async def export_session(controller: Controller, argument: str) -> Event | None:
    """Run /export."""
    session, _ = controller.in_use
    path = controller.setup.folder / expand_home(unquoted(argument) or f"{session.sid}.md")
    path = Path(os.path.normpath(path))
    inside = path.is_relative_to(controller.setup.folder)
    try:
        if inside and (real := Path(os.path.realpath(path.parent))) != path.parent:
            reason = f"{path.parent} leads to {real} through a link; name that directory"
            return Notice(f"cannot write {path}: {reason}", "warning")
        # A command may put a link in the place of the directory.
        opened = safe_open(str(path.parent), FOLDER_FLAGS) if inside else os.open(path.parent, _FOLLOWING)
        with closing(opened) as folder:
            masks = controller.setup.masks
            suffix = path.suffix or ".md"
            await asyncio.to_thread(
                lambda: write_new(
                    folder,
                    path.name,
                    encoded(export_pieces(session.folded, session.sid, suffix, session.deferred, masks)),
                    0o600,
                )
            )
    except ValueError as error:
        return Notice(str(error), "warning")
    except FileExistsError:
        return Notice(f"cannot write {path}: the file exists; use another name", "warning")
    except OSError as error:
        return Notice(f"cannot write {path}: {cause_of(error)}", "error", code=1)
    return Notice(f"wrote {path}")
