"""Commands of the product's heart: /compact, /uncompact, /recall, /pin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.events import Notice, Said
from agent.room import make_room
from compact.ledger import pins_of
from compact.notice import notice
from compact.pipeline import dry_run
from compact.undo import Refusal, plan_undo
from compact.window import percent

if TYPE_CHECKING:
    from agent.driver import Agent

DRY = "--dry-run"


async def compact(agent: Agent, argument: str) -> None:
    """Make room now. Words after it say what to keep an eye on; --dry-run only shows what would go."""
    session, parts = agent.in_use
    if not session.folded.entries:
        agent.emit(Notice("there is nothing to compact yet"))
        return
    situation = parts.situation(session)
    used = f"{situation.tokens:,} tokens, {percent(situation.tokens, situation.window):.0f} % of the window"
    if DRY in argument.split():
        focus = " ".join(word for word in argument.split() if word != DRY)
        planned = dry_run(situation, "manual", focus)
        if not planned.proposals:
            agent.emit(Notice(planned.note or "nothing would be compacted"))
            return
        told = notice(planned.proposals, "manual")
        stays = ["What stays, the largest first:", *planned.stays]
        agent.emit(Said("\n".join([f"{used}. This would happen:", told, *planned.goes, *stays])))
        return
    if goes := dry_run(situation, "manual", argument).goes:
        agent.emit(Said("\n".join([f"{used}. What goes, with a summary of the usual size:", *goes])))
    await make_room(session, parts, agent.emit, "manual", argument)


async def uncompact(agent: Agent, argument: str) -> None:
    """Undo a compaction, the newest one or the one with the given id. The record keeps both."""
    session, parts = agent.in_use
    agent.workshop.records.make_whole(session)
    active = [made.id for made in session.folded.compactions if made.id not in session.folded.undone]
    if not active:
        agent.emit(Notice("there is no compaction to undo"))
        return
    planned = plan_undo(parts.situation(session), argument or active[-1])
    if isinstance(planned, Refusal):
        agent.emit(Notice(planned.reason, "warning"))
        return
    session.undone(planned.id, planned.edits)
    agent.emit(Notice(planned.message))


async def recall(agent: Agent, argument: str) -> None:
    """Show what left the context. Takes an id such as r57, or words to look for."""
    library = agent.in_use[1].place.library
    if not argument or library is None:
        agent.emit(Notice("give an id (r57), or words to look for"))
        return
    try:
        agent.emit(Said(library.original(argument)))
    except KeyError:
        found = library.find(argument)
        lines = [f"{id}  {excerpt}" for id, excerpt in found]
        agent.emit(Said("\n".join(lines)) if lines else Notice(f"nothing holds {argument!r}"))


async def pin(agent: Agent, argument: str) -> None:
    """Pin a sentence, so that every compaction keeps it. Bare lists the pins; `remove N` takes one off."""
    session, _ = agent.in_use
    pins = pins_of(session.folded.notes)
    verb, _, rest = argument.partition(" ")
    if verb == "remove":
        if not rest.isdigit() or int(rest) not in pins:
            agent.emit(Notice(f"there is no pin {rest}", "warning"))
            return
        session.noted("unpin", {"id": int(rest)})
    elif argument:
        number = max(pins, default=0) + 1
        session.noted("pin", {"id": number, "text": argument})
    lines = [f"{number}  {text}" for number, text in pins_of(session.folded.notes).items()]
    agent.emit(Said("\n".join(lines)) if lines else Notice("nothing is pinned"))
