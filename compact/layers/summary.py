"""summary: the model's account of the conversation takes the place of the old messages.

When it is asked for, what an answer comes to, and what happens without one. A failure leaves the history as
it is; only where the request could not be sent at all, or where summaries have failed too often, the ledger
and the user's messages take its place without a model. That is deterministic, and from any state it ends in a
request that can be sent: where folding is not enough the tail gets shorter, then the newest blocks are shrunk
to previews and to placeholders, unseen ones included, and at last everything is folded.
"""

from msgspec.structs import replace

from compact.clearing import head_and_tail
from compact.folding import Shrink, fold_before, fold_history, has_old_entries, shrink_to
from compact.hazards import cheapness
from compact.identifiers import joined_text
from compact.local_summary_text import coverage
from compact.replacement import local_summary_before, summary_in
from compact.report import fits, propose
from compact.settings import (
    BLOCKING_PERCENT,
    CompactSettings,
    ContextWindow,
)
from compact.shown_blocks import largest_blocks_sentence
from compact.situation import (
    CompactionPlan,
    File,
    Flow,
    FoldLimits,
    Layer,
    Proposal,
    Situation,
    Trigger,
    replacement_limit,
)
from compact.summary_prompt import SummaryFailed, request_summary
from compact.uncompact import exemptions, in_force
from transcripts import Edit, Fold, Folded, Reply, TextBlock, User

DUE_AFTER_CLEARING_SHARE = 0.9  # of the trigger: clearing that leaves more would only put the summary off
USUAL_SUMMARY_TOKENS = 1_500
ATTEMPTS = (
    FoldLimits("auto"),
    FoldLimits("auto", restoring=False),
    FoldLimits("auto", tail=0, restoring=False),
)
RIGHT_AFTER_CALLS = 5  # since the newest compaction
SHORT_TAIL_TOKENS = 2_000  # by our count
ALL_RECENT = "nothing to do: all of the conversation is recent, and that is kept word for word"
ALL_RECORD = "nothing to do: what is not recent is a record already"
TOO_LITTLE = "a summary would free less than a tenth, so nothing was done"
FREED_TOO_LITTLE = "the summary would have freed less than a tenth and was not used"


def _min_tokens(settings: CompactSettings, window: ContextWindow) -> int | None:
    """Return the least size for a summary; None with collapse on, when none is made unasked."""
    due = max(settings.trigger_in(window), settings.min_compact_in(window))
    return None if settings.collapse else int(_due_after_clearing(settings, due))


def _due_after_clearing(settings: CompactSettings, due: int) -> float:
    """The prompt size at which a summary is due although the clearing of this pass went before it."""
    return due if settings.policy == "classic" else DUE_AFTER_CLEARING_SHARE * due


def _plan(situation: Situation) -> Flow:
    """Planned without the clearing of this pass; the ledger is tried before the model is asked."""
    settings = situation.settings
    uncleared = situation.uncleared or situation
    due = max(situation.trigger_tokens, settings.min_compact_in(situation.window))
    if uncleared.tokens < due or situation.tokens < _due_after_clearing(settings, due):
        return CompactionPlan()
    exempt = exemptions(uncleared)
    if situation.vetoed or exempt.ranges or exempt.clears:  # a fold would take what is exempt with it
        return CompactionPlan()
    if _thrashing(uncleared.folded, settings):
        named = largest_blocks_sentence(uncleared.view, uncleared.slope)
        return _without_model(uncleared, "auto", f"summaries follow each other too closely. {named}")
    if _breaker_open(uncleared.folded, settings):
        failed = f"{settings.breaker_failures} summaries in a row failed"
        return _without_model(uncleared, "auto", f"{failed}; /compact asks again")
    # The reference pipeline that classic follows asks the model; its ledger is only part of the summary.
    if settings.policy == "thrifty" and (proposal := local_summary_first(uncleared, situation)) is not None:
        return CompactionPlan((proposal,))
    if settings.policy == "thrifty" and situation.window.size <= settings.ledger_only_max_window:
        proposal = fallback_summary(uncleared, "auto", "a summary costs more than it saves in a small window")
        if proposal is not None:
            least = settings.min_gain_share * situation.tokens
            frees = situation.tokens - proposal.report["after"] >= least
            return CompactionPlan((proposal,) if frees or not fits(situation) else ())
    return (yield from summarize(uncleared, "auto", uncleared.focus))


