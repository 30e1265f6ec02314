"""Tell the user about compactions: whether they are announced, the line for them, and the cost of a change.

For example, `[auto compact] 31k -> 13k tokens (-58%): old tool output was cleared without a model call; undo
with /uncompact`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transcripts import Compacted

from .breakpoints import cached_messages
from .estimate import tokens_behind
from .report import COLD_RETURN
from .situation import Proposal, Situation

MIN_SHARE_TOLD = 0.05  # of the context: an automatic compaction that frees less is not announced
ANNOUNCED_LAYERS = frozenset({"summary", "ledger", "reactive"})  # which are announced in any case
MIN_TOLD_TOKENS = 2_000  # that clearing has to free to be announced: in a small window it clears all the time
BATCH_REASONS = ("price", "window")  # of a batch before any call; after a pause, one is always announced
MIN_TOLD_CALLS = 2  # since the compaction before: batches before consecutive calls are announced once
MIN_TOLD_COST_USD = 0.05  # that a notice or a command mentions
_DONE_BY_LAYER = {
    "budget": "large results were moved to files",
    "snip": "messages in the middle were removed",
    "micro": "old tool output was cleared",
    "collapse": "older segments were summarized locally",
    "summary": "the model summarized older messages",
    "ledger": "older messages were summarized locally",
    "reactive": "results were shortened",
    "unthink": "earlier thinking was removed",
    "drop": "a block was dropped",
}
_SHORTENED = {  # where nothing is summarized, by the kind of edits
    "results": "results were shortened",
    "inputs": "tool inputs were shortened",
    "pasted": "your longest messages were cut in the middle",
}


def is_announced(made: Sequence[Proposal | Compacted], policy: str, before: Compacted | None = None) -> bool:
    """Return whether compactions that were made together are announced; /context lists them all.

    `before` is the one before them. The classic policy clears a little before almost every call, and thrifty
    does so where nothing is cached, which is not worth a line.
    """
    are_batches = all(each.report.get("why") in BATCH_REASONS for each in made)
    since = before.report.get("calls", -MIN_TOLD_CALLS) if before is not None else -MIN_TOLD_CALLS
    if are_batches and made[0].report.get("calls", 0) - since < MIN_TOLD_CALLS:
        return False
    if any(each.trigger != "auto" or each.layer in ANNOUNCED_LAYERS for each in made):
        return True
    tokens = made[0].report["before"]
    freed = tokens - made[-1].report["after"]
    return bool(policy != "classic" and freed >= max(MIN_TOLD_TOKENS, MIN_SHARE_TOLD * tokens))


def compaction_notice(proposals: Sequence[Proposal | Compacted]) -> str:
    """Describe compactions in one line: the sizes, what was done, whether the model was asked."""
    if not proposals:
        return ""
    name = proposals[0].trigger
    before = proposals[0].report["before"]
    after = proposals[-1].report["after"]
    percent = round(100 * abs(before - after) / before) if before else 0
    percent = min(percent, 99) if 0 < after < before else percent  # what is left is not nothing
    share = f"{'+' if after > before else '-'}{percent}%"
    sizes = f"{_thousands(before)} -> {_thousands(after)}"
    if _thousands(before) == _thousands(after):
        sizes = f"{before:,} -> {after:,}"
    done = ", ".join(dict.fromkeys(map(_done_by, proposals)))
    because = proposals[0].report.get("because", "")
    if proposals[0].report.get("why") == COLD_RETURN:  # the reason comes first, as the line may be cut
        return f"[{name} compact] {sizes} tokens ({share}): {because}; undo with /uncompact"
    done += f" ({because})" if because else ""
    asked = "" if any(each.layer in ("summary", "drop") for each in proposals) else " without a model call"
    if "failure" in proposals[-1].report:
        asked = " after the model's summary failed"
    cost = _notable_cost(proposals)
    return f"[{name} compact] {sizes} tokens ({share}): {done}{asked}{cost}; undo with /uncompact"


def _done_by(made: Proposal | Compacted) -> str:
    """Describe the effect of one compaction, with the block that the user dropped."""
    report = made.report
    edits = made.report.get("edits", {})
    if made.layer in ("reactive", "ledger") and "folds" not in edits:
        done = [words for what, words in _SHORTENED.items() if what in edits]
        return " and ".join(done) or _DONE_BY_LAYER[made.layer]
    if dropped := report.get("dropped"):
        return f"dropped {dropped}{f' as {made.id}' if isinstance(made, Compacted) else ''}"
    return _DONE_BY_LAYER.get(made.layer, made.layer)


def _notable_cost(proposals: Sequence[Proposal | Compacted]) -> str:
    """Describe the cost of the cache write, "" if it is small or due anyway."""
    dearest = max((_extra_cost(each.report) for each in proposals if not each.report["cold"]), default=0)
    return f", the next call costs ~${dearest:.2f} more" if dearest >= MIN_TOLD_COST_USD else ""


def _extra_cost(report: Mapping[str, Any]) -> float:
    """Return the dollars of writing instead of reading; in reports of earlier versions, of writing."""
    return float(report.get("extra_cost_usd", report["predicted_cost_usd"]))


def _thousands(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k" if tokens >= 1_000 else str(tokens)


def rewrite_note(situation: Situation) -> str:
    """Describe the cache write of the next request after a change by the user.

    "" if the cost is small, or the cache has expired anyway.
    """
    folded = situation.folded
    if folded.last_request is None or situation.cache_is_cold or situation.prices.is_guess:
        return ""
    if not situation.prices.caching:
        return ""
    since = situation.now - situation.settings.cache_ttl_s
    cached = cached_messages(folded, folded, folded.last_seq + 1, since)
    written = min(situation.tokens, tokens_behind(folded, cached))
    dollars = situation.prices.dollars(written * situation.prices.write)
    if dollars < MIN_TOLD_COST_USD:
        return ""
    return f" (next request: {written:,} tokens of cache write, ~${dollars:.2f})"
