"""The fold: facts in, the conversation that the model sees out. Pure, incremental, and total.

Every prefix of every transcript folds into a view that the API accepts once a user message is added.
Applying a fact costs what it adds; a compaction renders again from the first message it changes; only
`undone` and `rewound` render from the earliest message that they give back.

The view is the active edits over the facts. Of several clears on one field the latest counts; of several
folds over one entry the widest. Thinking is left out where an active `Unthink` says so, or behind a hole
in the record: the API binds it to a prefix that we can no longer send.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .edits import ActiveEdits, cleared
from .entries import Entry, Exchange, Prompt, answers, exchange, prompted, said
from .facts import (
    Compacted,
    Edit,
    Fact,
    Failed,
    Metadata,
    Opened,
    Reply,
    RequestSent,
    Result,
    Rewound,
    Started,
    Undone,
    User,
)
from .messages import TextBlock, Usage
from .tool_kinds import ToolKind, tool_kind
from .view import Message, Part, PartKind, View

MEASURES = 64  # as many (raw, actual) pairs as the fit of the estimate looks at
LOST_START = "[the beginning of this session could not be read]"


@dataclass(slots=True)
class Folded:
    """What the facts so far come to. `view` is the conversation, the rest is for those who plan and show.

    facts       the facts that count, in order (a rewound stretch is no longer among them)
    edits       the edits in force
    opened      system, tools, model as last opened
    asked       the last request; `reply` the last complete reply; `seen` its seq: later results are unseen
    compactions every compaction in order, undone ones included (`undone` has their ids)
    holes       seqs before which records are missing
    measures    (our count, the usage's prompt tokens) of the newest requests, for the fit of the estimate
    orphans     results that answer no known call
    spent       the usage of all replies, added up
    """

    facts: list[Fact] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    edits: ActiveEdits = field(default_factory=ActiveEdits)
    opened: Opened | None = None
    asked: RequestSent | None = None
    reply: Reply | None = None
    compactions: list[Compacted] = field(default_factory=list)
    undone: dict[str, int] = field(default_factory=dict)
    failures: list[Failed] = field(default_factory=list)
    notes: list[Metadata] = field(default_factory=list)
    holes: list[int] = field(default_factory=list)
    last_seq: int = 0
    measures: list[tuple[int, int]] = field(default_factory=list)
    orphans: int = 0
    spent: Usage = field(default_factory=Usage)
    _view: View = field(default_factory=View)
    # Messages before each rendered entry; -1 where it has none of its own, or begins within the one before.
    _marks: list[int] = field(default_factory=list)
    _dirty: int = 0  # the first entry that has to be rendered (again)
    _by_reply: dict[int, int] = field(default_factory=dict)
    _late: dict[int, int] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)
    _gaps: dict[int, int] = field(default_factory=dict)  # hole -> the first number that is missing

    @property
    def seen(self) -> int:
        """seq of the newest complete reply: what came after it, the model has not seen."""
        return self.reply.seq if self.reply else 0

    @property
    def calls(self) -> int:
        """How many replies there are, rewound ones aside."""
        return len(self._by_reply)

    @property
    def view(self) -> View:
        """The conversation now. Valid until the next fact is applied."""
        self._render()
        return self._view

    @property
    def exchange(self) -> Exchange | None:
        """The newest exchange, if the conversation ends with one."""
        last = self.entries[-1] if self.entries else None
        return last if isinstance(last, Exchange) else None

    def supposing(self, edits: tuple[Edit, ...], undone: int | None = None) -> Folded:
        """The same conversation with more edits in force, and without those that fact `undone` brought.

        Renders again from the first message that changes; this one is not touched. Facts must not be
        applied to what is returned.
        """
        trial = replace(
            self,
            edits=self.edits.copy(),
            last_seq=self.last_seq + 1,
            _view=self.view.copy(),
            _marks=list(self._marks),
        )
        if undone is not None:
            trial._change(trial.edits.remove(undone))
        trial._change(trial.edits.add(trial.last_seq, edits))
        return trial

    def kind_of(self, tool: str) -> ToolKind:
        """What kind of work a tool of this session does, as it was last declared."""
        return tool_kind(tool, self.opened.tools if self.opened else ())

    def preview(self, edits: tuple[Edit, ...]) -> View:
        """The view as it would be with more edits in force. Nothing is changed."""
        return self.supposing(edits).view

    def find(self, of: int) -> Exchange | None:
        """The exchange that reply `of` began."""
        entry = self.entries[self._by_reply[of]] if of in self._by_reply else None
        return entry if isinstance(entry, Exchange) else None

    def apply(self, fact: Fact) -> None:
        """Take one more fact in. Facts come in the order of `seq`; a gap is noted as a hole."""
        if fact.seq > self.last_seq + 1:
            self.holes.append(fact.seq)
            self._gaps[fact.seq] = self.last_seq + 1
        self.last_seq = max(self.last_seq, fact.seq)
        if isinstance(fact, Rewound):
            self._rewind(fact)
        else:
            self._take(fact)

    def _take(self, fact: Fact) -> None:
        self.facts.append(fact)
        if self.holes and fact.seq in self.holes:
            self.edits.hole(fact.seq)
        match fact:
            case User():
                self._enter(Prompt(fact))
            case Reply():
                self._take_reply(fact)
            case Result():
                self._take_result(fact)
            case Started():
                if (entry := self.find(fact.of)) is not None:
                    entry.started.add(fact.block)
                    self._change(fact.of)
            case RequestSent():
                self.asked = fact
            case Opened():
                self.opened = fact
                self._change(self.edits.add(fact.seq, fact.edits))
                if set(self.holes) <= set(fact.about.get("holes", ())):
                    self.edits.mended(fact.seq)
            case Compacted():
                self.compactions.append(fact)
                self._change(self.edits.add(fact.seq, fact.edits))
            case Undone():
                self._undo(fact)
            case Failed():
                self.failures.append(fact)
                self._measure(fact.about.get("raw"), fact.about.get("actual"))
            case Metadata():
                self.notes.append(fact)
            case _:
                pass

    def _enter(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._dirty = min(self._dirty, len(self.entries) - 1)

    def _take_reply(self, fact: Reply) -> None:
        last = self.exchange
        if last is not None and not last.fact.complete:
            last.superseded = True
            self._change(last.seq)
        self._by_reply[fact.seq] = len(self.entries)
        self._enter(exchange(fact, self._ids))
        if fact.complete:
            self.reply = fact
        self.spent += fact.usage
        if fact.usage.prompt and self.asked is not None and self.asked.seq == fact.asked:
            self._measure(self.asked.raw, fact.usage.prompt)

    def _measure(self, raw: object, actual: object) -> None:
        """A request of `raw` tokens by our count was of `actual` tokens, as a reply or a refusal told."""
        if isinstance(raw, int) and isinstance(actual, int):
            self.measures = [*self.measures[1 - MEASURES :], (raw, actual)]

    def _take_result(self, fact: Result) -> None:
        entry = self.find(fact.of)
        if entry is None or fact.block not in entry.uses:
            self.orphans += 1
            return
        entry.results.setdefault(fact.block, fact)
        if entry is not self.entries[-1]:
            self._late[fact.seq] = self._by_reply[fact.of]
        self._change(fact.of)

    def _undo(self, fact: Undone) -> None:
        target = next((c for c in self.compactions if c.id == fact.id), None)
        if target is None or fact.id in self.undone:
            return
        self.undone[fact.id] = fact.seq
        self._change(self.edits.remove(target.seq))
        self._change(self.edits.add(fact.seq, fact.edits))

    def _rewind(self, fact: Rewound) -> None:
        known = self._gaps.items()  # a gap that began before `to` may have lost what is still shown
        gaps = {hole if hole < fact.to else fact.seq: first for hole, first in known if first < fact.to}
        fresh = _taken([old for old in self.facts if old.seq < fact.to], gaps)
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))
        self.facts.append(fact)
        self.last_seq = fact.seq
        if fact.seq in self.holes:
            self.edits.hole(fact.seq)

    def _change(self, seq: int | None) -> None:
        """Fact `seq` is shown otherwise from now on."""
        if seq is not None:
            self._dirty = min(self._dirty, self._entry_of(seq))

    def _entry_of(self, seq: int) -> int:
        if seq in self._late:
            return self._late[seq]
        return max(0, bisect_right(self.entries, seq, key=lambda entry: entry.seq) - 1)

    def _render(self) -> None:
        start = self._dirty
        if start < len(self._marks):
            while start > 0 and self._marks[start] < 0:
                start -= 1
            self._view.cut(max(0, self._marks[start]))
            del self._marks[start:]
        for index in range(len(self._marks), len(self.entries)):
            before = len(self._view)
            tail = self._view[-1] if before else None
            self._show(index)
            own = len(self._view) > before and (tail is None or self._view[before - 1] is tail)
            self._marks.append(before if own else -1)
        self._dirty = len(self.entries)

    def _show(self, index: int) -> None:
        entry = self.entries[index]
        covering = self.edits.covering(entry.seq)
        if covering is not None:
            if index == 0 or self.entries[index - 1].seq < covering.first:
                parts = _fold_parts(covering.first, covering.blocks, covering.tokens)
                self._put("user", parts, covering.first, covering.last)
            return
        if isinstance(entry, Prompt):
            self._put("user", self._edited(prompted(entry)), entry.seq, entry.seq)
            return
        parts = self._edited(said(entry, not self.edits.unthinks(entry.seq)))
        if not parts:
            return
        if not len(self._view):
            lost = Part(TextBlock(LOST_START), 0, 0, PartKind.PLACEHOLDER, 12)
            self._put("user", (lost,), 0, 0)
        self._put("assistant", parts, entry.seq, entry.seq)
        if entry.uses:
            self._put("user", self._edited(answers(entry)), entry.seq, entry.last)

    def _put(self, role: str, parts: tuple[Part, ...], first: int, last: int) -> None:
        if parts:
            self._view.append(Message("user" if role == "user" else "assistant", parts, first, last))

    def _edited(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        clears = self.edits.clears
        return tuple(
            cleared(part, clears[key]) if (key := (part.seq, part.index)) in clears else part
            for part in parts
        )


def _fold_parts(first: int, blocks: tuple[object, ...], tokens: int) -> tuple[Part, ...]:
    each, rest = divmod(tokens, max(1, len(blocks)))
    return tuple(
        Part(block, first, i, PartKind.PLACEHOLDER, each + (rest if i == 0 else 0))  # type: ignore[arg-type]
        for i, block in enumerate(blocks)
        if not (isinstance(block, TextBlock) and not block.text.strip())
    )


def fold(facts: Iterable[Fact]) -> Folded:
    """What the facts come to, from the beginning."""
    folded = Folded()
    for fact in facts:
        folded.apply(fact)
    return folded


def replaced(folded: Folded, whole: Mapping[int, Fact]) -> Folded:
    """The same session, made again with other facts in the place of those with these numbers."""
    fresh = _taken([whole.get(fact.seq, fact) for fact in folded.facts], dict(folded._gaps))
    fresh.last_seq = folded.last_seq
    return fresh


def _taken(facts: Iterable[Fact], gaps: dict[int, int]) -> Folded:
    """What facts come to whose gaps are known: what was rewound away between them is no gap."""
    fresh = Folded(holes=sorted(gaps), _gaps=gaps)
    for fact in facts:
        fresh._take(fact)
    return fresh
