"""Entries: the conversation before any edit, with one entry for each prompt and each exchange.

Edits address entries, and the view is rendered from them. An entry is never replaced; an exchange only gains
results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from msgspec import Struct

from .facts import Reply, Result, User
from .messages import TextBlock, ToolUseBlock, without_added


class Prompt(Struct, gc=False):
    """A message from the user, or from makeroom on the user's behalf.

    `asked` is the seq of the newest request before it, 0 without one.
    """

    fact: User
    asked: int = 0

    @property
    def seq(self) -> int:
        return self.fact.seq

    @property
    def texts(self) -> list[str]:
        """The texts that the user wrote, without those that makeroom or a hook added."""
        if self.fact.source != "user":
            return []
        return [block.text for block in without_added(self.fact.blocks) if isinstance(block, TextBlock)]

    @property
    def last(self) -> int:
        """seq of the newest fact of this entry."""
        return self.fact.seq


class Exchange(Struct, gc=False):
    """A reply with the results of its calls.

    calls       block indexes of its calls, which are usable only in a complete reply
    renamed     those calls whose id was not unique in the session, or whose id or name the API rejects
    answers     the results of the calls, in the order of the transcript
    started     block indexes of the calls whose tool had started
    superseded  the reply is unfinished and a later attempt replaced it

    Most replies have one call. A dict or set for each would be a tenth of a long session's memory.
    """

    fact: Reply
    calls: tuple[int, ...] = ()
    renamed: Mapping[int, ToolUseBlock] | None = None
    answers: tuple[Result, ...] = ()
    started: tuple[int, ...] = ()
    superseded: bool = False

    @property
    def uses(self) -> dict[int, ToolUseBlock]:
        """The calls by block index, with ids unique in the session and names valid for the API."""
        blocks = cast("tuple[ToolUseBlock, ...]", self.fact.blocks)
        renamed = self.renamed or {}
        return {at: renamed.get(at) or blocks[at] for at in self.calls}

    def use(self, block: int) -> ToolUseBlock | None:
        """Return the call with this block index, without making a dict of all; None if there is none."""
        if block not in self.calls:
            return None
        renamed = self.renamed.get(block) if self.renamed is not None else None
        return renamed or cast("ToolUseBlock", self.fact.blocks[block])

    @property
    def results(self) -> dict[int, Result]:
        """The results by the block index of their call."""
        return {result.block: result for result in self.answers}

    @property
    def seq(self) -> int:
        return self.fact.seq

    @property
    def last(self) -> int:
        """seq of the newest fact of this entry."""
        return max((result.seq for result in self.answers), default=self.fact.seq)

    @property
    def open(self) -> bool:
        """Return whether a call has no result yet."""
        return len(self.answers) < len(self.calls)


Entry = Prompt | Exchange
