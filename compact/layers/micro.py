"""micro: old results become one line that names the tool and the recall id.

classic counts: of the results that the model has seen, all but the newest few are cleared, at every call.
thrifty clears in batches, long tool inputs too, when compact/policy.py finds that a batch is due.
"""

from compact.clearing import is_one_line, placeholder_edit, shown_text
from compact.plan import Layer, Proposal, Situation
from compact.policy import choose_batch, min_batch_tokens
from compact.report import propose
from compact.settings import CompactSettings, ContextWindow
from compact.uncompact import exemptions
from transcripts.facts import Clear


def _min_tokens(settings: CompactSettings, window: ContextWindow) -> int:
    return 0 if settings.policy == "classic" else min_batch_tokens(settings, window)


def _plan(situation: Situation) -> tuple[Proposal, ...]:
    if situation.settings.policy == "classic":
        edits, why = _all_but_newest(situation), "count"
    else:
        edits, why = choose_batch(situation) or ((), "")
    return (propose(situation, "micro", "auto", edits, why=why),) if edits else ()


def _all_but_newest(situation: Situation) -> tuple[Clear, ...]:
    """Clears of whatever shows more than a line; a preview counts as the result that it shows."""
    folded, settings, exempt = situation.folded, situation.settings, exemptions(situation)
    parts = (part for message in situation.view for part in message.parts)
    seen = [part for part in parts if part.use is not None and part.seq <= folded.last_reply_seq]
    edits: list[Clear | None] = []
    for part in seen[: max(0, len(seen) - settings.micro_keep_results)]:
        text, least = shown_text(part.block), settings.micro_min_chars
        is_long = len(text) > least or part.tokens > least
        if is_long and not is_one_line(text) and not exempt.holds(part.seq, part.index, "content"):
            edits.append(placeholder_edit(folded, part, "content", situation.counter))
    return tuple(edit for edit in edits if edit is not None)


MICRO_LAYER = Layer(_plan, _min_tokens, messages_only=True)
