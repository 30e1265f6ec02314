"""A recorded session gone through again under a policy, without a model: what it would have cost and lost.

Before each recorded reply the same pipeline plans as in a live session; summaries are canned (see
replay_canned.py); a prompt over the window is refused as the API would, and the reactive ladder follows.
Then the request is priced against the simulated cache, its grammar is checked twice, and what the reply
refers to is looked up in what was sent. Pure; importing and drawing are done elsewhere.

The definitions, for all figures: a window of 200,000 tokens; system and tools are 12,000; blocks are counted
with cl100k; no pauses unless the recording has times; thinking is bound to its prefix, as on current models,
so that every request is one that any model takes; a re-read is one more call (the whole prompt, read) and
the tokens of the newest source, written, for each reference that is not in context.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compact.cache_breakpoints import cache_breakpoints
from compact.invariants import problems
from compact.pipeline import plan
from compact.plan import Plan, Situation, SummaryReply, SummaryRequest, Trigger
from compact.prices import Prices
from compact.settings import CompactSettings
from compact.tokens import Calibration, TokenCounter
from compact.window import ContextWindow
from transcripts.facts import (
    Compacted,
    Fact,
    Failed,
    Fold,
    Metadata,
    Reply,
    RequestSent,
    Result,
    Unthink,
    User,
)
from transcripts.fold import Folded
from transcripts.messages import TextBlock, Usage
from transcripts.view import Message, Part, PartKind

from .cache_simulation import Cache, Layout, Served
from .canned_summary import canned
from .cost import OUTPUT, Request, Run, Tally, Tier
from .grammar import Grammar
from .references import Reference, Shown, State, judge, references

WINDOW = 200_000
OVERHEAD = 12_000
RUNGS = 3
KEPT_PROBLEMS = 5
EXACT = Calibration()  # here the usage is our own count
LEFT_OUT = "[The oldest part of this conversation is left out here.]"

Planner = Callable[[Situation, Trigger, str, int], Generator[SummaryRequest, SummaryReply, Plan]]
Sink = Callable[[Sequence[Message], Sequence[int], str], None]


@dataclass(frozen=True, slots=True)
class Recording:
    """A session to replay: users, replies, results and notes, and its references by the replies' seqs."""

    name: str
    facts: tuple[Fact, ...]
    references: Mapping[int, tuple[Reference, ...]]


def recording(name: str, facts: Iterable[Fact]) -> Recording:
    """A recording, its references looked up once for all policies."""
    kept = tuple(facts)
    return Recording(name, kept, references(kept))


@dataclass(frozen=True, slots=True)
class Setup:
    """Under what a session is replayed. `tier` prices it; `prices` is what the pipeline believes."""

    settings: CompactSettings
    window: ContextWindow
    prices: Prices
    tier: Tier
    counter: TokenCounter
    binds: bool = True
    overhead: int = OVERHEAD
    planner: Planner = plan


def baseline(recorded: Recording, tier: Tier, overhead: int = OVERHEAD) -> float:
    """What the session costs if it is only appended to, in input tokens."""
    folded, layout, cache, cost = Folded(), Layout(overhead), Cache(tier.ttl), 0.0
    for fact in recorded.facts:
        if isinstance(fact, Reply) and (view := sendable(folded.view)):
            layout.update(view)
            cost += tier.cost(cache.send(layout, _marked(folded, view), _clock(folded)))
        folded.apply(fact)
    return cost


def replay(recorded: Recording, policy: str, setup: Setup, sink: Sink | None = None) -> Run:
    """One session under one policy (a name for the report; what it means is in `setup.settings`).

    `sink` is given every request, summaries included: its messages, the indices of those that carry a cache
    mark beside the last, and what is asked behind them.
    """
    state = _Replay(recorded, setup, sink)
    for fact in recorded.facts:
        if isinstance(fact, Reply):
            state.call(fact)
        else:
            state.take(fact)
    state.tally.baseline = baseline(recorded, setup.tier, setup.overhead)
    return Run(policy, recorded.name, tuple(state.requests), state.tally, tuple(state.problems))


