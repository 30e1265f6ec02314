"""Whether a summary names what mattered: paths, identifiers and numbers, checked without a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transcripts.facts import Fold
from transcripts.messages import TextBlock

from .ledger import important, keep_ledger
from .plan import Situation


def coverage(situation: Situation, fold: Fold, summary: str) -> Mapping[str, Any]:
    """For each kind: [named by the summary, named by all that is kept, of so many]."""
    inside = [entry for entry in situation.folded.entries if fold.first <= entry.seq <= fold.last]
    kept = "\n".join(block.text for block in fold.blocks if isinstance(block, TextBlock))
    return {
        kind: [sum(name in summary for name in found), sum(name in kept for name in found), len(found)]
        for kind, found in important(keep_ledger(inside)).items()
    }
