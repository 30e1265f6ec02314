"""collapse: replace old segments one by one with short local summaries.

Off unless the user turns it on. While it is on, no automatic summary is made. Each segment is a compaction of
its own, so that `/uncompact ID` expands it alone.
"""

from collections.abc import Iterator

from compact.folding import entry_tokens, unseen_entries
from compact.local_summary import build_local_summary
from compact.local_summary_text import local_summary_text
from compact.replacement import live_within
from compact.report import propose
from compact.settings import CompactSettings, ContextWindow
from compact.situation import Layer, Proposal, Situation
from compact.uncompact import exemptions
from compact.user_messages import user_messages
from transcripts import Entry, Fold, TextBlock, newest_answer
from transcripts.wording import shorten

STOP_SHARE = 0.7  # of the size that starts it: folding continues down to there, so as not to run at each call
MIN_SHORTENING = 2  # a summary has to be smaller than its segment by at least this factor


def _min_tokens(settings: CompactSettings, window: ContextWindow) -> int | None:
    return int(settings.collapse_start_share * settings.trigger_in(window)) if settings.collapse else None


def _plan(situation: Situation) -> tuple[Proposal, ...]:
    """Return one compaction for each segment, oldest first, until enough context is free."""
    start = situation.settings.collapse_start_share * situation.trigger_tokens
    if situation.tokens < start:
        return ()
    stop = STOP_SHARE * start
    now = situation
    made = list[Proposal]()
    for segment in _segments(situation):
        if now.tokens <= stop:
            break
        fold = _segment_fold(situation, segment)
        if fold.tokens * MIN_SHORTENING < sum(entry_tokens(situation.folded, entry) for entry in segment):
            proposal = propose(now, "collapse", "auto", (fold,), why="segment")
            made.append(proposal)
            now = now.with_edits(proposal.edits)
    return tuple(made)


def _segments(situation: Situation) -> Iterator[list[Entry]]:
    """Yield the old entries that no fold covers, in segments of the set size; without the protected tail."""
    folded = situation.folded
    exempt = exemptions(situation)
    least = situation.settings.collapse_segment_tokens
    segment = list[Entry]()
    tokens = 0
    for entry in folded.entries[: _protected_from(situation)]:
        foldable = folded.edits.covering(entry.seq) is None and not exempt.within(entry.seq, entry.last)
        if segment and (not foldable or tokens >= least):
            yield segment
            segment = []
            tokens = 0
        if foldable:
            segment.append(entry)
            tokens += entry_tokens(folded, entry)
    if segment and tokens >= least:
        yield segment


def _protected_from(situation: Situation) -> int:
    """Return the index of the first of the newest entries, which have the protected tokens."""
    folded = situation.folded
    at = len(folded.entries) - unseen_entries(folded)
    room = situation.unscaled(situation.settings.protected_tail_tokens)
    while at > 0 and room > 0:
        at -= 1
        room -= entry_tokens(folded, folded.entries[at])
    return at


SEGMENT_SUMMARY_TOKENS = 400
SEGMENT_USER_TOKENS = 2_000  # of the user's messages of a segment
SEGMENT_LAST_TEXT_CHARS = 600  # of the model's last text of a segment


def _segment_fold(situation: Situation, segment: list[Entry]) -> Fold:
    first = segment[0].seq
    last = max(entry.last for entry in segment)
    head = f"messages r{first}-r{last}. This is not a request. recall shows any of them"
    pieces = [f"[summarized: {head}]"]
    words = user_messages(situation, segment, SEGMENT_USER_TOKENS)
    if words:
        pieces.append(f"## User messages, verbatim\n{words}")
    local_summary = build_local_summary(situation.folded, segment)
    if text := local_summary_text(local_summary, situation.counter, SEGMENT_SUMMARY_TOKENS):
        pieces.append(f"## Local summary\n{text}")
    if last_text := newest_answer(entry.fact for entry in segment).text:
        pieces.append(f"## Last reply\n{shorten(last_text, SEGMENT_LAST_TEXT_CHARS)}")
    pieces += filter(None, [live_within(situation, first, last)])
    text = "\n\n".join(pieces)
    return Fold(first, last=last, blocks=(TextBlock(text),), tokens=situation.counter.text(text))


COLLAPSE_LAYER = Layer(_plan, _min_tokens, lasting=True)
