"""budget: results of one message that are too large together are stored on disk, largest first.

A preview stays in view. Only the newest message is looked at: the older ones were when they were the newest.
Tools that page by themselves are exempt: those that read files or recall, and those that the settings name.
"""

from operator import attrgetter, itemgetter

from compact.clearing import is_replaced, preview_edit
from compact.identifiers import block_texts
from compact.plan import File, Layer, Proposal, Situation
from compact.report import propose
from compact.settings import CompactSettings, ContextWindow
from compact.tokens import MIN_SLOPE
from transcripts.facts import Clear

EXEMPT_KINDS = frozenset({"reads", "searches", "recalls", "instructs"})
MAX_TOKEN_CHARS = 128  # of the longest token in cl100k


def _min_tokens(settings: CompactSettings, window: ContextWindow) -> int:
    """What results over either limit have at least, in the model's tokens."""
    by_characters = settings.budget_max_chars / MAX_TOKEN_CHARS * MIN_SLOPE
    return int(min(by_characters, settings.budget_max_share * window.size))


def _plan(situation: Situation) -> tuple[Proposal, ...]:
    settings, view = situation.settings, situation.view
    newest = view[-1].parts if view else ()
    results = [(sum(map(len, block_texts([part.block]))), part) for part in newest if part.use is not None]
    if not results:
        return ()
    characters, tokens = sum(size for size, _ in results), sum(part.tokens for _, part in results)
    max_tokens = situation.unscaled(int(settings.budget_max_share * situation.window.size))
    edits: list[Clear] = []
    files: list[File] = []
    for size, part in sorted(results, key=itemgetter(0), reverse=True):
        if characters <= settings.budget_max_chars and tokens <= max_tokens:
            break
        name = part.use.name if part.use is not None else ""
        exempt = name in settings.budget_exempt or situation.folded.kind_of(name) in EXEMPT_KINDS
        if exempt or is_replaced(part):
            continue
        edit, stored = preview_edit(situation, part, settings.budget_preview_chars)
        if edit is not None:
            edits.append(edit)
            files.extend(stored)
            characters -= size - len(edit.text)
            tokens -= edit.saves
    if not edits:
        return ()
    edits.sort(key=attrgetter("seq"))
    why = "results over the budget"
    return (propose(situation, "budget", "auto", tuple(edits), tuple(files), why=why),)


BUDGET_LAYER = Layer(_plan, _min_tokens, messages_only=True, lasting=True)
