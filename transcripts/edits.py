"""The edits in force: replaced texts, summarized ranges and omitted thinking.

Edits are added and removed by their origin, the seq of the fact that contains them, in any order and with the
same result: of several clears of one field the latest counts, of several overlapping folds the widest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from .facts import Clear, Compacted, Edit, Fold, Opened, Undone, Unthink


class ActiveEdits(Struct):
    """The edits in force.

    origins  seq of the fact that contains them -> edits
    clears   (seq, block) -> field -> the clear in force
    folds    the widest folds, disjoint and in order
    undone   id of an undone compaction -> seq of the fact that undid it
    """

    origins: dict[int, tuple[Edit, ...]] = field(default_factory=dict)
    clears: dict[tuple[int, int], dict[str, Clear]] = field(default_factory=dict)
    folds: list[Fold] = field(default_factory=list)
    undone: dict[str, int] = field(default_factory=dict)
    _compactions: dict[str, int] = field(default_factory=dict)  # id -> seq
    _unthinks: list[Unthink] = field(default_factory=list)
    _gaps: list[Unthink] = field(default_factory=list)  # thinking omitted since facts are missing before it
    _open_gap: int | None = None  # thinking is omitted from this seq on

    def copy(self) -> ActiveEdits:
        """Return a copy in which other edits can be added and removed; no fact may be applied to it."""
        return replace(
            self,
            origins=dict(self.origins),
            clears={key: dict(fields) for key, fields in self.clears.items()},
            _unthinks=list(self._unthinks),
        )

    def apply(self, fact: Opened | Compacted | Undone) -> int | None:
        """Apply the edits of a fact; an `Undone` first removes those of the compaction that it names.

        Returns the earliest seq that is now shown differently, or None.
        """
        removed = None
        if isinstance(fact, Compacted):
            self._compactions[fact.id] = fact.seq
        elif isinstance(fact, Undone):
            if fact.id not in self._compactions or fact.id in self.undone:
                return None
            self.undone[fact.id] = fact.seq
            removed = self.remove(self._compactions[fact.id])
        added = self.add(fact.seq, fact.edits)
        return min((seq for seq in (removed, added) if seq is not None), default=None)

    def add(self, origin: int, edits: tuple[Edit, ...]) -> int | None:
        """Apply edits. Returns the earliest seq that is now shown differently, or None."""
        if not edits:
            return None
        is_newest = not self.origins or origin > max(self.origins)
        changed = self._first_changed(edits)
        self.origins[origin] = edits
        if is_newest:
            self._put_in_force(edits)
        else:
            self._rebuild()
        return changed

    def _first_changed(self, edits: tuple[Edit, ...]) -> int | None:
        """Return the earliest seq that the edits change; thinking that is already omitted does not change."""
        others = earliest_seq(tuple(edit for edit in edits if not isinstance(edit, Unthink)))
        starts = [] if others is None else [others]
        for edit in edits:
            if isinstance(edit, Unthink):
                first = edit.first
                for earlier in sorted(self._unthinks, key=lambda one: one.first):
                    if earlier.first <= first <= earlier.last:
                        first = earlier.last + 1
                if first <= edit.last:
                    starts.append(first)
        return min(starts, default=None)

    def remove(self, origin: int) -> int | None:
        """Remove the edits of one origin. Returns the earliest seq that is now shown differently, or None."""
        edits = self.origins.pop(origin, ())
        if edits:
            self._rebuild()
        return earliest_seq(edits)

    def covering(self, seq: int) -> Fold | None:
        """Return the widest fold over fact `seq`, or None."""
        at = bisect_right(self.folds, seq, key=lambda fold: fold.first) - 1
        return self.folds[at] if at >= 0 and self.folds[at].last >= seq else None

    def shows(self, seq: int, block: int, name: str) -> bool:
        """Return whether the field `name` of a block of fact `seq` is shown as recorded."""
        return name not in self.clears.get((seq, block), ()) and self.covering(seq) is None

    def unthinks(self, seq: int) -> bool:
        """Return whether the thinking of reply `seq` is omitted."""
        if self._open_gap is not None and seq >= self._open_gap:
            return True
        return any(one.first <= seq <= one.last for one in (*self._unthinks, *self._gaps))

    def open_gap(self, seq: int) -> None:
        """Omit thinking from `seq` on: facts before it are missing, and its signature covers them."""
        if self._open_gap is None:
            self._open_gap = seq

    def close_gap(self, seq: int) -> None:
        """Show thinking again from `seq` on, since the session was reopened with the remaining facts."""
        if self._open_gap is not None:
            self._gaps.append(Unthink(self._open_gap, seq))
            self._open_gap = None

    def _rebuild(self) -> None:
        self.clears = {}
        self.folds = []
        self._unthinks = []
        self._put_in_force(edit for origin in sorted(self.origins) for edit in self.origins[origin])

    def _put_in_force(self, edits: Iterable[Edit]) -> None:
        """Add edits, each newer than all those before it."""
        folds: list[Fold] = []
        for edit in edits:
            match edit:
                case Clear():
                    self.clears.setdefault((edit.seq, edit.block), {})[edit.field] = edit
                case Unthink():
                    self._unthinks.append(edit)
                case Fold():
                    folds.append(edit)
        if folds:
            self.folds = _widest([*self.folds, *folds])


def _widest(folds: list[Fold]) -> list[Fold]:
    """Return the folds that no other one contains; of two over the same range, the later in the list."""
    widest: list[Fold] = []
    for fold in sorted(folds, key=lambda fold: (fold.first, -fold.last)):
        if not widest or fold.last > widest[-1].last:
            widest.append(fold)
        elif (fold.first, fold.last) == (widest[-1].first, widest[-1].last):
            widest[-1] = fold
    return widest


def earliest_seq(edits: tuple[Edit, ...]) -> int | None:
    """Return the earliest seq that any of the edits changes; None if there are no edits."""
    return min((edit.seq if isinstance(edit, Clear) else edit.first for edit in edits), default=None)
