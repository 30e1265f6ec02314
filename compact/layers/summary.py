"""summary: replace old messages with a summary that the model writes.

This module decides when the model is asked, what its answer becomes, and what happens without one. If the
server does not answer, the history stays unchanged, so that the model can be asked again. If the answer is no
summary, if the request could not be sent otherwise, or if summaries have failed too often, a local summary
replaces the messages. That is deterministic, and from any state it ends in a request that can be sent: if
summarizing is not enough, the tail gets shorter, then the newest blocks are shrunk to previews and to
placeholders, unseen ones included, and finally everything is summarized.
"""

from msgspec.structs import replace

from compact.folding import fold_before, fold_history, has_old_entries
from compact.hazards import cheapness
from compact.identifiers import joined_text
from compact.local_summary_text import coverage
from compact.prices import NEVER_PAYS_BACK
from compact.replacement import names_to_cover, summary_in
from compact.report import propose
from compact.settings import BLOCKING_PERCENT, CompactSettings, ContextWindow
from compact.shown_blocks import ShownBlock
from compact.shrinking import Shrink, shrink_to
from compact.situation import (
    BackgroundSummary,
    CompactionPlan,
    File,
    Flow,
    FoldLimits,
    Layer,
    Proposal,
    Situation,
    Trigger,
)
from compact.summary_prompt import (
    USUAL_SUMMARY_TOKENS,
    NoAnswer,
    SummaryFailed,
    SummaryPending,
    finished_summary,
    request_summary,
)
from compact.uncompact import exemptions, growth_since_compaction
from transcripts import Edit, Fold, Folded, Reply, TextBlock, User

DUE_AFTER_CLEARING_SHARE = 0.9  # of the trigger: clearing that leaves more would only delay the summary
ATTEMPTS = (
    FoldLimits("auto"),
    FoldLimits("auto", restoring=False),
    FoldLimits("auto", tail=0, restoring=False),
)
SHORT_TAIL_TOKENS = 2_000  # by our count
TOO_LITTLE = "not summarized: it would free less than 10 % of the context"
FREED_TOO_LITTLE = "the summary would have freed less than 10 % of the context and was not used"


def _min_tokens(settings: CompactSettings, window: ContextWindow) -> int | None:
    """Return the minimum prompt size for a summary, None with collapse on, which makes none automatically."""
    due = max(settings.trigger_in(window), settings.min_compact_in(window))
    return None if settings.collapse else int(_due_after_clearing(settings, due))


def _due_after_clearing(settings: CompactSettings, due: int) -> float:
    """Return the prompt size at which a summary is due even after the clearing of this pass."""
    return due if settings.policy == "classic" else DUE_AFTER_CLEARING_SHARE * due


NOT_IN_TIME = "the model summary was not finished in time"


def _plan(situation: Situation) -> Flow:
    """Plan a summary without the clearing of this pass; a local summary is tried before asking the model."""
    settings = situation.settings
    uncleared = situation.uncleared or situation
    due = max(situation.trigger_tokens, settings.min_compact_in(situation.window))
    if uncleared.tokens < due or situation.tokens < _due_after_clearing(settings, due):
        return CompactionPlan()
    exempt = exemptions(uncleared)
    if situation.vetoed or exempt.ranges or exempt.clears:  # a fold would take what is exempt with it
        return CompactionPlan()
    if _thrashing(uncleared.folded, settings):
        named = ShownBlock.largest_sentence(uncleared.folded)
        return _without_model(uncleared, "auto", f"summaries follow each other too closely. {named}")
    if _breaker_open(uncleared.folded, settings):
        failed = f"the last {settings.breaker_failures} model summaries failed"
        return _without_model(uncleared, "auto", f"{failed}. /compact asks the model again")
    # The reference pipeline that classic follows asks the model; there a local summary is only a part.
    if settings.policy == "thrifty" and (proposal := local_summary_first(uncleared, situation)) is not None:
        return CompactionPlan((proposal,))
    if settings.policy == "thrifty" and situation.window.size <= settings.ledger_only_max_window:
        proposal = fallback_summary(
            uncleared, "auto", "a model summary costs more than it saves in a small window"
        )
        if proposal is not None:
            least = settings.min_gain_share * situation.tokens
            frees = situation.tokens - proposal.report["after"] >= least
            return CompactionPlan((proposal,) if frees or not situation.fits else ())
    if situation.background is not None:
        return _without_model(uncleared, "auto", NOT_IN_TIME)
    return (yield from summarize(uncleared, "auto", uncleared.focus))


