"""Hide exact values in bytes that come in pieces, wherever they are cut."""

from __future__ import annotations

from transcripts.masking import MASK_TEXT, MIN_SECRET_CHARS, SecretMasks


class StreamRedactor:
    """Holds back the end of what came as long as a hidden value may begin there."""

    def __init__(self, masks: SecretMasks) -> None:
        values = {
            value.encode("utf-8", "surrogateescape")
            for value in masks.values
            if len(value) >= MIN_SECRET_CHARS
        }
        self._values = sorted(values, key=len, reverse=True)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What can be shown now."""
        text = self._held + data
        for value in self._values:
            text = text.replace(value, MASK_TEXT.encode())
        keep = max((_begun(text, value) for value in self._values), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def rest(self) -> bytes:
        """What was held back."""
        held, self._held = self._held, b""
        return held


def _begun(text: bytes, value: bytes) -> int:
    """How many bytes at the end of the text are the beginning of the value."""
    longest = min(len(value) - 1, len(text))
    return next((size for size in range(longest, 0, -1) if text.endswith(value[:size])), 0)
