"""snip: keep the first and the last of too many messages, and replace the rest with a line (classic).

Cuts are made between exchanges, so that a call is never separated from its results. A wider snip replaces a
narrower one, because the widest of several folds over the same facts counts.
"""

from collections.abc import Iterator
from itertools import accumulate

from msgspec import Struct

from compact.folding import message_count
from compact.replacement import live_within
from compact.report import propose
from compact.settings import CompactSettings, ContextWindow
from compact.situation import Layer, Proposal, Situation
from compact.uncompact import exemptions
from compact.user_messages import directives_within, request_within
from transcripts import Block, Fold, Folded, TextBlock


class SnippedSpan(Struct, frozen=True):
    """Facts that cannot be separated, and their number of messages before any snip."""

    first: int
    last: int
    messages: int
    snipped: bool = False


def _min_tokens(settings: CompactSettings, window: ContextWindow) -> int | None:
    """Return 0 for classic, which counts messages whatever their size; else None."""
    return 0 if settings.policy == "classic" else None


def _plan(situation: Situation) -> tuple[Proposal, ...]:
    settings = situation.settings
    folded = situation.folded
    if 2 * len(folded.entries) <= settings.snip_max_messages:  # an entry is two messages at most
        return ()
    spans = list(_spans(folded))
    shown = sum(span.messages for span in spans if not span.snipped)
    if shown <= settings.snip_max_messages:
        return ()
    ends = list(accumulate(span.messages for span in spans))  # messages up to the end of each span
    head = settings.snip_head_messages
    end = ends[-1] - settings.snip_tail_messages
    inside = [s for s, last in zip(spans, ends, strict=True) if last - s.messages >= head and last <= end]
    if not inside or all(span.snipped for span in inside):
        return ()
    first = inside[0].first
    last = inside[-1].last
    if exemptions(situation).within(first, last):
        return ()
    messages = sum(span.messages for span in inside)
    fold = _fold(situation, first, last, messages)
    return (propose(situation, "snip", "auto", (fold,), why="messages", messages=messages),)


MAX_DIRECTIVES_TOKENS = 1_000  # of the user's sentences that are kept


def _fold(situation: Situation, first: int, last: int, messages: int) -> Fold:
    note = f"[snipped {messages} messages: r{first} to r{last}. recall shows and searches them]"
    blocks: list[Block] = [TextBlock(note)]
    if (request := request_within(situation, first, last)) is not None:
        heading = "[summarized: the request being worked on is among the snipped messages]"
        blocks.append(TextBlock(f"{heading}\n\n{request}"))
    if directives := directives_within(situation, first, last, MAX_DIRECTIVES_TOKENS):
        blocks.append(TextBlock(f"Instructions of the user in the snipped messages:\n{directives}"))
    if state := live_within(situation, first, last):
        blocks.append(TextBlock(state))
    return Fold(first, last=last, blocks=tuple(blocks), tokens=sum(situation.counter.blocks(tuple(blocks))))


def _spans(folded: Folded) -> Iterator[SnippedSpan]:
    """Yield the conversation in spans that cannot be cut; a fold of another layer is one message."""
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
            yield SnippedSpan(fold.first, last=fold.last, messages=1)
        elif messages := message_count(entry):
            yield SnippedSpan(entry.seq, last=entry.last, messages=messages, snipped=fold is not None)


SNIP_LAYER = Layer(_plan, _min_tokens)
