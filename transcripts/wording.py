"""Word counts, long texts and errors alike in every room. Pure."""

from __future__ import annotations


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 line`, `2,000 lines`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"


def shorten(text: str, max_chars: int) -> str:
    """Return the text, or its start and `…` in `max_chars` characters."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def cause_of(error: BaseException) -> str:
    """Return the reason of an error without its number and path: `Permission denied`.

    Errors of the system that the program itself raises may have a text instead of a reason.
    """
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
