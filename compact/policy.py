"""thrifty's decision: whether to clear now, and what.

Looks before every call and acts in batches: when what a batch frees pays by the model's prices over the
calls that may be expected, when the cache has gone anyway, or when the window leaves no choice. Most calls
end at a subtraction of tallies; only a batch that could pay is looked at block by block.

Stale reads go with the first batch, the newest read of a file stays as long as the window allows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from transcripts.entries import Exchange
from transcripts.facts import Clear
from transcripts.fold import Folded
from transcripts.messages import ToolUse
from transcripts.view import Kind

from .clearing import Candidate, candidates, clear, path_in
from .frontier import frontier
from .plan import Situation
from .prices import Bill, pays

LEAST = 60  # tokens that clearing one block has to free
CALLS_AHEAD = 0.5  # calls still expected, for each call made so far: sessions that are long go on longest
RECENT = 12  # calls within which a file's newest read is likely to be looked at again


@dataclass(frozen=True, slots=True)
class Choice:
    """What to clear, in order, and why: "price", "cold cache" or "window"."""

    edits: tuple[Clear, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """The messages first..last-1 that may be edited, and the least that a batch has to free (our count)."""

    first: int
    last: int
    least: int
    why: str


def choose(situation: Situation) -> Choice | None:
    """The batch to clear before this call, or None, which is the usual answer."""
    stretch = _stretch(situation)
    if stretch is None:
        return None
    found = [
        each
        for each in candidates(situation.folded, stretch.first, stretch.last, LEAST)
        if each.key not in exempt_clears(situation.folded) or stretch.why == "window"
    ]
    chosen = _best(situation, stretch, _without_newest_reads(situation, stretch, found))
    if not chosen:
        return None
    edits = (clear(situation.folded, each.part, each.field, situation.count) for each in chosen)
    return Choice(tuple(edit for edit in edits if edit is not None), stretch.why)


def _stretch(situation: Situation) -> Stretch | None:
    """Where a batch could pay, judged by tallies alone."""
    settings, folded = situation.settings, situation.folded
    why = "window" if situation.tokens >= situation.due else "cold cache" if situation.cold else "price"
    protected = situation.unscaled(settings.protect_tokens)
    least = situation.unscaled(settings.batch_tokens)
    first = frontier(folded) if why == "price" else 0
    last = protected_from(folded, protected)
    if why != "price":
        least = least // 4
    most = clearable(situation, first, last)
    if most < max(1, least):
        return None
    if why == "price" and not _pays(situation, first, most):
        return None
    return Stretch(first, last, least, why)


def protected_from(folded: Folded, tokens: int) -> int:
    """The first of the newest messages that hold `tokens` together."""
    view = folded.view
    limit = view.tokens - tokens
    return (
        bisect_left(range(len(view)), limit, key=lambda index: view.tokens_before(index + 1))
        if limit > 0
        else 0
    )


def clearable(situation: Situation, first: int, last: int) -> int:
    """The most that clearing in the messages first..last-1 could free, thinking included."""
    if last <= first:
        return 0
    view = situation.folded.view
    freed = sum(view.between(kind, first, last) for kind in (Kind.RESULT, Kind.INPUT))
    return freed + (view.between(Kind.THINKING, first, len(view)) if situation.binds else 0)


def _pays(situation: Situation, first: int, freed: int) -> bool:
    return pays(_bill(situation, first, freed), situation.prices, calls_ahead(situation.folded))


def _bill(situation: Situation, first: int, freed: int) -> Bill:
    view = situation.folded.view
    behind = view.tokens - view.tokens_before(first) - freed
    return Bill(0, situation.scaled(max(0, behind)), situation.scaled(freed))


def calls_ahead(folded: Folded) -> float:
    """How many more calls are expected: in proportion to those made."""
    return CALLS_AHEAD * folded.calls


def _best(situation: Situation, stretch: Stretch, found: list[Candidate]) -> list[Candidate]:
    """The candidates from the best starting point on; none where no start pays."""
    prices, calls = situation.prices, calls_ahead(situation.folded)
    best, chosen = 0.0, len(found)
    freed = 0
    for at in range(len(found) - 1, -1, -1):
        freed += found[at].gain
        if freed < stretch.least:
            continue
        bill = _bill(situation, found[at].index, freed + _thinking(situation, found[at].index))
        worth = bill.freed * prices.read * calls - bill.extra(prices)
        if stretch.why != "price":
            worth = float(freed)  # the rewrite is paid for anyway: as much as there is
        if worth > best:
            best, chosen = worth, at
    return found[chosen:]


def _thinking(situation: Situation, first: int) -> int:
    view = situation.folded.view
    return view.between(Kind.THINKING, first, len(view)) if situation.binds else 0


def _without_newest_reads(situation: Situation, stretch: Stretch, found: list[Candidate]) -> list[Candidate]:
    """Without the newest reads of files in recent use, unless the window needs them too."""
    kept = newest_reads(situation.folded, RECENT)
    rest = [each for each in found if each.part.seq not in kept]
    if stretch.why == "window" and _short(situation, rest):
        return found
    return rest


def _short(situation: Situation, found: Iterable[Candidate]) -> bool:
    """Whether clearing these would still leave a summary due."""
    return situation.tokens - situation.scaled(sum(each.gain for each in found)) >= situation.due


def newest_reads(folded: Folded, calls: int) -> set[int]:
    """seqs of the results that show a file as it is, of files that the last `calls` exchanges touched."""
    recent: set[str] = set()
    done: set[str] = set()
    kept: set[int] = set()
    for age, entry in enumerate(reversed([e for e in folded.entries if isinstance(e, Exchange)])):
        for index, use in reversed(entry.uses.items()):
            path = path_in(use)
            if not path:
                continue
            if age < calls:
                recent.add(path)
            result = entry.results.get(index)
            if path not in done and path in recent and result is not None and not result.error:
                if reads(use):
                    kept.add(result.seq)
                done.add(path)
    return kept


def reads(use: ToolUse) -> bool:
    """Whether the call reads a file."""
    return use.name.lower() in ("read", "view", "open", "cat")


def exempt_clears(folded: Folded) -> set[tuple[int, int, str]]:
    """What the person brought back: (seq, block, field) of every clear that was undone."""
    return {
        (edit.seq, edit.block, edit.field)
        for made in folded.compactions
        if made.id in folded.undone
        for edit in made.edits
        if isinstance(edit, Clear)
    }
