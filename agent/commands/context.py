"""Commands about the context: /context, /compact, /uncompact, /drop, /pin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from agent.app import Controller, overheads
from agent.events import CommandOutput, ContextChart, Event, Notice
from agent.formatting import format_count, short_model, whole_percent
from agent.loop import CompactionRequest, TurnContext, compact_context, off_loop, prompt_tokens, situation_of
from agent.menus import Menu, MenuRow
from agent.session import Session, fetch_deferred, note_news, record_opening
from compact import (
    CannotChange,
    CompactionPlan,
    ContextReport,
    ShownBlock,
    Situation,
    WindowState,
    block_texts,
    dry_run,
    pins_of,
    plan_drop,
    plan_undo,
    rewrite_note,
    summary_usage,
)
from tools.base import Tool
from transcripts import Compacted, PartKind, Reply, TextBlock
from transcripts.wording import pluralize

from .costs import CACHE_MISSES
from .recalling import with_beginning
from .running import usage_notice

DRY_RUN = "--dry-run"
WINDOW_STATE_WORDS = {
    WindowState.NORMAL: "",
    WindowState.WARNING: ", filling up",
    WindowState.CRITICAL: ", nearly full",
    WindowState.BLOCKING: ", full: run /compact to free context",
    WindowState.EXHAUSTED: ", full",
}
PART_LABELS = {
    PartKind.USER: "user text",
    PartKind.ASSISTANT: "assistant text",
    PartKind.THINKING: "thinking",
    PartKind.INPUT: "tool inputs",
    PartKind.RESULT: "tool results",
    PartKind.PLACEHOLDER: "placeholders and summaries",
}


async def show_context(controller: Controller, argument: str) -> Event | None:
    """Run /context."""
    if argument not in ("", "all"):
        return usage_notice("context", f"unknown argument {argument!r}")
    session, context = controller.in_use
    compaction = context.compaction
    newest = None if argument == "all" else 8
    report = ContextReport.of(situation_of(session, context), session.prices, newest)
    ours = overheads(context.settings, compaction.counter)
    parts = {PART_LABELS[kind]: count for kind, count in report.kinds.items()}
    rows = [*_scaled(ours, report.overhead), *_scaled(parts, report.tokens - report.overhead)]
    title = f"Context ({short_model(context.settings.model)}{WINDOW_STATE_WORDS[report.state]})"
    shown = tuple(row for row in rows if row[1])
    controller.emit(ContextChart(title, rows=shown, total=compaction.window.size))
    lines = [*_largest_blocks(report), "", *_compactions(report, compaction.settings.policy)]
    if context.background_summary is not None:
        lines.append("A summary is being written in the background.")
    lines += deferred_line(context.tools.values())
    lines += await asyncio.to_thread(_last_cache_miss, session)
    return CommandOutput("\n".join(lines))


def _scaled(counts: Mapping[str, int], tokens: float) -> list[tuple[str, int]]:
    """Scale our counts to the model's tokens, whose sum is `tokens`; returns rows (label, tokens)."""
    rate = tokens / (sum(counts.values()) or 1)
    return [(label, round(count * rate)) for label, count in counts.items()]


def system_prompt_rate(session: Session, context: TurnContext) -> float:
    """Return the model's tokens for each token that we count in the system prompt."""
    ours = overheads(context.settings, context.compaction.counter)
    report = ContextReport.of(situation_of(session, context), session.prices, newest=1)
    return report.overhead / sum(ours.values())


def _largest_blocks(report: ContextReport) -> list[str]:
    largest = report.blocks[:5]
    if not largest:
        return ["The conversation is empty."]
    width = max(len(block.id) for block in largest)
    rows = [f"  {block.tokens:>8,}  {block.id:<{width}}  {block.label}" for block in largest]
    return ["Largest blocks", *rows]


