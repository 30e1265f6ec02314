"""Folding old history away: where to cut, and the fold that takes its place, with or without a summary.

A cut stands between exchanges, never within an older fold. The newest exchange stays, since its results may
not have been seen; where even that is too much for the window, it is shrunk to previews.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compact.layers.budget import preview
from transcripts.entries import Entry, Exchange, Prompt
from transcripts.facts import Clear, Fold
from transcripts.fold import Folded
from transcripts.messages import Block, TextBlock, ToolUseBlock
from transcripts.view import Part, PartKind

from .clearing import clear, clear_pasted, shown_by_us, text_of
from .identifiers import strings
from .plan import Situation, Trigger
from .restored_files import RestoredFiles, select_restored
from .summary_record import FoldSpan, keep, keep_cap

LEAST_TAIL = 1_500  # tokens of the newest exchanges that stay whatever the record takes
SMALL = 300  # tokens below which a block is not worth shrinking
PREVIEWS = (2_000, 400)  # characters of a preview: at first, and where that is too much


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """A fold, the entries that it leaves, and the files that it restores."""

    fold: Fold
    tail: tuple[Entry, ...]
    restored: RestoredFiles


@dataclass(frozen=True, slots=True)
class FoldLimits:
    """How to fold: `tail` tokens (our count) stay at most; whether files are restored."""

    trigger: Trigger
    summary: str = ""
    tail: int | None = None
    restoring: bool = True


def fold_old(situation: Situation, terms: FoldLimits) -> FoldPlan | None:
    """The fold over all but the newest exchanges; None where there is nothing to fold.

    Record (but for the summary) and tail together keep within the cap, the words of the person before the
    tail. The newest `keep_recent_messages` may take all of that room, older ones no more than `tail_tokens`.
    Where the cut is does not depend on the summary, so that a preview can tell.
    """
    settings = situation.settings
    most = situation.unscaled(settings.tail_tokens) if terms.tail is None else terms.tail
    cap = keep_cap(situation)
    at = _cut(situation, min(most, cap // 2))
    if at == 0:
        return None
    record = situation.count.text(keep(situation, _span(situation, terms, at), "", cap))
    room = max(min(LEAST_TAIL, most), cap - record)
    at = _cut(situation, min(most, room)) or at
    if terms.tail is None:
        at = min(at, max(1, _newest(situation), _cut(situation, room)))
    return fold_at(situation, terms, at)


def fold_at(situation: Situation, terms: FoldLimits, at: int) -> FoldPlan:
    """The fold over the first `at` entries."""
    tail = tuple(situation.folded.entries[at:])
    span = _span(situation, terms, at)
    restored = select_restored(situation, span.last, tail) if terms.restoring else RestoredFiles()
    beside = "\n".join((restored.text, _shown_from(situation, tail[0].seq) if tail else ""))
    blocks: list[Block] = [TextBlock(keep(situation, span, terms.summary, keep_cap(situation), beside))]
    if restored.text:
        blocks.append(TextBlock(restored.text))
    last = min(span.last, tail[0].seq - 1) if tail else span.last
    tokens = sum(situation.count.blocks(tuple(blocks)))
    return FoldPlan(Fold(span.first, last, tuple(blocks), tokens), tail, restored)


def _shown_from(situation: Situation, seq: int) -> str:
    """Everything that the model is shown from fact `seq` on, as one text."""
    view = situation.folded.view
    parts = (part for message in view[view.index_of(seq) :] for part in message.parts if part.seq >= seq)
    return "\n".join(_words(part.block) for part in parts)


def _words(block: Block) -> str:
    return "\n".join(strings(block.input)) if isinstance(block, ToolUseBlock) else text_of(block)


def _span(situation: Situation, terms: FoldLimits, at: int) -> FoldSpan:
    entries = situation.folded.entries
    return FoldSpan(tuple(entries[:at]), going_on(situation, terms.trigger, entries[at:]))


def going_on(situation: Situation, trigger: Trigger, tail: Iterable[Entry]) -> bool:
    """Whether the newest request is folded while its turn still goes on."""
    if trigger == "manual" or any(
        isinstance(entry, Prompt) and entry.fact.source == "user" for entry in tail
    ):
        return False
    return any(isinstance(entry, Prompt) for entry in situation.folded.entries)


def _cut(situation: Situation, tokens: int) -> int:
    """Index of the first entry that stays: the newest entries that hold `tokens`, never less than must."""
    folded = situation.folded
    entries = folded.entries
    at = len(entries) - must_stay(folded)
    room = tokens - sum(size_of(folded, entry) for entry in entries[at:])
    while at > 0 and room > 0:
        room -= size_of(folded, entries[at - 1])
        if room >= 0:
            at -= 1
    return _outside(folded, at)


def _newest(situation: Situation) -> int:
    """Index of the first of the entries that are the newest `keep_recent_messages` messages."""
    entries, left = situation.folded.entries, situation.settings.keep_recent_messages
    at = len(entries)
    while at > 0 and left > 0:
        at -= 1
        left -= messages_of(entries[at])
    return _outside(situation.folded, at)


def messages_of(entry: Entry) -> int:
    """How many messages an entry is: a reply with its results is two."""
    if isinstance(entry, Prompt):
        return 1
    return 0 if entry.superseded else 2 if entry.uses else 1


def _outside(folded: Folded, at: int) -> int:
    """The cut moved behind the fold that it would part."""
    entries = folded.entries
    if at < len(entries) and (fold := folded.edits.covering(entries[at].seq)) is not None:
        while at < len(entries) and entries[at].seq <= fold.last:
            at += 1
    return at


def must_stay(folded: Folded) -> int:
    """How many entries at the end cannot be folded: those that hold anything the model has not seen yet."""
    count = 0
    for entry in reversed(folded.entries):
        if entry.last <= folded.last_reply_seq and not (isinstance(entry, Exchange) and entry.open):
            break
        count += 1
    return count


def size_of(folded: Folded, entry: Entry) -> int:
    """Tokens that an entry takes in the view, by our count, folds aside."""
    if isinstance(entry, Prompt):
        return sum(entry.fact.tokens) - _saved(folded, entry.seq, len(entry.fact.blocks))
    size = sum(entry.fact.tokens) - _saved(folded, entry.seq, len(entry.fact.blocks))
    return size + sum(sum(r.tokens) - _saved(folded, r.seq, 1) for r in entry.results.values())


def _saved(folded: Folded, seq: int, blocks: int) -> int:
    clears = folded.edits.clears
    return sum(edit.saves for at in range(blocks) for edit in clears.get((seq, at), {}).values())


@dataclass(frozen=True, slots=True)
class ShrinkStep:
    """Edits that shrink single blocks, and the files that they name."""

    edits: tuple[Clear, ...] = ()
    files: tuple[tuple[str, str], ...] = ()


def shrink(situation: Situation, first: int, room: int, unseen: bool) -> ShrinkStep:
    """What brings the blocks shown from fact `first` on under `room` tokens (our count), largest first.

    Results that the model has seen become placeholders; where `unseen`, the others become previews, and
    long blocks of the person are shown by head and tail.
    """
    folded = situation.folded
    parts = [p for message in folded.view for p in message.parts if p.seq >= first and p.tokens > SMALL]
    total = sum(message.tokens for message in folded.view if message.last >= first)
    edits: dict[tuple[int, int, str], Clear] = {}
    files: dict[str, str] = {}
    for characters in PREVIEWS:
        for part in sorted(parts, key=lambda part: -part.tokens):
            if total <= room:
                break
            edit, stored = _smaller(situation, part, characters, unseen)
            if edit is None:
                continue
            key = (edit.seq, edit.block, edit.field)
            before = edits.get(key) or folded.edits.clears.get(key[:2], {}).get(edit.field)
            total -= edit.saves - (before.saves if before is not None else 0)
            edits[key] = edit
            files.update(stored)
    return ShrinkStep(tuple(edits[key] for key in sorted(edits)), tuple(files.items()))


def _smaller(
    situation: Situation, part: Part, characters: int, unseen: bool
) -> tuple[Clear | None, tuple[tuple[str, str], ...]]:
    folded, count = situation.folded, situation.count
    if part.use is not None:
        if part.seq <= folded.last_reply_seq:
            return (None, ()) if shown_by_us(part) else (clear(folded, part, "content", count), ())
        return preview(situation, part, characters) if unseen else (None, ())
    if part.kind is PartKind.USER and unseen:
        return clear_pasted(folded, part, characters, count), ()
    return None, ()
