"""The values that the pipeline works with: its input, its questions to the model, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Literal, NamedTuple, TypedDict

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from transcripts import Edit, Folded, Usage, View

from .cache_use import cache_used
from .estimate import estimate_prompt, overall_slope
from .local_summary import LocalSummary
from .prices import Prices
from .settings import CompactSettings, ContextWindow
from .tokens import TokenCounter

Trigger = Literal["auto", "manual", "tool", "reactive"]
File = tuple[str, str]  # (name, text) of a stored output
MIN_REPLACEMENT_TOKENS = 500  # of a replacement by our count, however small the window
OUTPUTS_PREFIX = ".task_outputs/tool-results/"


class FoldLimits(Struct, frozen=True):
    """The limits of a fold: the model summary to show, the tokens (our count) of the tail, restored files."""

    trigger: Trigger
    summary: str = ""
    tail: int | None = None  # None: the settings' limits
    restoring: bool = True
    until: int | None = None  # seq of the newest fact that may be folded; None: any


class RestoredFiles(Struct, frozen=True):
    """The text of the files that a fold shows again, its tokens, and the seqs of the results in it."""

    text: str = ""
    seqs: tuple[int, ...] = ()
    tokens: int = 0


class LocalTexts(NamedTuple):
    """The text of a local summary, that of the commitments beside it, and that of the environment."""

    account: str
    committed: str
    environment: str


class WorkedOut(Struct, frozen=True):
    """Computed results about the facts, valid for one moment whatever edits are in force.

    They are shared by all situations of that moment, because one plan tries several cuts and summaries:
    local summaries, their most used names and their texts by the number of entries, the user's messages by
    the number of prompts, both texts also by the room for them, and the tokens of texts.
    `restored` and `attempts` belong to one conversation with its edits, which is stored with them.
    """

    local_summaries: dict[int, LocalSummary] = field(default_factory=dict)
    most_used_names: dict[int, dict[str, list[str]]] = field(default_factory=dict)
    local_texts: dict[tuple[int, int], LocalTexts] = field(default_factory=dict)
    user_messages: dict[tuple[int, int], str] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    restored: dict[tuple[int, int, int], tuple[Folded, RestoredFiles]] = field(default_factory=dict)
    attempts: dict[tuple[int, FoldLimits, str], tuple[Folded, Proposal | None]] = field(default_factory=dict)


class BackgroundSummary(Struct, frozen=True):
    """A model summary of the messages up to fact `until`, written while the conversation continues.

    `reply` is None until it is complete. The messages have not changed since it was requested.
    """

    trigger: Trigger
    until: int
    reply: SummaryReply | None = None


class Situation(Struct, frozen=True):
    """The conversation and its circumstances at one moment; invalid once another fact was applied."""

    folded: Folded
    settings: CompactSettings
    window: ContextWindow
    prices: Prices
    now: float  # seconds since the epoch; the age of the cache is relative to it
    overhead: int  # our count of system prompt and tools, in tokens
    binds: bool  # whether the model binds thinking to its prefix
    counter: TokenCounter
    live: tuple[str, ...] = ()  # state outside the conversation (permission mode, ...), one line each
    outputs: str = OUTPUTS_PREFIX  # of the paths of stored outputs: the directory and the session's prefix
    uncleared: Situation | None = None  # without the clearing of this pass, which a summary makes unnecessary
    lasting: tuple[Edit, ...] = ()  # edits of this pass that stay, and are sent, if a summary follows
    focus: str = ""  # topics that an automatic summary should pay attention to
    vetoed: bool = False  # a hook forbade the automatic summary, model or local
    background: BackgroundSummary | None = None
    cold: bool = False  # the next request finds nothing in the cache, whatever the transcript says
    worked_out: WorkedOut = field(default_factory=WorkedOut)
    view: View = field(default_factory=View)  # the conversation as the model sees it
    slope: float = 1.0  # the model's tokens for each token of our count
    tokens: int = 0  # the model's tokens of the next prompt
    cache_used: float = 0.0  # time of the last request whose cache entries may still exist

    def __post_init__(self) -> None:
        force_setattr(self, "view", self.folded.view)
        force_setattr(self, "slope", overall_slope(self.folded))
        force_setattr(self, "tokens", estimate_prompt(self.folded, self.overhead))
        force_setattr(self, "cache_used", cache_used(self.folded))

    @property
    def trigger_tokens(self) -> int:
        """The prompt size at which a summary is due."""
        return self.settings.trigger_in(self.window)

    @property
    def replacement_limit(self) -> int:
        """The tokens (our count) that a replacement and the tail after it may have.

        In a small window thrifty keeps less, so that the next compaction is not due within a call or two.
        """
        settings = self.settings
        overhead = self.scaled(self.overhead)
        limit = min(settings.max_record_tokens, int(settings.max_record_share * self.window.size))
        if settings.policy == "thrifty":
            trigger = self.trigger_tokens
            left = max(settings.max_left_share * trigger - overhead, settings.min_left_share * trigger)
            limit = min(limit, int(left))
        if settings.max_compact_size:
            limit = min(limit, settings.max_compact_size - overhead)
        return max(MIN_REPLACEMENT_TOKENS, self.unscaled(limit))

    @property
    def can_wait(self) -> bool:
        """Return whether the next requests fit while a summary is written in the background.

        This is true up to halfway between the trigger and the end of the window.
        """
        return self.tokens < (self.trigger_tokens + self.window.size) // 2

    @property
    def cache_is_cold(self) -> bool:
        """Return whether the conversation is not in the cache, so that a rewrite costs nothing extra."""
        if self.folded.last_request is None:
            return False
        return self.cold or self.cache_used < self.now - self.settings.cache_ttl_s

    @property
    def fits(self) -> bool:
        """Return whether the prompt fits in the window."""
        return self.tokens <= self.window.size

    def tokens_of(self, text: str) -> int:
        """Return the tokens of a text by our count; one that occurs in several drafts is counted once."""
        counted = self.worked_out.tokens
        if text not in counted:
            counted[text] = self.counter.text(text)
        return counted[text]

    def scaled(self, raw: int) -> int:
        """Return the model's tokens for `raw` tokens of our count."""
        return round(raw * self.slope)

    def unscaled(self, tokens: int) -> int:
        """Return our count for a number of the model's tokens."""
        return round(tokens / self.slope)

    def reaches(self, tokens: int, messages_only: bool) -> bool:
        """Return whether the prompt has `tokens` tokens, by the estimate or by our own count of its messages.

        With `messages_only` only our own count matters, since the effect of clearing is known by it alone.
        """
        estimate = 0 if messages_only else self.tokens
        return estimate >= tokens or self.view.tokens >= self.unscaled(tokens)

    def with_edits(self, edits: tuple[Edit, ...], lasting: bool = True) -> Situation:
        """Return this situation with more edits in force; `lasting` ones stay even if a summary follows."""
        if not edits:
            return self
        uncleared = None if lasting and self.uncleared is None else self.uncleared or self
        if lasting and uncleared is not None:
            uncleared = uncleared.with_edits(edits)
        kept = (*self.lasting, *edits) if lasting else self.lasting
        return replace(self, folded=self.folded.with_edits(edits), uncleared=uncleared, lasting=kept)


