"""snip: too many messages; the first and the last stay, and one line tells of those between.

A projection: the record and the scrollback keep all. Cuts are legal ones only: a call is never parted from
its results. A wider snip supersedes the narrower one, because the widest fold counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compact.folding import messages_of
from compact.guards import exemptions
from compact.plan import Proposal, Situation
from compact.report import propose
from compact.summary_record import request_inside
from transcripts.facts import Fold
from transcripts.fold import Folded
from transcripts.messages import Block, TextBlock


@dataclass(frozen=True, slots=True)
class SnippedSpan:
    """Facts that cannot be parted, and how many messages they were before any snip."""

    first: int
    last: int
    messages: int
    snipped: bool = False


def plan_snip(situation: Situation) -> tuple[Proposal, ...]:
    """One fold over the middle, or nothing; only classic counts messages."""
    settings, folded = situation.settings, situation.folded
    if settings.policy != "classic" or 2 * len(folded.entries) <= settings.snip_messages:
        return ()
    spans = list(_spans(folded))
    shown = sum(span.messages for span in spans if not span.snipped)
    if shown <= settings.snip_messages:
        return ()
    total = sum(span.messages for span in spans)
    inside = _middle(spans, settings.snip_head, total - settings.snip_tail)
    if not inside or all(span.snipped for span in inside) or exemptions(situation).within(*_ends(inside)):
        return ()
    messages = sum(span.messages for span in inside)
    fold = _fold(situation, *_ends(inside), messages)
    return (propose(situation, "snip", "auto", (fold,), why="messages", messages=messages),)


def _fold(situation: Situation, first: int, last: int, messages: int) -> Fold:
    note = f"[snipped {messages} messages: r{first} to r{last}; recall finds what was said and shown there]"
    blocks: list[Block] = [TextBlock(note)]
    if (request := request_inside(situation, first, last)) is not None:
        blocks.append(
            TextBlock(f"[folded: the request being worked on is among the snipped messages]\n\n{request}")
        )
    return Fold(first, last, tuple(blocks), sum(situation.count.blocks(tuple(blocks))))


def _spans(folded: Folded) -> Iterator[SnippedSpan]:
    """The conversation in stretches that cannot be cut; what another fold shows is one message."""
    snips = {
        (edit.first, edit.last)
        for made in folded.compactions
        if made.layer == "snip"
        for edit in made.edits
        if isinstance(edit, Fold)
    }
    done = 0
    for entry in folded.entries:
        if entry.seq < done:
            continue
        fold = folded.edits.covering(entry.seq)
        if fold is not None and (fold.first, fold.last) not in snips:
            done = fold.last + 1
            yield SnippedSpan(fold.first, fold.last, 1)
        elif messages := messages_of(entry):
            yield SnippedSpan(entry.seq, entry.last, messages, fold is not None)


def _ends(spans: list[SnippedSpan]) -> tuple[int, int]:
    return spans[0].first, spans[-1].last


def _middle(spans: list[SnippedSpan], head: int, end: int) -> list[SnippedSpan]:
    """The spans that begin after `head` messages and end at or before `end` messages."""
    count, inside = 0, []
    for span in spans:
        if count >= head and count + span.messages <= end:
            inside.append(span)
        count += span.messages
    return inside
