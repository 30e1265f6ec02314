"""Find the runs of old entries in which nothing is likely to be needed, which a summary may replace.

Old calls cost tokens even where their results were cleared: the call, its id, a placeholder, a line of text.
With a batch, every run of such entries between those that stay is therefore summarized.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from typing import NamedTuple

from msgspec import Struct

from transcripts import Entry, Folded, Prompt

from .situation import Situation

RECENT_TOKENS = 4_000  # of the newest messages, which are not summarized
MAX_RECENT_SHARE = 0.05  # of the window, that these have
SUMMARY_TOKENS = 1_500  # of a local summary, about, beside the user's words
MIN_RUN_TOKENS = 250  # of a run behind the first, whose summary only names its messages


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
        edits = folded.edits
        prompts = (entry for entry in folded.entries[: self.recent] if isinstance(entry, Prompt))
        said = (sum(each.fact.tokens) for each in prompts if edits.covering(each.seq) is None)
        return max(SUMMARY_TOKENS, sum(fold.tokens for fold in edits.folds)) + sum(said)


def settled_runs(situation: Situation, kept: Collection[int]) -> SettledRuns:
    """Return the runs of entries that are not recent and contain none of the facts `kept`."""
    entries = situation.folded.entries
    recent = _first_recent(situation)
    stays = sorted(kept)
    found: list[Run] = []
    begin = 0  # of the run that is being collected
    end = 0
    for first, end in _whole_groups(entries):
        until = entries[end].seq if end < len(entries) else situation.folded.last_seq + 1
        if until > recent:
            end = first
            break
        at = bisect_left(stays, entries[first].seq)
        if at < len(stays) and stays[at] < until:
            found += _run(situation, begin, first)
            begin = end
    found += _run(situation, begin, end)
    begins = bool(found) and found[0].first == entries[0].seq
    return SettledRuns(tuple(found), recent=end) if begins else SettledRuns()


def _run(situation: Situation, first: int, end: int) -> list[Run]:
    """Return the run of entries first..end-1, [] where it is too small to be one."""
    entries = situation.folded.entries
    view = situation.view
    if end <= first:
        return []
    begin = view.tokens_before(view.index_of(entries[first].seq))
    until = view.tokens_before(view.index_of(entries[end].seq)) if end < len(entries) else view.tokens
    if first and until - begin < MIN_RUN_TOKENS:
        return []
    last = max(entry.last for entry in entries[first:end])
    return [Run(entries[first].seq, last=last, tokens=until - begin)]


def _whole_groups(entries: list[Entry]) -> Iterator[tuple[int, int]]:
    """Yield (first, end) of the smallest groups of entries whose facts do not overlap."""
    first = 0
    last = 0
    for at, entry in enumerate(entries):
        if at and entry.seq > last:
            yield first, at
            first = at
        last = max(last, entry.last)
    if entries:
        yield first, len(entries)


def _first_recent(situation: Situation) -> int:
    """Return the first seq of the newest messages: RECENT_TOKENS, and those that the model has not seen."""
    view = situation.view
    room = situation.unscaled(min(RECENT_TOKENS, int(MAX_RECENT_SHARE * situation.window.size)))
    unseen = view.index_of(situation.folded.last_reply_seq + 1)
    at = min(view.last_before(view.tokens - room), unseen)
    return view[at].first if at < len(view) else 0
