"""budget: results of one message that together are too large go to disk, largest first; a preview stays.

Runs before everything, at every call, on the newest message alone: micro would clear what budget has to
save, and older messages were looked at when they were the newest. A tool that pages by itself is exempt.
"""

from __future__ import annotations

from compact.clearing import made, shown_by_us, text_of
from compact.invariants import fact_at
from compact.placeholders import recall_id
from compact.plan import Proposal, Situation
from compact.report import propose
from transcripts.facts import Clear, Result
from transcripts.messages import TextBlock, ToolResultBlock
from transcripts.view import Part

Saved = tuple[tuple[Clear, ...], tuple[tuple[str, str], ...]]  # edits, and the files (name, text) they name


def plan_budget(situation: Situation) -> tuple[Proposal, ...]:
    """Previews of the largest results of the newest message, until all of them are within the limits."""
    view = situation.folded.view
    if not len(view) or view[-1].role != "user":
        return ()
    parts = [part for part in view[-1].parts if isinstance(part.block, ToolResultBlock)]
    edits, files = _within(situation, parts)
    if not edits:
        return ()
    return (propose(situation, "budget", "auto", edits, files=files, why="results over the budget"),)


def _within(situation: Situation, parts: list[Part]) -> Saved:
    settings = situation.settings
    share = situation.unscaled(int(settings.budget_share * situation.window.size))
    characters = sum(_characters(part) for part in parts)
    tokens = sum(part.tokens for part in parts)
    edits: list[Clear] = []
    files: list[tuple[str, str]] = []
    for part in sorted(parts, key=_characters, reverse=True):
        if characters <= settings.budget_chars and tokens <= share:
            break
        if (part.use is not None and part.use.name in settings.budget_exempt) or shown_by_us(part):
            continue
        edit, stored = preview(situation, part, settings.budget_preview)
        if edit is not None:
            edits.append(edit)
            files.extend(stored)
            characters -= _characters(part) - len(edit.text)
            tokens -= edit.saves
    return tuple(sorted(edits, key=lambda edit: edit.seq)), tuple(files)


def preview(
    situation: Situation, part: Part, characters: int
) -> tuple[Clear | None, tuple[tuple[str, str], ...]]:
    """The edit that shows the beginning of a result, and the file that keeps all of it.

    An output that is stored already is named where it is. None where a preview would not be shorter.
    """
    fact = fact_at(situation.folded, part.seq)
    if not isinstance(fact, Result):
        return None, ()
    text = text_of(ToolResultBlock("", fact.content))
    path = fact.stored.path if fact.stored else f"{situation.outputs}r{part.seq}.txt"
    shown = _marker(path, text, part, characters)
    edit = made(part, "content", shown, sum(fact.tokens), situation.count)
    stored = () if fact.stored or edit is None else ((path.rpartition("/")[2], text),)
    return edit, stored


def _marker(path: str, text: str, part: Part, characters: int) -> str:
    ident = recall_id(part)
    return (
        f'<persisted-output path="{path}" characters="{len(text)}" recall="{ident}">\n'
        f"Preview (the first {min(characters, len(text)):,} of {len(text):,} characters; "
        f"recall {ident} pages through all of it):\n{text[:characters]}\n</persisted-output>"
    )


def _characters(part: Part) -> int:
    block = part.block
    if not isinstance(block, ToolResultBlock):
        return 0
    return sum(len(piece.text) for piece in block.content if isinstance(piece, TextBlock))
