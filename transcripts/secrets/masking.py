"""Mask secrets in text that is written: exact values everywhere, and known forms in exports and logs.

In transcripts only exact values are masked, since what the model saw must stay unchanged. Thinking is never
masked, since its signature covers every byte. Masking never alters what is executed, written to the user's
files or sent to the model.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from .secret_forms import MIN_SECRET_CHARS, SECRET_FORMS

MASK_TEXT = "****"


def mask(text: str) -> str:
    """Return the text with everything that has the form of a secret replaced by its kind in brackets."""
    for form in SECRET_FORMS:
        if any(hint in text for hint in form.hints):
            text = re.sub(form.pattern, f"[{form.kind} masked]", text)
    return text


class SecretMasks(Struct, frozen=True):
    """Exact values that must not appear in transcripts. Values under MIN_SECRET_CHARS are ignored."""

    values: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """Return the text with each value masked, the longest first."""
        for value in self.used():
            text = text.replace(value, MASK_TEXT)
        return text

    def used(self) -> list[str]:
        """Return the values that are long enough to be masked, the longest first."""
        used = (value for value in self.values if len(value) >= MIN_SECRET_CHARS)
        return sorted(used, key=len, reverse=True)

    def all(self, text: str) -> str:
        """Return the text with these values and every known form of a secret masked, for exports and logs."""
        return mask(self.text(text))

    def encoded(self) -> tuple[bytes, ...]:
        """Return the values as they would appear in a line of JSON."""
        encoded = (json.dumps(value, ensure_ascii=False)[1:-1] for value in self.values)
        return tuple(value.encode("utf-8", "replace") for value in encoded)

    def in_json(self, value: Any) -> Any:
        """Return a JSON value with the values masked in every string and key, except in thinking."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.in_json(item) for item in value]
        if not isinstance(value, dict) or value.get("type") in ("thinking", "redacted_thinking"):
            return value
        return {self.text(key): self.in_json(item) for key, item in value.items()}
