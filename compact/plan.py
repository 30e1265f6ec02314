"""What the pipeline is given, what it may ask, and what it answers: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from transcripts.facts import Edit
from transcripts.fold import Folded
from transcripts.messages import Usage

from .prices import Prices
from .settings import CompactSettings
from .tokens import Calibration, TokenCounter, context_tokens
from .window import CRITICAL, ContextWindow, percent, trigger_of

Trigger = Literal["auto", "manual", "tool", "reactive"]
OUTPUTS = ".task_outputs/tool-results/"


@dataclass(frozen=True, slots=True)
class Situation:
    """The conversation and its circumstances at one moment.

    now       seconds since the epoch, for the cache clock
    overhead  our count of system prompt and tools, in tokens
    binds     whether the model binds thinking to its prefix
    live      state that stands beside the conversation (permission mode, background commands), a line each
    outputs   how the paths of stored outputs begin: the folder, and what sets this session apart in it
    reported  the server's own count of the request that it has just refused; 0: there was none
    bare      this situation without the clearing that a summary would make needless
    planned   edits of this pass that stay whatever follows, so that a summary is asked on them as well
    focus     what an automatic summary is to keep an eye on
    held      whether somebody said no to an automatic summary, and to the ledger in its place
    """

    folded: Folded
    settings: CompactSettings
    window: ContextWindow
    prices: Prices
    now: float
    overhead: int
    fit: Calibration
    binds: bool
    count: TokenCounter
    live: tuple[str, ...] = ()
    outputs: str = OUTPUTS
    reported: int = 0
    bare: Situation | None = None
    planned: tuple[Edit, ...] = ()
    focus: str = ""
    held: bool = False

    @property
    def tokens(self) -> int:
        """The calibrated size of the next prompt."""
        asked = self.folded.last_request
        if self.reported and asked is not None and asked.raw:
            raw = self.overhead + self.folded.view.tokens
            return max(0, self.reported + self.scaled(raw - asked.raw))
        return context_tokens(self.folded, self.overhead, self.fit)

    @property
    def slope(self) -> float:
        """The model's tokens for each of ours."""
        asked = self.folded.last_request
        if self.reported and asked is not None and asked.raw:
            return max(self.fit.slope, self.reported / asked.raw)
        return self.fit.slope

    @property
    def due(self) -> int:
        """The size from which on a summary is due."""
        return trigger_of(self.window, self.settings)

    @property
    def cold(self) -> bool:
        """Whether the prompt cache has gone since the last request, so that rewriting costs nothing more."""
        asked = self.folded.last_request
        return asked is not None and self.now - asked.ts > self.settings.cache_ttl

    @property
    def pressed(self) -> bool:
        """Whether the window forces what the person would not have: next to nothing more fits."""
        return percent(self.tokens, self.window) >= CRITICAL

    def scaled(self, raw: int) -> int:
        """Tokens as the model counts them, for a stretch that we counted."""
        return round(raw * self.slope)

    def unscaled(self, tokens: int) -> int:
        """Our count of so many of the model's tokens."""
        return round(tokens / self.slope)

    def supposing(self, edits: tuple[Edit, ...], lasting: bool = True) -> Situation:
        """This situation with more edits in force; `lasting` ones stay even if a summary follows."""
        if not edits:
            return self
        bare = None if lasting and self.bare is None else self.bare or self
        if lasting and bare is not None:
            bare = bare.supposing(edits)
        planned = (*self.planned, *edits) if lasting else self.planned
        return replace(self, folded=self.folded.with_edits(edits), bare=bare, planned=planned)


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """Ask the model: the view as last sent, less its `leave_out` oldest exchanges, then `instructions`.

    `edits` are not in the record yet and change only what was never sent: previews of the newest results.
    """

    instructions: str
    leave_out: int
    max_tokens: int
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryReply:
    """What the model answered, or why not. After a failure that begins "too long" less is sent."""

    text: str | None
    failure: str | None = None
    usage: Usage = field(default_factory=Usage)
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """One compaction to be recorded. `files` (name, text) have to be on the disk before the record is.

    `report` holds at least before, after, freed: calibrated tokens of the whole prompt.
    """

    layer: str
    trigger: Trigger
    edits: tuple[Edit, ...]
    report: Mapping[str, Any]
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in order; `failures` are (what, reason) for the record; `note` is for the person.

    `goes` and `stays` are lines for a preview.
    """

    proposals: tuple[Proposal, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    note: str = ""
    goes: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
