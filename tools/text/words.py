"""Numbers with their nouns, and sets of words."""

from __future__ import annotations


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 line`, `2,000 lines`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"


def word_set(text: str) -> frozenset[str]:
    """Return the words of a table that is written as one text."""
    return frozenset(text.split())