def _compactions(report: ContextReport, name: str) -> list[str]:
    """List the compactions of a report under a line that names the policy."""
    policy = f"(policy {name})"
    if not report.compactions:
        return [f"No compactions yet {policy}."]
    lines = [f"Compactions {policy}"]
    for listed in report.compactions:
        state = f", {listed.state}" if listed.state else ""
        lines.append(f"  {_figures(listed.made)}{state}")
        if listed.cost:
            lines.append(f"      {listed.cost}")
    if report.earlier:
        lines.append(f"  ... {pluralize(report.earlier, 'earlier one')}: /context all")
    return lines


def deferred_line(tools: Iterable[Tool]) -> list[str]:
    """Return a line about the tools that the API loads when the model searches for them; [] without any."""
    count = sum(tool.deferred for tool in tools)
    return (
        [f"{pluralize(count, 'MCP tool')} deferred: loaded when the model searches for them."]
        if count
        else []
    )


def _last_cache_miss(session: Session) -> list[str]:
    """Return a line about the newest reply for which the API could not reuse the cached prefix."""
    replies = (fact for fact in reversed(session.folded.facts) if isinstance(fact, Reply))
    missed = ((fact, fact.cache_miss) for fact in replies if fact.cache_miss is not None)
    for fact, miss in missed:
        if miss.reason in CACHE_MISSES:
            size = f"{miss.tokens:,} tokens" if miss.tokens else "the prefix"
            return [f"Last cache miss: {size} at r{fact.seq}, because {CACHE_MISSES[miss.reason]}."]
    return []


def _figures(made: Compacted) -> str:
    report = made.report
    text = f"{made.id}  {made.label} ({made.trigger})"
    if "before" in report and "after" in report:
        text += f"  {int(report['before']):,} -> {int(report['after']):,} tokens"
    return text


async def compact_now(controller: Controller, argument: str) -> Event | None:
    """Run /compact."""
    session, context = controller.in_use
    if not session.folded.entries:
        return Notice("nothing to compact yet")
    words = argument.split()
    if DRY_RUN in words:
        return await _preview(session, context, " ".join(word for word in words if word != DRY_RUN))
    window = context.compaction.window.size
    # Leaves out thinking that the server of another model would reject.
    record_opening(session, context.settings, window, str(controller.setup.folder), controller.emit)
    situation = situation_of(session, context)
    planned = await off_loop(session, lambda: dry_run(situation, "manual", " ".join(words)))
    if planned.removed:
        price = _summary_price(session, context, situation, planned)
        preview = [f"Freeing {_freed(situation, planned)}:", *planned.removed, price]
        controller.emit(CommandOutput("\n".join(preview)))
    done = await compact_context(
        session,
        context,
        controller.emit,
        CompactionRequest("manual", argument, preview=situation),
    )
    if argument and done.ids:  # the words may state a rule: they count like any others of the user
        inbox = context.tool_context.inbox
        typed = TextBlock(f"The user said this with /compact:\n{argument}")
        inbox.post(typed, since=session.folded.last_reply_seq)
        note_news(session, inbox)
    return None


async def _preview(session: Session, context: TurnContext, focus: str) -> Event:
    """Show what a compaction would remove and cost, and what would remain."""
    situation = situation_of(session, context)
    planned = await off_loop(session, lambda: dry_run(situation, "manual", focus))
    if not planned.proposals:
        return Notice(planned.note or "nothing would be compacted")
    price = _summary_price(session, context, situation, planned)
    remaining = ["Largest blocks that remain:", *planned.remaining] if planned.remaining else []
    lines = [f"Would free {_freed(situation, planned)}:", *planned.removed, price, *remaining]
    return CommandOutput("\n".join(lines))


def _freed(situation: Situation, planned: CompactionPlan) -> str:
    """Describe the size of a compaction, as in "about 27k of 49,013 tokens (25% of the window)"."""
    freed = situation.tokens - int(planned.proposals[-1].report["after"]) if planned.proposals else 0
    share = whole_percent(situation.tokens, situation.window.size)
    return f"about {format_count(max(0, freed))} of {situation.tokens:,} tokens ({share}% of the window)"


