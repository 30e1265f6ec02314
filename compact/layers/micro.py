"""micro: old results become one line that names the tool and the recall id.

classic counts: of the results that the model has seen, all but the newest few go, at every call. thrifty
clears in batches, tool inputs too, when policy.py says so.
"""

from __future__ import annotations

from compact.clearing import clear, text_of
from compact.guards import exemptions
from compact.placeholders import is_line
from compact.plan import Proposal, Situation
from compact.policy import choose
from compact.report import propose
from transcripts.facts import Clear
from transcripts.view import Part, PartKind


def plan_micro(situation: Situation) -> tuple[Proposal, ...]:
    """One compaction of clears, or none."""
    if situation.settings.policy == "classic":
        edits, why = _all_but_newest(situation), "count"
    else:
        choice = choose(situation)
        edits, why = (choice.edits, choice.why) if choice is not None else ((), "")
    return (propose(situation, "micro", "auto", edits, why=why),) if edits else ()


def _all_but_newest(situation: Situation) -> tuple[Clear, ...]:
    folded, settings = situation.folded, situation.settings
    seen = [
        part
        for message in folded.view
        for part in message.parts
        if part.kind in (PartKind.RESULT, PartKind.PLACEHOLDER)
        and part.use is not None
        and part.seq <= folded.last_reply_seq
    ]
    spared = exemptions(situation)
    old = seen[: max(0, len(seen) - settings.micro_keep)]
    edits = (
        clear(folded, part, "content", situation.count)
        for part in old
        if _long(part, settings.micro_min_chars) and not spared.holds(part.seq, part.index, "content")
    )
    return tuple(edit for edit in edits if edit is not None)


def _long(part: Part, characters: int) -> bool:
    """Whether what is shown of a result is more than a line; a preview of budget's is, once it was seen."""
    text = text_of(part.block)
    return not is_line(text) and (len(text) > characters or part.tokens > characters)
