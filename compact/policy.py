"""thrifty's decision: whether to clear now, and what.

Looks before every call and acts in batches: when what a batch frees pays by the model's prices over the
calls that may be expected, when the cache has gone anyway, or when the window leaves no choice. Most calls
end at a subtraction of tallies; only a batch that could pay is looked at block by block.

Stale reads go with the first batch, the newest read of a file stays as long as the window allows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import sqrt

from transcripts.entries import Exchange
from transcripts.facts import Clear
from transcripts.fold import Folded
from transcripts.messages import ToolUseBlock
from transcripts.view import PartKind

from .cache_breakpoints import HARMLESS, frontier
from .clearing import ClearCandidate, candidates, clear, path_in
from .guards import exemptions
from .plan import Situation
from .prices import Prices, RewriteBill, pays

LEAST = 60  # tokens that clearing one block has to free
RECENT = 12  # calls within which a file's newest read is likely to be looked at again
STEPS = 8  # looks through the view while one batch gathers
SOON = 3.0  # calls within which a first batch has to be made good while the session is small
TOLERATED = 0.02  # share of what was spent so far that a batch may cost, should the session end then
LEFT = 0.75  # of the trigger: where a batch that the window forces would leave more, newer reads go as well
USUAL = Prices()  # the settings' sizes are for these prices


@dataclass(frozen=True, slots=True)
class Batch:
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


def choose(situation: Situation) -> Batch | None:
    """The batch to clear before this call, or None, which is the usual answer."""
    stretch = _stretch(situation)
    if stretch is None:
        return None
    folded, spared = situation.folded, exemptions(situation)
    found = [
        each for each in candidates(folded, stretch.first, stretch.last, LEAST) if not spared.holds(*each.key)
    ]
    chosen = _without_newest_reads(situation, stretch, found)
    if not _worth(situation, stretch, chosen):
        return None
    edits = (clear(folded, each.part, each.field, situation.count) for each in chosen)
    return Batch(tuple(edit for edit in edits if edit is not None), stretch.why)


def _stretch(situation: Situation) -> Stretch | None:
    """Where a batch could pay, judged by tallies alone."""
    settings, folded = situation.settings, situation.folded
    if situation.tokens >= situation.due:
        stretch = Stretch(0, 0, settings.batch_tokens // 4, "window")
    elif situation.cold:
        stretch = Stretch(0, 0, settings.batch_tokens // 2, "cold cache")
    else:
        stretch = Stretch(frontier(folded), 0, round(settings.batch_tokens * _haste(situation)), "price")
    last = protected_from(folded, situation.unscaled(_protected(situation)))
    most = _clearable(situation, stretch.first, last)
    if most < max(1, situation.unscaled(stretch.least)):
        return None
    if stretch.why == "price" and not (_grown(situation, most) and _pays(situation, stretch.first, most)):
        return None
    return replace(stretch, last=last, least=situation.unscaled(stretch.least))


def _grown(situation: Situation, most: int) -> bool:
    """Whether what could go has grown by another step with the newest exchange.

    So that a long view of many small blocks, where there is less to clear than the tallies say, is looked
    through once for each step and not before every call.
    """
    view, step = situation.folded.view, max(1, situation.unscaled(situation.settings.batch_tokens // STEPS))
    newest = view.tokens - view.tokens_before(max(0, len(view) - 2))
    return most // step != (most - newest) // step


def _haste(situation: Situation) -> float:
    """How much larger a batch has to be because the last one was few calls ago; 1 where it was long ago."""
    folded = situation.folded
    for made in reversed(folded.compactions):
        if made.layer not in HARMLESS and "calls" in made.report:
            since = max(1, folded.reply_count - int(made.report["calls"]))
            return max(1.0, situation.settings.batch_calls / since)
    return 1.0


def _protected(situation: Situation) -> int:
    """Tokens at the end that stay: a quarter of the trigger at most, less the cheaper reading is.

    For the cheaper it is, the dearer is it to write them anew.
    """
    cheapness = min(1.0, situation.prices.read / USUAL.read)
    return round(min(situation.settings.protect_tokens, situation.due // 4) * sqrt(cheapness))


def protected_from(folded: Folded, tokens: int) -> int:
    """The first of the newest messages that hold `tokens` together."""
    view = folded.view
    limit = view.tokens - tokens
    return (
        bisect_left(range(len(view)), limit, key=lambda index: view.tokens_before(index + 1))
        if limit > 0
        else 0
    )


def _clearable(situation: Situation, first: int, last: int) -> int:
    """The most that clearing in the messages first..last-1 could free, thinking included."""
    if last <= first:
        return 0
    view = situation.folded.view
    return (
        view.between(PartKind.RESULT, first, last)
        + view.between(PartKind.INPUT, first, last)
        + _thinking(situation, first)
    )


def _thinking(situation: Situation, first: int) -> int:
    """The thinking that an edit from message `first` on makes unusable."""
    view = situation.folded.view
    return view.between(PartKind.THINKING, first, len(view)) if situation.binds else 0


def _pays(situation: Situation, first: int, freed: int) -> bool:
    """Whether freeing so many tokens (our count) pays, and would do no harm if the session ended soon.

    A later batch is paid from what the earlier ones have brought. The first one has to be made good within
    very few calls, or in a session that has grown so large that it will hardly end now, within all of
    calls_ahead.
    """
    folded, view = situation.folded, situation.folded.view
    prices, settings = situation.prices, situation.settings
    behind = view.tokens - view.tokens_before(first) - freed
    bill = RewriteBill(0, situation.scaled(max(0, behind)), situation.scaled(freed))
    if not pays(bill, prices, settings.calls_ahead):
        return False
    debt = bill.extra(prices) - TOLERATED * prices.plain(folded.usage) - _won(situation)
    if frontier(folded) > 0:
        return debt <= 0
    within = settings.calls_ahead if situation.tokens >= settings.batch_from else SOON
    return debt <= within * bill.freed * prices.read


def _won(situation: Situation) -> float:
    """What the compactions so far have brought, less what they cost, in input tokens at the plain price."""
    folded, prices = situation.folded, situation.prices
    total = 0.0
    for made in folded.compactions:
        if made.id not in folded.undone:
            calls = folded.reply_count - made.report.get("calls", folded.reply_count)
            saved = made.report.get("freed", 0) * prices.read * calls
            total += saved - made.report.get("rewritten", 0) * (prices.write - prices.read)
    return total


def _worth(situation: Situation, stretch: Stretch, chosen: list[ClearCandidate]) -> bool:
    """Whether the batch is large enough, and pays where it has to."""
    freed = sum(each.gain for each in chosen)
    if not chosen or freed < stretch.least:
        return False
    freed += _thinking(situation, chosen[0].index)
    return stretch.why != "price" or _pays(situation, stretch.first, freed)


def _without_newest_reads(
    situation: Situation, stretch: Stretch, found: list[ClearCandidate]
) -> list[ClearCandidate]:
    """Without the newest reads of files in recent use, as far back as the window allows."""
    for calls in (RECENT, RECENT // 4) if stretch.why == "window" else (RECENT,):
        kept = newest_reads(situation.folded, calls)
        rest = [each for each in found if each.part.seq not in kept]
        if stretch.why != "window" or _enough(situation, rest):
            return rest
    return found


def _enough(situation: Situation, found: Iterable[ClearCandidate]) -> bool:
    """Whether clearing these leaves so much room that the next batch is not due after a call or two."""
    left = situation.tokens - situation.scaled(sum(each.gain for each in found))
    return left <= LEFT * situation.due


def newest_reads(folded: Folded, calls: int) -> set[int]:
    """seqs of the results that show a file as it is, of files that the last `calls` exchanges touched."""
    recent: set[str] = set()
    done: set[str] = set()
    kept: set[int] = set()
    exchanges = (entry for entry in reversed(folded.entries) if isinstance(entry, Exchange))
    for age, entry in enumerate(exchanges):
        if age >= calls and recent <= done:
            break  # every file in recent use has its newest read
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


def reads(use: ToolUseBlock) -> bool:
    """Whether the call reads a file."""
    return use.name.lower() in ("read", "view", "open", "cat")
