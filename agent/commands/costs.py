"""The command about costs: /cost, and /cost why."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from agent.app import Config, Controller
from agent.events import CommandOutput, Event
from agent.formatting import format_duration, whole_percent
from agent.model import OPENAI_URL
from agent.session import Session
from compact import UNUSED_SUMMARY, BilledAgain, RequestBill
from transcripts import Usage
from transcripts.wording import pluralize

from .running import usage_notice

MAX_LISTED_REQUESTS = 20
MAX_NAMED_CHANGES = 3  # of the history before one request
CACHE_MISSES = {
    "model_changed": "the model changed",
    "system_changed": "the system prompt changed",
    "tools_changed": "the tools changed",
    "messages_changed": "earlier messages changed",
}
REASONS = {
    BilledAgain.MODEL: "the model changed, and each has its own cache",
    BilledAgain.SYSTEM: "the system prompt changed",
    BilledAgain.TOOLS: "the tools changed",
    BilledAgain.PAUSE: "the cache had expired",
    BilledAgain.SETTINGS: "a setting of the request changed",
    BilledAgain.EDIT: "the history changed",
    BilledAgain.REWIND: "the conversation was rewound",
    BilledAgain.SHORT: "the prompt was too short to cache",
    BilledAgain.UNCACHED: "the server reports no cache",
    BilledAgain.BLOCK: "smaller than a cache block; only whole blocks are cached",
    BilledAgain.UNKNOWN: "the server did not find its entry",
}


async def show_cost(controller: Controller, argument: str) -> Event | None:
    """Run /cost."""
    session, context = controller.in_use
    words = argument.split()
    if words in (["why"], ["why", "all"]):
        lifetime = context.compaction.settings.cache_ttl_s
        prompt = session.spent.prompt

        def explained() -> str:
            bills = RequestBill.all_of(session.folded, lifetime)
            newest = len(bills) if "all" in words else MAX_LISTED_REQUESTS
            return "\n".join(_explained(session, bills, newest, prompt))

        return CommandOutput(await asyncio.to_thread(explained))
    if words:
        return usage_notice("cost", f"unknown argument {argument!r}")
    used = session.spent
    cached = whole_percent(used.cache_read, used.prompt) if used.prompt else 0
    lines = [
        f"input             {used.prompt:>12,} tokens",
        f"  cache reads     {used.cache_read:>12,}  ({cached}%)",
        f"  cache writes    {used.cache_written:>12,}",
        f"  uncached        {used.input:>12,}",
        f"output            {used.output:>12,} tokens",
        *_thinking_line(used),
        *_cost_lines(session, controller.setup.config),
        *_agents_line(session),
    ]
    return CommandOutput("\n".join(lines))


def _thinking_line(used: Usage) -> list[str]:
    """Return a line with the part of the output that is thinking, no line if no server reported it."""
    if not used.thinking:
        return []
    return [f"  thinking        {used.thinking:>12,}  ({whole_percent(used.thinking, used.output)}%)"]


def _agents_line(session: Session) -> list[str]:
    """Return a line with the agents' share of the cost, no line if there were no agents."""
    notes = session.nested_charges
    dollars = sum(float(about.get("dollars") or 0) for about in notes)
    agents = len({about.get("session") for about in notes})
    if not notes:
        return []
    cost = f"${dollars:.4f} of " if dollars else ""
    return [f"  including {cost}{pluralize(agents, 'agent')} (see /agents)"]


def _cost_lines(session: Session, config: Config) -> list[str]:
    unpriced = session.unpriced
    known = [model for model in session.spending if model not in unpriced]
    priced = [model for model in known if session.prices.planning(model).input]
    lines = [f"cost              {f'${session.cost:.4f}':>12}"]
    lines += [f"  at the list prices of {', '.join(priced)}"] if priced else []
    if priced and (host := _other_server(config)):
        lines.append(f"  {host} may charge other prices; set them under [prices] in your settings")
    unknown = f"price unknown: {', '.join(unpriced)} (set it under [prices] in your settings)"
    return [*(lines if priced or not unpriced else []), *([unknown] if unpriced else [])]


