"""Mask secrets in text that is written: exact values everywhere, and known forms in exports and logs.

What commands print is masked before the model sees it. In transcripts only exact values are masked, since
what the model saw must stay unchanged. Thinking is never masked, since its signature covers every byte.
Masking never alters what is executed or written to the user's files.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any

from msgspec import Struct

from transcripts.patterns import lazy_pattern

from .assignments import ASSIGNED_HINTS, assigned_secrets, is_literal
from .hinting_words import HintingWords
from .printed_forms import PRINTED_HINTS, printed_secrets
from .secret_forms import MIN_SECRET_CHARS, SECRET_FORMS, SecretForm

MASK_TEXT = "****"
_BASE64 = lazy_pattern(r"(?<![\w+/=-])[\w+/-]{24,20000}={0,2}(?![\w+/=-])", re.ASCII)
_ESCAPE = lazy_pattern(r"\\{1,16}([\"nrt])")  # in JSON, or in JSON within JSON
_ESCAPED = {'"': '"', "n": "\n", "r": "\r", "t": "\t"}
_URL_SAFE = str.maketrans("-_", "+/")


def mask(text: str) -> str:
    """Return the text with everything that has the form of a secret replaced by its kind in brackets."""
    return _mask(text, lambda form: f"[{form.kind} masked]")


def mask_output(text: str) -> str:
    """Return a text for the model with known forms of secrets and assigned secrets masked.

    It may be source code: `https://{user}:{password}@host` and placeholders stay.
    """
    return _mask(text, lambda form: partial(_mask_literal, form))


@cache
def _hinting_words() -> HintingWords:
    spaced = (form for form in SECRET_FORMS if not form.is_word)
    hints = (hint.lower() for form in spaced for hint in form.hints)
    return HintingWords(
        hints=(*ASSIGNED_HINTS, *PRINTED_HINTS, *hints),
        forms=(form for form in SECRET_FORMS if form.is_word),
        has_encoded=lambda words: any(True for _ in _encoded_secrets(words)),
    )


def _mask(text: str, mask_of: Callable[[SecretForm], str | Callable[[re.Match[str]], str]]) -> str:
    hinting = _hinting_words().of(text)
    if not hinting and "\\" not in text:
        return text
    for form in SECRET_FORMS:
        if form.may_be_in(hinting):
            text = form.sub(mask_of(form), text)
    return _mask_assigned(text, hinting)


def _mask_literal(form: SecretForm, found: re.Match[str]) -> str:
    may_be_code = form.kind in ("password", "authorization", "header", "option", "user", "login")
    kept = may_be_code and not is_literal(form.secret_of(found[0]))
    return found[0] if kept else f"[{form.kind} masked]"


def _mask_assigned(text: str, hinting: str) -> str:
    at = len(text)
    found = {
        *_named_secrets(text, hinting),
        *(_encoded_secrets(text) if any(True for _ in _encoded_secrets(hinting)) else ()),
        *(_escaped_secrets(text) if "\\" in text else ()),
    }
    for start, end in sorted(found, reverse=True):
        if end <= at and not text.startswith("[", start):
            text = f"{text[:start]}[secret masked]{text[end:]}"
            at = start
    return text


def _named_secrets(text: str, hinting: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each secret that is one by its name or its place."""
    folded = hinting.casefold()
    if any(map(folded.__contains__, ASSIGNED_HINTS)):
        yield from assigned_secrets(text)
    yield from printed_secrets(text, folded)


def _escaped_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each secret that is assigned in a string of JSON within the text."""
    pieces = []
    places = []  # offsets in the plain text after each escape, and how much longer the text is there
    length = at = 0
    for escape in _ESCAPE.finditer(text):
        pieces += [text[at : escape.start()], _ESCAPED[escape[1]]]
        length += escape.start() - at + 1
        at = escape.end()
        places.append((length, at - length))
    if not places:
        return
    plain = "".join((*pieces, text[at:]))
    for start, end in _named_secrets(plain, _hinting_words().of(plain)):
        before = bisect_right(places, (start, len(text)))
        longer = places[before - 1][1] if before else 0
        if text[start + longer : end + longer] == plain[start:end]:
            yield start + longer, end + longer


def _encoded_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each word of base64 that stands for a text with a secret in it."""
    for word in _BASE64.finditer(text):
        plain = _decoded(word[0][:16]) and _decoded(word[0])
        if plain and mask_output(plain) != plain:
            yield word.span()


def _decoded(word: str) -> str:
    """Return the printable text that base64 stands for, "" if it is none."""
    digits = word.rstrip("=").translate(_URL_SAFE)
    with suppress(ValueError):
        plain = b64decode(digits + "=" * (-len(digits) % 4)).decode("ascii")
        if all(char.isprintable() or char in "\n\r\t" for char in plain):
            return plain
    return ""


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
