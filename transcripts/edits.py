"""The edits in force, and what a part looks like under them.

A set: adding and taking away by the seq of the fact that brought the edits, in any order, gives the same
result, but for two rules: of several clears on one field the latest counts, of several folds the widest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .facts import Clear, Edit, Fold, Unthink
from .messages import Block, ImageBlock, TextBlock, ToolResultBlock, ToolUseBlock
from .view import Part, PartKind

Fields = Mapping[str, Clear]
LEFT_OUT = "[left out]"


@dataclass(slots=True)
class ActiveEdits:
    """Active edits by origin. `clears` maps (seq, block) to the clear in force for each field."""

    origins: dict[int, tuple[Edit, ...]] = field(default_factory=dict)
    clears: dict[tuple[int, int], dict[str, Clear]] = field(default_factory=dict)
    folds: list[Fold] = field(default_factory=list)  # the widest ones: disjoint, in order
    last_cleared: int = 0  # the newest seq that a clear addresses
    _unthinks: list[tuple[int, int]] = field(default_factory=list)
    _hole: int | None = None

    def copy(self) -> ActiveEdits:
        """An independent set with the same edits."""
        clears = {key: dict(fields) for key, fields in self.clears.items()}
        return ActiveEdits(
            dict(self.origins),
            clears,
            list(self.folds),
            self.last_cleared,
            list(self._unthinks),
            self._hole,
        )

    def add(self, origin: int, edits: tuple[Edit, ...]) -> int | None:
        """Put edits in force. Returns the earliest seq whose showing changes, or None."""
        if not edits:
            return None
        late = bool(self.origins) and origin < max(self.origins)
        self.origins[origin] = edits
        folds = [edit for edit in edits if isinstance(edit, Fold)]
        for edit in edits:
            match edit:
                case Clear():
                    self.clears.setdefault((edit.seq, edit.block), {})[edit.field] = edit
                    if late:
                        self._unclear(edit)  # an older one again: whichever is the latest counts
                    self.last_cleared = max(self.last_cleared, edit.seq)
                case Unthink():
                    self._unthinks.append((edit.first, edit.last))
                case Fold():
                    pass
        if folds:
            self._refold()
        return earliest(edits)

    def remove(self, origin: int) -> int | None:
        """Take the edits of one origin back. Returns the earliest seq whose showing changes, or None."""
        edits = self.origins.pop(origin, ())
        for edit in edits:
            match edit:
                case Clear():
                    self._unclear(edit)
                case Unthink():
                    self._unthinks.remove((edit.first, edit.last))
                case Fold():
                    pass
        self._refold()
        self.last_cleared = max((seq for seq, _ in self.clears), default=0)
        return earliest(edits)

    def covering(self, seq: int) -> Fold | None:
        """The widest fold over fact `seq`."""
        at = bisect_right(self.folds, seq, key=lambda fold: fold.first) - 1
        return self.folds[at] if at >= 0 and self.folds[at].last >= seq else None

    def unthinks(self, seq: int) -> bool:
        """Whether the thinking of reply `seq` is left out."""
        if self._hole is not None and seq >= self._hole:
            return True
        return any(first <= seq <= last for first, last in self._unthinks)

    def hole(self, seq: int) -> None:
        """Records before `seq` are missing: thinking from there on was bound to what we no longer have."""
        if self._hole is None:
            self._hole = seq

    def mended(self, seq: int) -> None:
        """The session was opened anew at `seq`: what is produced from here on is bound to what we have."""
        if self._hole is not None:
            self._unthinks.append((self._hole, seq))
            self._hole = None

    def _unclear(self, edit: Clear) -> None:
        key = (edit.seq, edit.block)
        fields = self.clears.get(key, {})
        if fields.get(edit.field) != edit:
            return
        del fields[edit.field]
        for origin in sorted(self.origins):
            for other in self.origins[origin]:
                if isinstance(other, Clear) and (other.seq, other.block) == key and other.field == edit.field:
                    fields[edit.field] = other
        if not fields:
            del self.clears[key]

    def _refold(self) -> None:
        every = [edit for at in sorted(self.origins) for edit in self.origins[at] if isinstance(edit, Fold)]
        every.sort(key=lambda fold: (fold.first, -fold.last))
        widest: list[Fold] = []
        for fold in every:
            if not widest or fold.last > widest[-1].last:
                widest.append(fold)
            elif (fold.first, fold.last) == (widest[-1].first, widest[-1].last):
                widest[-1] = fold  # the same stretch again: the newer one
        self.folds = widest


def earliest(edits: tuple[Edit, ...]) -> int | None:
    """The earliest seq that any of the edits changes."""
    firsts = (edit.seq if isinstance(edit, Clear) else edit.first for edit in edits)
    return min(firsts, default=None)


def cleared(part: Part, fields: Fields) -> Part:
    """The part with each cleared field replaced by its text."""
    tokens = max(1, part.tokens - sum(clear.saves for clear in fields.values()))
    block = _without(part.block, fields)
    kind = part.kind if part.kind is PartKind.INPUT else PartKind.PLACEHOLDER
    return replace(part, block=block, tokens=tokens, kind=kind)


def _without(block: Block, fields: Fields) -> Block:
    match block:
        case ToolResultBlock() if "content" in fields:
            return replace(block, content=(_text(fields["content"]),))
        case ToolUseBlock():
            texts = {name: clear.text for name, clear in fields.items() if name in block.input}
            return replace(block, input={**block.input, **texts})
        case TextBlock() if "text" in fields:
            return _text(fields["text"])
        case ImageBlock() if "source" in fields:
            return _text(fields["source"])
    return block


def _text(clear: Clear) -> TextBlock:
    return TextBlock(clear.text if clear.text.strip() else LEFT_OUT)  # the API takes no empty text
