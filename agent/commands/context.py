"""Commands about the context: /context, /cost, /compact, /uncompact, /drop, /recall, /search, /pin."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from agent.app import Controller, overheads
from agent.events import CommandOutput, ContextChart, Event, Notice
from agent.formatting import whole_percent
from agent.loop import CompactionRequest, TurnContext, compact_context, situation_of
from agent.menus import Menu, MenuRow
from agent.session import NESTED_TOPIC, TYPED_LINE, Session, load_deferred, note_news, record_opening
from compact import (
    Calibration,
    CannotChange,
    ContextReport,
    Evicted,
    ShownBlock,
    WindowState,
    compaction_notice,
    context_report,
    dry_run,
    evicted,
    largest_blocks,
    pins_of,
    plan_drop,
    plan_undo,
    rewrite_told,
)
from tools.text import pluralize
from transcripts import Compacted, PartKind, Scope, is_recall_id

DRY_RUN = "--dry-run"
MAX_EVICTED_LINES = 20
WINDOW_STATE_WORDS = {
    WindowState.NORMAL: "there is room",
    WindowState.WARNING: "it fills up",
    WindowState.CRITICAL: "nearly full",
    WindowState.BLOCKING: "full; /compact makes room",
    WindowState.EXHAUSTED: "full",
}
PART_LABELS = {
    PartKind.USER: "user text",
    PartKind.ASSISTANT: "assistant text",
    PartKind.THINKING: "thinking",
    PartKind.INPUT: "tool inputs",
    PartKind.RESULT: "tool results",
    PartKind.PLACEHOLDER: "placeholders and records",
}


async def show_context(controller: Controller, argument: str) -> Event | None:
    """/context."""
    session, context = controller.in_use
    compaction = context.compaction
    newest = None if argument == "all" else 8
    report = context_report(situation_of(session, context), session.prices, newest)
    ours = overheads(context.settings, compaction.counter)
    parts = {PART_LABELS[kind]: count for kind, count in report.kinds.items()}
    rows = [*_in_all(ours, report.overhead), *_in_all(parts, report.tokens - report.overhead)]
    title = f"The context of {context.settings.model}: {WINDOW_STATE_WORDS[report.state]}"
    shown = tuple(row for row in rows if row[1])
    controller.emit(ContextChart(title, rows=shown, total=compaction.window.size))
    lines = [*_largest_blocks(report), "", *_compactions(report, compaction.settings.policy)]
    return CommandOutput("\n".join(lines))


def _in_all(counts: Mapping[str, int], tokens: float) -> list[tuple[str, int]]:
    """Rows of our counts as the model's tokens, of which there are so many in all of them."""
    rate = tokens / (sum(counts.values()) or 1)
    return [(label, round(count * rate)) for label, count in counts.items()]


def _largest_blocks(report: ContextReport) -> list[str]:
    largest = report.blocks[:5]
    if not largest:
        return ["The conversation is empty."]
    width = max(len(block.id) for block in largest)
    rows = [f"  {block.tokens:>8,}  {block.id:<{width}}  {block.label}" for block in largest]
    return ["Largest blocks", *rows]


def _compactions(report: ContextReport, name: str) -> list[str]:
    """List the compactions of a report, behind the policy by its name."""
    policy = f"(policy {name})"
    if not report.compactions:
        return [f"No compaction so far {policy}."]
    lines = [f"Compactions {policy}"]
    for listed in report.compactions:
        lines.append(f"  {_figures(listed.made)}{'  undone' if listed.undone else ''}")
        if listed.cost:
            lines.append(f"      {listed.cost}")
    if report.earlier:
        lines.append(f"  ... {pluralize(report.earlier, 'earlier one')}: /context all")
    return lines


def _figures(made: Compacted) -> str:
    report = made.report
    text = f"{made.id}  {made.label} ({made.trigger})"
    if "before" in report and "after" in report:
        text += f"  {int(report['before']):,} -> {int(report['after']):,} tokens"
    if (calls := report.get("pays_back_calls")) is not None:
        text += f", pays back in {pluralize(int(calls), 'call')}"
    return text


