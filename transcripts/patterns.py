"""Regular expressions of modules, compiled when they are first used.

Compiling takes 0.1 to 2 ms each, and most runs use few of them.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    """A stand-in for a compiled pattern; it keeps each attribute after the first lookup."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)  # which re caches
        setattr(self, name, value)
        return value


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern like `re.compile(text, flags)`, compiled on first use, when it also raises errors."""
    return cast("re.Pattern[str]", _LazyPattern(text, flags))


def lazy_bytes_pattern(text: bytes, flags: int = 0) -> re.Pattern[bytes]:
    """Return a pattern of bytes like `re.compile(text, flags)`, compiled on first use."""
    return cast("re.Pattern[bytes]", _LazyPattern(text, flags))
