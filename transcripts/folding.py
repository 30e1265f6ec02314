"""The fold from facts to the conversation that the model sees. Pure, incremental and total.

Every prefix of every transcript folds into a view that the API accepts once a user message is added.
Applying a fact costs time proportional to what it adds; a compaction renders again from the first message
that it changes. The view is the edits in force (edits.py) applied to the entries (entries.py), rendered by
view_renderer.py. Thinking is omitted if an edit says so, and after a gap in the transcript, since its
signature covers the messages before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from operator import sub
from typing import NamedTuple, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from transcripts.patterns import lazy_pattern

from .edits import ActiveEdits
from .entries import Entry, Exchange, Prompt
from .facts import (
    Compacted,
    Edit,
    Fact,
    Failed,
    Instructed,
    Metadata,
    Opened,
    Reply,
    RequestSent,
    Result,
    Rewound,
    Started,
    Undone,
    User,
    name_of,
)
from .messages import ToolUseBlock, Usage
from .tool_kinds import ToolKind, tool_kind
from .view import View
from .view_renderer import render_view

MAX_SIZES = 4_096  # of prompts; more than were sent since a summary
_INVALID_NAME_CHAR = lazy_pattern(r"[^a-zA-Z0-9_-]")

_FEW_CALLS = 8  # of a reply, whose block indexes are likely to equal those of another
Memo = TypeVar("Memo")
F = TypeVar("F", bound=Fact)


class Conversation(Struct):
    """The entries in order, with an index of the entry that shows each fact.

    Each `add_...` returns the seq of an earlier entry that is now shown differently, or None.
    `reply_count` includes unfinished replies; `orphans` counts the results that answer no known call; `asked`
    is the seq of the newest request of any kind, and `tools_called` are the names of the tools so far.
    `groups` are the seqs that begin the smallest groups of entries whose facts do not overlap: a late result
    joins all entries before it to its reply.
    """

    entries: list[Entry] = field(default_factory=list)
    reply_count: int = 0
    orphans: int = 0
    asked: int = 0
    groups: list[int] = field(default_factory=list)
    tools_called: set[str] = field(default_factory=set)
    _indexes: dict[int, int] = field(default_factory=dict)  # of replies, and of results that came later
    _tool_ids: set[str] = field(default_factory=set)
    _answered: set[int] = field(default_factory=set)  # block indexes of calls with a result
    _answered_reply: int = 0  # the reply with these calls

    @property
    def last_exchange(self) -> Exchange | None:
        """The newest entry if it is an exchange, otherwise None."""
        last = self.entries[-1] if self.entries else None
        return last if isinstance(last, Exchange) else None

    def exchange_of(self, reply: int) -> Exchange | None:
        """Return the exchange that began with the reply of this seq, or None."""
        if (index := self._indexes.get(reply)) is None:
            return None
        entry = self.entries[index]
        return entry if isinstance(entry, Exchange) and entry.fact.seq == reply else None

    def call_of(self, result: Result) -> ToolUseBlock | None:
        """Return the call that a result answers; None if its reply is not shown."""
        exchange = self.exchange_of(result.of)
        return exchange.use(result.block) if exchange is not None else None

    def _recent_exchange_of(self, reply: int) -> Exchange | None:
        """Return the same, faster if it is the newest entry, as it is for most facts of calls."""
        last = self.entries[-1] if self.entries else None
        return last if type(last) is Exchange and last.fact.seq == reply else self.exchange_of(reply)

    def index_of(self, seq: int) -> int:
        """Return the index of the entry that shows fact `seq`, or of the one at its place."""
        if (index := self._indexes.get(seq)) is not None:
            return index
        return max(0, bisect_right(self.entries, seq, key=lambda entry: entry.seq) - 1)

    def add_prompt(self, fact: User) -> None:
        """Add a prompt."""
        self.groups.append(fact.seq)
        self.entries.append(Prompt(fact, self.asked))

    def add_reply(self, fact: Reply) -> int | None:
        """Begin an exchange; it supersedes an unfinished reply directly before it."""
        last = self.last_exchange
        self._indexes[fact.seq] = len(self.entries)
        self.reply_count += 1
        self.groups.append(fact.seq)
        self.entries.append(self._new_exchange(fact))
        if last is None or last.fact.complete:
            return None
        last.superseded = True
        return last.seq

    def add_started(self, fact: Started) -> int | None:
        """Mark a call as started."""
        if (exchange := self._recent_exchange_of(fact.of)) is None:
            return None
        few = len(exchange.started) < _FEW_CALLS
        exchange.started = (_added if few else _added.__wrapped__)(exchange.started, fact.block)
        return fact.of

    def add_result(self, fact: Result) -> int | None:
        """Add a result to its call; of several results the first one counts."""
        exchange = self._recent_exchange_of(fact.of)
        calls = exchange.calls if exchange is not None else ()
        at = bisect_left(calls, fact.block)
        if exchange is None or at == len(calls) or calls[at] != fact.block:
            self.orphans += 1
            return None
        if not exchange.answers:
            exchange.answers = (fact,)
        elif not self._is_answered(exchange, fact.block):
            self._answered.add(fact.block)
            exchange.answers = (*exchange.answers, fact)
        if exchange is not self.entries[-1]:
            self._indexes[fact.seq] = self._indexes[fact.of]
            if exchange.last == fact.seq:
                del self.groups[bisect_right(self.groups, fact.of) :]
        return fact.of

    def _is_answered(self, exchange: Exchange, block: int) -> bool:
        """Return whether a call has a result; those of this exchange are kept for the next question."""
        if self._answered_reply != exchange.seq:
            self._answered_reply = exchange.seq
            self._answered = {answer.block for answer in exchange.answers}
        return block in self._answered

    def fill_in(self, fact: Result) -> None:
        """Replace a result by one with its content."""
        exchange = self.exchange_of(fact.of)
        if exchange is not None and self.shows(fact):
            exchange.answers = tuple(fact if each.seq == fact.seq else each for each in exchange.answers)

    def cut(self, to: int, asked: int) -> int:
        """Remove prompts and unfinished replies from fact `to` on; return the index of the first one.

        `asked` is the seq of the newest request before them.
        """
        index = bisect_left(self.entries, to, key=lambda entry: entry.seq)
        for entry in self.entries[index:]:
            if isinstance(entry, Exchange):
                del self._indexes[entry.seq]
                self.reply_count -= 1
        del self.entries[index:]
        del self.groups[bisect_left(self.groups, to) :]
        self.asked = asked
        return index

    def shows(self, fact: Result) -> bool:
        """Return whether this is the result of its call: of several the first one counts."""
        exchange = self.exchange_of(fact.of)
        return exchange is not None and any(each.seq == fact.seq for each in exchange.answers)

    def _new_exchange(self, fact: Reply) -> Exchange:
        """Return the exchange that a reply begins; the calls of an incomplete one cannot be used."""
        exchange = Exchange(fact)
        calls = list[int]()
        for index, block in enumerate(fact.blocks if fact.complete else ()):
            if isinstance(block, ToolUseBlock):
                ident = _INVALID_NAME_CHAR.sub("_", block.id)
                if not ident or ident in self._tool_ids:
                    ident = f"{ident}_{fact.seq}_{index}"
                self._tool_ids.add(ident)
                name = _valid_name(block.name)
                self.tools_called.add(name)
                calls.append(index)
                if ident != block.id or name != block.name:
                    renamed = replace(block, id=ident, name=name)
                    exchange.renamed = {**(exchange.renamed or {}), index: renamed}
        exchange.calls = tuple(calls) if len(calls) > _FEW_CALLS else reduce(_added, calls, ())
        return exchange


@lru_cache(maxsize=256)
def _valid_name(name: str) -> str:
    """Return the name of a tool as the API accepts it."""
    return _INVALID_NAME_CHAR.sub("_", name)[:128] or "unnamed"  # the API's limit


@lru_cache(maxsize=256)
def _added(indexes: tuple[int, ...], block: int) -> tuple[int, ...]:
    """Return block indexes in ascending order with one more; equal results are one value."""
    at = bisect_left(indexes, block)
    return indexes if indexes[at : at + 1] == (block,) else (*indexes[:at], block, *indexes[at:])


class Charge(Struct, frozen=True, gc=False):
    """The usage of one request to a model, or of several; `dollars` is the price in US dollars, if known."""

    model: str
    usage: Usage
    dollars: float | None = None


class RequestSize(NamedTuple):
    """The size of a prompt of all facts before `seq`: `raw` tokens by our count, `tokens` by the API's.

    `ids` is the number of ids of calls and results added since the previous request; `grown` is True if the
    prompt begins with everything that the previous one contained.
    """

    seq: int
    model: str  # whose tokenizer the API used
    raw: int
    tokens: int
    ids: int
    grown: bool


class Sizes(Struct):
    """The API's counts of the prompts so far.

    requests    the sizes of the first prompt and of the newest ones, in order
    edited      edits were added or removed since the newest prompt
    """

    requests: list[RequestSize] = field(default_factory=list)
    edited: bool = False

    def add(self, seq: int, ours: object, actual: object, folded: Folded) -> None:
        """Add the counts of a prompt of all facts before `seq`, unless one of them is missing.

        If the model changed to one that counts differently, earlier counts are scaled to the new model's.
        """
        if not (isinstance(ours, int) and isinstance(actual, int) and ours > 0 and actual > 0):
            return
        model = folded.opened.model if folded.opened else ""
        last = self.requests[-1] if self.requests else None
        if last is not None and last.model != model:
            share = (actual / ours) / (last.tokens / last.raw)
            # The prompts of two models that count tokens alike differ by less.
            if abs(share - 1) > 0.1:
                self.requests = [one._replace(tokens=round(share * one.tokens)) for one in self.requests]
        ids = 0
        since = last.seq if last is not None else 0
        for entry in reversed(folded.conversation.entries):
            at = entry.fact.seq
            if at < since:
                break
            if at < seq and type(entry) is Exchange and not entry.superseded:
                ids += 2 * len(entry.calls)
        grown = last is not None and last.model == model and not self.edited
        if len(self.requests) == 2 * MAX_SIZES:
            del self.requests[1:-MAX_SIZES]
        self.requests.append(RequestSize(seq, model=model, raw=ours, tokens=actual, ids=ids, grown=grown))
        self.edited = False

    def remove_last(self, seq: int | None) -> bool:
        """Undo the last `add`, which was for `seq`; return False if the state before it is not known."""
        if len(self.requests) < 2 or len(self.requests) == MAX_SIZES + 2:
            return False
        before = self.requests[-2]
        last = self.requests[-1]
        if last.seq != seq or before.model != last.model:
            return False
        del self.requests[-1]
        self.edited = not last.grown
        return True


class PreparedRewind(NamedTuple):
    """The state that a rewind to before fact `to` leaves, and the number of facts when it was made."""

    to: int
    facts: int
    folded: Folded


class Folded(Struct):
    """The state that the facts so far fold to.

    facts         the facts of the conversation in order, without rewound ones
    edits         the edits in force
    opened        system, tools and model as last opened
    last_request  the newest request of the conversation, excluding those for a summary
    last_reply    the newest complete reply
    openings      what opened the session, and each change of its model or directory
    compactions   every compaction in order, including undone ones
    conversation  the entries, before any edit
    sizes         the sizes of the prompts, as counted by us and by the API
    usage         the total usage of all replies
    charges       everything paid for, rewound or not: replies, summaries, nested sessions
    gaps          seq directly after missing facts -> the first missing seq
    """

    facts: list[Fact] = field(default_factory=list)
    conversation: Conversation = field(default_factory=Conversation)
    edits: ActiveEdits = field(default_factory=ActiveEdits)
    opened: Opened | None = None
    last_request: RequestSent | None = None
    last_reply: Reply | None = None
    openings: list[Opened] = field(default_factory=list)
    compactions: list[Compacted] = field(default_factory=list)
    failures: list[Failed] = field(default_factory=list)
    metadata: list[Metadata] = field(default_factory=list)
    sizes: Sizes = field(default_factory=Sizes)
    usage: Usage = field(default=Usage())
    charges: list[Charge] = field(default_factory=list)
    last_seq: int = 0
    gaps: dict[int, int] = field(default_factory=dict)
    _memos: dict[type, object] = field(default_factory=dict)  # see `memo`
    _prepared: PreparedRewind | None = None
    _view: View = field(default_factory=View)
    _first_changed: int = 0  # index of the first entry that may have changed since it was last rendered

    @property
    def view(self) -> View:
        """The conversation as the model sees it. Valid until the next fact is applied."""
        render_view(self._view, self.entries, self.edits, self._first_changed)
        self._first_changed = len(self.entries)
        return self._view

    @property
    def entries(self) -> list[Entry]:
        """The conversation before any edit."""
        return self.conversation.entries

    @property
    def name(self) -> str:
        """The latest name that the user gave the session, on one line, or ""."""
        return name_of(self.metadata)

    @property
    def tag(self) -> str:
        """The suffix of the tags around makeroom's own words, see channel.py; "" in a session without one."""
        return self.opened.tag if self.opened else ""

    @property
    def last_reply_seq(self) -> int:
        """seq of the newest complete reply, or 0; the model has not seen any later fact."""
        return self.last_reply.seq if self.last_reply else 0

    @property
    def undone(self) -> dict[str, int]:
        """id of each undone compaction -> seq of the fact that undid it."""
        return self.edits.undone

    def memo(self, kind: type[Memo]) -> Memo:
        """Return the single value of this class that its module keeps with the facts, created on first use.

        Situations that differ only in their edits share it; a rewind discards it, as does another tag.
        """
        kept = self._memos.get(kind)
        if not isinstance(kept, kind):
            kept = kind()
            self._memos[kind] = kept
        return kept

    def kind_of(self, tool: str) -> ToolKind:
        """Return the kind of a tool of this session, as last declared."""
        return tool_kind(tool, self.opened.tools if self.opened else ())

    def fill_in(self, results: Iterable[Result]) -> None:
        """Put results with their content in the place of those without, which the view does not show."""
        for result in results:
            at = bisect_left(self.facts, result.seq, key=lambda fact: fact.seq)
            if at < len(self.facts) and self.facts[at].seq == result.seq:
                self.facts[at] = result
                self.conversation.fill_in(result)

    def with_edits(self, edits: tuple[Edit, ...], without: int | None = None) -> Folded:
        """Return the conversation with additional edits, and without those of the fact `without`.

        The copy renders again from the first message that changes and shares everything else with this one:
        no fact may be applied to it.
        """
        view = self.view.copy()  # rendered here once instead of by each copy
        sizes = replace(self.sizes, edited=True)
        made = replace(self, edits=self.edits.copy(), last_seq=self.last_seq + 1, sizes=sizes, _view=view)
        if without is not None:
            made._show_again(made.edits.remove(without))
        made._show_again(made.edits.add(made.last_seq, edits))
        return made

    def apply(self, fact: Fact) -> None:
        """Add one more fact. Facts come in the order of `seq`; a gap is recorded in `gaps`."""
        last = self.last_seq
        if fact.seq > last + 1:
            self.gaps[fact.seq] = last + 1
        if fact.seq > last:
            self.last_seq = fact.seq
        if isinstance(fact, Rewound):
            self._rewind(fact)
        else:
            self._add(fact)

    def _add(self, fact: Fact) -> None:  # noqa: C901  one case for each kind
        self.facts.append(fact)
        if self.gaps and fact.seq in self.gaps:
            self.edits.open_gap(fact.seq)
        changed: int | None = None  # the earliest seq that is now shown differently
        match fact:  # the most frequent kinds first
            case RequestSent():
                self.last_request = self.last_request if fact.instructions else fact
                self.conversation.asked = fact.seq
            case Reply():
                changed = self.conversation.add_reply(fact)
                self.last_reply = fact if fact.complete else self.last_reply
                self.usage += fact.usage
                asked_of = self.opened.model if self.opened and self.opened.model else fact.model
                self.charges.append(Charge(asked_of, fact.usage))
                asked = self.last_request
                if fact.usage.prompt and asked is not None and asked.seq == fact.asked:
                    self.sizes.add(asked.seq, asked.raw, fact.usage.prompt, self)
            case Result():
                changed = self.conversation.add_result(fact)
            case Started():
                changed = self.conversation.add_started(fact)
            case User():
                self.conversation.add_prompt(fact)
            case Opened():
                if self.opened is None or self.opened.tag != fact.tag:  # it decides which words are our own
                    self._memos = {}
                self.openings.append(fact)
                before = self.opened if not (fact.system or fact.tools) else None
                self.opened = replace(fact, system=before.system, tools=before.tools) if before else fact
                changed = self.edits.apply(fact) if fact.edits else None
                self.sizes.edited |= bool(fact.edits)
                if self.gaps and self.gaps.keys() <= _numbers(fact.about.get("holes")):
                    self.edits.close_gap(fact.seq)
            case Instructed():
                opened = self.opened or Opened(fact.seq, fact.ts)
                self.opened = replace(opened, system=fact.system, tools=fact.tools)
            case Compacted():
                self.compactions.append(fact)
                changed = self.edits.apply(fact)
                self.sizes.edited = True
            case Undone():
                self.sizes.edited = True
                changed = self.edits.apply(fact)
            case Failed():
                self.failures.append(fact)
                self.sizes.add(fact.seq, fact.about.get("raw"), fact.about.get("actual"), self)
            case Metadata():
                self.metadata.append(fact)
                if isinstance(usage := fact.about.get("usage"), Mapping):
                    model = str(fact.about.get("model", ""))
                    dollars = fact.about.get("dollars")
                    self.charges.append(Charge(model, Usage.from_json(usage), dollars))
        if changed is not None and self._first_changed:
            self._show_again(changed)

    def _rewind(self, fact: Rewound) -> None:
        """Go back to what the facts before `fact.to` fold to."""
        if self._cut(fact.to):
            self.last_seq = fact.seq
            self._add(fact)
            return
        prepared = self._prepared
        if prepared is None or (prepared.to, prepared.facts) != (fact.to, len(self.facts)) or self.gaps:
            # Facts that are still shown may refer to those lost in a gap before `to`.
            earlier = ((after, first) for after, first in self.gaps.items() if first < fact.to)
            gaps = {after if after < fact.to else fact.seq: first for after, first in earlier}
            fresh = _refold((old for old in self.facts if old.seq < fact.to), gaps)
        else:
            fresh = prepared.folded
        fresh.charges = self.charges
        for name in self.__struct_fields__:
            setattr(self, name, getattr(fresh, name))
        self.last_seq = fact.seq
        self._add(fact)

    def prepare_rewind(self, to: int) -> Folded:
        """Return what a rewind to before fact `to` leaves, which it uses unless a fact comes before it.

        In a session of 500 MB this takes a second, and a rewind must not.
        """
        count = len(self.facts)
        left = _refold((fact for fact in self.facts[:count] if fact.seq < to), {})
        self._prepared = PreparedRewind(to, count, left)
        return left

    def _cut(self, to: int) -> bool:
        """Remove the facts from `to` on if they are a prompt that got no answer; return whether they are.

        Folding all facts before it again takes a second in a session of 500 MB.
        """
        start = bisect_left(self.facts, to, key=lambda fact: fact.seq)
        gone = self.facts[start:]
        replies = [fact for fact in gone if isinstance(fact, Reply)]
        is_prompt = bool(gone) and isinstance(gone[0], User)
        is_plain = all(isinstance(fact, User | RequestSent | Reply | Metadata) for fact in gone)
        if not (is_prompt and is_plain) or max(self.gaps, default=0) >= to:
            return False
        if any(reply.complete for reply in replies):
            return False
        counted = [reply.asked for reply in replies if reply.usage.prompt]
        if counted and not (len(counted) == 1 and self.sizes.remove_last(counted[0])):
            return False
        del self.facts[start:]
        asked = next((fact.seq for fact in reversed(self.facts) if isinstance(fact, RequestSent)), 0)
        index = self.conversation.cut(to, asked)
        requests = (fact for fact in reversed(self.facts) if isinstance(fact, RequestSent))
        self.last_request = next((request for request in requests if not request.instructions), None)
        self.usage = reduce(sub, (reply.usage for reply in replies), self.usage)
        self.metadata = [note for note in self.metadata if note.seq < to]
        self._memos = {}
        self._first_changed = min(self._first_changed, index)
        return True

    def _show_again(self, seq: int | None) -> None:
        """Render the view again from fact `seq` on."""
        if seq is not None and self._first_changed:
            self._first_changed = min(self._first_changed, self.conversation.index_of(seq))

    def fact_at(self, seq: int) -> Fact | None:
        """Return the fact with this seq, or None."""
        at = bisect_left(self.facts, seq, key=lambda fact: fact.seq)
        found = self.facts[at] if at < len(self.facts) else None
        return found if found is not None and found.seq == seq else None

    def opening_before(self, seq: int) -> Opened | None:
        """Return the newest opening before fact `seq`."""
        return next((opened for opened in reversed(self.openings) if opened.seq < seq), None)

    def facts_between(self, first: int, last: int) -> Iterator[Fact]:
        """Return the facts with the seqs from `first` to `last`, in order."""
        start = bisect_left(self.facts, first, key=lambda fact: fact.seq)
        end = bisect_right(self.facts, last, key=lambda fact: fact.seq)
        return map(self.facts.__getitem__, range(start, end))


