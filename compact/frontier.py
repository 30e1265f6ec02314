"""Where the cache marks stand that keep an edit from rewriting everything.

An entry of the prompt cache is written only at a mark. The system prompt has one and the end has one; the
other two stand where the two newest batches of edits end. The next batch begins behind the newer one, and
finds there an entry to read; what it wrote before that is read and not written again.
"""

from __future__ import annotations

from collections.abc import Iterator

from transcripts.facts import Clear, Compacted, Unthink
from transcripts.fold import Folded

HARMLESS = frozenset({"budget", "unthink", "repair"})  # change what was never sent, or nothing that is cached


def marks(folded: Folded) -> tuple[int, ...]:
    """Indices of the messages with the second and the third mark, in order; none where nothing was edited."""
    view, found = folded.view, set[int]()
    for seq in _ends(folded):
        index = view.index_of(seq)
        if index < len(view):
            found.add(index)
        if len(found) == 2:
            break
    return tuple(sorted(found))


def frontier(folded: Folded) -> int:
    """The first message behind the newest batch of edits: a new batch begins there."""
    for seq in _ends(folded):
        return min(len(folded.view), folded.view.index_of(seq) + 1)
    return 0


def _ends(folded: Folded) -> Iterator[int]:
    """The last seq that each batch in force changed, the newest batch first."""
    for made in reversed(folded.compactions):
        if made.layer not in HARMLESS and made.id not in folded.undone and (end := _end(made)):
            yield end


def _end(made: Compacted) -> int:
    shown = (edit for edit in made.edits if not isinstance(edit, Unthink))
    return max((edit.seq if isinstance(edit, Clear) else edit.last for edit in shown), default=0)
