"""Show the cost of the next request before it is sent, if it is higher than usual."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from agent.events import Emit, Notice
from agent.model_port import RequestSettings
from agent.session import Session, show_replayed
from compact import Prices, text_slope
from transcripts import Block, Compacted, Instructed, Opened, Reply, ThinkingBlock, Undone, same_tools

from .context import MIN_TOLD_DOLLARS, TurnContext
from .model_call import prompt_tokens

TokensWhenCold = Callable[[Session, TurnContext], Awaitable[int]]
LESS_BEFORE = "run /compact first to reduce that, or /clear to start over"
OTHER_MODEL = "the other model has its own cache"
LESS_NOW = "interrupt and run /compact to reduce that"


async def show_resumed(session: Session, context: TurnContext, emit: Emit, cold: TokensWhenCold) -> None:
    """Show the end of a resumed session, and the cost of continuing it if little of it is cached."""
    show_replayed(session, context.tools, emit, context.compaction.settings.policy)
    if why := why_cold(session, context):
        await show_cold_cost(session, context, emit, why, cold=cold)


def why_cold(session: Session, context: TurnContext) -> str:
    """Return the reason why the next request finds little in the cache; "" if the cache is still warm."""
    asked = session.folded.last_request
    opened = session.folded.opened
    settings = context.settings
    if asked is None or context.clock.now() - asked.ts > context.compaction.settings.cache_ttl_s:
        return "the cache has expired"
    if opened is not None and opened.model != settings.model:
        return OTHER_MODEL
    is_changed = opened is not None and (
        opened.seq > asked.seq or not same_tools(opened.tools, settings.tools)
    )
    return "the model or the tools have changed" if is_changed else ""


async def show_cold_cost(
    session: Session,
    context: TurnContext,
    emit: Emit,
    why: str,
    less: str = LESS_BEFORE,
    cold: TokensWhenCold | None = None,
) -> None:
    """Show the cost of a request that finds little in the cache, with advice, unless it is low.

    why   the reason why little is cached
    less  how to reduce the cost
    cold  returns the size of the next prompt in tokens if nothing of it is cached, 0 if another line will
          name the cost; None: it is as large then
    """
    asked = session.folded.last_request
    if not session.folded.entries or asked is None:
        return
    cached = _cached_tokens(session, context)
    tokens = prompt_tokens(session, context) if cached or cold is None else await cold(session, context)
    if not tokens:
        return
    context.compaction.billed = asked.seq
    prices = context.compaction.prices_in(session.folded)
    uncached = max(0, tokens - cached)
    dollars = _dollars(uncached, tokens - uncached, prices, cached=bool(context.settings.cache))
    written = _dollars(uncached, 0, prices, cached=bool(context.settings.cache))
    if written >= MIN_TOLD_DOLLARS and prices.caching and not prices.is_guess:
        which = "the next" if less == LESS_BEFORE else "this"
        less = "run /clear to start over" if less and _is_just_compacted(session) else less
        advice = f"; {less}" if less else ""
        emit(Notice(f"{why}: {which} request caches {uncached:,} tokens again (~${dollars:.2f}){advice}"))


def _is_just_compacted(session: Session) -> bool:
    """Return whether the user compacted the session and nothing came after that."""
    newest = next(
        (fact for fact in reversed(session.folded.facts) if isinstance(fact, Compacted | Reply)), None
    )
    return isinstance(newest, Compacted) and newest.trigger == "manual"


def _dollars(uncached: int, read: int, prices: Prices, cached: bool) -> float:
    return prices.dollars(uncached * (prices.write if cached else 1.0) + read * prices.read)


def _cached_tokens(session: Session, context: TurnContext) -> int:
    """Return the tokens of the history that the model's cache still contains, as far as the transcript shows.

    They are those of the last request to the model that has not expired, unless its content has changed.
    """
    now = context.clock.now()
    ttl = context.compaction.settings.cache_ttl_s
    newest = session.folded.last_reply
    if newest is None or now - newest.ts > ttl:
        return 0
    settings = context.settings
    known = session.folded.opened
    if known is None or not _is_prefix_of(settings, known):
        return 0
    sent = 0
    model = ""
    is_same = False  # the system prompt and the tools are those of the next request
    thinks = False
    for fact in session.folded.facts:
        match fact:
            case Opened():
                sent = 0 if thinks else sent  # from here on without earlier thinking
                model = fact.model
                if fact.system or fact.tools:  # as in lines of earlier versions
                    is_same = _is_prefix_of(settings, fact)
            case Instructed():
                is_same = _is_prefix_of(settings, fact)
            case Compacted() | Undone():
                sent = 0
            case Reply():
                thinks = thinks or any(isinstance(block, ThinkingBlock) for block in fact.blocks)
                if is_same and model == settings.model and now - fact.ts <= ttl:
                    sent = fact.usage.prompt
    return 0 if thinks and known.model != settings.model else sent


def _is_prefix_of(settings: RequestSettings, given: Opened | Instructed) -> bool:
    """Return whether a system prompt and tools are those of the next request."""
    return given.system == settings.system and same_tools(given.tools, settings.tools)


async def show_prompt_cost(
    session: Session, context: TurnContext, blocks: Sequence[Block], emit: Emit
) -> None:
    """Show the cost that a prompt adds to the next request, and how to reduce it, unless it is low.

    If our estimate is high enough, the server is asked for the exact count: until much text of the same kind
    was sent, an estimate can be wrong by up to a half.
    """
    state = context.compaction
    if state.prices.is_guess:
        return
    price = state.prices.dollars(state.prices.write if context.settings.cache else 1.0)
    tokens = round(sum(state.counter.blocks(tuple(blocks))) * text_slope(session.folded))
    if tokens * price >= MIN_TOLD_DOLLARS / 2:
        tokens = await context.model.count_tokens(context.settings.model, blocks) or tokens
    if (dollars := tokens * price) >= MIN_TOLD_DOLLARS:
        bill = f"large prompt: {tokens:,} tokens (~${dollars:.2f})"
        if any(each.attachment for each in blocks):
            advice = (
                "interrupt and mention lines (@file#L10-20) or the path without @ to let the model read parts"
            )
        else:
            advice = "interrupt, save it to a file and mention its path to let the model read parts"
        emit(Notice(f"{bill}; {advice}"))
