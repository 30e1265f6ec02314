"""Masks secrets where text is written: exact values everywhere, known forms of others in exports and logs.

In the record only the exact values are masked: what the model was shown must stay as it was. Thinking is
never changed, since its signature covers every byte. What is run, written to a file or sent is not changed.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from .secret_forms import MIN_SECRET_CHARS, SECRET_FORMS

MASK_TEXT = "****"


def mask(text: str) -> str:
    """The text with everything of a known secret's form replaced by its kind, in brackets."""
    for form in SECRET_FORMS:
        if any(hint in text for hint in form.hints):
            text = re.sub(form.pattern, f"[{form.kind} masked]", text)
    return text


class SecretMasks(Struct, frozen=True):
    """Exact values that must not stand in the record. Those under MIN_SECRET_CHARS are ignored."""

    values: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """The text with each value masked, the longest first."""
        for value in self.used():
            text = text.replace(value, MASK_TEXT)
        return text

    def used(self) -> list[str]:
        """Return the values that are long enough to be masked, the longest first."""
        used = (value for value in self.values if len(value) >= MIN_SECRET_CHARS)
        return sorted(used, key=len, reverse=True)

    def all(self, text: str) -> str:
        """The text with these values and every known form of a secret masked, for exports and logs."""
        return mask(self.text(text))

    def encoded(self) -> tuple[bytes, ...]:
        """The values as they would stand within a line of JSON."""
        encoded = (json.dumps(value, ensure_ascii=False)[1:-1] for value in self.values)
        return tuple(value.encode("utf-8", "replace") for value in encoded)

    def in_json(self, value: Any) -> Any:
        """Return a JSON value with the values masked in every string and key within it.

        Thinking is not changed.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.in_json(item) for item in value]
        if not isinstance(value, dict) or value.get("type") in ("thinking", "redacted_thinking"):
            return value
        return {self.text(key): self.in_json(item) for key, item in value.items()}