def _summary_price(
    session: Session, context: TurnContext, situation: Situation, planned: CompactionPlan
) -> str:
    """Estimate the cost of the request for a summary of the usual size."""
    if not any(each.layer == "summary" for each in planned.proposals):
        return "  no model call"
    cache = None if context.summary_model else context.settings.cache  # each model has a cache of its own
    usage = summary_usage(situation, cached=cache is not None)
    if cache == "1h":
        usage = replace(usage, cache_written_hour=usage.cache_written)
    spent = session.prices.spending(context.summary_model or context.settings.model, usage)
    tokens = f"{usage.prompt:,} tokens in, {usage.output:,} out"
    if spent.unpriced:
        return f"  the summary takes about {tokens}"
    cost = f"about ${spent.dollars:.2f}" if spent.dollars >= 0.005 else "less than $0.01"
    return f"  the summary costs {cost} ({tokens})"


async def undo_compaction(controller: Controller, argument: str) -> Event | None:
    """Run /uncompact."""
    session, context = controller.in_use
    await fetch_deferred(session)
    planned = plan_undo(situation_of(session, context), argument)
    if isinstance(planned, CannotChange):
        return Notice(planned.reason, "warning")
    session.undone(planned.id, planned.edits)
    message = f"{planned.message}{_rewrite_note(session, context)}"
    if context.compaction.window.percent(prompt_tokens(session, context)) < 90:
        return Notice(message)
    controller.emit(Notice(message))
    return Notice(
        "the window is nearly full, so the next prompt will compact again; use /recall ID to show single"
        " blocks",
        "warning",
    )


def _rewrite_note(session: Session, context: TurnContext) -> str:
    return rewrite_note(situation_of(session, context)) if context.settings.cache else ""


async def drop_block(controller: Controller, argument: str) -> Event | None:
    """Run /drop."""
    session, context = controller.in_use
    if not argument:
        if controller.chooser is None:
            return usage_notice("drop", "name a block by its id; /context lists the largest")
        menu = _blocks_menu(ShownBlock.largest(session.folded))
        if not menu.rows:
            return Notice("nothing to drop yet")
        row = await controller.chooser.choose(menu)
        if row is None:
            return None
        argument = row.value
    proposal = plan_drop(situation_of(session, context), argument)
    if isinstance(proposal, CannotChange):
        return Notice(proposal.reason, "warning")
    made = session.compacted(proposal.layer, "manual", proposal.edits, proposal.report)
    freed = int(proposal.report["freed"])
    kinds = proposal.report["kinds"]
    done = f"cleared {proposal.report['dropped']} as {made.id}: {freed:,} tokens freed"
    if "placeholder" in kinds:
        done += f" (the placeholder takes {-kinds['placeholder']:,})"
    if "thinking" in kinds:
        done += f", including {kinds['thinking']:,} tokens of later thinking"
    return Notice(f"{done}; undo with /uncompact {made.id}{_rewrite_note(session, context)}")


def _blocks_menu(largest: Sequence[ShownBlock]) -> Menu:
    rows = (
        MenuRow(
            block.recall_id,
            title=with_beginning(block.label, "\n".join(block_texts([block.part.block]))),
            facts=(pluralize(block.tokens, "token"), block.recall_id),
        )
        for block in largest[:40]
        if block.part.kind is not PartKind.PLACEHOLDER
    )
    return Menu("Clear which block from the context?", tuple(rows))


async def pin(controller: Controller, argument: str) -> Event | None:
    """Run /pin."""
    session, _ = controller.in_use
    pins = pins_of(session.folded.metadata)
    verb, _, rest = argument.partition(" ")
    if verb == "remove":
        if rest not in map(str, pins):
            return usage_notice("pin", f"cannot remove pin {rest!r}: not found")
        session.add_metadata("unpin", {"id": int(rest)})
    elif argument:
        session.add_metadata("pin", {"id": max(pins, default=0) + 1, "text": argument})
    lines = [f"{number}  {text}" for number, text in pins_of(session.folded.metadata).items()]
    if not lines:
        return Notice("nothing is pinned; use /pin TEXT to keep a sentence")
    return CommandOutput("\n".join(lines))
