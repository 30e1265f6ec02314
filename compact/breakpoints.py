"""Place the cache breakpoints of the history so that an edit does not rewrite everything behind it.

The API writes a cache entry only at a breakpoint, and accepts four. One is after the system prompt and one at
the end of the request; the other two are where the two newest batches of edits end, so that everything before
them is read from the entry where a later change begins after them.

A breakpoint finds an entry only at most 20 blocks before it; some servers count every call and every result.
If a reply with many calls moved the end of the last request further back, that end gets a breakpoint again.
"""

from collections.abc import Iterator
from math import inf

from transcripts import (
    Compacted,
    Edit,
    Folded,
    Instructed,
    Message,
    Opened,
    RequestSent,
    Undone,
    View,
    earliest_seq,
)

from .cache_use import reads_entries
from .invariants import changed_span

# Layers that only change text that was never sent, or that is not in the cache.
UNCACHED_LAYERS = frozenset({"budget", "unthink", "repair"})


_CHANGES = (Opened, Instructed, Undone, Compacted)  # facts that change the next request
LOOK_BACK_BLOCKS = 20  # before a breakpoint, that are searched for an entry
MAX_APPENDED_BLOCKS = 18  # since the last request, whose end is then within the look-back: two to spare


def cache_breakpoints(folded: Folded) -> tuple[int, ...]:
    """Return the indices of the messages that carry a breakpoint, in order; at most two.

    If the end of the last request needs one, it replaces the older end of a batch.
    """
    last = _far_end(folded)
    if not folded.compactions:  # mostly
        return () if last is None else (last,)
    batches = _batch_ends(folded)
    if last is None or last in batches:
        return batches
    return tuple(sorted({last, *batches[-1:]}))


def _far_end(folded: Folded) -> int | None:
    """Return the index of the last message of the last request, if too many blocks follow it; else None."""
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
    """Return the indices of the messages at the ends of the two newest batches of edits; none without edits.

    With one batch only, the second is the message before it, where an earlier request may have ended.
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


def _batch_spans(folded: Folded) -> Iterator[tuple[int, int]]:
    """Yield (first, last) seq of the sent messages that each compaction in force changed, newest first."""
    for made in reversed(folded.compactions):
        if (
            made.layer not in UNCACHED_LAYERS
            and made.id not in folded.undone
            and (span := changed_span(made.edits))
        ):
            yield span


def cached_messages(folded: Folded, then: Folded, first: int, since: float) -> int:
    """Count the messages of `then`, changed from fact `first` on, that the next request reads from the cache.

    An entry counts if it was used after `since`, if its content was not changed in between (or the change was
    undone), and if a breakpoint of the next request reaches back to it.
    """
    view = then.view
    ends = [*cache_breakpoints(then), len(view) - 1]
    entries = set(_entries(folded, view, first, since))  # most requests mark the same
    return max((at + 1 for at in entries if any(_reaches(view, end, at) for end in ends)), default=0)


def _reaches(view: View, end: int, entry: int) -> bool:
    if not entry <= end <= entry + LOOK_BACK_BLOCKS:
        return False
    return sum(map(_blocks, view[entry + 1 : end + 1])) <= LOOK_BACK_BLOCKS


def _entries(folded: Folded, view: View, first: int, since: float) -> Iterator[int]:
    """Yield the indices of the messages that end an entry whose bytes are still those of `view`."""
    changed = {"": first}  # changes since the request being checked -> their first seq
    compactions = {made.id: made for made in folded.compactions}
    used: float | None = None  # the time when the next request read the entry, if it was still valid
    between = inf  # the first seq that changed between the two requests
    same = first
    place = view.index_of(first)
    for fact in reversed(folded.facts):
        if isinstance(fact, RequestSent):
            if fact.instructions and not reads_entries(fact):
                continue
            if (fact.ts if used is None or between < fact.seq else used) < since:
                return
            used = fact.ts
            between = inf
            if fact.seq <= same and not fact.instructions:
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
