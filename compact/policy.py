"""thrifty's decision: whether to clear old results and inputs before this call, and which.

It looks before every call and acts in batches: when what a batch frees pays by the model's prices within the
calls that may be expected, when the cache is cold anyway, or when the window leaves no choice. For most calls
the token tallies settle it; only a batch that could pay is looked at block by block.

Stale reads go with the first batch. The newest read of a file stays as long as the window allows. The numbers
below were chosen by replaying recorded sessions (agent/replay) at several price tiers.
"""

from bisect import bisect_left
from dataclasses import dataclass
from math import sqrt

from transcripts.entries import Exchange
from transcripts.facts import Clear
from transcripts.fold import Folded
from transcripts.view import PartKind

from .cache_breakpoints import UNCACHED_LAYERS, first_unedited
from .clearing import ClearCandidate, clear_candidates, placeholder_edit
from .identifiers import file_path_of
from .plan import Situation
from .prices import Prices, RewriteBill, pays
from .settings import CompactSettings
from .uncompact import exemptions, in_force

RECENT_CALLS = 12  # within which a file's newest read is likely to be looked at again
GROWTH_STEPS = 8  # times that the view is looked through while one batch gathers
EARLY_PAYBACK_CALLS = 3.0  # within which the first batch has to pay while the session is small
TOLERATED_LOSS_SHARE = 0.02  # of what was spent so far, that a batch may cost should the session end then
MAX_FORCED_SHARE = 0.75  # of the trigger: where a forced batch would leave more, newer reads are cleared too
REFERENCE_PRICES = Prices()  # for which the settings' sizes are made


@dataclass(frozen=True, slots=True)
class BatchRange:
    """The messages first..last-1 may be cleared if that frees `least` tokens of our count."""

    first: int
    last: int
    least: int
    why: str  # "price", "cold cache" or "window"


def choose_batch(situation: Situation) -> tuple[tuple[Clear, ...], str] | None:
    """What to clear before this call, in order, and why (see BatchRange); mostly None."""
    within = _batch_range(situation)
    if within is None:
        return None
    folded, exempt = situation.folded, exemptions(situation)
    candidates = clear_candidates(folded, within.first, within.last)
    found = [each for each in candidates if not exempt.holds(each.part.seq, each.part.index, each.field)]
    chosen = _without_newest_reads(situation, within, found)
    freed = sum(each.gain for each in chosen)
    if not chosen or freed < within.least:
        return None
    freed += _dropped_thinking(situation, chosen[0].index)
    if within.why == "price" and not _pays(situation, within.first, freed):
        return None
    edits = (placeholder_edit(folded, each.part, each.field, situation.counter) for each in chosen)
    return tuple(edit for edit in edits if edit is not None), within.why


def min_batch_tokens(settings: CompactSettings) -> int:
    """The least that any batch frees, in the model's tokens: one that the window forces."""
    return settings.batch_min_tokens // 4


def _batch_range(situation: Situation) -> BatchRange | None:
    """Where a batch could be due, judged by tallies alone; None, the usual answer, where nowhere."""
    settings, first = situation.settings, 0
    if situation.tokens >= situation.trigger_tokens:
        why, least = "window", min_batch_tokens(settings)
    elif situation.cache_is_cold:
        why, least = "cold cache", settings.batch_min_tokens // 2
    else:
        why, least = "price", round(settings.batch_min_tokens * _haste(situation))
        first = first_unedited(situation.folded)
    last = _protected_from(situation)
    most, least = _clearable(situation, first, last), max(1, situation.unscaled(least))
    if most < least:
        return None
    if why == "price" and not (_has_grown(situation, most) and _pays(situation, first, most)):
        return None
    return BatchRange(first, last, least, why)