async def show_cost(controller: Controller, argument: str) -> Event | None:
    """/cost."""
    session, _ = controller.in_use
    used = session.spent
    cached = 100 * used.cache_read / used.prompt if used.prompt else 0
    lines = [
        f"input             {used.prompt:>12,} tokens",
        f"  from the cache  {used.cache_read:>12,}  ({cached:.0f}%)",
        f"  written to it   {used.cache_written:>12,}",
        f"  neither         {used.input:>12,}",
        f"output            {used.output:>12,} tokens",
        *_cost_lines(session),
        *_agents_line(session),
    ]
    return CommandOutput("\n".join(lines))


def _agents_line(session: Session) -> list[str]:
    """Return the line with the agents' share of the cost; [] if there were no agents."""
    notes = [note.about for note in session.folded.metadata if note.topic == NESTED_TOPIC]
    dollars = sum(float(about.get("dollars") or 0) for about in notes)
    agents = len({about.get("session") for about in notes})
    return [f"  of that ${dollars:.4f} by {pluralize(agents, 'agent')}: /agents"] if notes else []


def _cost_lines(session: Session) -> list[str]:
    unpriced = session.unpriced
    priced = [model for model in session.spending if model not in unpriced]
    known = [f"cost              {f'${session.cost:.4f}':>12}"]
    known += [f"  at the list prices of {', '.join(priced)}"] if priced else []
    unknown = f"price unknown: {', '.join(unpriced)} ([prices] in your settings can tell it)"
    return [*(known if priced or not unpriced else []), *([unknown] if unpriced else [])]


async def compact_now(controller: Controller, argument: str) -> Event | None:
    """/compact."""
    session, context = controller.in_use
    if not session.folded.entries:
        return Notice("there is nothing to compact yet")
    words = argument.split()
    if DRY_RUN not in words:  # which has thinking left out that another model's server would refuse
        window = context.compaction.window.size
        folder = str(controller.setup.folder)
        record_opening(session, context.settings, window, folder, controller.emit)
    situation = situation_of(session, context)
    share = whole_percent(situation.tokens, situation.window.size)
    used = f"{situation.tokens:,} tokens, {share}% of the window"
    planned = dry_run(situation, "manual", " ".join(word for word in words if word != DRY_RUN))
    if DRY_RUN not in words:
        if planned.goes:
            lines = [f"{used}. What goes, with a summary of the usual size:", *planned.goes]
            controller.emit(CommandOutput("\n".join(lines)))
        done = await compact_context(
            session,
            context,
            controller.emit,
            CompactionRequest("manual", argument, preview=situation),
        )
        if argument and done.ids:  # a rule among the words holds on: they are the person's as any others
            inbox = context.tool_context.inbox
            inbox.post(f"{TYPED_LINE}{argument}", since=session.folded.last_reply_seq)
            note_news(session, inbox)
        return None
    if not planned.proposals:
        return Notice(planned.note or "nothing would be compacted")
    told = compaction_notice(planned.proposals, "manual")
    stays = ["What stays, the largest first:", *planned.stays]
    return CommandOutput("\n".join([f"{used}. This would happen:", told, *planned.goes, *stays]))


async def undo_compaction(controller: Controller, argument: str) -> Event | None:
    """/uncompact."""
    session, context = controller.in_use
    load_deferred(session)
    active = [made.id for made in session.folded.compactions if made.id not in session.folded.undone]
    if not active:
        return Notice("there is no compaction to undo")
    planned = plan_undo(situation_of(session, context), argument or active[-1])
    if isinstance(planned, CannotChange):
        return Notice(planned.reason, "warning")
    session.undone(planned.id, planned.edits)
    return Notice(f"{planned.message}{_rewrite_told(session, context)}")


def _rewrite_told(session: Session, context: TurnContext) -> str:
    return rewrite_told(situation_of(session, context)) if context.settings.cache else ""


