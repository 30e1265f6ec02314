"""Replay a recorded session under a policy, without a model, to find its cost and its lost references.

Before each recorded reply, the same pipeline plans as in a live session. Summaries are canned. A prompt over
the window is refused, as by the API, and the reactive ladder follows. Then the request is checked and priced
with the simulated cache, and the references of the reply are looked up in the request.

All figures use these definitions:

    sizes      the window, the size of system and tools, and the prices are those of policies.py; blocks are
               counted with cl100k
    pauses     those of the recording, none if it has no times, or PAUSE_S before each prompt
    refused    prompt and reply together exceed the window
    thinking   bound to its prefix, as on current models
    re-read    one more call, which reads the whole prompt from the cache and writes the tokens of the newest
               source; once for each source of the references and edits (references.py) of a call whose text
               is not in the context, and for each result that was cut before the model saw it

There are two baselines: the session without compaction, with the same breakpoints and no context limit, and
the policy `off` within the window, re-reads included.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from compact import (
    REACTIVE_RUNGS,
    FileTouch,
    PutBackRules,
    Situation,
    SummaryReply,
    SummaryRequest,
    Trigger,
    cache_breakpoints,
    finish_plan,
    joined_text,
    learned_prices,
    problems,
    summary_messages,
)
from tools.processes import fold_output
from transcripts import (
    Block,
    Clear,
    Compacted,
    Edit,
    Fact,
    Failed,
    Folded,
    Message,
    Metadata,
    Part,
    PartKind,
    Reply,
    RequestSent,
    Result,
    TextBlock,
    Usage,
    User,
)

from .cache_simulation import PromptLayout, SimulatedCache
from .canned_summary import canned_summary
from .figures import OUTPUT_PRICE, LayerEffect, ReplayedRequest, Run, Totals
from .policies import ReplaySetup
from .references import (
    FileEdit,
    Reference,
    ReferenceState,
    Replacements,
    file_edits,
    is_in_view,
    judge_reference,
    references,
    replacements_in,
    says,
)

PAUSE_S = 600.0  # before a prompt, if pauses are assumed: longer than the lifetime of most caches

Sink = Callable[[Sequence[Message], Sequence[int], str], None]
"""A function that is called for each request with its messages, the indices of messages with a breakpoint
(except the last), and the instructions of a summary request ("" for any other)."""


class Recording(Struct, frozen=True):
    """A session to replay: its facts; references and edits by the seqs of the replies that make them."""

    name: str
    facts: tuple[Fact, ...]
    references: Mapping[int, tuple[Reference, ...]]
    edits: Mapping[int, tuple[FileEdit, ...]]


def recording(name: str, facts: Iterable[Fact], pauses: str = "recorded") -> Recording:
    """Return a recording with its references and edits, which are found once for all policies.

    `pauses` is "recorded", "none", or "prompts" for PAUSE_S before each prompt except the first.
    """
    kept = tuple(facts) if pauses == "recorded" else tuple(_with_pauses(facts, pauses == "prompts"))
    return Recording(name, facts=kept, references=references(kept), edits=file_edits(kept))


def _with_pauses(facts: Iterable[Fact], before_prompts: bool) -> Iterator[Fact]:
    now = 0.0
    replied = False
    for fact in facts:
        if before_prompts and replied and isinstance(fact, User):
            now += PAUSE_S
        replied = replied or isinstance(fact, Reply)
        yield replace(fact, ts=now)


def baseline(recorded: Recording, setup: ReplaySetup) -> float:
    """Return the cost of the session without compaction, in input tokens."""
    folded = Folded()
    layout = PromptLayout(setup.overhead)
    cost = 0.0
    cache = SimulatedCache(setup.settings.cache_ttl_s)
    for fact in recorded.facts:
        if isinstance(fact, Reply) and (view := folded.view.sendable()):
            layout.update(view)
            places = _with_last(cache_breakpoints(folded), view)
            cost += setup.prices.plain(cache.send(layout, places, _now(folded)))
        folded.apply(fact)
    return cost


class Baselines(Struct, frozen=True):
    """The costs of a session without compaction, and with the policy `off` in the window, in input tokens."""

    appended: float
    off: float


def baselines(recorded: Recording, off: ReplaySetup) -> Baselines:
    """Return both baselines; `off` is the setup of that policy."""
    appended = baseline(recorded, off)
    done = replay(recorded, "off", off, Baselines(appended, 0.0)).totals
    return Baselines(appended, done.cost + done.rereads)


def replay(
    recorded: Recording,
    policy: str,
    setup: ReplaySetup,
    costs: Baselines | None = None,
    sink: Sink | None = None,
) -> Run:
    """Replay one session under one policy; `policy` is only its name in the report.

    Without `costs`, only the baseline without compaction is computed.
    """
    cache = SimulatedCache(setup.settings.cache_ttl_s)
    state = _Replay(recorded, setup=setup, sink=sink, layout=PromptLayout(setup.overhead), cache=cache)
    for fact in recorded.facts:
        if isinstance(fact, Reply):
            state.call(fact)
        else:
            state.take(fact)
    known = costs or Baselines(baseline(recorded, setup), 0.0)
    state.totals.baseline = known.appended
    state.totals.off = known.off
    return Run(
        policy,
        file=recorded.name,
        requests=tuple(state.requests),
        totals=state.totals,
        problems=tuple(state.problems),
    )


class _PutBack(NamedTuple):
    """Text that was put back into the conversation with the fact `seq`."""

    seq: int
    text: str


class _Replay(Struct):
    """The state of a replay. `numbers` maps a recorded seq to the seq of the same fact in `folded`."""

    recorded: Recording
    setup: ReplaySetup
    sink: Sink | None
    layout: PromptLayout
    cache: SimulatedCache
    folded: Folded = field(default_factory=Folded)
    totals: Totals = field(default_factory=Totals)
    requests: list[ReplayedRequest] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    shown: Replacements = field(default_factory=Replacements)
    trimmed: set[int] = field(default_factory=set)  # seqs of results that show less than the recording
    put_back: list[_PutBack] = field(default_factory=list)
    cut: dict[int, bool] = field(default_factory=dict)  # cut unseen; False: a reference was charged

    def take(self, fact: Fact) -> None:
        """Apply a recorded fact under its new seq."""
        seq = self.numbers[fact.seq] = self.folded.last_seq + 1
        if isinstance(fact, Result):
            shown = _trimmed(replace(fact, seq=seq, of=self.numbers[fact.of]), self.folded, self.setup)
            result = _with_put_back(shown, self.folded, self.setup)
            self.folded.apply(result)
            if shown.content != fact.content:
                self.trimmed.add(seq)
            if result.content != shown.content:
                self.put_back.append(_PutBack(seq, joined_text(result.content[len(shown.content) :])))
        elif isinstance(fact, User):
            prompt = _with_needed_text(replace(fact, seq=seq), self.folded, self.setup)
            self.folded.apply(prompt)
            if prompt.blocks != fact.blocks:
                self.put_back.append(_PutBack(seq, joined_text(prompt.blocks[: -len(fact.blocks)])))
        elif isinstance(fact, Reply | Metadata):
            self.folded.apply(replace(fact, seq=seq))

    def call(self, reply: Reply) -> None:
        """Replay one recorded call: compaction, the request, its price, and its references."""
        edits = self._compact("auto")
        for rung in range(1, REACTIVE_RUNGS + 1):
            if not self._is_refused(reply):
                break
            self.totals.refused += 1
            edits += self._compact("reactive", rung)
        view = self.folded.view.sendable()
        if not view:
            self.take(reply)
            return
        served = self._send(view)
        if edits:
            self.shown = replacements_in(view)
        self._judge(reply)
        number = len(self.requests)
        freed = tuple(edits)
        self.requests.append(
            ReplayedRequest(
                number,
                view_tokens=served.prompt,
                cache_read=served.cache_read,
                cache_written=served.cache_written,
                edits=freed,
            )
        )
        seq = self.folded.last_seq + 1
        raw = self.setup.overhead + self.folded.view.tokens
        self.folded.apply(
            RequestSent(seq, ts=_now(self.folded), trigger="turn", tokens=served.prompt, raw=raw)
        )
        self.take(replace(reply, usage=replace(served, output=sum(reply.tokens)), asked=seq))

    def _is_refused(self, reply: Reply) -> bool:
        """Return whether the request and the recorded reply together are too long for the window."""
        self.layout.update(self.folded.view.sendable())
        answer = min(sum(reply.tokens), self.setup.window.max_output)
        return self.layout.tokens + answer > self.setup.window.size

    def _send(self, view: Sequence[Message]) -> Usage:
        self.layout.update(view)
        places = _with_last(cache_breakpoints(self.folded), view)
        if found := problems(view):
            self.totals.invalid += 1
            self.problems = [*self.problems, *found][:5]
        if self.sink is not None:
            self.sink(view, places[:-1], "")
        served = self.cache.send(self.layout, places, _now(self.folded))
        self.totals.cost += self.setup.prices.plain(served)
        self.totals.calls += 1
        self.totals.breaks += self.cache.broke
        self.totals.peak = max(self.totals.peak, served.prompt)
        return served

    def _judge(self, reply: Reply) -> None:
        again: set[int] = set()  # the sources to be read again
        for reference in self.recorded.references.get(reply.seq, ()):
            sources = [self.numbers[seq] for seq in reference.sources]
            sources = [
                seq for seq in sources if seq not in self.trimmed or says(self.folded, seq, reference.name)
            ]
            state = judge_reference(reference, sources, self.folded, self.shown)
            self.totals.references += 1
            self.totals.lost += state is ReferenceState.LOST
            self.totals.recoverable += state is ReferenceState.RECOVERABLE
            if state is not ReferenceState.IN_CONTEXT:
                again.add(reference.sources[-1])
        for edit in self.recorded.edits.get(reply.seq, ()):
            self.totals.edits += 1
            other = f"{self.shown.text}\n{_still_shown(self.put_back, self.folded)}"
            if not is_in_view(edit, self.numbers, self.folded, other, self.trimmed):
                self.totals.edits_out += 1
                again.add(max(source[0] for need in edit.needs for source in need))
        for source in sorted(again):
            self._charge_reread(source)

    def _compact(self, trigger: Trigger, rung: int = 0) -> list[LayerEffect]:
        """Plan and apply compactions; return the effect of each."""
        setup = self.setup
        now = _now(self.folded)
        freed = []
        situation = Situation(
            folded=self.folded,
            settings=setup.settings,
            window=setup.window,
            prices=learned_prices(self.folded, setup.prices),
            now=now,
            overhead=setup.overhead,
            binds=True,
            counter=setup.counter,
        )
        planned = finish_plan(setup.planner(situation, trigger, "", rung), self._summarize)
        for what, reason in planned.failures:
            self.folded.apply(Failed(self.folded.last_seq + 1, ts=now, what=what, reason=reason))
        for proposal in planned.proposals:
            self._charge_unseen(proposal.edits)
            before = self.folded.view.tokens
            seq = self.folded.last_seq + 1
            fact = Compacted(
                seq,
                ts=now,
                layer=proposal.layer,
                trigger=trigger,
                edits=proposal.edits,
                report=proposal.report,
            )
            self.folded.apply(fact)
            freed.append(LayerEffect(proposal.layer, before - self.folded.view.tokens))
        return freed

    def _charge_reread(self, source: int) -> None:
        """Charge a call that shows the text of the recorded fact `source` again."""
        fact = self.recorded.facts[source - 1]
        seq = self.numbers[source]
        if self.cut.get(seq):
            self.cut[seq] = False  # it was charged when it was cut
        else:
            self._charge_call(sum(fact.tokens) if isinstance(fact, Result) else 0)

    def _charge_unseen(self, edits: Iterable[Edit]) -> None:
        """Charge a call for each result that these edits cut before the model saw it."""
        for edit in edits:
            if isinstance(edit, Clear) and edit.seq > self.folded.last_reply_seq and edit.seq not in self.cut:
                fact = self.folded.fact_at(edit.seq)
                if isinstance(fact, Result):
                    self.cut[edit.seq] = True
                    self._charge_call(sum(fact.tokens))

    def _charge_call(self, tokens: int) -> None:
        """Charge one more call, which reads the current prompt and writes that number of tokens."""
        prices = self.setup.prices
        self.totals.rereads += self.layout.tokens * prices.read + tokens * prices.write

    def _summarize(self, request: SummaryRequest) -> SummaryReply:
        """Return the canned answer to a summary request, and charge the request like any other."""
        view, inner = summary_messages(self.folded, request)
        count = self.setup.counter.text
        limit = self.setup.window.size
        block = TextBlock(request.instructions)
        seq = self.folded.last_seq + 1
        asked = Part(block, seq=seq, index=0, kind=PartKind.USER, tokens=count(block.text))
        self.layout.update([*view, Message("user", parts=(asked,), first=seq, last=seq)])
        places = _with_last(inner, view)
        if self.sink is not None:
            self.sink(view, places[:-1], request.instructions)
        prompt = self.layout.tokens
        if prompt > limit:
            reason = f"too long: prompt is too long: {prompt} tokens > {limit} maximum"
            return SummaryReply(None, reason, too_long=True)
        served = self.cache.send(self.layout, places, _now(self.folded))
        text = canned_summary(self.folded, count)
        output = count(text)
        self.totals.summaries += 1
        self.totals.cost += self.setup.prices.plain(served) + OUTPUT_PRICE * output
        return SummaryReply(text, failure=None, usage=replace(served, output=output), stop="end_turn")


def _trimmed(result: Result, folded: Folded, setup: ReplaySetup) -> Result:
    """Trim the output of a command as a live session does: without repeated text."""
    use = folded.conversation.call_of(result)
    if (
        use is None
        or result.error
        or setup.settings.policy != "thrifty"
        or folded.kind_of(use.name) != "runs"
    ):
        return result
    command = str(use.input.get("command", ""))
    content = tuple(_folded_output(block, command) for block in result.content)
    if content == result.content:
        return result
    return replace(result, content=content, tokens=setup.counter.blocks(content))


def _folded_output(block: Block, command: str) -> Block:
    return TextBlock(fold_output(block.text, command)) if isinstance(block, TextBlock) else block


def _with_put_back(result: Result, folded: Folded, setup: ReplaySetup) -> Result:
    """Extend a result as a live session does: with cleared text that its call probably needs."""
    if (use := folded.conversation.call_of(result)) is None:
        return result
    prompt = setup.overhead + folded.view.tokens
    blocks = _needed_text(
        folded, FileTouch(use, content=result.content, error=result.error, prompt=prompt), setup
    )
    counts = setup.counter.blocks(blocks)
    return replace(result, content=(*result.content, *blocks), tokens=(*result.tokens, *counts))


def _with_needed_text(prompt: User, folded: Folded, setup: ReplaySetup) -> User:
    """Extend a prompt as a live session does: with cleared text of the files that it names."""
    size = setup.overhead + folded.view.tokens
    blocks = _needed_text(folded, FileTouch(None, content=prompt.blocks, error=False, prompt=size), setup)
    counts = setup.counter.blocks(blocks)
    return replace(prompt, blocks=(*blocks, *prompt.blocks), tokens=(*counts, *prompt.tokens))


def _needed_text(folded: Folded, touch: FileTouch, setup: ReplaySetup) -> tuple[TextBlock, ...]:
    rules = PutBackRules(setup.settings, prices=setup.prices, count=setup.counter.text)
    return rules.needed_by(folded, touch).blocks(folded)


def _still_shown(texts: Iterable[_PutBack], folded: Folded) -> str:
    """Join the texts that the view still shows."""
    edits = folded.edits
    kept = (
        each.text for each in texts if (each.seq, 0) not in edits.clears and edits.covering(each.seq) is None
    )
    return "\n".join(kept)


def _with_last(inner: Sequence[int], view: Sequence[Message]) -> list[int]:
    """Return the indices of the messages with a breakpoint, in order: those given, and the last."""
    last = len(view) - 1
    return [*(index for index in inner if index < last), last]


def _now(folded: Folded) -> float:
    return folded.facts[-1].ts if folded.facts else 0.0
