"""The values that the pipeline works with: what it is given, what it may ask for, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Literal, TypedDict

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from transcripts import Edit, Folded, Usage, View, own_words

from .breakpoints import cache_used
from .directives import FACT, LASTING, REST, is_errand, weighed_sentences
from .estimate import Calibration
from .local_summary import LocalSummary
from .prices import Prices
from .settings import CompactSettings, ContextWindow
from .tokens import TokenCounter

Trigger = Literal["auto", "manual", "tool", "reactive"]
File = tuple[str, str]  # (name, text) of a stored output
MIN_REPLACEMENT_TOKENS = 500  # of a record by our count, however small the window
OUTPUTS_PREFIX = ".task_outputs/tool-results/"


class FoldLimits(Struct, frozen=True):
    """The form of a summarized range: the summary to show, the tokens (our count) of the tail, whether files
    are restored.
    """

    trigger: Trigger
    summary: str = ""
    tail: int | None = None  # None: the settings' limits
    restoring: bool = True


class RestoredFiles(Struct, frozen=True):
    """The text of the files that a fold shows again, its tokens, and the seqs of the results in it."""

    text: str = ""
    seqs: tuple[int, ...] = ()
    tokens: int = 0


class UserBlock(Struct):
    """A block of a user message: its recall id, its text and tokens, and what was made of it.

    `answers` says to which call these are the words, "" for a message of its own; `sentences` are (weight,
    sentence) of those that say more than small talk.
    """

    ident: str
    text: str
    tokens: int
    answers: str = ""
    forms: dict[tuple[int, int, int], tuple[str, int]] = field(default_factory=dict)
    sentences: list[tuple[int, str]] | None = None

    def said(self) -> list[tuple[int, str]]:
        """(weight, sentence) of each sentence that says more than small talk; an errand weighs least."""
        if self.sentences is None:
            said = weighed_sentences(own_words(self.text))
            spans = ((each.weight, self.text[each.start : each.end]) for each in said)
            self.sentences = [
                (REST if weight < LASTING and is_errand(text) else weight, text)
                for weight, text in spans
                if weight >= FACT
            ]
        return self.sentences

    def is_talk(self, most: int) -> bool:
        """Return whether it has at most so many tokens and says nothing that holds once it is answered."""
        return self.tokens <= most and not self.answers and all(weight < FACT for weight, _ in self.said())

    def tells(self) -> bool:
        """Return whether it is more than errands and a few words."""
        said = (self.text[each.start : each.end] for each in weighed_sentences(own_words(self.text)))
        return any(each.count(" ") >= 3 and not is_errand(each) for each in said)


class WorkedOut(Struct, frozen=True):
    """Results about the facts themselves, valid for one moment whatever edits are in force.

    Shared by all situations of that moment, because one plan tries several cuts and several summaries.
    ledgers of the first so many entries, blocks of the user by (seq, block), tokens of a record by what it
    was made for; and of one conversation with its edits what is shown of files and what an attempt at a
    summary comes to, each with the conversation that it was made of.
    """

    local_summaries: dict[int, LocalSummary] = field(default_factory=dict)
    user_blocks: dict[tuple[int, int], UserBlock] = field(default_factory=dict)
    replacement_tokens: dict[tuple[Trigger, int, int], int] = field(default_factory=dict)
    restored: dict[tuple[int, int], tuple[Folded, RestoredFiles]] = field(default_factory=dict)
    attempts: dict[tuple[int, FoldLimits, str], tuple[Folded, Proposal | None]] = field(default_factory=dict)


class Situation(Struct, frozen=True):
    """The conversation and its circumstances at one moment; of no use once another fact was applied."""

    folded: Folded
    settings: CompactSettings
    window: ContextWindow
    prices: Prices
    now: float  # seconds since the epoch, by which the age of the cache is judged
    overhead: int  # our count of system prompt and tools, in tokens
    calibration: Calibration
    binds: bool  # whether the model binds thinking to its prefix
    counter: TokenCounter
    live: tuple[str, ...] = ()  # state beside the conversation (permission mode, ...), a line each
    outputs: str = OUTPUTS_PREFIX  # of the paths of stored outputs: the folder and the session's own prefix
    uncleared: Situation | None = None  # without the clearing of this pass, which a summary makes needless
    lasting: tuple[
        Edit, ...
    ] = ()  # those of this pass that stay if a summary follows, and that it is asked on
    focus: str = ""  # what an automatic summary has to pay attention to
    vetoed: bool = False  # a hook forbade the automatic summary, and the ledger in its place
    cold: bool = False  # the next request finds nothing in the cache, whatever the record tells
    worked_out: WorkedOut = field(default_factory=WorkedOut)
    view: View = field(default_factory=View)  # the conversation as the model sees it
    slope: float = 1.0  # the model's tokens for each token of our count
    tokens: int = 0  # the model's tokens of the next prompt
    cache_used: float = 0.0  # when a request last used what the cache may hold

    def __post_init__(self) -> None:
        force_setattr(self, "view", self.folded.view)
        force_setattr(self, "slope", self.calibration.slope)
        force_setattr(self, "tokens", self.calibration.prompt_tokens(self.folded, self.overhead))
        force_setattr(self, "cache_used", cache_used(self.folded))

    @property
    def trigger_tokens(self) -> int:
        """The prompt size at which a summary is due."""
        return self.settings.trigger_in(self.window)

    @property
    def cache_is_cold(self) -> bool:
        """Return whether the cache holds nothing of the conversation now, so that a rewrite costs nothing
        more.
        """
        if self.folded.last_request is None:
            return False
        return self.cold or self.cache_used < self.now - self.settings.cache_ttl_s

    def scaled(self, raw: int) -> int:
        """The model's tokens for `raw` tokens of our count."""
        return round(raw * self.slope)

    def unscaled(self, tokens: int) -> int:
        """Our count for so many of the model's tokens."""
        return round(tokens / self.slope)

    def reaches(self, tokens: int, messages_only: bool) -> bool:
        """Return whether the prompt has so many tokens, by the estimate or by our own count of its messages.

        Layers go by either: what clearing frees is known by our count alone, which is all that counts with
        `messages_only`.
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


def replacement_limit(situation: Situation) -> int:
    """Return the tokens (our count) that a local summary and the tail behind it may take.

    In a small window thrifty keeps less, so that the next compaction is not due after a call or two.
    """
    settings = situation.settings
    overhead = situation.scaled(situation.overhead)
    limit = min(settings.max_record_tokens, int(settings.max_record_share * situation.window.size))
    if settings.policy == "thrifty":
        trigger = situation.trigger_tokens
        left = max(settings.max_left_share * trigger - overhead, settings.min_left_share * trigger)
        limit = min(limit, int(left))
    if settings.max_compact_size:
        limit = min(limit, settings.max_compact_size - overhead)
    return max(MIN_REPLACEMENT_TOKENS, situation.unscaled(limit))


class SummaryRequest(Struct, frozen=True):
    """A question to the model: the view without its `leave_out` oldest exchanges, then `instructions`.

    `edits` are not in the record yet and change only what was never sent: previews of the newest results.
    """

    instructions: str
    leave_out: int
    max_tokens: int
    edits: tuple[Edit, ...] = ()


class SummaryReply(Struct, frozen=True):
    """The model's answer, or why there is none. A request that was `too_long` is made again with less."""

    text: str | None
    failure: str | None = None
    usage: Usage = field(default_factory=Usage)
    stop: str | None = None
    too_long: bool = False


