"""What later work refers to that was learned from tool results: found once a recording, judged every request.

A *name* is a path or an identifier:
- a path: letters, digits and `_.@~+-` with at least one slash between them and a letter in it, 6 characters
  or more; or a file name with a letter-led extension of 1 to 5 characters;
- an identifier: a word of 6 characters or more with an underscore inside, or with a change from lower to
  upper case; or 7 to 40 hexadecimal digits with both a letter and a digit among them (a commit, an id).

A *reference* is the first use of a name in a tool input or a text of the model, where every earlier
occurrence stood in a tool result. From then on the name stands in the model's own words. Thinking is not
looked at: it comes and goes by other rules. At the time of use the reference is

    in context   one of the results is shown whole, or something shown instead of history has the name
    recoverable  a visible id leads to one of the results: a placeholder names `r<seq>`, or a fold that
                 covers it is shown with its id `c<seq>`, or a visible range `r<seq>-r<seq>` holds it
    lost         none of these
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from compact.identifiers import names, strings
from transcripts.facts import Fact, Fold, Reply, Result, User
from transcripts.fold import Folded
from transcripts.messages import Block, TextBlock, ToolResultBlock, ToolUseBlock
from transcripts.view import Message, PartKind

_ID = re.compile(
    r"\b(?P<kind>[rc])(?P<first>\d+)(?:\.\d+)?(?:\s*(?:-|–|\.\.\.?|to)\s*(?P=kind)?(?P<last>\d+)\b)?"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A name first used by reply `user`; `sources` are the results that held it, oldest first (seqs)."""

    name: str
    user: int
    sources: tuple[int, ...]


class State(Enum):
    IN_CONTEXT = "in context"
    RECOVERABLE = "recoverable"
    LOST = "lost"


def references(facts: Iterable[Fact]) -> dict[int, tuple[Reference, ...]]:
    """All references of a recording, by the seq of the reply that uses them."""
    held: dict[str, list[int]] = {}  # names that only results have had so far
    known: set[str] = set()  # names that stood elsewhere
    found: dict[int, tuple[Reference, ...]] = {}
    for fact in facts:
        match fact:
            case User():
                known |= names("\n".join(_texts(fact.blocks)))
            case Result():
                for name in names("\n".join(_texts(fact.content))):
                    held.setdefault(name, []).append(fact.seq)
            case Reply():
                used = names("\n".join(_texts(fact.blocks))) - known
                hits = sorted(name for name in used if name in held)
                if hits:
                    found[fact.seq] = tuple(Reference(name, fact.seq, tuple(held[name])) for name in hits)
                known |= used
    return found


def _texts(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case TextBlock():
                yield block.text
            case ToolUseBlock():
                yield from strings(block.input)
            case ToolResultBlock():
                yield from _texts(block.content)
            case _:
                pass


@dataclass(slots=True)
class Shown:
    """What stands in the view in place of history, read anew only when the edits changed."""

    text: str = ""
    results: set[int] = field(default_factory=set)
    folds: set[int] = field(default_factory=set)
    _ranges: list[tuple[int, int]] = field(default_factory=list)

    def read(self, messages: Sequence[Message]) -> None:
        """Look at every placeholder and fold of a view."""
        texts = [
            text
            for message in messages
            for part in message.parts
            if part.kind is PartKind.PLACEHOLDER
            for text in _texts((part.block,))
        ]
        self.text = "\n".join(texts)
        self.results, self.folds, self._ranges = set(), set(), []
        for hit in _ID.finditer(self.text):
            first, last = int(hit["first"]), int(hit["last"] or hit["first"])
            if hit["kind"] == "c":
                self.folds.add(first)
            elif last > first:
                self._ranges.append((first, last))
            else:
                self.results.add(first)

    def leads_to(self, seq: int, folded: Folded) -> bool:
        """Whether a visible id leads to what fact `seq` said."""
        if seq in self.results or any(first <= seq <= last for first, last in self._ranges):
            return True
        return any(
            made.seq in self.folds and any(_holds(edit, seq) for edit in made.edits)
            for made in folded.compactions
            if made.id not in folded.undone
        )


def _holds(edit: object, seq: int) -> bool:
    if isinstance(edit, Fold):
        return edit.first <= seq <= edit.last
    return getattr(edit, "seq", None) == seq


def judge(reference: Reference, sources: Sequence[int], folded: Folded, shown: Shown) -> State:
    """Where a reference stands. `sources` are its results as numbered in `folded`."""
    edits = folded.edits
    for seq in reversed(sources):
        if "content" not in edits.clears.get((seq, 0), {}) and edits.covering(seq) is None:
            return State.IN_CONTEXT
    if reference.name in shown.text:
        return State.IN_CONTEXT
    if any(shown.leads_to(seq, folded) for seq in sources):
        return State.RECOVERABLE
    return State.LOST
