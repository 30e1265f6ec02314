"""Locate the terms of a query in a text. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, islice

from .words import UNSPACED, QueryTerm

MAX_MATCHES = 2_000  # of a term in a text
SPAN_CHARS = 300  # in which terms belong together
_LETTER = rf"[^\W_{UNSPACED}]"  # or digit, of a script with spaces


class Matcher:
    """Finds the terms of a query by their stems; `weights` is the significance of each term."""

    def __init__(self, weights: Mapping[QueryTerm, float]) -> None:
        # Terms of two letters occur everywhere and do not count.
        telling = [
            term
            for term in weights
            if len(term.text) > 2 or not (term.text.isascii() and term.text.isalpha())
        ]
        self._weights = {_pattern(term): weights[term] for term in telling or weights}

    def place(self, text: str) -> tuple[float, int]:
        """Return the share of the query in a text, and where its rarest term has most others near it."""
        folded = text.casefold()
        starts = dict[re.Pattern[str], list[int]]()
        for pattern in self._weights:
            if found := [match.start() for match in islice(pattern.finditer(folded), MAX_MATCHES)]:
                starts[pattern] = found
        if not starts:
            return 0.0, 0

        def surroundings(at: int) -> tuple[float, int]:
            distances = {pattern: _distance(found, at) for pattern, found in starts.items()}
            near = [pattern for pattern, distance in distances.items() if distance <= SPAN_CHARS]
            return sum(self._weights[each] for each in near), -max(distances[each] for each in near)

        rarest = min(
            starts, key=lambda pattern: (len(starts[pattern]), -self._weights[pattern], starts[pattern][0])
        )
        start = max(starts[rarest], key=surroundings)
        if len(folded) > len(text):
            start = bisect_right([*accumulate(len(char.casefold()) for char in text)], start)
        return sum(self._weights[pattern] for pattern in starts) / sum(self._weights.values()), start


def _pattern(term: QueryTerm) -> re.Pattern[str]:
    """Return the pattern of a term without an ending; a short one must begin a word, or be one."""
    text = term.text
    if len(text) >= 5 and text.isalpha() and not term.is_prefix:
        text = text[: max(3, len(text) - 3)]
    stem = re.escape(text)
    if len(text) >= 4 or not text.isascii():
        return re.compile(stem)
    return re.compile(f"{stem}(?<!{_LETTER}{stem})" + f"(?!{_LETTER})" * (len(text) < 3))


def _distance(starts: Sequence[int], at: int) -> int:
    """Return the distance of an offset to the nearest of these."""
    after = bisect_left(starts, at)
    return min(abs(at - start) for start in starts[max(0, after - 1) : after + 1])
