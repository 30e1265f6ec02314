"""What the next request will cost where that is more than usual, told before anything is sent."""

from __future__ import annotations

from agent.events import Emit, Notice
from agent.loop.context import MIN_TOLD_DOLLARS, TurnContext
from agent.loop.model_call import prompt_tokens
from agent.session.session import Session
from agent.session.session_replay import show_replayed


def show_resumed(session: Session, context: TurnContext, emit: Emit) -> None:
    """The end of a session that is gone on with, and what going on costs where its cache has expired."""
    show_replayed(session, context.tools, emit)
    asked, ttl = session.folded.last_request, context.compaction.settings.cache_ttl_s
    context.compaction.billed = asked.seq if asked is not None else 0
    if asked is None or context.clock.now() - asked.ts > ttl:
        tell_cold_cost(session, context, emit, "the cache has expired")


def tell_cold_cost(session: Session, context: TurnContext, emit: Emit, why: str) -> None:
    """Tell what a request costs that reads nothing from the cache, unless that is little."""
    if not session.folded.entries:
        return
    tokens, prices = prompt_tokens(session, context), context.compaction.prices
    dollars = prices.dollars(tokens * (prices.write if context.settings.cache else 1.0))
    if dollars >= MIN_TOLD_DOLLARS:
        bill = f"the next request writes {tokens:,} tokens anew, ~${dollars:.2f}"
        emit(Notice(f"{why}: {bill}; /compact first makes that less, /clear starts anew"))
