"""cold_return: after a long pause, send a local summary if sending the whole history again is too expensive.

Once the cache has expired, the next request pays for every token of the history, whether or not it changed.
At that moment a summary rewrites nothing that is still cached. It is made without a model call, since that
would have to read the same history. Only a request that begins a turn is compacted: in the middle of a task,
after a slow command, the newest text is what the model needs. After a short pause the work goes on where it
was, and needs that text too: then only what is unlikely to be needed is cleared (policy.py).
"""

from msgspec.structs import replace

from compact.folding import fold_history
from compact.layers.summary import SHORT_TAIL_TOKENS, earlier_summary
from compact.report import COLD_RETURN, propose
from compact.settings import CompactSettings, ContextWindow
from compact.situation import FoldLimits, Layer, Proposal, Situation
from compact.uncompact import exemptions
from transcripts import Exchange

# Of the prompt; if a summary leaves more, it comes without restored files, then without the tail.
MAX_LEFT_SHARE = 0.2
LONG_PAUSE_S = 3_600
MIN_GAIN_SHARE = 0.33  # of the prompt that clearing alone would leave


def _min_tokens(settings: CompactSettings, window: ContextWindow) -> int | None:
    active = settings.policy == "thrifty" and settings.cold_return_usd > 0
    return settings.min_compact_in(window) if active else None


def _plan(situation: Situation) -> tuple[Proposal, ...]:
    if not situation.reaches(situation.settings.min_compact_in(situation.window), messages_only=True):
        return ()  # clearing alone leaves little enough
    uncleared = situation.uncleared or situation
    enough = MAX_LEFT_SHARE * uncleared.tokens
    if situation.tokens <= enough or not _is_due(uncleared):
        return ()
    usual = FoldLimits("auto", earlier_summary(uncleared))
    bare = replace(usual, restoring=False)
    best: Proposal | None = None
    for limits in (usual, bare, replace(bare, tail=SHORT_TAIL_TOKENS)):
        proposal = _proposal(uncleared, limits)
        if proposal is not None and (best is None or proposal.report["after"] < best.report["after"]):
            best = proposal
        if best is not None and best.report["after"] <= enough:
            break
    most = (1 - MIN_GAIN_SHARE) * situation.tokens
    return (best,) if best is not None and best.report["after"] <= most else ()


def _is_due(situation: Situation) -> bool:
    """Return whether sending the whole history again is too expensive, and a summary is wanted."""
    asked = situation.folded.last_request
    prices = situation.prices
    if asked is None or situation.now - asked.ts <= max(LONG_PAUSE_S, situation.settings.cache_ttl_s):
        return False  # a new model or new tools have no cached history either, but there was no pause
    if situation.vetoed or not _begins_turn(situation) or prices.is_guess or not prices.caching:
        return False
    return _cost(situation) > situation.settings.cold_return_usd and not exemptions(situation)


def _begins_turn(situation: Situation) -> bool:
    """Return whether the next request answers a prompt, now or after a resume, and not results of calls."""
    entries = situation.folded.entries
    return bool(entries) and not (isinstance(entries[-1], Exchange) and entries[-1].uses)


def _cost(situation: Situation) -> float:
    """Return the dollars of writing the whole prompt to the cache."""
    return situation.prices.dollars(situation.tokens * situation.prices.write)


def _proposal(situation: Situation, limits: FoldLimits) -> Proposal | None:
    folding = fold_history(situation, limits)
    if folding is None:
        return None
    because = f"the cache expired, and sending it all would cost ~${_cost(situation):.2f}"
    return propose(
        situation,
        "ledger",
        "auto",
        (folding.fold,),
        why=COLD_RETURN,
        restored=folding.restored,
        because=because,
    )


COLD_RETURN_LAYER = Layer(_plan, _min_tokens, messages_only=True, replaces_history=True)
