"""Place the cache breakpoints of the history so that an edit does not rewrite everything behind it.

The API writes a cache entry only at a breakpoint, and takes four. One stands behind the system prompt and one
at the end of the request; the other two stand where the two newest batches of edits end. The next batch
begins behind the newest one: what stands in front of it is then read from its entry and not written again.

A breakpoint finds an entry only at most 20 blocks before it; some servers count every call and every result.
Where a reply with many calls put the end of the last request further back, a breakpoint stands there again.
"""

from collections.abc import Iterator
from itertools import takewhile
from math import inf

from transcripts import (
    Compacted,
    Edit,
    Folded,
    Instructed,
    Message,
    Opened,
    Reply,
    RequestSent,
    Undone,
    View,
    earliest_seq,
    is_thinking,
)

from .invariants import changed_span

# Layers that change what was never sent, or nothing that is in the cache.
UNCACHED_LAYERS = frozenset({"budget", "unthink", "repair"})


_CHANGES = (Opened, Instructed, Undone, Compacted)  # facts after which a request is another
LOOK_BACK_BLOCKS = 20  # before a breakpoint, within which an entry is found
MAX_APPENDED_BLOCKS = 18  # since the last request, for which its end is within the look-back: two to spare


def cache_breakpoints(folded: Folded) -> tuple[int, ...]:
    """Indices of the messages in the history that carry a breakpoint, in order; at most two.

    Of the ends of batches the older gives way to the end of the last request, where that is needed.
    """
    last = _far_end(folded)
    if not folded.compactions:  # mostly
        return () if last is None else (last,)
    batches = _batch_ends(folded)
    if last is None or last in batches:
        return batches
    return tuple(sorted({last, *batches[-1:]}))


def _far_end(folded: Folded) -> int | None:
    """Index of the last message of the last request, if too many blocks for the look-back follow it."""
    asked = folded.last_request
    view = folded.view
    if asked is None:
        return None
    end = view.index_of(asked.seq) - 1
    appended = sum(map(_blocks, view[end + 1 :]))
    return end if end >= 0 and appended > MAX_APPENDED_BLOCKS else None


def _blocks(message: Message) -> int:
    return len(message.parts)


def _batch_ends(folded: Folded) -> tuple[int, ...]:
    """Messages at the ends of the two newest batches of edits; none without edits.

    One is where the newest batch ends, the other where the batch before it ended. With one batch only, it is
    the message before that batch, where an earlier request may have ended.
    """
    spans = _batch_spans(folded)
    newest = next(spans, None)
    if newest is None:
        return ()
    view = folded.view
    older = next(spans, None)
    before = view.index_of(older[1]) if older is not None else view.index_of(newest[0]) - 1
    places = {view.index_of(newest[1]), before}
    return tuple(sorted(place for place in places if 0 <= place < len(view)))


def first_unedited(folded: Folded) -> int:
    """Index of the first message behind the newest batch of edits, where the next batch begins."""
    newest = next(_batch_spans(folded), None)
    return 0 if newest is None else min(len(folded.view), folded.view.index_of(newest[1]) + 1)


def _batch_spans(folded: Folded) -> Iterator[tuple[int, int]]:
    """(first, last) seq of what each compaction in force changed of what was sent, the newest first."""
    for made in reversed(folded.compactions):
        if (
            made.layer not in UNCACHED_LAYERS
            and made.id not in folded.undone
            and (span := changed_span(made.edits))
        ):
            yield span


def cached_messages(folded: Folded, then: Folded, first: int, since: float) -> int:
    """Count the messages of `then`, changed from fact `first` on, that the next request reads from the cache.

    An entry counts if it was used after `since`, if nothing that it holds was changed in between, or the
    change was undone, and if a breakpoint of the next request reaches back to it.
    """
    view = then.view
    ends = [*cache_breakpoints(then), len(view) - 1]
    entries = set(_entries(folded, view, first, since))  # most requests mark the same
    return max((at + 1 for at in entries if any(_reaches(view, end, at) for end in ends)), default=0)


def cache_used(folded: Folded) -> float:
    """Return the time of the last use of entries that the next request may read, in seconds since the epoch;
    -inf: never.

    Each model has entries of its own, and other tools, another system prompt or a model without the thinking
    of the one before need others.
    """
    asked = folded.last_request
    if asked is None:
        return -inf
    newer = takewhile(lambda fact: fact.seq > asked.seq, reversed(folded.facts))
    if not any(isinstance(fact, Opened | Instructed) for fact in newer):
        return asked.ts
    used: dict[str, float] = {}
    model = ""
    thinks = False
    for fact in folded.facts:
        match fact:
            case Opened():
                used = {} if thinks else used  # it leaves all thinking out
                model = fact.model
            case Instructed():
                used = {}
            case RequestSent(instructions=""):
                used[model] = fact.ts
            case Reply():
                thinks = thinks or any(map(is_thinking, fact.blocks))
    return used.get(model, -inf)


def _reaches(view: View, end: int, entry: int) -> bool:
    between = view[entry + 1 : min(end, entry + LOOK_BACK_BLOCKS) + 1]
    return entry <= end <= entry + LOOK_BACK_BLOCKS and sum(map(_blocks, between)) <= LOOK_BACK_BLOCKS


def _entries(folded: Folded, view: View, first: int, since: float) -> Iterator[int]:
    """Indices of the messages that end an entry whose bytes are still those of `view`."""
    changed = {"": first}  # what was changed since the request that is looked at -> the first seq of it
    compactions = {made.id: made for made in folded.compactions}
    used: float | None = None  # when the request after it read its entry, unless that held no more
    between = inf  # the first seq of what was changed between these two
    same = first
    place = view.index_of(first)
    for fact in reversed(folded.facts):
        if isinstance(fact, RequestSent):
            if fact.instructions:
                continue
            if (fact.ts if used is None or between < fact.seq else used) < since:
                return
            used = fact.ts
            between = inf
            if fact.seq <= same:
                yield view.index_of(fact.seq) - 1
            yield from (mark for mark in fact.marks if mark < place)
        elif isinstance(fact, _CHANGES):
            here: dict[str, int] = {}
            match fact:
                case Opened() | Instructed():
                    return
                case Undone(id=ident, edits=edits):
                    here = _first_of(f"undone {ident}", edits)
                    here |= _first_of(ident, compactions[ident].edits) if ident in compactions else {}
                    changed |= here
                case Compacted(id=ident, edits=edits):
                    here = _first_of(ident, edits)
                    if ident in folded.undone:
                        changed.pop(ident, None)
                    else:
                        changed |= here
            between = min(between, *here.values(), inf)
            same = min(changed.values())
            place = view.index_of(same)


def _first_of(name: str, edits: tuple[Edit, ...]) -> dict[str, int]:
    first = earliest_seq(edits)
    return {} if first is None else {name: first}
