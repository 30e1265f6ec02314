"""snip: too many messages; the first and the last stay, and one line tells of those between.

A projection: the record and the scrollback keep all. Cuts are legal ones only: a call is never parted from
its results. A wider snip supersedes the narrower one, because the widest fold counts.
"""

from __future__ import annotations

from transcripts.entries import Exchange
from transcripts.facts import Edit, Fold
from transcripts.fold import Folded
from transcripts.messages import Text

from .plan import Situation

NOTE_TOKENS = 24


def plan_snip(situation: Situation) -> tuple[Edit, ...]:
    """One fold over the middle, or nothing. Messages are counted as they were before any edit."""
    settings = situation.settings
    spans = _spans(situation.folded)
    total = sum(count for _, _, count in spans)
    if total <= settings.snip_messages:
        return ()
    head = _after(spans, settings.snip_head)
    tail = _before(spans, total - settings.snip_tail)
    if head is None or tail is None or head > tail:
        return ()
    first, last = spans[head][0], spans[tail][1]
    folded = sum(count for _, _, count in spans[head : tail + 1])
    widest = situation.folded.edits.covering(first)
    if widest is not None and widest.last >= last:
        return ()
    text = f"[snipped {folded} messages; recall r{first}-r{last} shows them by id]"
    return (Fold(first, last, (Text(text),), NOTE_TOKENS),)


Span = tuple[int, int, int]  # first seq, last seq, messages


def _spans(folded: Folded) -> list[Span]:
    spans: list[Span] = []
    for entry in folded.entries:
        if isinstance(entry, Exchange):
            if not entry.superseded:
                spans.append((entry.seq, entry.last, 2 if entry.uses else 1))
        else:
            spans.append((entry.seq, entry.last, 1))
    return spans


def _after(spans: list[Span], messages: int) -> int | None:
    """The first span that begins after so many messages: none of them is cut."""
    count = 0
    for index, span in enumerate(spans):
        if count >= messages:
            return index
        count += span[2]
    return None


def _before(spans: list[Span], messages: int) -> int | None:
    """The last span that ends at or before so many messages."""
    count, found = 0, None
    for index, span in enumerate(spans):
        count += span[2]
        if count > messages:
            break
        found = index
    return found
