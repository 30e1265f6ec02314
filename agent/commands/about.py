"""Commands that show how things stand: /context, /cost, /status, /model, /effort."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.app.config import EFFORTS
from agent.app.context_building import overheads
from agent.events import Charted, Notice, Said
from agent.loop.model_call import size
from agent.model.catalog import ALIASES, nearest
from compact.outcome import outcome
from compact.placeholders import recall_id
from compact.report import named
from compact.window import state_of
from tools.text_encoding import counted
from transcripts.facts import Compacted
from transcripts.masking import mask
from transcripts.view import Kind

if TYPE_CHECKING:
    from agent.app.controller import Agent

NEWEST = 8  # compactions that are shown unasked
LABELS = {
    Kind.USER: "user text",
    Kind.ASSISTANT: "assistant text",
    Kind.THINKING: "thinking",
    Kind.INPUT: "tool inputs",
    Kind.RESULT: "tool results",
    Kind.PLACEHOLDER: "placeholders",
}


async def context(agent: Agent, argument: str) -> None:
    """Draw what the context holds. Then the largest blocks, and the newest compactions with their figures; \
`/context all` lists every one."""
    session, parts = agent.in_use
    room, view = parts.room, session.folded.view
    total = size(session, parts)
    frame = overheads(parts.frame, parts.room.counter)
    raw = sum(view.tally) + sum(frame.values())
    scale = total / raw if raw else 1.0
    rows = [(label, round(count * scale)) for label, count in frame.items()]
    rows += [(LABELS[kind], round(view.tally[kind] * scale)) for kind in Kind]
    used = sum(count for _, count in rows)
    rows.append(("free", max(0, room.window.size - used)))
    state = state_of(total, room.window, room.settings).name
    title = f"The context of {parts.frame.model}: {state}"
    agent.emit(Charted(title, tuple(rows), room.window.size))
    agent.emit(Said("\n".join([*_largest(agent, scale), "", *_compactions(agent, argument == "all")])))


def _largest(agent: Agent, scale: float, count: int = 5) -> list[str]:
    session, _ = agent.in_use
    found = [part for message in session.folded.view for part in message.parts]
    found.sort(key=lambda part: -part.tokens)
    lines = ["Largest blocks"]
    for part in found[:count]:
        lines.append(f"  {round(part.tokens * scale):>8,}  {recall_id(part)}  {named(part)}")
    return lines if found else ["The conversation is empty."]


def _compactions(agent: Agent, every: bool) -> list[str]:
    """The newest compactions, or every one, newest first."""
    session, parts = agent.in_use
    folded = session.folded
    if not folded.compactions:
        return [f"No compaction so far (policy {parts.room.settings.policy})."]
    lines = [f"Compactions (policy {parts.room.settings.policy})"]
    older = 0 if every else max(0, len(folded.compactions) - NEWEST)
    for made in reversed(folded.compactions[older:]):
        lines.append(f"  {_figures(made)}{'  undone' if made.id in folded.undone else ''}")
        if told := outcome(folded, made, parts.room.prices):
            lines.append(f"      {told}")
    return [*lines, *([f"  ... {counted(older, 'earlier one')}: /context all"] if older else [])]


def _figures(made: Compacted) -> str:
    report = made.report
    text = f"{made.id}  {made.layer} ({made.trigger})"
    if "before" in report and "after" in report:
        text += f"  {int(report['before']):,} -> {int(report['after']):,} tokens"
    if (calls := report.get("pays_back_calls")) is not None:
        text += f", pays back in {counted(int(calls), 'call')}"
    return text


async def cost(agent: Agent, argument: str) -> None:
    """Show what this session has used and cost."""
    session, _ = agent.in_use
    used = session.spent
    whole = used.prompt
    lines = [
        f"input   {whole:>12,} tokens",
        f"  from the cache  {used.cache_read:>12,}  ({100 * used.cache_read / whole if whole else 0:.0f} %)",
        f"  written to it   {used.cache_written:>12,}",
        f"  neither         {used.input:>12,}",
        f"output  {used.output:>12,} tokens",
        f"cost    ${session.cost:.4f} at the list prices of {', '.join(session.spending) or 'the model'}",
    ]
    agent.emit(Said("\n".join(lines)))


async def status(agent: Agent, argument: str) -> None:
    """Show the model, the server, the session and the folder."""
    session, parts = agent.in_use
    config = agent.setup.config
    lines = [
        f"model       {parts.frame.model}",
        f"server      {mask(agent.workshop.provider.server)}",
        f"session     {session.sid}",
        f"folder      {agent.setup.folder}",
        f"permission  {parts.grants.rules.mode}",
        f"policy      {parts.room.settings.policy}",
        f"settings    {config.user_dir / 'settings.toml'}",
    ]
    agent.emit(Said("\n".join(lines)))


async def model(agent: Agent, argument: str) -> None:
    """Show or change the model for this session. Takes a model id, or opus, sonnet, haiku."""
    session, parts = agent.in_use
    provider = agent.workshop.provider
    if agent.setup.options.offline:
        agent.emit(Notice("--offline has the demo alone; start without it to choose a model"))
        return
    if not argument:
        facts = provider.facts
        aliases = "\n".join(f"/model {alias:<8} {id}" for alias, id in ALIASES.items())
        size = f"window {facts.window:,} tokens, output up to {facts.max_output:,}"
        agent.emit(Said(f"{facts.id}: {size}\n{aliases}\n/model ID       any other"))
        return
    await agent.workshop.change_model(session, parts, argument)
    agent.emit(Notice(f"the model is now {parts.frame.model}"))
    if not provider.facts.known:
        near = nearest(argument)
        hint = f"; did you mean {near}?" if near and near != argument else ""
        agent.emit(Notice(f"{provider.server} tells nothing of a model of that name{hint}", "warning"))


async def effort(agent: Agent, argument: str) -> None:
    """Show or change how hard the model thinks. low, medium, high, xhigh or max, from the next request on."""
    session, parts = agent.in_use
    if argument and argument not in EFFORTS:
        agent.emit(Notice(f"the efforts are {', '.join(EFFORTS)}", "warning"))
        return
    if not agent.workshop.provider.facts.effort or "output_config" in parts.frame.without:
        agent.emit(Notice(f"{parts.frame.model} takes no effort here", "warning"))
        return
    if not argument:
        now = parts.frame.effort or "the default of the model"
        agent.emit(Notice(f"the effort is {now}; /effort {'|'.join(EFFORTS)} changes it"))
        return
    agent.workshop.change_effort(parts, argument)
    cached = "; the next request writes the conversation to the cache anew" if session.folded.entries else ""
    agent.emit(Notice(f"the effort is now {argument}{cached}"))
