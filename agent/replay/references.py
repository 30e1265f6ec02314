"""References: later uses of names that the model learned from tool results, and where those results are now.

A name is a path or an identifier as in compact/identifiers.py. A reference is the first use of a name in a
tool input or a text of the model, where every earlier occurrence stood in a tool result; from then on it
stands in the model's own words. Thinking is ignored, because it comes and goes by other rules. A reference is

    in context   one of the results is shown whole, or something shown instead of history has the name
    recoverable  a visible id leads to one of the results: a placeholder names `r<seq>`, or a fold that
                 covers it is shown with its id `c<seq>`, or a visible range `r<seq>-r<seq>` holds it
    lost         none of these
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from compact.identifiers import block_texts, names
from compact.uncompact import in_force
from transcripts.facts import Fact, Fold, Reply, Result, User
from transcripts.fold import Folded
from transcripts.messages import Block
from transcripts.view import Message, PartKind

_SHOWN_ID = re.compile(
    r"\b(?P<kind>[rc])(?P<first>\d+)(?:\.\d+)?(?:\s*(?:-|–|\.\.\.?|to)\s*(?P=kind)?(?P<last>\d+)\b)?"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A name first used by reply `user`; `sources` are the seqs of the results that held it, oldest first."""

    name: str
    user: int
    sources: tuple[int, ...]


class ReferenceState(Enum):
    IN_CONTEXT = "in context"
    RECOVERABLE = "recoverable"
    LOST = "lost"


def references(facts: Iterable[Fact]) -> dict[int, tuple[Reference, ...]]:
    """All references of a recording, by the seq of the reply that makes them."""
    sources: dict[str, list[int]] = {}  # names, and the results that had them
    known: set[str] = set()  # names that stood elsewhere
    found: dict[int, tuple[Reference, ...]] = {}
    for fact in facts:
        match fact:
            case User():
                known |= _names_in(fact.blocks)
            case Result():
                for name in _names_in(fact.content):
                    sources.setdefault(name, []).append(fact.seq)
            case Reply():
                used = _names_in(fact.blocks) - known
                if hits := sorted(used & sources.keys()):
                    found[fact.seq] = tuple(Reference(name, fact.seq, tuple(sources[name])) for name in hits)
                known |= used
    return found


def _names_in(blocks: Iterable[Block]) -> set[str]:
    return names("\n".join(block_texts(blocks)))


@dataclass(frozen=True, slots=True)
class Replacements:
    """What a view shows in place of history: its text, and the ids that it names."""

    text: str = ""
    facts: tuple[tuple[int, int], ...] = ()  # (first, last) of the seqs that a recall id leads to
    compactions: frozenset[int] = frozenset()  # their seqs

    def lead_to(self, seq: int, folded: Folded) -> bool:
        """Whether a visible id leads to what fact `seq` said."""
        if any(first <= seq <= last for first, last in self.facts):
            return True
        edits = (edit for made in in_force(folded) if made.seq in self.compactions for edit in made.edits)
        return any(
            edit.first <= seq <= edit.last if isinstance(edit, Fold) else getattr(edit, "seq", None) == seq
            for edit in edits
        )


def replacements_in(messages: Sequence[Message]) -> Replacements:
    """The placeholders and records of a view."""
    parts = (part for message in messages for part in message.parts)
    text = "\n".join(block_texts(part.block for part in parts if part.kind is PartKind.PLACEHOLDER))
    facts, compactions = list[tuple[int, int]](), set[int]()
    for hit in _SHOWN_ID.finditer(text):
        first, last = int(hit["first"]), int(hit["last"] or hit["first"])
        if hit["kind"] == "c":
            compactions.add(first)
        else:
            facts.append((first, max(first, last)))
    return Replacements(text, tuple(facts), frozenset(compactions))


def judge_reference(
    reference: Reference, sources: Sequence[int], folded: Folded, shown: Replacements
) -> ReferenceState:
    """Where a reference stands. `sources` are its results as numbered in `folded`."""
    edits = folded.edits
    for seq in sources:
        if "content" not in edits.clears.get((seq, 0), {}) and edits.covering(seq) is None:
            return ReferenceState.IN_CONTEXT
    if reference.name in shown.text:
        return ReferenceState.IN_CONTEXT
    if any(shown.lead_to(seq, folded) for seq in sources):
        return ReferenceState.RECOVERABLE
    return ReferenceState.LOST