def finish_background(situation: Situation, background: BackgroundSummary) -> CompactionPlan:
    """Plan the fold that shows a summary that was written in the background, if it is complete and valid.

    Only what the summary covers is folded. The plan is pending as long as the summary is. The second answer
    that is no summary is replaced by a local one.
    """
    if background.reply is None:
        return CompactionPlan(pending=True)
    trigger = background.trigger
    failure = SummaryFailed(FREED_TOO_LITTLE)
    try:
        summary = finished_summary(background.reply, situation)
        if (proposal := _fold_with(situation, trigger, summary, background.until)) is not None:
            return CompactionPlan((proposal,))
    except SummaryFailed as failed:
        failure = failed
    if _failures_in_a_row(situation.folded) and not isinstance(failure, NoAnswer):
        return _after_failure(situation, trigger, failure)
    return _unchanged(failure)


def _breaker_open(folded: Folded, settings: CompactSettings) -> bool:
    """Return whether too many summaries failed to request another one before the next `/compact`."""
    return _failures_in_a_row(folded) >= settings.breaker_failures


def _failures_in_a_row(folded: Folded) -> int:
    """Return how many summaries failed since the newest one, or since the newest `/compact`."""
    made = (each.seq for each in folded.compactions if each.layer == "summary" or each.trigger == "manual")
    last = max(made, default=0)
    return sum(1 for each in folded.failures if each.what == "summary" and each.seq > last)


def _thrashing(folded: Folded, settings: CompactSettings) -> bool:
    """Return whether summaries follow each other too closely for another one to help.

    A new message of the user ends this state.
    """
    summaries = [made.seq for made in folded.compactions if made.layer == "summary"]
    if len(summaries) < settings.thrash_summaries:
        return False
    first = summaries[-settings.thrash_summaries]
    last = summaries[-1]
    calls = 0
    for fact in reversed(folded.facts):
        if isinstance(fact, User) and fact.source == "user" and fact.seq > last:
            return False
        if fact.seq <= first:
            break
        calls += isinstance(fact, Reply) and fact.seq <= last
    return calls <= settings.thrash_window_calls


def summarize_on_request(situation: Situation, trigger: Trigger, focus: str) -> Flow:
    """Plan the summary that `/compact` or the compact tool requests; none for a short conversation."""
    least = situation.settings.min_compact_in(situation.window)
    if situation.tokens < least:
        few = f"not summarized: the context has only {situation.tokens:,} tokens"
        return CompactionPlan(note=f"{few} (minimum {least:,}, setting [compact] min_compact_size)")
    if not has_old_entries(situation, FoldLimits(trigger)) and not _has_to_shrink(situation, trigger):
        return CompactionPlan(
            note="nothing to summarize: the whole conversation is recent and is kept verbatim"
        )
    if not _has_to_shrink(situation, trigger) and (reason := _frees_too_little(situation, trigger)):
        return CompactionPlan(note=reason)
    if trigger == "tool" and (reason := _does_not_pay(situation)):
        return CompactionPlan(note=reason)
    return (yield from summarize(situation, trigger, focus))


ALL_SUMMARIZED = "nothing to summarize: all older messages are already summarized"


def _frees_too_little(situation: Situation, trigger: Trigger) -> str:
    """Return the reason why no summary can free enough, "" if one may.

    A summary includes the text of the earlier one.
    """
    proposal = _fold_with(situation, trigger, earlier_summary(situation))
    if proposal is None:
        return TOO_LITTLE
    fold = next(edit for edit in proposal.edits if isinstance(edit, Fold))
    earlier = situation.folded.edits.covering(fold.first)
    is_summary = earlier is not None and fold.last <= earlier.last
    return ALL_SUMMARIZED if is_summary and situation.tokens < situation.trigger_tokens else ""


def _does_not_pay(situation: Situation) -> str:
    """Return the reason why a compaction by the model right after another does not pay, "" if it does."""
    if situation.tokens >= situation.trigger_tokens or not _is_right_after_another(situation):
        return ""
    proposal = _fold_with(situation, "tool", dummy_summary(situation))
    if proposal is None:
        return ""
    calls = proposal.report["pays_back_calls"]
    freed = proposal.report["freed"]
    if calls <= situation.settings.batch_interval_calls * cheapness(situation.prices.read):
        return ""
    frees = f"it would free about {freed:,} of {situation.tokens:,} tokens"
    never = calls >= NEVER_PAYS_BACK
    pays = "not pay for itself" if never else f"pay for itself only after {calls:,} calls"
    return f"not summarized: {frees} and {pays}"


RIGHT_AFTER_CALLS = 5  # since the newest compaction


def _is_right_after_another(situation: Situation) -> bool:
    """Return whether few calls were made, or few tokens added, since the newest compaction."""
    growth = growth_since_compaction(situation)
    if growth is None:
        return False
    is_small = growth.tokens < situation.settings.min_gain_share * situation.tokens
    return is_small or growth.calls <= RIGHT_AFTER_CALLS


