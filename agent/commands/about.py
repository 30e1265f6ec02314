"""Commands that show how things stand: /context, /cost, /status, /model, /effort."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.app.config import EFFORTS
from agent.app.context_building import overheads
from agent.events import CommandOutput, ContextChart, Notice
from agent.loop.model_call import prompt_tokens
from compact.outcome import outcome
from compact.placeholders import recall_id
from compact.report import named
from compact.window import state_of
from tools.text_encoding import pluralize
from transcripts.facts import Compacted
from transcripts.masking import mask
from transcripts.view import PartKind

if TYPE_CHECKING:
    from agent.app.controller import Controller

NEWEST = 8  # compactions that are shown unasked
LABELS = {
    PartKind.USER: "user text",
    PartKind.ASSISTANT: "assistant text",
    PartKind.THINKING: "thinking",
    PartKind.INPUT: "tool inputs",
    PartKind.RESULT: "tool results",
    PartKind.PLACEHOLDER: "placeholders",
}


async def context(agent: Controller, argument: str) -> None:
    """Draw what the context holds. Then the largest blocks, and the newest compactions with their figures; \
`/context all` lists every one."""
    session, context = agent.in_use
    room, view = context.compaction, session.folded.view
    total = prompt_tokens(session, context)
    frame = overheads(context.settings, context.compaction.counter)
    raw = sum(view.tally) + sum(frame.values())
    scale = total / raw if raw else 1.0
    rows = [(label, round(count * scale)) for label, count in frame.items()]
    rows += [(LABELS[kind], round(view.tally[kind] * scale)) for kind in PartKind]
    used = sum(count for _, count in rows)
    rows.append(("free", max(0, room.window.size - used)))
    state = state_of(total, room.window, room.settings).name
    title = f"The context of {context.settings.model}: {state}"
    agent.emit(ContextChart(title, tuple(rows), room.window.size))
    agent.emit(
        CommandOutput("\n".join([*_largest(agent, scale), "", *_compactions(agent, argument == "all")]))
    )


def _largest(agent: Controller, scale: float, count: int = 5) -> list[str]:
    session, _ = agent.in_use
    found = [part for message in session.folded.view for part in message.parts]
    found.sort(key=lambda part: -part.tokens)
    lines = ["Largest blocks"]
    for part in found[:count]:
        lines.append(f"  {round(part.tokens * scale):>8,}  {recall_id(part)}  {named(part)}")
    return lines if found else ["The conversation is empty."]


def _compactions(agent: Controller, every: bool) -> list[str]:
    """The newest compactions, or every one, newest first."""
    session, context = agent.in_use
    folded = session.folded
    if not folded.compactions:
        return [f"No compaction so far (policy {context.compaction.settings.policy})."]
    lines = [f"Compactions (policy {context.compaction.settings.policy})"]
    older = 0 if every else max(0, len(folded.compactions) - NEWEST)
    for made in reversed(folded.compactions[older:]):
        lines.append(f"  {_figures(made)}{'  undone' if made.id in folded.undone else ''}")
        if told := outcome(folded, made, context.compaction.prices):
            lines.append(f"      {told}")
    return [*lines, *([f"  ... {pluralize(older, 'earlier one')}: /context all"] if older else [])]


def _figures(made: Compacted) -> str:
    report = made.report
    text = f"{made.id}  {made.layer} ({made.trigger})"
    if "before" in report and "after" in report:
        text += f"  {int(report['before']):,} -> {int(report['after']):,} tokens"
    if (calls := report.get("pays_back_calls")) is not None:
        text += f", pays back in {pluralize(int(calls), 'call')}"
    return text


async def cost(agent: Controller, argument: str) -> None:
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
    agent.emit(CommandOutput("\n".join(lines)))


async def status(agent: Controller, argument: str) -> None:
    """Show the model, the server, the session and the folder."""
    session, context = agent.in_use
    config = agent.setup.config
    lines = [
        f"model       {context.settings.model}",
        f"server      {mask(agent.services.selection.model.server)}",
        f"session     {session.sid}",
        f"folder      {agent.setup.folder}",
        f"permission  {context.permissions.rules.mode}",
        f"policy      {context.compaction.settings.policy}",
        f"settings    {config.user_dir / 'settings.toml'}",
    ]
    agent.emit(CommandOutput("\n".join(lines)))


async def model(agent: Controller, argument: str) -> None:
    """Show or change the model for this session. Takes a model id, or opus, sonnet, haiku."""
    session, context = agent.in_use
    selection = agent.services.selection
    catalog = selection.model.catalog
    if agent.setup.options.offline:
        agent.emit(Notice("--offline has the demo alone; start without it to choose a model"))
        return
    if not argument:
        facts = selection.facts
        aliases = "\n".join(f"/model {alias:<8} {id}" for alias, id in catalog.aliases.items())
        size = f"window {facts.window:,} tokens, output up to {facts.max_output:,}"
        agent.emit(CommandOutput(f"{facts.id}: {size}\n{aliases}\n/model ID       any other"))
        return
    await agent.factory.change_model(session, context, argument)
    agent.emit(Notice(f"the model is now {context.settings.model}"))
    if not selection.facts.known:
        near = catalog.suggest(argument)
        hint = f"; did you mean {near}?" if near and near != argument else ""
        agent.emit(Notice(f"{selection.model.server} tells nothing of a model of that name{hint}", "warning"))


async def effort(agent: Controller, argument: str) -> None:
    """Show or change how hard the model thinks. low, medium, high, xhigh or max, from the next request on."""
    session, context = agent.in_use
    if argument and argument not in EFFORTS:
        agent.emit(Notice(f"the efforts are {', '.join(EFFORTS)}", "warning"))
        return
    if not agent.services.selection.facts.effort or not context.settings.may_use("effort"):
        agent.emit(Notice(f"{context.settings.model} takes no effort here", "warning"))
        return
    if not argument:
        now = context.settings.effort or "the default of the model"
        agent.emit(Notice(f"the effort is {now}; /effort {'|'.join(EFFORTS)} changes it"))
        return
    agent.factory.change_effort(context, argument)
    cached = "; the next request writes the conversation to the cache anew" if session.folded.entries else ""
    agent.emit(Notice(f"the effort is now {argument}{cached}"))