class ReportDetails(TypedDict, total=False):
    """The entries of a report that some layers add, and `because`: the error that a reaction came of."""

    why: str
    rung: int
    messages: int  # left out by snip
    dropped: str  # a block by its id and label
    restored: Sequence[int]  # seqs of the results that are shown again
    summary_tokens: int
    coverage: Mapping[str, Sequence[int]]  # as local_summary_text.py counts it
    because: str


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
    kinds: Mapping[str, int]  # freed by kind of part; what is shown instead counts against "placeholder"
    edits: Mapping[str, int]
    biggest: Sequence[str]


class Proposal(Struct, frozen=True):
    """One compaction to be recorded. Its `files` must be on the disk before the record names them."""

    layer: str
    trigger: Trigger
    edits: tuple[Edit, ...]
    report: CompactionReport
    files: tuple[File, ...] = ()


class CompactionPlan(Struct, frozen=True):
    """The steps of a compaction, in order."""

    proposals: tuple[Proposal, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()  # (what, reason) for the record
    note: str = ""  # for the user
    goes: tuple[str, ...] = ()  # a line of a preview each, as in `stays`
    stays: tuple[str, ...] = ()


class CannotChange(Struct, frozen=True):
    """A change that the user asked for is impossible; the text says why, and what can be done instead."""

    reason: str


Flow = Generator[SummaryRequest, SummaryReply, CompactionPlan]
"""A plan in the making: yields at most a few summary requests, is sent their replies, returns the plan."""


def finish_plan(flow: Flow, answer: Callable[[SummaryRequest], SummaryReply]) -> CompactionPlan:
    """The plan that a flow comes to when `answer` replies to each of its requests."""
    try:
        request = next(flow)
        while True:
            request = flow.send(answer(request))
    except StopIteration as stop:
        planned: CompactionPlan = stop.value
        return planned


class Layer(Struct, frozen=True):
    """One step of the automatic pipeline, which names its proposals by itself."""

    plan: Callable[[Situation], tuple[Proposal, ...] | Flow]  # mostly nothing; a Flow may ask the model
    # The size, in the model's tokens, below which it never acts; None where it is off.
    min_tokens: Callable[[CompactSettings, ContextWindow], int | None] = lambda settings, window: 0
    messages_only: bool = False  # that size is of the messages, without system prompt and tools
    lasting: bool = False  # its edits stay in force even if a later layer replaces the history in this pass
    replaces_history: bool = False  # so that the clearing of this pass is needless: lasting edits are kept