def _has_to_shrink(situation: Situation, trigger: Trigger) -> bool:
    """Return whether nothing can be sent otherwise: the prompt does not fit, or is blocked."""
    blocked = situation.window.percent(situation.tokens) >= BLOCKING_PERCENT
    return not situation.fits or (blocked and trigger == "manual")


def summarize(situation: Situation, trigger: Trigger, focus: str) -> Flow:
    """Ask for a summary, unless even an empty one would free too little, and propose the fold with it."""
    if _fold_with(situation, trigger, "") is None:
        planned = CompactionPlan(note=TOO_LITTLE)
        if _has_to_shrink(situation, trigger):
            planned = _without_model(situation, trigger, TOO_LITTLE)
        # An automatic attempt says nothing yet: only the server knows whether the request is too long.
        return CompactionPlan() if trigger == "auto" and not planned.proposals else planned
    if not situation.settings.waits_for_summary(trigger):
        if not situation.can_wait:
            return _without_model(situation, trigger, "the context is too full to wait for a model summary")
        if trigger == "auto" and situation.cache_is_cold:
            # The request and the one for the summary would both write the whole history to the cache.
            return CompactionPlan()
    failure = SummaryFailed(FREED_TOO_LITTLE)
    try:
        summary = yield from request_summary(situation, focus)
        if (proposal := _fold_with(situation, trigger, summary)) is not None:
            return CompactionPlan((proposal,))
    except SummaryPending:
        return CompactionPlan(pending=True)
    except SummaryFailed as failed:
        failure = failed
    if isinstance(failure, NoAnswer) and trigger != "reactive" and not _has_to_shrink(situation, trigger):
        return _unchanged(failure)
    return _after_failure(situation, trigger, failure)


def _unchanged(failure: SummaryFailed) -> CompactionPlan:
    return CompactionPlan(
        failures=(("summary", str(failure)),), note=f"the conversation is unchanged: {failure}"
    )


def _after_failure(situation: Situation, trigger: Trigger, failure: SummaryFailed) -> CompactionPlan:
    """Return the local summary that takes the place of the model's, with the reason in its report."""
    planned = _without_model(situation, trigger, f"the model's summary failed: {failure}")
    if not planned.proposals and trigger != "reactive" and not _has_to_shrink(situation, trigger):
        return _unchanged(failure)
    proposals = tuple(
        replace(each, report={**each.report, "failure": str(failure)}) for each in planned.proposals
    )
    return replace(planned, proposals=proposals, failures=(("summary", str(failure)),))


def _without_model(situation: Situation, trigger: Trigger, why: str) -> CompactionPlan:
    if (proposal := fallback_summary(situation, trigger, why)) is not None:
        return CompactionPlan((proposal,), note=why)
    named = ShownBlock.largest_sentence(situation.folded)
    return CompactionPlan(note=f"{why}. Nothing more can be cleared. {named}")


def _fold_with(
    situation: Situation, trigger: Trigger, summary: str, until: int | None = None
) -> Proposal | None:
    """Return the fold that shows a summary of the facts up to `until`, of all facts without it.

    A summary larger than usual gets a shorter tail.
    """
    best: Proposal | None = None
    for attempt in ATTEMPTS[_usual_attempt(situation, trigger) :]:
        proposal = _attempt(situation, replace(attempt, until=until), trigger, summary)
        if proposal is not None and is_acceptable(situation, proposal):
            best = proposal
            if proposal.report["after"] <= target_tokens(situation):
                return proposal
    return best


def _usual_attempt(situation: Situation, trigger: Trigger) -> int:
    """Return the index of the attempt that a usual summary needs, so that a preview shows the real cut."""
    usual = dummy_summary(situation)
    for number, attempt in enumerate(ATTEMPTS):
        proposal = _attempt(situation, attempt, trigger, usual)
        if proposal is not None and proposal.report["after"] <= target_tokens(situation):
            return number
    return 0


