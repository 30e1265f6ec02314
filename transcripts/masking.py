"""Masks secrets: exact values of our own credentials everywhere, known shapes of others in exports and logs.

In the record only the exact values are masked: what the model was shown must stay as it was. Thinking is
never changed, since its signature covers every byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .codec import CHECKSUM, seal

MASK_TEXT = "****"
MIN_SECRET_CHARS = 8  # a shorter value would be found in innocent text
# At the end of a word of a name: MY_TOKENS, DB_PASSWORD_2; not TOKENIZERS, GIT_AUTHOR_NAME, MONKEY.
_SECRET_VARIABLE = re.compile(
    r"(?:(?:^|_|API|ACCESS|SECRET|PRIVATE)KEY|(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH))S?(?:_|\d|$)",
    re.IGNORECASE,
)
_PLACE_VARIABLE = re.compile(r"_(?:SOCK|FILE|PATH|DIR|URL|HOST|NAME|USER|TYPE)$", re.IGNORECASE)

# The beginning of a word, also behind an escaped line end or tab, as in JSON and in logs.
_WORD_START = r"(?:\b|(?<=\\[tnrfv]))"
# (what it is, strings of which one must occur, the shape). The shapes are those that their issuers document.
_SECRET_SHAPES: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (name, hints, re.compile(shape))
    for name, hints, shape in (
        ("private key", ("-----BEGIN",), r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
         r"(?:[\s\S]{0,20000}?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=\s]|\\[rn])*)"),
        ("Anthropic key", ("sk-ant-",), _WORD_START + r"sk-ant-[A-Za-z0-9_-]{8,}"),
        ("AWS key id", ("AKIA", "ASIA"), _WORD_START + r"(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
        ("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
         _WORD_START + r"gh[pousr]_[A-Za-z0-9]{20,}"),
        ("GitHub token", ("github_pat_",), _WORD_START + r"github_pat_[A-Za-z0-9_]{20,}"),
        ("GitLab token", ("gl",),
         _WORD_START + r"gl(?:pat|oas|dt|rtr?|cbt|ptt|ft|imt|agent|soat|ffct)-[\w.-]{16,}"),
        ("Slack token", ("xox",), _WORD_START + r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}"),
        ("Google key", ("AIza",), _WORD_START + r"AIza[A-Za-z0-9_-]{35}"),
        ("web token", ("eyJ",), _WORD_START + r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"),
        ("password", ("://",), r"(?<=://)[^\s/@:\"'<>]{0,200}:[^\s/@\"'<>]{1,400}(?=@)"),
    )
)  # fmt: skip


def mask(text: str) -> str:
    """The text with everything of a known secret's shape replaced by its kind, in brackets."""
    for name, hints, shape in _SECRET_SHAPES:
        if any(hint in text for hint in hints):
            text = shape.sub(f"[{name} masked]", text)
    return text


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the variables whose names say that they hold a secret, not where one is kept."""
    return tuple(
        value
        for name, value in environ.items()
        if _SECRET_VARIABLE.search(name) and not _PLACE_VARIABLE.search(name)
    )


@dataclass(frozen=True, slots=True)
class SecretMasks:
    """Exact values that must not stand in the record. Those under MIN_SECRET_CHARS are ignored."""

    values: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """The text with each value masked, the longest first."""
        for value in sorted(self.values, key=len, reverse=True):
            if len(value) >= MIN_SECRET_CHARS and value in text:
                text = text.replace(value, MASK_TEXT)
        return text

    def all(self, text: str) -> str:
        """The text with these values and every known shape of a secret masked, for exports and logs."""
        return mask(self.text(text))

    def encoded(self) -> tuple[bytes, ...]:
        """The values as they would stand within a line of JSON."""
        encoded = (json.dumps(value, ensure_ascii=False)[1:-1] for value in self.values)
        return tuple(value.encode("utf-8", "replace") for value in encoded)

    def line(self, line: bytes) -> bytes:
        """A line of the record with the values masked in every string and key of it.

        It is decoded, so call this for lines that hold one of `encoded`. Thinking is not changed.
        Like `line`, what is returned ends in a checksum.
        """
        raw = json.loads(line)
        del raw[CHECKSUM]
        return seal(self._without_values(raw))

    def _without_values(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._without_values(item) for item in value]
        if not isinstance(value, dict) or value.get("type") in ("thinking", "redacted_thinking"):
            return value
        return {self.text(key): self._without_values(item) for key, item in value.items()}
