"""collapse: old segments are folded one by one into short digests, made without a model.

Off unless the user turns it on. Each segment is a compaction of its own, so that `/uncompact ID` expands it
alone. While it is on, the automatic summary is held back.
"""

from __future__ import annotations

from collections.abc import Iterator

from compact.folding import must_stay, size_of
from compact.guards import exemptions
from compact.ledger import keep_ledger, ledger_text
from compact.plan import Proposal, Situation
from compact.report import propose
from compact.summary_record import user_words
from transcripts.entries import Entry, Exchange, Prompt
from transcripts.facts import Fold
from transcripts.messages import TextBlock

ENOUGH = (
    0.7  # of the size that starts it: down to there segments are folded, so that it does not run each call
)
DIGEST = 400  # tokens of a digest's ledger
WORDS = 2_000  # tokens of the person's words in a digest
SAID = 600  # characters of the segment's last words


def plan_collapse(situation: Situation) -> tuple[Proposal, ...]:
    """One compaction for each segment that goes, oldest first; none while there is room."""
    settings = situation.settings
    start = settings.collapse_share * situation.due
    if not settings.collapse or situation.tokens < start:
        return ()
    now, made = situation, list[Proposal]()
    for segment in _segments(situation):
        if now.tokens <= ENOUGH * start:
            break
        fold = _digest(situation, segment)
        if fold.tokens * 2 < sum(size_of(situation.folded, entry) for entry in segment):
            proposal = propose(now, "collapse", "auto", (fold,), why="segment")
            made.append(proposal)
            now = now.supposing(proposal.edits)
    return tuple(made)


def _segments(situation: Situation) -> Iterator[list[Entry]]:
    """The old entries that nothing covers, in stretches; the protected tail is in none."""
    folded, settings = situation.folded, situation.settings
    old, spared = folded.entries[: _protected(situation)], exemptions(situation)
    segment: list[Entry] = []
    for entry in old:
        free = folded.edits.covering(entry.seq) is None
        undone = spared.within(entry.seq, entry.last)
        full = sum(size_of(folded, each) for each in segment) >= settings.collapse_segment
        if segment and (not free or undone or full):
            yield segment
            segment = []
        if free and not undone:
            segment.append(entry)
    if sum(size_of(folded, each) for each in segment) >= settings.collapse_segment:
        yield segment


def _protected(situation: Situation) -> int:
    """Index of the first of the newest entries that hold the protected tokens."""
    folded = situation.folded
    at = len(folded.entries) - must_stay(folded)
    room = situation.unscaled(situation.settings.protect_tokens)
    while at > 0 and room > 0:
        at -= 1
        room -= size_of(folded, folded.entries[at])
    return at


def _digest(situation: Situation, segment: list[Entry]) -> Fold:
    first, last = segment[0].seq, max(entry.last for entry in segment)
    head = f"a digest of r{first}-r{last}, not a request; /uncompact expands it, recall shows any of it"
    pieces = [f"[folded: {head}]"]
    words = user_words(situation, [entry for entry in segment if isinstance(entry, Prompt)], WORDS)
    if words:
        pieces.append(f"## User messages, verbatim\n{words}")
    if text := ledger_text(keep_ledger(segment), situation.count, DIGEST, skip=words):
        pieces.append(f"## Ledger\n{text}")
    if said := _last_words(segment):
        pieces.append(f"## Said last\n{said}")
    text = "\n\n".join(pieces)
    return Fold(first, last, (TextBlock(text),), situation.count.text(text))


def _last_words(segment: list[Entry]) -> str:
    for entry in reversed(segment):
        if isinstance(entry, Exchange):
            for block in entry.fact.blocks:
                if isinstance(block, TextBlock) and block.text.strip():
                    return block.text[:SAID]
    return ""
