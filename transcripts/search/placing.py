"""Locate the terms of a query in a text. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice

from .words import QueryTerm, is_unspaced

MAX_MATCHES = 2_000  # of a term in a text
SPAN_CHARS = 300  # in which terms belong together


class Matcher:
    """Finds the terms of a query by their stems; `weights` is the significance of each term."""

    def __init__(self, weights: Mapping[QueryTerm, float]) -> None:
        # Terms of two letters occur everywhere and do not count.
        telling = [
            term
            for term in weights
            if len(term.text) > 2 or not (term.text.isascii() and term.text.isalpha())
        ]
        self._weights = {_stem(term): weights[term] for term in telling or weights}

    def place(self, text: str) -> tuple[float, int]:
        """Return the share of the query in a text, and where its rarest term has most others near it."""
        folded = text.casefold()
        every = {stem: list(islice(_starts(stem, folded), MAX_MATCHES)) for stem in self._weights}
        starts = {stem: found for stem, found in every.items() if found}
        if not starts:
            return 0.0, 0

        def coverage(at: int) -> tuple[float, int]:
            distances = {stem: _distance(found, at) for stem, found in starts.items()}
            near = [stem for stem, distance in distances.items() if distance <= SPAN_CHARS]
            return sum(self._weights[each] for each in near), -max(distances[each] for each in near)

        rarest = min(starts, key=lambda stem: (len(starts[stem]), -self._weights[stem], starts[stem][0]))
        start = max(starts[rarest], key=coverage)
        if len(folded) > len(text):
            start = bisect_right([*accumulate(len(char.casefold()) for char in text)], start)
        return sum(self._weights[stem] for stem in starts) / sum(self._weights.values()), start


def _stem(term: QueryTerm) -> str:
    """Return the beginning of a term without an ending, by which it is found in a text."""
    is_whole = term.is_prefix or len(term.text) < 5 or not term.text.isalpha()
    return term.text if is_whole else term.text[: max(3, len(term.text) - 3)]


def _starts(stem: str, folded: str) -> Iterator[int]:
    """Yield the offsets of a stem in a text; a short one must begin a word, or be one."""
    is_free = len(stem) >= 4 or not stem.isascii()
    start = folded.find(stem)
    while start >= 0:
        end = start + len(stem)
        around = "" if is_free else folded[max(0, start - 1) : start] + folded[end : end + (len(stem) < 3)]
        if not any(char.isalnum() and not is_unspaced(char) for char in around):
            yield start
        start = folded.find(stem, end)


def _distance(starts: Sequence[int], at: int) -> int:
    """Return the distance of an offset to the nearest of these."""
    after = bisect_left(starts, at)
    return min(abs(at - start) for start in starts[max(0, after - 1) : after + 1])
