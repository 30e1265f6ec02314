"""The values that the pipeline works with: what it is given, what it may ask for, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from transcripts.facts import Edit
from transcripts.fold import Folded
from transcripts.messages import Usage
from transcripts.view import View

from .prices import Prices
from .settings import CompactSettings
from .tokens import Calibration, TokenCounter, context_tokens
from .window import CRITICAL_PERCENT, ContextWindow, percent, trigger_of

Trigger = Literal["auto", "manual", "tool", "reactive"]
File = tuple[str, str]  # (name, text) of a stored output
OUTPUTS_PREFIX = ".task_outputs/tool-results/"


@dataclass(frozen=True)  # without slots: the cached properties are kept in __dict__
class Situation:
    """The conversation and its circumstances at one moment; of no use once another fact was applied.

    now        seconds since the epoch, by which the age of the cache is judged
    overhead   our count of system prompt and tools, in tokens
    binds      whether the model binds thinking to its prefix
    live       state beside the conversation (permission mode, background commands), a line each
    outputs    what the paths of stored outputs begin with: the folder and the session's own prefix
    reported   the server's count of the request that it has just refused as too long; 0 where there is none
    uncleared  this situation without the clearing of this pass, which a summary would make needless
    lasting    the edits of this pass that stay even if a summary follows; the summary is asked on them too
    focus      what an automatic summary has to pay attention to
    vetoed     whether a hook forbade the automatic summary, and the ledger in its place
    """

    folded: Folded
    settings: CompactSettings
    window: ContextWindow
    prices: Prices
    now: float
    overhead: int
    calibration: Calibration
    binds: bool
    counter: TokenCounter
    live: tuple[str, ...] = ()
    outputs: str = OUTPUTS_PREFIX
    reported: int = 0
    uncleared: Situation | None = None
    lasting: tuple[Edit, ...] = ()
    focus: str = ""
    vetoed: bool = False

    @cached_property
    def view(self) -> View:
        return self.folded.view

    @cached_property
    def tokens(self) -> int:
        """The model's tokens of the next prompt."""
        asked = self.folded.last_request
        if self.reported and asked is not None and asked.raw:
            raw = self.overhead + self.view.tokens
            return max(0, self.reported + self.scaled(raw - asked.raw))
        return context_tokens(self.folded, self.overhead, self.calibration)

    @cached_property
    def slope(self) -> float:
        """The model's tokens for each token of our count."""
        asked = self.folded.last_request
        if self.reported and asked is not None and asked.raw:
            return max(self.calibration.slope, self.reported / asked.raw)
        return self.calibration.slope

    @cached_property
    def trigger_tokens(self) -> int:
        """The prompt size at which a summary is due."""
        return trigger_of(self.window, self.settings)

    @property
    def cache_is_cold(self) -> bool:
        """Whether the cache has expired since the last request, so that a rewrite costs nothing more."""
        asked = self.folded.last_request
        return asked is not None and self.now - asked.ts > self.settings.cache_ttl_s

    @property
    def critical(self) -> bool:
        """Whether the window is so full that even what the user brought back may be cleared."""
        return percent(self.tokens, self.window) >= CRITICAL_PERCENT

    def scaled(self, raw: int) -> int:
        """The model's tokens for `raw` tokens of our count."""
        return round(raw * self.slope)

    def unscaled(self, tokens: int) -> int:
        """Our count for so many of the model's tokens."""
        return round(tokens / self.slope)

    def reaches(self, tokens: int) -> bool:
        """Whether the prompt has so many tokens, by the estimate or by our own count of its messages.

        Layers go by either: what clearing frees is known by our count alone.
        """
        return self.tokens >= tokens or self.view.tokens >= self.unscaled(tokens)

    def with_edits(self, edits: tuple[Edit, ...], lasting: bool = True) -> Situation:
        """This situation with more edits in force; `lasting` ones stay even if a summary follows."""
        if not edits:
            return self
        uncleared = None if lasting and self.uncleared is None else self.uncleared or self
        if lasting and uncleared is not None:
            uncleared = uncleared.with_edits(edits)
        kept = (*self.lasting, *edits) if lasting else self.lasting
        return replace(self, folded=self.folded.with_edits(edits), uncleared=uncleared, lasting=kept)


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A question to the model: the view without its `leave_out` oldest exchanges, then `instructions`.

    `edits` are not in the record yet and change only what was never sent: previews of the newest results.
    """

    instructions: str
    leave_out: int
    max_tokens: int
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryReply:
    """The model's answer, or why there is none. A failure that begins "too long" is asked again with less."""

    text: str | None
    failure: str | None = None
    usage: Usage = field(default_factory=Usage)
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """One compaction to be recorded. Its `files` must be on the disk before the record names them.

    `report` holds at least before, after and freed, in the model's tokens of the whole prompt.
    """

    layer: str
    trigger: Trigger
    edits: tuple[Edit, ...]
    report: Mapping[str, Any]
    files: tuple[File, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What is to be done, in order. `failures` are (what, reason) for the record, `note` is for the user.

    `goes` and `stays` are the lines of a preview.
    """

    proposals: tuple[Proposal, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    note: str = ""
    goes: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()


Flow = Generator[SummaryRequest, SummaryReply, CompactionPlan]
"""A plan in the making: yields at most a few summary requests, is sent their replies, returns the plan."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One step of the automatic pipeline, which names its proposals by itself.

    plan              what to do now, mostly nothing; a Flow where the model may be asked
    min_tokens        the prompt size below which it never acts; None where it is off altogether
    lasting           its edits stay in force even if a later layer replaces the history in the same pass
    replaces_history  its proposals make the clearing of this pass needless: only lasting edits are kept
    """

    plan: Callable[[Situation], tuple[Proposal, ...] | Flow]
    min_tokens: Callable[[CompactSettings, ContextWindow], int | None] = lambda settings, window: 0
    lasting: bool = False
    replaces_history: bool = False
