"""budget: store results of one message that are too large together on disk, largest first.

A preview stays in view. Only the newest message is checked, since older ones were checked when they were the
newest. Tools that page by themselves (those that read files or recall) and those that the settings name are
exempt as long as their results fit in the window; what does not fit is better cut here than refused.
"""

import sys
from operator import attrgetter

from compact.clearing import is_paging, is_replaced, preview_edit
from compact.estimate import MIN_SLOPE
from compact.identifiers import block_texts
from compact.report import propose
from compact.settings import CompactSettings, ContextWindow
from compact.situation import File, Layer, Proposal, Situation
from transcripts import Clear, Part

MAX_TOKEN_CHARS = 128  # of the longest token in cl100k
MAX_EXEMPT_SHARE = 0.75  # of what system, tools and the largest reply leave of the window, for exempt results


def _min_tokens(settings: CompactSettings, window: ContextWindow) -> int:
    """Return the least size of results over either limit, in the model's tokens."""
    by_characters = settings.budget_max_chars / MAX_TOKEN_CHARS * MIN_SLOPE
    return int(min(by_characters, settings.budget_max_share * window.size))


def _plan(situation: Situation) -> tuple[Proposal, ...]:
    settings = situation.settings
    view = situation.view
    results = [part for part in (view[-1].parts if view else ()) if part.use is not None]
    if not results:
        return ()
    sizes = {part.seq: sum(map(len, block_texts([part.block]))) for part in results}
    characters = sum(sizes.values())
    tokens = sum(part.tokens for part in results)
    max_tokens = situation.unscaled(int(settings.budget_max_share * situation.window.size))
    results.sort(key=lambda part: -sizes[part.seq])
    exempt = [part for part in results if _is_exempt(situation, part)]
    others = [part for part in results if part not in exempt]
    edits: list[Clear] = []
    files: list[File] = []
    for parts, most_characters, most_tokens in (
        (others, settings.budget_max_chars, max_tokens),
        (exempt, sys.maxsize, max(max_tokens, _exempt_tokens(situation))),
    ):
        for part in parts:
            if characters <= most_characters and tokens <= most_tokens:
                break
            if is_replaced(part) or _kind(situation, part) == "instructs":
                continue
            edit, stored = preview_edit(situation, part, settings.budget_preview_chars)
            if edit is not None:
                edits.append(edit)
                files.extend(stored)
                characters -= sizes[part.seq] - len(edit.text)
                tokens -= edit.saves
    if not edits:
        return ()
    edits.sort(key=attrgetter("seq"))
    why = "results over the budget"
    return (propose(situation, "budget", "auto", tuple(edits), tuple(files), why=why),)


def _kind(situation: Situation, part: Part) -> str:
    return situation.folded.kind_of(part.use.name) if part.use is not None else ""


def _is_exempt(situation: Situation, part: Part) -> bool:
    named = part.use is not None and part.use.name in situation.settings.budget_exempt
    return named or is_paging(situation.folded, part) or _kind(situation, part) == "instructs"


def _exempt_tokens(situation: Situation) -> int:
    """Return the tokens that exempt results may take together, by our count."""
    room = situation.window.size - situation.window.max_output - situation.scaled(situation.overhead)
    return situation.unscaled(int(MAX_EXEMPT_SHARE * room))


BUDGET_LAYER = Layer(_plan, _min_tokens, messages_only=True, lasting=True)
