"""Narrow a value to the type that a test expects; a value of another type fails the test."""

from typing import TypeVar

from transcripts.messages import TextBlock

T = TypeVar("T")


def narrow(value: object, kind: type[T]) -> T:
    """Return the value, which is an instance of this class."""
    assert isinstance(value, kind), f"not a {kind.__name__}: {value!r}"
    return value


def present(value: T | None) -> T:
    """Return the value, which is not None."""
    assert value is not None, "the value is None"
    return value


def block_text(block: object) -> str:
    """Return the text of a text block."""
    return narrow(block, TextBlock).text