@dataclass(slots=True)
class _Replay:
    """The session so far. `numbers` leads from a recorded seq to the seq of the same fact here."""

    recorded: Recording
    setup: Setup
    sink: Sink | None
    folded: Folded = field(default_factory=Folded)
    tally: Tally = field(default_factory=Tally)
    requests: list[Request] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    layout: Layout = field(default_factory=lambda: Layout(OVERHEAD))
    cache: Cache = field(default_factory=Cache)
    grammar: Grammar = field(default_factory=Grammar)
    shown: Shown = field(default_factory=Shown)

    def __post_init__(self) -> None:
        self.layout = Layout(self.setup.overhead)
        self.cache = Cache(self.setup.tier.ttl)

    def take(self, fact: Fact) -> None:
        """Apply a recorded fact under its number here."""
        seq = self.numbers[fact.seq] = self.folded.last_seq + 1
        if isinstance(fact, Result):
            self.folded.apply(replace(fact, seq=seq, of=self.numbers[fact.of]))
        elif isinstance(fact, User | Reply | Metadata):
            self.folded.apply(replace(fact, seq=seq))

    def call(self, reply: Reply) -> None:
        """Everything that belongs to one recorded call: room, the request, its price, its references."""
        edits = self._make_room("auto")
        for rung in range(1, RUNGS + 1):
            if self.setup.overhead + self.folded.view.tokens <= self.setup.window.size:
                break
            edits += self._make_room("reactive", rung)
        view = sendable(self.folded.view)
        if not view:
            self.take(reply)
            return
        served = self._send(view)
        if edits:
            self.shown.read(view)
        self._judge(reply)
        freed = tuple(edits)
        self.requests.append(Request(len(self.requests), served.prompt, served.read, served.written, freed))
        self._answer(reply, served)

    def _send(self, view: Sequence[Message]) -> Served:
        same = self.layout.update(view)
        places = _marked(self.folded, view)
        found = [*self.grammar.problems(view, same), *problems(self.folded.view)]
        if found:
            self.tally.invalid += 1
            self.problems = [*self.problems, *found][:KEPT_PROBLEMS]
        if self.sink is not None:
            self.sink(view, places[:-1], "")
        served = self.cache.send(self.layout, places, _clock(self.folded))
        self.tally.cost += self.setup.tier.cost(served)
        self.tally.calls += 1
        self.tally.breaks += served.broke
        self.tally.peak = max(self.tally.peak, served.prompt)
        return served

    def _answer(self, reply: Reply, served: Served) -> None:
        """The recorded reply, with the usage that this request would have had."""
        seq, now = self.folded.last_seq + 1, _clock(self.folded)
        self.folded.apply(RequestSent(seq, now, "turn", served.prompt, served.prompt))
        usage = Usage(served.plain, sum(reply.tokens), served.read, served.written)
        self.take(replace(reply, usage=usage, asked=seq))

    def _judge(self, reply: Reply) -> None:
        tier, prompt = self.setup.tier, self.layout.tokens
        for reference in self.recorded.references.get(reply.seq, ()):
            sources = [self.numbers[seq] for seq in reference.sources]
            state = judge(reference, sources, self.folded, self.shown)
            self.tally.references += 1
            self.tally.lost += state is State.LOST
            self.tally.recoverable += state is State.RECOVERABLE
            if state is not State.IN_CONTEXT:
                source = self.recorded.facts[reference.sources[-1] - 1]
                tokens = sum(source.tokens) if isinstance(source, Result) else 0
                self.tally.rereads += prompt * tier.read + tokens * tier.write

    def _make_room(self, trigger: Trigger, rung: int = 0) -> list[tuple[str, int]]:
        """Plan and apply. Returns (layer, tokens freed) of every compaction."""
        flow = self.setup.planner(self._situation(), trigger, "", rung)
        answer: SummaryReply | None = None
        while True:
            try:
                asked = next(flow) if answer is None else flow.send(answer)
            except StopIteration as stop:
                made: Plan = stop.value
                return self._apply(made, trigger)
            answer = self._summarise(asked)

    def _apply(self, made: Plan, trigger: Trigger) -> list[tuple[str, int]]:
        now, freed = _clock(self.folded), []
        for what, reason in made.failures:
            self.folded.apply(Failed(self.folded.last_seq + 1, now, what, reason))
        for proposal in made.proposals:
            before, seq = self.folded.view.tokens, self.folded.last_seq + 1
            fact = Compacted(seq, now, proposal.layer, trigger, proposal.edits, report=proposal.report)
            self.folded.apply(fact)
            freed.append((proposal.layer, before - self.folded.view.tokens))
        return freed

    def _situation(self) -> Situation:
        setup, folded = self.setup, self.folded
        return Situation(
            folded=folded,
            settings=setup.settings,
            window=setup.window,
            prices=setup.prices,
            now=_clock(folded),
            overhead=setup.overhead,
            fit=EXACT,
            binds=setup.binds,
            count=setup.counter,
        )

    def _summarise(self, asked: SummaryRequest) -> SummaryReply:
        """The canned answer to a summary request, its call priced like any other."""
        folded = self.folded.with_edits(asked.edits) if asked.edits else self.folded
        view = sendable(leaving_out(folded, asked.leave_out))
        tokens = self.setup.counter.text(asked.instructions)
        words = Part(TextBlock(asked.instructions), self.folded.last_seq + 1, 0, PartKind.USER, tokens)
        self.layout.update([*view, Message("user", (words,), words.seq, words.seq)])
        prompt, limit = self.layout.tokens, self.setup.window.size
        places = _marked(folded, view) if not asked.leave_out else [len(view) - 1]
        if self.sink is not None:
            self.sink(view, places[:-1], asked.instructions)
        if prompt > limit:
            reason = f"too long: prompt is too long: {prompt} tokens > {limit} maximum"
            return SummaryReply(None, reason, Usage(), None)
        served = self.cache.send(self.layout, places, _clock(self.folded))
        text = canned(self.folded, self.setup.counter.text)
        output = self.setup.counter.text(text)
        self.tally.summaries += 1
        self.tally.cost += self.setup.tier.cost(served) + OUTPUT * output
        return SummaryReply(text, None, Usage(served.plain, output, served.read, served.written), "end_turn")


def sendable(view: Sequence[Message]) -> Sequence[Message]:
    """The view up to its last user message: the API takes no prefill."""
    end = len(view)
    while end and view[end - 1].role == "assistant":
        end -= 1
    return view if end == len(view) else view[:end]


def leaving_out(folded: Folded, exchanges: int) -> Sequence[Message]:
    """The view without its oldest exchanges."""
    view = folded.view
    replies = [message.first for message in view if message.role == "assistant"]
    if exchanges <= 0 or not replies:
        return view
    first = replies[min(exchanges, len(replies) - 1)]
    return folded.with_edits(
        (Fold(0, first - 1, (TextBlock(LEFT_OUT),), 12), Unthink(0, folded.last_seq))
    ).view


def _marked(folded: Folded, view: Sequence[Message]) -> list[int]:
    """The messages that carry a mark: at most two in the history, and the last."""
    inside = [index for index in cache_breakpoints(folded) if index < len(view)]
    return sorted({*inside[-2:], len(view) - 1})


def _clock(folded: Folded) -> float:
    return folded.facts[-1].ts if folded.facts else 0.0