class FactTrail(Struct):
    """A memo of the folded facts that reads each of them once; it has read the first `looked_at`."""

    looked_at: int = 0

    def unread(self, folded: Folded, *kinds: type[F], most: int | None = None) -> list[F]:
        """Return the facts of these kinds among those that were not read yet, or among the next `most`."""
        start = self.looked_at
        end = len(folded.facts) if most is None else min(len(folded.facts), start + most)
        self.looked_at = end
        # Most facts of a long session are of other kinds, and this is their only cost.
        return cast("list[F]", [fact for fact in folded.facts[start:end] if type(fact) in kinds])


def _numbers(value: object) -> set[int]:
    """Return the numbers in a list of a transcript, which may contain any shape there."""
    return {each for each in value if isinstance(each, int)} if isinstance(value, list | tuple) else set()


def fold(facts: Iterable[Fact]) -> Folded:
    """Fold the facts from the beginning."""
    folded = Folded()
    for fact in facts:
        folded.apply(fact)
    return folded


def replace_facts(folded: Folded, facts: Mapping[int, Fact]) -> Folded:
    """Fold the session again with `facts` instead of those with the same seqs."""
    fresh = _refold((facts.get(fact.seq, fact) for fact in folded.facts), dict(folded.gaps))
    fresh.last_seq = folded.last_seq
    fresh.charges = folded.charges
    return fresh


def _refold(facts: Iterable[Fact], gaps: dict[int, int]) -> Folded:
    """Fold facts of which some were rewound: only `gaps` count as gaps, and no fact rewinds again."""
    fresh = Folded(gaps=gaps)
    for fact in facts:
        fresh._add(fact)
    return fresh