class SummaryRequest(Struct, frozen=True):
    """A question to the model: the view without its `leave_out` oldest exchanges, then `instructions`.

    `edits` are not recorded yet and change only what was never sent: previews of the newest results.
    """

    instructions: str
    leave_out: int
    max_tokens: int
    edits: tuple[Edit, ...] = ()


class SummaryReply(Struct, frozen=True):
    """The model's answer, or the reason for its failure. A `too_long` request is repeated with less.

    `pending`: it is written in the background, and no answer will follow in this pass.
    """

    text: str | None
    failure: str | None = None
    usage: Usage = field(default_factory=Usage)
    stop: str | None = None
    too_long: bool = False
    pending: bool = False


class ReportDetails(TypedDict, total=False):
    """The entries of a report that only some layers add, and the errors that caused a compaction.

    because  the error that caused a reaction
    failure  of the model's summary, which a local one replaces
    """

    why: str
    rung: int
    messages: int  # removed by snip
    dropped: str  # id and label of a block
    restored: Sequence[int]  # seqs of the results that are shown again
    summary_tokens: int
    coverage: Mapping[str, Sequence[int]]  # as local_summary_text.py counts it
    because: str
    failure: str


class CompactionReport(ReportDetails):
    """The effect and cost of a proposal; sizes are the model's tokens, of the whole prompt."""

    before: int
    after: int
    freed: int
    predicted_cost_usd: float
    cold_cost_usd: float
    extra_cost_usd: float
    pays_back_calls: int
    rewritten: int
    cold: bool
    calls: int
    kinds: Mapping[str, int]  # freed by kind of part; negative under "placeholder" for what is shown instead
    edits: Mapping[str, int]
    biggest: Sequence[str]


class Proposal(Struct, frozen=True):
    """One compaction to be recorded. Its `files` must be on disk before the transcript names them."""

    layer: str
    trigger: Trigger
    edits: tuple[Edit, ...]
    report: CompactionReport
    files: tuple[File, ...] = ()


class CompactionPlan(Struct, frozen=True):
    """The steps of a compaction, in order.

    `pending`: a summary is being written in the background, and no step changes what it covers.
    """

    proposals: tuple[Proposal, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()  # (what, reason) for the transcript
    note: str = ""  # for the user
    pending: bool = False
    removed: tuple[str, ...] = ()  # lines of a preview, as in `remaining`
    remaining: tuple[str, ...] = ()


class CannotChange(Struct, frozen=True):
    """The reason why a change that the user asked for is impossible, with a remedy where there is one."""

    reason: str


Flow = Generator[SummaryRequest, SummaryReply, CompactionPlan]
"""A plan in the making: yields at most a few summary requests, is sent their replies, returns the plan."""


def finish_plan(flow: Flow, answer: Callable[[SummaryRequest], SummaryReply]) -> CompactionPlan:
    """Run a flow with `answer` replying to each of its requests, and return its plan."""
    try:
        request = next(flow)
        while True:
            request = flow.send(answer(request))
    except StopIteration as stop:
        planned: CompactionPlan = stop.value
        return planned


class Layer(Struct, frozen=True):
    """One step of the automatic pipeline."""

    plan: Callable[[Situation], tuple[Proposal, ...] | Flow]  # a Flow may ask the model
    # The size, in the model's tokens, below which it never acts; None if it is off.
    min_tokens: Callable[[CompactSettings, ContextWindow], int | None] = lambda settings, window: 0
    messages_only: bool = False  # that size is of the messages, without system prompt and tools
    lasting: bool = False  # its edits stay in force even if a later layer replaces the history in this pass
    replaces_history: bool = False  # so that the clearing of this pass is unnecessary; lasting edits stay
