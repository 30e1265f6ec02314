"""Where the cache marks stand that keep an edit from rewriting everything.

An entry of the prompt cache is written only at a mark. The system prompt has one and the end has one; the
other two stand where the two newest batches of edits end. The next batch begins behind the newer one, and
finds there an entry to read; what it wrote before that is read and not written again.
"""

from __future__ import annotations

from collections.abc import Iterator

from transcripts.edits import earliest_seq
from transcripts.facts import Clear, Compacted, Unthink
from transcripts.fold import Folded

HARMLESS = frozenset({"budget", "unthink", "repair"})  # change what was never sent, or nothing that is cached


def cache_breakpoints(folded: Folded) -> tuple[int, ...]:
    """Indices of the messages with the second and the third mark, in order; none where nothing was edited.

    The one is where the newest batch ends, the other where the one before it ended; for a first batch, the
    message before it, where an earlier request may have ended.
    """
    batches = _batches(folded)
    newest = next(batches, None)
    if newest is None:
        return ()
    view, older = folded.view, next(batches, None)
    first = view.index_of(_first(newest))
    places = {view.index_of(_last(newest)), view.index_of(_last(older)) if older is not None else first - 1}
    return tuple(sorted(place for place in places if 0 <= place < len(view)))


def frontier(folded: Folded) -> int:
    """The first message behind the newest batch of edits: a new batch begins there."""
    newest = next(_batches(folded), None)
    return 0 if newest is None else min(len(folded.view), folded.view.index_of(_last(newest)) + 1)


def _batches(folded: Folded) -> Iterator[Compacted]:
    """The compactions in force that changed what was sent, the newest first."""
    for made in reversed(folded.compactions):
        if made.layer not in HARMLESS and made.id not in folded.undone and _last(made):
            yield made


def _first(made: Compacted) -> int:
    return earliest_seq(tuple(edit for edit in made.edits if not isinstance(edit, Unthink))) or 0


def _last(made: Compacted) -> int:
    shown = (edit for edit in made.edits if not isinstance(edit, Unthink))
    return max((edit.seq if isinstance(edit, Clear) else edit.last for edit in shown), default=0)
