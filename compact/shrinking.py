"""Shrink single blocks, if a prompt is too large even when all older messages are summarized.

Messages that the model has not seen yet are never summarized; the largest of them become previews or
placeholders, and long texts of the user are cut in the middle.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum

from msgspec import Struct, field

from transcripts import Clear, Part, PartKind, ToolUseBlock

from .clearing import (
    clearable_fields,
    is_one_line,
    is_replaced,
    placeholder_edit,
    preview_edit,
    shown_text,
    user_block_edit,
)
from .situation import File, Situation

MIN_SHRUNK_TOKENS = 300  # of a block that is worth shrinking
PREVIEW_CHARS = (2_000, 400)  # of a shrunk block: at first, and if that is still too much
CUT_NOTE_CHARS = 120  # of the note in a text of the user that is not shown whole
SHRINK_TRIES = 3  # since the cut text may have fewer tokens than we count


class Shrink(IntEnum):
    """The blocks that may be shrunk: seen ones only, unseen ones to previews, or all to placeholders."""

    SEEN = 0
    PREVIEWS = 1
    PLACEHOLDERS = 2


def shrink_to(
    situation: Situation, first: int, target: int, how: Shrink
) -> tuple[tuple[Clear, ...], tuple[File, ...]]:
    """Shrink as `shrink_blocks` does, until the whole prompt has at most `target` of the model's tokens."""
    view = situation.view
    over = situation.tokens - target
    room = view.tokens - view.tokens_before(view.index_of(first))
    edits = tuple[Clear, ...]()
    files = tuple[File, ...]()
    for _ in range(SHRINK_TRIES):
        room -= situation.unscaled(over)
        edits, files = shrink_blocks(situation, first, max(0, room), how)
        over = situation.with_edits(edits).tokens - target
        if over <= 0 or room <= 0:
            break
    return edits, files


class _Shrinking(Struct):
    """Blocks of `total` tokens (our count) that are to fit in `room`; `edits` by the place they change."""

    situation: Situation
    room: int
    total: int
    edits: dict[tuple[int, int, str], tuple[Clear, tuple[File, ...]]] = field(default_factory=dict)

    def put(self, edit: Clear | None, files: tuple[File, ...] = ()) -> None:
        """Add an edit, which replaces an earlier one of the same field."""
        if edit is not None:
            key = (edit.seq, edit.block, edit.field)
            self.total -= edit.saves - self._saved(key)
            self.edits[key] = edit, files

    def _saved(self, key: tuple[int, int, str]) -> int:
        in_force = self.situation.folded.edits.clears.get(key[:2], {}).get(key[2])
        earlier = self.edits[key][0] if key in self.edits else in_force
        return earlier.saves if earlier is not None else 0

    def room_of(self, texts: Sequence[Part]) -> int:
        """Return the number of tokens that these texts of the user may have."""
        shown = sum(part.tokens - self._saved((part.seq, part.index, "text")) for part in texts)
        return self.room - self.total + shown


def shrink_blocks(
    situation: Situation, first: int, room: int, how: Shrink
) -> tuple[tuple[Clear, ...], tuple[File, ...]]:
    """Return edits that shrink the blocks from fact `first` on to `room` tokens (our count), largest first.

    With them come the files that they name. Results that the model has seen become placeholders. With
    PREVIEWS, the others become previews, and then long texts of the user are cut in the middle, as little as
    possible; with PLACEHOLDERS, all remaining results and inputs become placeholders.
    """
    parts = [p for message in situation.view for p in message.parts if p.seq >= first]
    parts.sort(key=lambda part: -part.tokens)
    long = [part for part in parts if part.tokens > MIN_SHRUNK_TOKENS]
    state = _Shrinking(situation, room=room, total=sum(m.tokens for m in situation.view if m.last >= first))
    for characters in PREVIEW_CHARS:
        for part in long:
            if state.total <= room:
                break
            state.put(*_shrunk(situation, part, characters, how))
        if how > Shrink.SEEN:
            _shrink_texts(state, [part for part in long if part.kind is PartKind.USER], characters)
    if how is Shrink.PLACEHOLDERS:
        for edit in (edit for part in parts for edit in _placeholders(situation, part)):
            if state.total <= room:
                break
            state.put(edit)
    made = [state.edits[key] for key in sorted(state.edits)]
    return tuple(edit for edit, _ in made), tuple(file for _, stored in made for file in stored)


def _shrink_texts(state: _Shrinking, parts: Sequence[Part], least: int) -> None:
    """Cut the user's longest texts as little as possible, each to at least `least` characters."""
    situation = state.situation
    left = state.room_of(parts)
    for at, part in enumerate(parts):
        if state.total <= state.room:
            break
        # The texts from here on are cut to one size; shorter ones after them stay whole.
        rest = [each.tokens for each in parts[at:]]
        size = max((left - sum(rest[n:])) // n for n in range(1, len(rest) + 1))
        if part.tokens <= size:
            break
        characters = size * len(shown_text(part.block)) // part.tokens - CUT_NOTE_CHARS
        state.put(user_block_edit(situation.folded, part, max(least, characters), situation.counter))
        left -= size


def _shrunk(
    situation: Situation, part: Part, characters: int, how: Shrink
) -> tuple[Clear | None, tuple[File, ...]]:
    folded = situation.folded
    counter = situation.counter
    if part.use is not None and part.seq <= folded.last_reply_seq:
        return None if is_replaced(part) else placeholder_edit(folded, part, "content", counter), ()
    if part.use is not None and how > Shrink.SEEN:
        return preview_edit(situation, part, characters)
    return None, ()


def _placeholders(situation: Situation, part: Part) -> Iterator[Clear]:
    """Yield the edits that show placeholders for a result or the long fields of a call, if shorter."""
    fields: list[str] = []
    if part.use is not None and not is_one_line(shown_text(part.block)):
        fields = ["content"]
    elif isinstance(part.block, ToolUseBlock):
        fields = [name for name, _ in clearable_fields(part.block, part.tokens)]
    made = (placeholder_edit(situation.folded, part, name, situation.counter) for name in fields)
    yield from (edit for edit in made if edit is not None)
