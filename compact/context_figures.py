"""Report the content of the context and the compactions made: the figures of /context."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from transcripts import Compacted, PartKind

from .prices import PriceList
from .report import predicted_and_real_cost
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
        calibration = situation.calibration
        tokens = situation.tokens
        overhead = (
            min(tokens, calibration.overhead_tokens(folded, situation.overhead)) if view.tokens else tokens
        )
        earlier = max(0, len(folded.compactions) - newest) if newest else 0
        listed = (
            ListedCompaction(
                made, undone=made.id in folded.undone, cost=predicted_and_real_cost(folded, made, prices)
            )
            for made in reversed(folded.compactions[earlier:])
        )
        return cls(
            state=situation.window.state(tokens, situation.settings),
            tokens=tokens,
            overhead=overhead,
            kinds={kind: view.tally[kind] for kind in PartKind},
            blocks=tuple(ShownBlock.largest(view, calibration.text_slope(folded))),
            compactions=tuple(listed),
            earlier=earlier,
        )
