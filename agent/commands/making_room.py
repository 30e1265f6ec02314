"""Commands of the product's heart: /compact, /uncompact, /recall, /pin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.events import CommandOutput, Notice
from agent.loop.compaction import CompactionRequest, compact_context
from agent.session.repository import load_deferred
from compact.evicted import evicted_since
from compact.ledger import pins_of
from compact.notice import notice
from compact.pipeline import dry_run
from compact.uncompact import CannotUndo, plan_undo
from compact.window import percent
from transcripts.fold import Folded

if TYPE_CHECKING:
    from agent.app.controller import Controller

DRY = "--dry-run"
LISTED = 20  # lines of what left the context


async def compact(agent: Controller, argument: str) -> None:
    """Make room now. Words after it say what to keep an eye on; --dry-run only shows what would go."""
    session, context = agent.in_use
    if not session.folded.entries:
        agent.emit(Notice("there is nothing to compact yet"))
        return
    situation = context.situation(session)
    used = f"{situation.tokens:,} tokens, {percent(situation.tokens, situation.window):.0f} % of the window"
    if DRY in argument.split():
        focus = " ".join(word for word in argument.split() if word != DRY)
        planned = dry_run(situation, "manual", focus)
        if not planned.proposals:
            agent.emit(Notice(planned.note or "nothing would be compacted"))
            return
        told = notice(planned.proposals, "manual")
        stays = ["What stays, the largest first:", *planned.stays]
        agent.emit(CommandOutput("\n".join([f"{used}. This would happen:", told, *planned.goes, *stays])))
        return
    if goes := dry_run(situation, "manual", argument).goes:
        agent.emit(CommandOutput("\n".join([f"{used}. What goes, with a summary of the usual size:", *goes])))
    await compact_context(session, context, agent.emit, CompactionRequest("manual", argument))


async def uncompact(agent: Controller, argument: str) -> None:
    """Undo a compaction, the newest one or the one with the given id. The record keeps both."""
    session, context = agent.in_use
    load_deferred(session)
    active = [made.id for made in session.folded.compactions if made.id not in session.folded.undone]
    if not active:
        agent.emit(Notice("there is no compaction to undo"))
        return
    planned = plan_undo(context.situation(session), argument or active[-1])
    if isinstance(planned, CannotUndo):
        agent.emit(Notice(planned.reason, "warning"))
        return
    session.undone(planned.id, planned.edits)
    agent.emit(Notice(planned.message))


async def recall(agent: Controller, argument: str) -> None:
    """Show what left the context. Takes an id such as r57, or words to look for; bare lists what left."""
    session, context = agent.in_use
    library = context.tool_context.library
    if not argument:
        agent.emit(CommandOutput("\n".join(_gone(session.folded))))
        return
    if library is None:
        agent.emit(Notice("there is no record to recall from", "warning"))
        return
    try:
        agent.emit(CommandOutput(library.original(argument)))
    except KeyError:
        found = library.find(argument)
        lines = [f"{id}  {excerpt}" for id, excerpt in found]
        agent.emit(CommandOutput("\n".join(lines)) if lines else Notice(f"nothing holds {argument!r}"))


def _gone(folded: Folded) -> list[str]:
    """What left the context, in at most LISTED lines, and how to bring it back."""
    left = evicted_since(folded)
    if not left:
        return ["nothing left the context so far; /recall WORDS looks for words in the whole record"]
    shown = left if len(left) < LISTED else left[: LISTED - 2]
    lines = [f"{one.id:>7}  {one.tokens:>8,} tokens  {one.by:>5}  {one.what}" for one in shown]
    if hidden := len(left) - len(shown):
        lines.append(f"... and {hidden:,} more: /recall WORDS finds them")
    first = left[0]
    return [*lines, f"/recall {first.id} shows that one, /recall {first.by} all that {first.by} left out"]


async def pin(agent: Controller, argument: str) -> None:
    """Pin a sentence, so that every compaction keeps it. Bare lists the pins; `remove N` takes one off."""
    session, _ = agent.in_use
    pins = pins_of(session.folded.notes)
    verb, _, rest = argument.partition(" ")
    if verb == "remove":
        if not rest.isdigit() or int(rest) not in pins:
            agent.emit(Notice(f"there is no pin {rest}", "warning"))
            return
        session.add_metadata("unpin", {"id": int(rest)})
    elif argument:
        number = max(pins, default=0) + 1
        session.add_metadata("pin", {"id": number, "text": argument})
    lines = [f"{number}  {text}" for number, text in pins_of(session.folded.notes).items()]
    agent.emit(CommandOutput("\n".join(lines)) if lines else Notice("nothing is pinned"))