def _other_server(config: Config) -> str:
    """Return the host of a server whose prices need not be the list prices; "" for Anthropic and OpenAI."""
    url = "" if config.official else config.base_url or ""
    if config.names_openai:
        url = config.openai_base_url or config.base_url or OPENAI_URL
    return "" if url.rstrip("/") == OPENAI_URL else urlsplit(url).netloc.rpartition("@")[2]


def _explained(session: Session, bills: Sequence[RequestBill], newest: int, prompt: int) -> Iterator[str]:
    """Yield the newest requests with their parts, the sums by reason, and the total.

    `prompt` are the tokens of all prompts, also of those without a bill.
    """
    if not bills:
        yield "no requests yet"
        return
    yield f"{'request':<12} {'read':>11} {'new':>11} {'again':>11}  reason"
    if (earlier := len(bills) - newest) > 0:
        yield f"... {pluralize(earlier, 'earlier one')}: /cost why all"
    for bill in bills[-newest:]:
        name = f"r{bill.seq}{' summary' if bill.is_summary else ''}"
        figures = f"{name:<12} {bill.read:>11,} {bill.new:>11,} {bill.again:>11,}"
        unused = f"not used: {bill.unused}" if bill.unused else ""
        yield f"{figures}  {'; '.join(filter(None, (_reason_of(bill), unused)))}".rstrip()
    yield ""
    yield from _sums_by_reason(session, bills)
    read = sum(bill.read for bill in bills)
    new = sum(bill.new for bill in bills)
    again = sum(bill.again for bill in bills)
    total = read + new + again
    yield f"total: {read:,} read + {new:,} new + {again:,} again = {total:,} tokens of input"
    if other := prompt - total:
        yield f"  and {other:,} tokens of agents and of requests that were rewound"
    yield from _uncounted(session)


def _uncounted(session: Session) -> Iterator[str]:
    """Yield a line if summaries were cancelled before the server reported their usage."""
    folded = session.folded
    charged = {note.about.get("asked") for note in folded.metadata if "usage" in note.about}
    unused = {each.about.get("asked") for each in folded.failures if each.what == UNUSED_SUMMARY}
    if uncounted := unused - charged:
        count = pluralize(len(uncounted), "summary request")
        yield f"not included: {count} cancelled before the server reported any usage"


def _reason_of(bill: RequestBill) -> str:
    """Describe why tokens of a request were billed again, and what the API says if it differs."""
    if bill.reason is None:
        return f"({_api_reason(bill)})" if bill.api is not None and bill.api.reason in CACHE_MISSES else ""
    text = REASONS[bill.reason]
    if bill.reason is BilledAgain.PAUSE:
        text += f": {format_duration(bill.pause_s)} after the last request"
    elif bill.reason is BilledAgain.EDIT and bill.changes:
        more = ", ..." if len(bill.changes) > MAX_NAMED_CHANGES else ""
        text += f": {', '.join(bill.changes[:MAX_NAMED_CHANGES])}{more}"
    return f"{text} ({_api_reason(bill)})" if bill.agrees is False else text


def _api_reason(bill: RequestBill) -> str:
    reason = bill.api.reason if bill.api is not None else ""
    return f"the API says: {CACHE_MISSES.get(reason, reason)}"


def _sums_by_reason(session: Session, bills: Sequence[RequestBill]) -> Iterator[str]:
    """Yield for each reason the tokens that were billed again and their extra cost, highest first."""
    found = {reason: [bill for bill in bills if bill.reason is reason] for reason in BilledAgain}
    tokens = {reason: sum(bill.again for bill in each) for reason, each in found.items() if each}
    for reason in sorted(tokens, key=lambda reason: -tokens[reason]):
        requests = found[reason]
        dollars = 0.0
        for bill in requests:
            prices = session.prices.known(bill.model, bill.usage.prompt)
            dollars += bill.extra_dollars(prices) if prices is not None else 0.0
        cost = f", ${dollars:.2f} more than if cached" if dollars >= 0.005 else ""
        again = f"{pluralize(tokens[reason], 'token')} billed again"
        yield f"{again} in {pluralize(len(requests), 'request')}{cost}: {REASONS[reason]}"
    if compared := [bill.agrees for bill in bills if bill.agrees is not None]:
        agreeing = f"{sum(compared):,} agree with this table"
        yield f"the API gave a reason for {len(compared):,} of these requests ({agreeing})"
