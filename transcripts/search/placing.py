"""Locate the terms of a query in a text. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import NamedTuple

from .words import QueryTerm, is_unspaced

MAX_MATCHES = 2_000  # of a term in a text
MAX_COMPARED = 50  # matches of a term; the place is a match of one with fewer, if there is any
SPAN_CHARS = 300  # in which terms belong together


class Placed(NamedTuple):
    """The share of a query in a text, in which rare words count more, and the offset of the best match."""

    share: float
    start: int


class Matcher:
    """Finds the terms of a query by their stems; `weights` is the significance of each term."""

    def __init__(self, weights: Mapping[QueryTerm, float]) -> None:
        # Terms of two letters occur everywhere and do not count.
        placed = [
            term
            for term in weights
            if len(term.text) > 2 or not term.text.isalpha() or _stands_out(term.text)
        ]
        self._weights = {term.stem: weights[term] for term in placed or weights}

    def place(self, text: str) -> Placed:
        """Find the match of the rarest term that has most of the other terms near it."""
        folded = text.casefold()
        every = {stem: list(islice(_starts(stem, folded), MAX_MATCHES)) for stem in self._weights}
        starts = {stem: found for stem, found in every.items() if found}
        if not starts:
            return Placed(0.0, start=0)
        rarest = max(starts.items(), key=self._significance)[1]
        start = max(rarest, key=lambda at: self._surroundings(starts, at))
        if len(folded) > len(text):
            start = bisect_right([*accumulate(len(char.casefold()) for char in text)], start)
        share = sum(self._weights[stem] for stem in starts) / sum(self._weights.values())
        return Placed(share, start=start)

    def _significance(self, found: tuple[str, Sequence[int]]) -> tuple[bool, float, int, int]:
        """Order terms and their offsets by how well they tell where the query is in the text."""
        stem, starts = found
        return len(starts) <= MAX_COMPARED, self._weights[stem], -len(starts), -starts[0]

    def _surroundings(self, starts: Mapping[str, Sequence[int]], at: int) -> tuple[float, int]:
        """Return the significance of the terms near an offset, and how near they are."""
        distances = {stem: _distance(found, at) for stem, found in starts.items()}
        near = [stem for stem, distance in distances.items() if distance <= SPAN_CHARS]
        return sum(self._weights[stem] for stem in near), -max(distances[stem] for stem in near)


def _starts(stem: str, folded: str) -> Iterator[int]:
    """Yield the offsets of a stem in a text; a short one must begin a word, or be one."""
    is_free = len(stem) >= 4 or _stands_out(stem)
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


def _stands_out(text: str) -> bool:
    """Return whether a term counts even if it is short: in a script without spaces, or a symbol."""
    return not text.isascii() and (is_unspaced(text) or not text.isalnum())
