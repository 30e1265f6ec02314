"""Report the context at one moment: what is in it, and each compaction with its estimated and actual cost."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from transcripts import Compacted, Folded, PartKind, Reply

from .estimate import overhead_tokens
from .prices import PriceList
from .settings import WindowState
from .shown_blocks import ShownBlock
from .situation import Situation


class ListedCompaction(Struct, frozen=True):
    """A compaction, whether it was undone, and its estimated and actual cost in one line, "" for none."""

    made: Compacted
    undone: bool
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
        listed = (
            ListedCompaction(
                made, undone=made.id in folded.undone, cost=estimated_and_actual_cost(folded, made, prices)
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


def estimated_and_actual_cost(folded: Folded, made: Compacted, prices_by_model: PriceList) -> str:
    """Compare the estimated cost of compaction `made` with that of the request after it, in one line.

    Both are the cost of the tokens that the request could not read from the cache, at the prices of its
    model. "" if nothing was estimated, or the prices of the model are unknown.
    """
    report = made.report
    if "predicted_cost_usd" not in report or "rewritten" not in report:
        return ""
    opened = folded.opening_before(made.seq)
    if opened is not None and prices_by_model.known(opened.model) is None:
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
