"""What a compaction was predicted to cost, and what the request after it did cost: one line for people."""

from __future__ import annotations

from bisect import bisect_right

from transcripts.facts import Compacted, Reply
from transcripts.fold import Folded

from .prices import Prices


def outcome(folded: Folded, made: Compacted, prices: Prices) -> str:
    """Predicted and real cost of compaction `made`, "" for one that predicted nothing.

    Both are of what the next request could not read from the cache: what was rewritten, and what was new.
    """
    report = made.report
    if "predicted_cost_usd" not in report or "rewritten" not in report:
        return ""
    expected = f"predicted ${report['predicted_cost_usd']:.3f} ({report['rewritten']:,} tokens written)"
    reply = _next(folded, made.seq)
    if reply is None or folded.undone.get(made.id, reply.seq) < reply.seq:
        return f"{expected}, nothing was asked under it"
    usage = reply.usage
    real = prices.dollars(prices.plain(usage) - prices.read * usage.cache_read)
    return f"{expected}, came ${real:.3f} ({usage.cache_written + usage.input:,})"


def _next(folded: Folded, seq: int) -> Reply | None:
    """The first reply after fact `seq` whose usage is known."""
    at = bisect_right(folded.facts, seq, key=lambda fact: fact.seq)
    replies = (fact for fact in folded.facts[at:] if isinstance(fact, Reply) and fact.usage.prompt)
    return next(replies, None)