def _breaker_open(folded: Folded, settings: CompactSettings) -> bool:
    """Return whether so many summaries in a row have failed that none is asked for until the next
    `/compact`.
    """
    made = (each.seq for each in folded.compactions if each.layer == "summary" or each.trigger == "manual")
    last = max(made, default=0)
    failures = sum(1 for each in folded.failures if each.what == "summary" and each.seq > last)
    return failures >= settings.breaker_failures


def _thrashing(folded: Folded, settings: CompactSettings) -> bool:
    """Return whether summaries follow each other too closely for another to help, until the user's next
    message.
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
    """`/compact` and the compact tool: a summary, but for a conversation too short for one."""
    least = situation.settings.min_compact_in(situation.window)
    if situation.tokens < least:
        few = f"nothing to do: {situation.tokens:,} tokens are in the context"
        return CompactionPlan(note=f"{few}; a summary pays from {least:,} on ([compact] min_compact_size)")
    if not has_old_entries(situation, FoldLimits(trigger)) and not _has_to_shrink(situation, trigger):
        return CompactionPlan(note=ALL_RECENT)
    if not _has_to_shrink(situation, trigger) and (reason := _frees_too_little(situation, trigger)):
        return CompactionPlan(note=reason)
    if trigger == "tool" and (reason := _does_not_pay(situation)):
        return CompactionPlan(note=reason)
    return (yield from summarize(situation, trigger, focus))


def _frees_too_little(situation: Situation, trigger: Trigger) -> str:
    """Return the reason why no summary can free enough, "" if one may.

    A summary carries over the text of the earlier one.
    """
    proposal = _fold_with(situation, trigger, earlier_summary(situation))
    if proposal is None:
        return TOO_LITTLE
    fold = next(edit for edit in proposal.edits if isinstance(edit, Fold))
    earlier = situation.folded.edits.covering(fold.first)
    is_record = earlier is not None and fold.last <= earlier.last
    return ALL_RECORD if is_record and situation.tokens < situation.trigger_tokens else ""


def _does_not_pay(situation: Situation) -> str:
    """Return the reason why a compaction that the model requests right after another is not worth its price.

    Returns "" if it is worth it.
    """
    if situation.tokens >= situation.trigger_tokens or not _is_right_after_another(situation):
        return ""
    proposal = _fold_with(situation, "tool", dummy_summary(situation))
    if proposal is None:
        return ""
    calls = proposal.report["pays_back_calls"]
    freed = proposal.report["freed"]
    if calls <= situation.settings.batch_interval_calls * cheapness(situation.prices.read):
        return ""
    frees = f"a summary would free about {freed:,} of {situation.tokens:,} tokens"
    return f"{frees} and pay for itself only after {calls:,} calls, so nothing was done"


def _is_right_after_another(situation: Situation) -> bool:
    """Return whether there were few calls since the newest compaction, or little was added."""
    reports = [made.report for made in in_force(situation.folded) if "calls" in made.report]
    if not reports:
        return False
    calls = situation.folded.conversation.reply_count - int(reports[-1]["calls"])
    added = situation.tokens - int(reports[-1]["after"])
    return calls <= RIGHT_AFTER_CALLS or added < situation.settings.min_gain_share * situation.tokens


def _has_to_shrink(situation: Situation, trigger: Trigger) -> bool:
    """Return whether nothing can be sent otherwise: the prompt does not fit, or only `/compact` goes on."""
    blocked = situation.window.percent(situation.tokens) >= BLOCKING_PERCENT
    return not fits(situation) or (blocked and trigger == "manual")


def summarize(situation: Situation, trigger: Trigger, focus: str) -> Flow:
    """Ask for a summary, unless even an empty one would free too little, and propose the fold with it."""
    if _fold_with(situation, trigger, "") is None:
        planned = CompactionPlan(note=TOO_LITTLE)
        if _has_to_shrink(situation, trigger):
            planned = _without_model(situation, trigger, TOO_LITTLE)
        # Unasked that is nobody's trouble yet: only the server knows whether the request is too long.
        return CompactionPlan() if trigger == "auto" and not planned.proposals else planned
    reason = FREED_TOO_LITTLE
    try:
        summary = yield from request_summary(situation, focus)
        if (proposal := _fold_with(situation, trigger, summary)) is not None:
            return CompactionPlan((proposal,))
    except SummaryFailed as failed:
        reason = str(failed)
    failures = (("summary", reason),)
    if trigger != "reactive" and not _has_to_shrink(situation, trigger):
        return CompactionPlan((), failures=failures, note=f"the history is as it was: {reason}")
    return replace(_without_model(situation, trigger, reason), failures=failures)


def _without_model(situation: Situation, trigger: Trigger, why: str) -> CompactionPlan:
    if (proposal := fallback_summary(situation, trigger, why)) is not None:
        return CompactionPlan((proposal,), note=why)
    named = largest_blocks_sentence(situation.view, situation.slope)
    return CompactionPlan(note=f"{why}; nothing more can be left out. {named}")


def _fold_with(situation: Situation, trigger: Trigger, summary: str) -> Proposal | None:
    """The fold that shows a summary, cut as one of usual size needs it, or harder for a larger one."""
    best: Proposal | None = None
    for attempt in ATTEMPTS[_usual_attempt(situation, trigger) :]:
        proposal = _attempt(situation, attempt, trigger, summary)
        if proposal is not None and is_acceptable(situation, proposal):
            best = proposal
            if proposal.report["after"] <= target_tokens(situation):
                return proposal
    return best


def _usual_attempt(situation: Situation, trigger: Trigger) -> int:
    """Index of the attempt that a summary of usual size needs, so that a preview shows the real cut."""
    usual = dummy_summary(situation)
    for number, attempt in enumerate(ATTEMPTS):
        proposal = _attempt(situation, attempt, trigger, usual)
        if proposal is not None and proposal.report["after"] <= target_tokens(situation):
            return number
    return 0


def dummy_summary(situation: Situation) -> str:
    """Meaningless words, as many as a usual summary has, where the model is not asked."""
    return " ".join(["summary"] * min(USUAL_SUMMARY_TOKENS, max(1, situation.view.tokens // 10)))


def _attempt(situation: Situation, limits: FoldLimits, trigger: Trigger, summary: str) -> Proposal | None:
    """The fold that an attempt makes with this summary; the same one is made once in a moment."""
    known = situation.worked_out.attempts
    limits = replace(limits, trigger=trigger)
    key = (id(situation.folded), limits, summary)
    if key not in known:
        known[key] = (situation.folded, _make_attempt(situation, limits, summary))
    return known[key][1]


def _make_attempt(situation: Situation, limits: FoldLimits, summary: str) -> Proposal | None:
    folding = fold_history(situation, replace(limits, summary=summary))
    if folding is None:
        return None
    local_summary = local_summary_before(situation, len(situation.folded.entries) - len(folding.tail))
    return propose(
        situation,
        "summary",
        limits.trigger,
        (folding.fold,),
        why="summary",
        restored=folding.restored,
        summary_tokens=situation.counter.text(summary),
        coverage=coverage(local_summary, summary, joined_text(folding.fold.blocks)),
    )


def fallback_summary(situation: Situation, trigger: Trigger, why: str) -> Proposal | None:
    """The mildest folding that leaves a sendable request and frees enough, or None.

    What the model has not seen is only touched where the user or the API asked for room.
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
    """The fold over the whole conversation, unseen results included, where calls alone fill the window."""
    entries = situation.folded.entries
    limits = FoldLimits(trigger, summary=earlier_summary(situation), tail=0, restoring=False)
    if not entries:
        return None
    fold = fold_before(situation, limits, len(entries)).fold
    proposal = propose(situation, "ledger", trigger, (fold,), why=why, restored=[])
    return proposal if is_acceptable(situation, proposal) else None


def local_summary_first(situation: Situation, cleared: Situation) -> Proposal | None:
    """The ledger in place of history that was cleared already, if that makes a summary needless.

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
    """Return the most tokens that a compaction should leave: less than would make the next one due
    at once.
    """
    target = min(situation.trigger_tokens, situation.window.size)
    most = situation.settings.max_compact_size
    return min(target, most) if most else target


def is_acceptable(situation: Situation, proposal: Proposal) -> bool:
    """Return whether a proposal leaves a sendable request, and frees enough where that was not the point."""
    report = proposal.report
    least = situation.settings.min_gain_share * situation.tokens
    return report["after"] <= situation.window.size and (report["freed"] >= least or not fits(situation))


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
    """The summary of the newest fold that has one, cut to a third of what a record may take; "" for none."""
    for fold in reversed(situation.folded.edits.folds):
        for block in fold.blocks:
            if isinstance(block, TextBlock) and (text := summary_in(block.text)):
                size = situation.counter.text(text)
                room = replacement_limit(situation) // 3
                if size <= room:
                    return text
                return head_and_tail(text, len(text) * room // size, f"r{fold.first}-r{fold.last}")
    return ""


SUMMARY_LAYER = Layer(_plan, _min_tokens, replaces_history=True)
