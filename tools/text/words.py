"""Sets of words."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """Return the words of a table that is written as one text."""
    return frozenset(text.split())
