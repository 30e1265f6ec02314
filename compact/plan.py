"""What the pipeline is given, what it may ask, and what it answers: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from transcripts.facts import Edit
from transcripts.fold import Folded
from transcripts.messages import Usage

from .prices import Prices
from .settings import Settings
from .tokens import Counter, Fit, context_tokens
from .window import Window

Trigger = Literal["auto", "manual", "tool", "reactive"]


@dataclass(frozen=True, slots=True)
class Situation:
    """The conversation and its circumstances at one moment.

    now       seconds since the epoch, for the cache clock
    overhead  our count of system prompt and tools, in tokens
    binds     whether the model binds thinking to its prefix
    live      state that stands beside the conversation (permission mode, background commands), a line each
    """

    folded: Folded
    settings: Settings
    window: Window
    prices: Prices
    now: float
    overhead: int
    fit: Fit
    binds: bool
    count: Counter
    live: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """The calibrated size of the next prompt."""
        return context_tokens(self.folded, self.overhead, self.fit)

    def scaled(self, raw: int) -> int:
        """Tokens as the model counts them, for a stretch that we counted."""
        return round(raw * self.fit.slope)


@dataclass(frozen=True, slots=True)
class AskSummary:
    """Ask the model: the view as last sent, less its `leave_out` oldest exchanges, then `instructions`."""

    instructions: str
    leave_out: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model answered, or why it did not."""

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

    `details` are lines for a preview: what would go, and what would stay.
    """

    proposals: tuple[Proposal, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    note: str = ""
    details: tuple[str, ...] = ()
