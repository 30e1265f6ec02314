"""The preparation of a compaction: what it keeps about a session, worked out in small steps. Pure.

A plan takes milliseconds if the blocks are tracked, the cache is known and the entries are accounted for.
After a long session was resumed, working all that out takes seconds. So each occasion has its steps, between
which the caller handles keys; a step that is done already is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from msgspec import Struct

from transcripts import Folded

from .block_tracker import tracking_steps
from .cache_use import cache_steps
from .local_summary import accounting_steps, results_read, summary_steps
from .server_cache import evidence_steps
from .tokens import TokenCounter
from .user_blocks import user_block_steps


class Preparation(Struct, frozen=True):
    """The steps of preparing a session for compaction, for each occasion."""

    folded: Folded

    def between_turns(self, counter: TokenCounter) -> Iterator[None]:
        """Bring what compaction keeps up to date."""
        return chain(
            tracking_steps(self.folded),
            accounting_steps(self.folded),
            user_block_steps(self.folded, counter),
        )

    def of_plan(self) -> Iterator[None]:
        """Work out what every plan needs."""
        return chain(evidence_steps(self.folded), cache_steps(self.folded), tracking_steps(self.folded))

    def of_local_summary(self) -> Iterator[None]:
        """Account for all entries, as a local summary of the whole session does."""
        return summary_steps(self.folded)

    def of_put_back(self, in_turn: bool) -> Iterator[None]:
        """Work out what putting cleared text back needs.

        The accounts of a local summary follow only within a turn: none begins later because of a summary that
        it may not need.
        """
        steps = chain(evidence_steps(self.folded), tracking_steps(self.folded))
        return chain(steps, accounting_steps(self.folded)) if in_turn else steps

    def results_read(self) -> Iterator[int]:
        """Yield the seqs of the results whose content these steps read, newest first."""
        return results_read(self.folded)
