"""Where the cache breakpoints of the history stand, so that an edit does not rewrite everything behind it.

The API writes a cache entry only at a breakpoint, and takes four. One stands behind the system prompt and one
at the end of the request; the other two stand where the two newest batches of edits end. The next batch
begins behind the newest one: what stands in front of it is then read from its entry and not written again.

A breakpoint finds an entry only at most 20 blocks before it; some servers count every call and every result.
Where a reply with many calls put the end of the last request further back, a breakpoint stands there again.
"""

from collections.abc import Iterator

from transcripts.fold import Folded

from .invariants import changed_span

# Layers that change what was never sent, or nothing that is in the cache.
UNCACHED_LAYERS = frozenset({"budget", "unthink", "repair"})


MAX_APPENDED_BLOCKS = 18  # since the last request, for which its end is within the look-back: two to spare


def cache_breakpoints(folded: Folded) -> tuple[int, ...]:
    """Indices of the messages in the history that carry a breakpoint, in order; at most two.

    Of the ends of batches the older gives way to the end of the last request, where that is needed.
    """
    batches, last = _batch_ends(folded), _far_end(folded)
    if last is None or last in batches:
        return batches
    return tuple(sorted({last, *batches[-1:]}))


def _far_end(folded: Folded) -> int | None:
    """Index of the last message of the last request, if too many blocks for the look-back follow it."""
    asked, view = folded.last_request, folded.view
    if asked is None:
        return None
    end = view.index_of(asked.seq) - 1
    appended = sum(len(message.parts) for message in view[end + 1 :])
    return end if end >= 0 and appended > MAX_APPENDED_BLOCKS else None


def _batch_ends(folded: Folded) -> tuple[int, ...]:
    """Messages at the ends of the two newest batches of edits; none without edits.

    One is where the newest batch ends, the other where the batch before it ended. With one batch only, it is
    the message before that batch, where an earlier request may have ended.
    """
    spans = _batch_spans(folded)
    newest = next(spans, None)
    if newest is None:
        return ()
    view, older = folded.view, next(spans, None)
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
