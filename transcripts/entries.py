"""Entries: the conversation before any edit, with one entry for each prompt and each exchange.

Edits address entries, and the view is rendered from them. An entry is never replaced; an exchange only gains
results.
"""

from __future__ import annotations

from msgspec import Struct, field

from .facts import Reply, Result, User
from .messages import TextBlock, ToolUseBlock, without_added


class Prompt(Struct):
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


class Exchange(Struct):
    """A reply with the results of its calls.

    uses        block index -> the call, with an id unique in the session and a name valid for the API
    results     block index -> the result of that call
    started     block indexes of the calls whose tool had started
    superseded  the reply is unfinished and a later attempt replaced it
    """

    fact: Reply
    uses: dict[int, ToolUseBlock]
    results: dict[int, Result] = field(default_factory=dict)
    started: tuple[int, ...] = ()  # mostly one: a set for each would be a tenth of a long session's memory
    superseded: bool = False

    @property
    def seq(self) -> int:
        return self.fact.seq

    @property
    def last(self) -> int:
        """seq of the newest fact of this entry."""
        return max((result.seq for result in self.results.values()), default=self.fact.seq)

    @property
    def open(self) -> bool:
        """Return whether a call has no result yet."""
        return any(index not in self.results for index in self.uses)


Entry = Prompt | Exchange
