"""Report the context at one moment: what is in it, and each compaction with its estimated and actual cost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from msgspec import Struct

from transcripts import Compacted, Folded, PartKind, Reply
from transcripts.wording import pluralize

from .estimate import overhead_tokens
from .prices import NEVER_PAYS_BACK, PriceList
from .settings import WindowState
from .shown_blocks import ShownBlock
from .situation import Situation


class ListedCompaction(Struct, frozen=True):
    """A compaction, whether it was undone or has saved what it cost, and its estimated and actual cost.

    The texts are "" where nothing is known, and for models without prices.
    """

    made: Compacted
    state: str
    cost: str


class ContextReport(Struct, frozen=True):
    """The context at one moment.

    tokens       the model's tokens of the next prompt
    overhead     the model's tokens of system prompt and tools
    kinds        our token counts of the messages, by kind of part
    blocks       the blocks of the messages, largest first
    compactions  newest first
    earlier      number of further compactions
    """

    state: WindowState
    tokens: int
    overhead: float
    kinds: Mapping[PartKind, int]
    blocks: tuple[ShownBlock, ...]
    compactions: tuple[ListedCompaction, ...]
    earlier: int

    @classmethod
    def of(cls, situation: Situation, prices: PriceList, newest: int | None = None) -> ContextReport:
        """Report the context, with at most `newest` compactions (None: all)."""
        folded = situation.folded
        view = situation.view
        tokens = situation.tokens
        overhead = min(tokens, overhead_tokens(folded, situation.overhead)) if view.tokens else tokens
        earlier = max(0, len(folded.compactions) - newest) if newest else 0
        replies = [fact.seq for fact in folded.facts if isinstance(fact, Reply) and fact.usage.prompt]
        listed = (
            ListedCompaction(
                made,
                state=_state(folded, made, replies, prices),
                cost=estimated_and_actual_cost(folded, made, prices),
            )
            for made in reversed(folded.compactions[earlier:])
        )
        return cls(
            state=situation.window.state(tokens, situation.settings),
            tokens=tokens,
            overhead=overhead,
            kinds={kind: view.tally[kind] for kind in PartKind},
            blocks=tuple(ShownBlock.largest(folded)),
            compactions=tuple(listed),
            earlier=earlier,
        )


def _state(folded: Folded, made: Compacted, replies: Sequence[int], prices: PriceList) -> str:
    """Return whether a compaction was undone, else by its estimate when it saves money.

    `replies` are the sequence numbers of all replies, in order.
    """
    calls = made.report.get("pays_back_calls")
    if made.id in folded.undone:
        return "undone"
    if calls is None or not _is_priced(folded, made, prices):
        return ""
    if calls >= NEVER_PAYS_BACK:
        return "saves no money"
    left = calls - len(replies) + bisect_right(replies, made.seq)
    return f"saves money after {pluralize(left, 'more call')}" if left > 0 else "has paid for itself"


def _is_priced(folded: Folded, made: Compacted, prices_by_model: PriceList) -> bool:
    """Return whether the model of a compaction has known prices, which are not all zero."""
    opened = folded.opening_before(made.seq)
    prices = prices_by_model.known(opened.model) if opened is not None else prices_by_model.planning("")
    return prices is not None and prices.input > 0


def estimated_and_actual_cost(folded: Folded, made: Compacted, prices_by_model: PriceList) -> str:
    """Compare the estimated cost of compaction `made` with that of the request after it, in one line.

    Both are the cost of the tokens that the request could not read from the cache, at the prices of its
    model. "" if nothing was estimated, or the model has no prices.
    """
    report = made.report
    is_estimated = "predicted_cost_usd" in report and "rewritten" in report
    if not is_estimated or not _is_priced(folded, made, prices_by_model):
        return ""
    cost = report["predicted_cost_usd"]
    written = report["rewritten"]
    if report.get("cold"):
        cost = report["cold_cost_usd"]
        written = report["after"]
    estimated = f"estimated ${cost:.3f} ({written:,} tokens written)"
    if not written:
        return f"{estimated}: it changed nothing that had been sent before"
    later = (fact for fact in folded.facts_between(made.seq, folded.last_seq) if isinstance(fact, Reply))
    reply = next((fact for fact in later if fact.usage.prompt), None)
    if reply is None or folded.undone.get(made.id, reply.seq) < reply.seq:
        return f"{estimated}, no request was sent with it"
    opened = folded.opening_before(reply.seq)
    prices = prices_by_model.planning(opened.model if opened is not None else reply.model)
    usage = reply.usage
    real = prices.dollars(prices.plain(usage) - prices.read * usage.cache_read)
    return f"{estimated}, actual ${real:.3f} ({usage.cache_written + usage.input:,})"