def _has_grown(situation: Situation, most: int) -> bool:
    """Whether what could be cleared has grown by another step with the newest exchange.

    So a long view of small blocks, where less can be cleared than the tallies say, is looked through once for
    each step and not before every call.
    """
    view = situation.view
    step = max(1, situation.unscaled(situation.settings.batch_min_tokens // GROWTH_STEPS))
    newest = view.tokens - view.tokens_before(max(0, len(view) - 2))
    return most // step != (most - newest) // step


def _haste(situation: Situation) -> float:
    """How many times larger a batch has to be because the last one was only a few calls ago; at least 1."""
    folded = situation.folded
    for made in reversed(folded.compactions):
        if made.layer not in UNCACHED_LAYERS and "calls" in made.report:
            since = max(1, folded.conversation.reply_count - int(made.report["calls"]))
            return max(1.0, situation.settings.batch_interval_calls / since)
    return 1.0


def _protected_from(situation: Situation) -> int:
    """Index of the first message of the end that stays: at most a quarter of the trigger.

    The cheaper it is to read, the less stays: in comparison it costs more to write it anew.
    """
    view, cheapness = situation.view, min(1.0, situation.prices.read / REFERENCE_PRICES.read)
    tokens = min(situation.settings.protected_tail_tokens, situation.trigger_tokens // 4)
    limit = view.tokens - situation.unscaled(round(tokens * sqrt(cheapness)))
    if limit <= 0:
        return 0
    return bisect_left(range(len(view)), limit, key=lambda index: view.tokens_before(index + 1))


def _clearable(situation: Situation, first: int, last: int) -> int:
    """The most that clearing in the messages first..last-1 could free, dropped thinking included."""
    if last <= first:
        return 0
    view = situation.view
    cleared = view.between(PartKind.RESULT, first, last) + view.between(PartKind.INPUT, first, last)
    return cleared + _dropped_thinking(situation, first)


def _dropped_thinking(situation: Situation, first: int) -> int:
    """Tokens of the thinking that an edit in message `first` makes unusable."""
    view = situation.view
    return view.between(PartKind.THINKING, first, len(view)) if situation.binds else 0


def _pays(situation: Situation, first: int, freed: int) -> bool:
    """Whether freeing so many tokens (our count) pays, and does little harm if the session ends soon.

    A later batch is paid from what the earlier ones have saved. The first one has to pay within very few
    calls, or, once the session is so large that it will hardly end now, within payback_calls.
    """
    folded, view = situation.folded, situation.view
    prices, settings = situation.prices, situation.settings
    behind = view.tokens - view.tokens_before(first) - freed
    bill = RewriteBill(0, situation.scaled(max(0, behind)), situation.scaled(freed))
    if not pays(bill, prices, settings.payback_calls):
        return False
    debt = bill.extra(prices) - TOLERATED_LOSS_SHARE * prices.plain(folded.usage) - _saved_so_far(situation)
    if first_unedited(folded) > 0:
        return debt <= 0
    large = situation.tokens >= settings.batch_from_tokens
    calls = settings.payback_calls if large else EARLY_PAYBACK_CALLS
    return debt <= calls * bill.freed * prices.read


def _saved_so_far(situation: Situation) -> float:
    """What the compactions in force have saved, less what they cost, in input tokens at the full price."""
    folded, prices = situation.folded, situation.prices
    total = 0.0
    for made in in_force(folded):
        calls = folded.conversation.reply_count - made.report.get("calls", folded.conversation.reply_count)
        saved = made.report.get("freed", 0) * prices.read * calls
        total += saved - made.report.get("rewritten", 0) * (prices.write - prices.read)
    return total


def _without_newest_reads(
    situation: Situation, within: BatchRange, found: list[ClearCandidate]
) -> list[ClearCandidate]:
    """The candidates without the newest reads of files in recent use, as far back as the window allows."""
    forced = within.why == "window"
    for calls in (RECENT_CALLS, RECENT_CALLS // 4) if forced else (RECENT_CALLS,):
        kept = _newest_reads(situation.folded, calls)
        rest = [each for each in found if each.part.seq not in kept]
        left = situation.tokens - situation.scaled(sum(each.gain for each in rest))
        if not forced or left <= MAX_FORCED_SHARE * situation.trigger_tokens:
            return rest
    return found


def _newest_reads(folded: Folded, calls: int) -> set[int]:
    """seqs of the results that show a file as it is now, of files that the last `calls` exchanges named."""
    recent: set[str] = set()
    done: set[str] = set()
    kept: set[int] = set()
    exchanges = (entry for entry in reversed(folded.entries) if isinstance(entry, Exchange))
    for age, entry in enumerate(exchanges):
        if age >= calls and recent <= done:
            break  # the newest read of every file in recent use is found
        for index, use in reversed(entry.uses.items()):
            path = file_path_of(use)
            if not path:
                continue
            if age < calls:
                recent.add(path)
            result = entry.results.get(index)
            if path not in done and path in recent and result is not None and not result.error:
                if folded.kind_of(use.name) == "reads":
                    kept.add(result.seq)
                done.add(path)
    return kept