async def drop_block(controller: Controller, argument: str) -> Event | None:
    """/drop."""
    session, context = controller.in_use
    if not argument:
        if controller.chooser is None:
            return Notice("/drop takes the id of a block; /context lists the largest")
        folded = session.folded
        largest = largest_blocks(folded.view, Calibration.of(folded).text_slope(folded))
        row = await controller.chooser.choose(_blocks_menu(largest))
        if row is None:
            return None
        argument = row.value
    proposal = plan_drop(situation_of(session, context), argument)
    if isinstance(proposal, CannotChange):
        return Notice(proposal.reason, "warning")
    made = session.compacted(proposal.layer, "manual", proposal.edits, proposal.report)
    freed = int(proposal.report["freed"])
    kinds = proposal.report["kinds"]
    told = f"{proposal.report['dropped']} is left out as {made.id}: {freed:,} tokens less"
    if "placeholder" in kinds:
        told += f" (its placeholder takes {-kinds['placeholder']:,})"
    if "thinking" in kinds:
        told += f", {kinds['thinking']:,} of them later thinking, which goes with it"
    return Notice(f"{told}; /uncompact {made.id} brings it back{_rewrite_told(session, context)}")


def _blocks_menu(largest: Sequence[ShownBlock]) -> Menu:
    rows = (
        MenuRow(block.recall_id, title=block.label, facts=(pluralize(block.tokens, "token"), block.recall_id))
        for block in largest[:40]
        if block.part.kind is not PartKind.PLACEHOLDER
    )
    return Menu("Leave which block out of the context?", tuple(rows))


async def show_evicted(controller: Controller, argument: str) -> Event | None:
    """/recall."""
    session, context = controller.in_use
    lookup = context.tool_context.lookup
    if not argument:
        slope = Calibration.of(session.folded).text_slope(session.folded)
        return CommandOutput("\n".join(_evicted_lines(evicted(session.folded), slope)))
    if lookup is None:
        return Notice("there is no record to recall from", "warning")
    if not is_recall_id(argument):
        return await _search(controller, argument, "session")
    try:
        return CommandOutput(replace(lookup(), typed=True).original(argument))
    except KeyError as error:
        return Notice(str(error.args[0]), "warning")


async def search_project(controller: Controller, argument: str) -> Event | None:
    """/search."""
    if not argument:
        return Notice("/search takes words or a question; /recall ID then shows what was found")
    return await _search(controller, argument, "project")


async def _search(controller: Controller, words: str, scope: Scope) -> Event:
    _, context = controller.in_use
    if (lookup := context.tool_context.lookup) is None:
        return Notice("there is no record to search", "warning")
    hits = await asyncio.to_thread(lookup().find, words, scope)
    lines = [line for hit in hits for line in hit.lines(context.clock.now())]
    if lines:
        return CommandOutput("\n".join([*lines, "/recall ID shows one whole"]))
    more = "; /search looks in earlier sessions too" if scope == "session" else ""
    return Notice(f"nothing fits {words!r}{more}")


def _evicted_lines(found: list[Evicted], slope: float) -> list[str]:
    """List the blocks that left the context, in at most MAX_EVICTED_LINES lines, and how to bring
    them back.
    """
    if not found:
        return ["nothing left the context so far; /recall WORDS searches the whole record"]
    shown = found if len(found) < MAX_EVICTED_LINES else found[: MAX_EVICTED_LINES - 2]
    lines = [f"{one.id:>7}  {round(slope * one.tokens):>8,} tokens  {one.by:>5}  {one.what}" for one in shown]
    if hidden := len(found) - len(shown):
        lines.append(f"... and {hidden:,} more: /recall WORDS finds them")
    first = found[0]
    return [*lines, f"/recall {first.id} shows that one, /recall {first.by} all that {first.by} left out"]


async def pin(controller: Controller, argument: str) -> Event | None:
    """/pin."""
    session, _ = controller.in_use
    pins = pins_of(session.folded.metadata)
    verb, _, rest = argument.partition(" ")
    if verb == "remove":
        if not rest.isdigit() or int(rest) not in pins:
            return Notice(f"there is no pin {rest}", "warning")
        session.add_metadata("unpin", {"id": int(rest)})
    elif argument:
        session.add_metadata("pin", {"id": max(pins, default=0) + 1, "text": argument})
    lines = [f"{number}  {text}" for number, text in pins_of(session.folded.metadata).items()]
    return CommandOutput("\n".join(lines)) if lines else Notice("nothing is pinned")
