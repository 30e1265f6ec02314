"""Folding old history away: where to cut, and the fold that takes its place, with or without a summary.

The deterministic floor is this with no summary: it needs no model, works from any state, and always leaves
a request that can be sent.
"""

from __future__ import annotations

from transcripts.entries import Exchange, Prompt
from transcripts.facts import Clear, Edit, Fold
from transcripts.messages import Text
from transcripts.view import Kind

from .budget import preview
from .clearing import clear_pasted, clear_result
from .keeping import keep, keep_cap, restored
from .plan import Situation, Trigger


def cut(situation: Situation, tail_tokens: int, leave: int = 1) -> int | None:
    """seq of the first fact that stays: the tail holds at most `tail_tokens`, and the last `leave` entries.

    None where nothing would be folded.
    """
    folded = situation.folded
    view, entries = folded.view, folded.entries
    if len(entries) <= leave:
        return None
    first = len(entries) - leave
    while first > 1:
        at = view.index_of(entries[first - 1].seq)
        if view.tokens - view.tokens_before(at) > tail_tokens:
            break
        first -= 1
    return entries[first].seq if first > 0 else None


def must_stay(situation: Situation) -> int:
    """How many entries at the end cannot be folded: the newest exchange whose results are unseen, and open prompts."""
    folded = situation.folded
    last = folded.entries[-1] if folded.entries else None
    if isinstance(last, Exchange) and last.uses:
        return 1
    count = 0
    for entry in reversed(folded.entries):
        if not isinstance(entry, Prompt) or entry.seq <= folded.seen:
            break
        count += 1
    return count


def fold_before(
    situation: Situation, stays: int, trigger: Trigger, summary: str = "", restore: bool = True
) -> Fold | None:
    """The fold over everything before fact `stays`; None where there is nothing."""
    folded = situation.folded
    inside = [entry for entry in folded.entries if entry.seq < stays]
    if not inside:
        return None
    first, last = inside[0].seq, max(entry.last for entry in inside)
    going_on = trigger != "manual" and _open_request_inside(situation, stays)
    text = keep(situation, (first, last), summary, going_on, keep_cap(situation))
    blocks = [Text(text)]
    tokens = situation.count.text(text)
    if restore:
        tail = _tail_paths(situation, stays)
        files, size = restored(situation, last, tail)
        if files:
            blocks.append(Text(files))
            tokens += size
    return Fold(first, last, tuple(blocks), tokens)


def _open_request_inside(situation: Situation, stays: int) -> bool:
    """Whether the newest prompt is folded while its turn still goes on."""
    for entry in reversed(situation.folded.entries):
        if isinstance(entry, Prompt):
            return entry.seq < stays
    return False


def _tail_paths(situation: Situation, stays: int) -> str:
    folded = situation.folded
    inputs = [
        str(use.input)
        for e in folded.entries
        if isinstance(e, Exchange) and e.seq >= stays
        for use in e.uses.values()
    ]
    return "\n".join(inputs)


def shrink(
    situation: Situation, first: int, room: int, unseen: bool
) -> tuple[tuple[Edit, ...], list[tuple[str, str]]]:
    """Edits that bring what is shown from fact `first` on under `room` tokens, largest blocks first.

    Results become placeholders, unseen ones (where allowed) previews; then pasted blocks of the user.
    """
    view, seen = situation.folded.view, situation.folded.seen
    at = view.index_of(first)
    parts = [part for message in view[at:] for part in message.parts if part.seq >= first]
    total = sum(part.tokens for part in parts)
    edits: list[Edit] = []
    files: list[tuple[str, str]] = []
    for part in sorted(parts, key=lambda part: -part.tokens):
        if total <= room:
            break
        edit: Clear | None = None
        if part.kind is Kind.RESULT and part.seq <= seen:
            edit = clear_result(part, 0)
        elif part.kind is Kind.RESULT and unseen and part.tokens > 700:
            edit, name, text = preview(situation, part)
            files.append((name, text))
        elif part.kind is Kind.USER and unseen:
            edit = clear_pasted(part) if part.tokens > 2_000 else None
        if edit is not None and edit.saves > 0:
            edits.append(edit)
            total -= edit.saves
    return tuple(edits), files
