"""Find the runs of old entries in which nothing is likely to be needed, which a summary may replace.

Old calls cost tokens even after their results were cleared: the call, its id, a placeholder, a line of text.
With a batch, every run of such entries between those that stay is therefore summarized.
"""

from bisect import bisect_right
from collections.abc import Collection
from typing import NamedTuple

from msgspec import Struct

from transcripts import Folded, PartKind

from .situation import Situation

RECENT_TOKENS = 4_000  # of the newest messages, which are not summarized
MAX_RECENT_SHARE = 0.05  # of the window, for the same
SUMMARY_TOKENS = 1_500  # of a local summary, approximately, besides the user's words
MIN_RUN_TOKENS = 250  # of a run after the first, whose summary only names its messages


class Run(NamedTuple):
    """Consecutive entries: the first seq and the last, and their tokens in the view by our count."""

    first: int
    last: int
    tokens: int


class SettledRuns(Struct, frozen=True):
    """The runs that may be summarized, oldest first; the first one begins with the session.

    `recent` is the index of the first entry that is too recent to be in a run.
    """

    runs: tuple[Run, ...] = ()
    recent: int = 0

    @property
    def tokens(self) -> int:
        """Our count of all runs in the view."""
        return sum(run.tokens for run in self.runs)

    def contain(self, seq: int) -> bool:
        """Return whether fact `seq` is in a run."""
        at = bisect_right(self.runs, seq, key=lambda run: run.first) - 1
        return at >= 0 and seq <= self.runs[at].last

    def summary_tokens(self, folded: Folded) -> int:
        """Return about how many tokens the summary has: those of an earlier one, and the user's words."""
        view = folded.view
        entries = folded.entries
        end = view.index_of(entries[self.recent].seq) if self.recent < len(entries) else len(view)
        user_tokens = view.between(PartKind.USER, 0, end)
        return max(SUMMARY_TOKENS, sum(fold.tokens for fold in folded.edits.folds)) + user_tokens


def settled_runs(situation: Situation, kept: Collection[int]) -> SettledRuns:
    """Return the runs of entries that are not recent and contain none of the facts `kept`.

    Entries between the facts `kept` are skipped without looking at them, as this runs before most calls.
    """
    conversation = situation.folded.conversation
    groups = conversation.groups
    recent = max(0, bisect_right(groups, _first_recent(situation)) - 1)
    found: list[Run] = []
    begin = 0  # of the run that is being collected, an index of `groups`
    for seq in sorted(kept):
        at = bisect_right(groups, seq) - 1
        if at >= recent:
            break
        if at >= begin:
            found += _run(situation, begin, at)
            begin = at + 1
    found += _run(situation, begin, recent)
    if not found or found[0].first != groups[0]:
        return SettledRuns()
    return SettledRuns(tuple(found), recent=conversation.index_of(groups[recent]))


def _run(situation: Situation, first: int, end: int) -> list[Run]:
    """Return the run of the groups first..end-1, [] if it is too small."""
    if end <= first:
        return []
    conversation = situation.folded.conversation
    groups = conversation.groups
    view = situation.view
    tokens = view.tokens_before(view.index_of(groups[end])) - view.tokens_before(view.index_of(groups[first]))
    if first and tokens < MIN_RUN_TOKENS:
        return []
    newest = conversation.entries[conversation.index_of(groups[end - 1]) : conversation.index_of(groups[end])]
    return [Run(groups[first], last=max(entry.last for entry in newest), tokens=tokens)]


def _first_recent(situation: Situation) -> int:
    """Return the first seq of the newest messages: RECENT_TOKENS, and those that the model has not seen."""
    view = situation.view
    room = situation.unscaled(min(RECENT_TOKENS, int(MAX_RECENT_SHARE * situation.window.size)))
    unseen = view.index_of(situation.folded.last_reply_seq + 1)
    at = min(view.last_before(view.tokens - room), unseen)
    return view[at].first if at < len(view) else 0
