"""Masks secrets where text is written: exact values everywhere, known forms of others in exports and logs.

In the record only the exact values are masked: what the model was shown must stay as it was. Thinking is
never changed, since its signature covers every byte. What is run, written to a file or sent is not changed.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from .codec import CHECKSUM, seal
from .secret_forms import MIN_SECRET_CHARS, SECRET_FORMS
from .view import to_json_bytes

MASK_TEXT = "****"
_ENVELOPE = ("v", "seq", "ts", "sid", "kind")  # what a line of the record is known by: never masked


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
        for value in sorted(self.values, key=len, reverse=True):
            if len(value) >= MIN_SECRET_CHARS and value in text:
                text = text.replace(value, MASK_TEXT)
        return text

    def all(self, text: str) -> str:
        """The text with these values and every known form of a secret masked, for exports and logs."""
        return mask(self.text(text))

    def encoded(self) -> tuple[bytes, ...]:
        """The values as they would stand within a line of JSON."""
        encoded = (json.dumps(value, ensure_ascii=False)[1:-1] for value in self.values)
        return tuple(value.encode("utf-8", "replace") for value in encoded)

    def line(self, line: bytes) -> bytes:
        """A line of the record with the values masked in every string of its fields, keys within them too.

        It is decoded, so call this for lines that hold one of `encoded`. Thinking is not changed.
        Like `line`, what is returned ends in a checksum.
        """
        raw = json.loads(line)
        del raw[CHECKSUM]
        fields = raw.items()
        return seal({key: each if key in _ENVELOPE else self._without_values(each) for key, each in fields})

    def body(self, body: bytes) -> bytes:
        """A JSON body with the values masked as in the record."""
        return to_json_bytes(self._without_values(json.loads(body)))

    def _without_values(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._without_values(item) for item in value]
        if not isinstance(value, dict) or value.get("type") in ("thinking", "redacted_thinking"):
            return value
        return {self.text(key): self._without_values(item) for key, item in value.items()}