def dummy_summary(situation: Situation) -> str:
    """Return as many meaningless words as a usual summary has, for plans that do not ask the model."""
    return " ".join(["summary"] * min(USUAL_SUMMARY_TOKENS, max(1, situation.view.tokens // 10)))


def _attempt(situation: Situation, limits: FoldLimits, trigger: Trigger, summary: str) -> Proposal | None:
    """Return the fold that an attempt makes with this summary; computed once per moment."""
    attempts = situation.worked_out.attempts
    limits = replace(limits, trigger=trigger)
    key = (id(situation.folded), limits, summary)
    if key not in attempts:
        attempts[key] = (situation.folded, _make_attempt(situation, limits, summary))
    return attempts[key][1]


def _make_attempt(situation: Situation, limits: FoldLimits, summary: str) -> Proposal | None:
    folding = fold_history(situation, replace(limits, summary=summary))
    if folding is None:
        return None
    names = names_to_cover(situation, len(situation.folded.entries) - len(folding.tail))
    return propose(
        situation,
        "summary",
        limits.trigger,
        (folding.fold,),
        why="summary",
        restored=folding.restored,
        summary_tokens=situation.counter.text(summary),
        coverage=coverage(names, summary, joined_text(folding.fold.blocks)),
    )


def fallback_summary(situation: Situation, trigger: Trigger, why: str) -> Proposal | None:
    """Return the mildest local summary that leaves a sendable request and frees enough, or None.

    Blocks that the model has not seen are only changed where the user or the API demands free context.
    """
    usual = FoldLimits(trigger, earlier_summary(situation))
    bare = replace(usual, restoring=False)
    short = replace(bare, tail=SHORT_TAIL_TOKENS)
    mild = [(limits, Shrink.SEEN) for limits in (usual, bare, short)]
    harsh = [(short, how) for how in (Shrink.PREVIEWS, Shrink.PLACEHOLDERS)]
    for limits, how in mild if trigger == "auto" else mild + harsh:
        proposal = _attempt_without_model(situation, limits, how, why)
        if proposal is not None and is_acceptable(situation, proposal):
            return proposal
    return None if trigger == "auto" else fold_everything(situation, trigger, why)


def fold_everything(situation: Situation, trigger: Trigger, why: str) -> Proposal | None:
    """Return the fold over the whole conversation, unseen results included; for a window full of calls."""
    entries = situation.folded.entries
    limits = FoldLimits(trigger, summary=earlier_summary(situation), tail=0, restoring=False)
    if not entries:
        return None
    fold = fold_before(situation, limits, len(entries)).fold
    proposal = propose(situation, "ledger", trigger, (fold,), why=why, restored=[])
    return proposal if is_acceptable(situation, proposal) else None


def local_summary_first(situation: Situation, cleared: Situation) -> Proposal | None:
    """Return a local summary of history that was cleared already, if no model summary is needed then.

    `cleared` is the situation with the clearing planned in this pass.
    """
    seqs = [seq for seq, _ in cleared.folded.edits.clears if seq <= cleared.folded.last_reply_seq]
    if not seqs:
        return None
    entries = situation.folded.entries
    at = sum(1 for entry in entries if entry.seq <= max(seqs))
    if not 0 < at < len(entries):
        return None
    folding = fold_before(situation, FoldLimits("auto", earlier_summary(situation)), at)
    edits = (folding.fold,)
    why = "ledger first"
    proposal = propose(situation, "ledger", "auto", edits, why=why, restored=folding.restored)
    most = situation.settings.ledger_first_max_share * situation.trigger_tokens
    return proposal if is_acceptable(situation, proposal) and proposal.report["after"] <= most else None


def target_tokens(situation: Situation) -> int:
    """Return the most tokens that a compaction should leave, so that the next one is not due at once."""
    target = min(situation.trigger_tokens, situation.window.size)
    most = situation.settings.max_compact_size
    return min(target, most) if most else target


def is_acceptable(situation: Situation, proposal: Proposal) -> bool:
    """Return whether a proposal leaves a sendable request, and frees enough if the request fitted before."""
    report = proposal.report
    least = situation.settings.min_gain_share * situation.tokens
    return report["after"] <= situation.window.size and (report["freed"] >= least or not situation.fits)


def _attempt_without_model(
    situation: Situation, limits: FoldLimits, how: Shrink, why: str
) -> Proposal | None:
    folding = fold_history(situation, limits)
    edits: tuple[Edit, ...] = () if folding is None else (folding.fold,)
    files: tuple[File, ...] = ()
    now = situation.with_edits(edits)
    target = target_tokens(situation)
    if now.tokens > target:
        first = folding.tail[0].seq if folding is not None and folding.tail else 0
        shrunk, files = shrink_to(now, first, target, how)
        edits += shrunk
    if not edits:
        return None
    restored = [] if folding is None else folding.restored
    proposal = propose(situation, "ledger", limits.trigger, edits, files, why=why, restored=restored)
    too_much = proposal.report["after"] > target
    return None if too_much and how is Shrink.SEEN and limits.trigger != "auto" else proposal


def earlier_summary(situation: Situation) -> str:
    """Return the newest model summary in force; "" for none."""
    texts = (
        block.text
        for fold in reversed(situation.folded.edits.folds)
        for block in fold.blocks
        if isinstance(block, TextBlock)
    )
    return next(filter(None, map(summary_in, texts)), "")


SUMMARY_LAYER = Layer(_plan, _min_tokens, replaces_history=True)
