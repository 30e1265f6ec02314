"""Mask exact values in bytes that arrive in pieces, such as the output of a command."""

from __future__ import annotations

import os

from .masking import MASK_TEXT, SecretMasks


class StreamRedactor:
    """Masks exact values in bytes that arrive in pieces, even if a value is split between pieces.

    Output is delayed while its end may be the beginning of a masked value.
    """

    def __init__(self, masks: SecretMasks) -> None:
        self._values = [os.fsencode(value) for value in masks.used()]
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Add output, and return the part that can be shown now."""
        text = self._held + data
        for value in self._values:
            text = text.replace(value, MASK_TEXT.encode())
        shown = len(text) - max((_begun(text, value) for value in self._values), default=0)
        self._held = text[shown:]
        return text[:shown]

    def flush(self) -> bytes:
        """Return the delayed part."""
        held = self._held
        self._held = b""
        return held


def _begun(text: bytes, value: bytes) -> int:
    """Return the number of bytes at the end of the text that could be the beginning of the value."""
    at = text.find(value[:1], max(0, len(text) - len(value) + 1))
    while at >= 0:
        if value.startswith(text[at:]):
            return len(text) - at
        at = text.find(value[:1], at + 1)
    return 0
