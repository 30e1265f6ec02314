"""Where the cache marks stand that keep an edit from rewriting everything.

An entry of the prompt cache is written only at a mark. The system prompt has one and the end has one; the
other two stand behind the summary, and at the frontier between edited and unedited history: the next batch
of clearing begins there, so that everything before it is read and not written again.
"""

from __future__ import annotations

from transcripts.fold import Folded


def marks(folded: Folded) -> tuple[int, ...]:
    """Indices of the messages with the second and the third mark, in order; none where nothing was edited."""
    view, found = folded.view, set[int]()
    if folded.edits.folds:
        found.add(view.index_of(folded.edits.folds[-1].last))
    if (seq := folded.edits.last_cleared) > 0:
        found.add(view.index_of(seq))
    return tuple(sorted(index for index in found if index < len(view)))


def frontier(folded: Folded) -> int:
    """The first message that no edit has touched or replaced: a new batch begins there."""
    placed = marks(folded)
    return placed[-1] + 1 if placed else 0
