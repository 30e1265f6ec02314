"""Locate the terms of a query in a text. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, islice
from typing import NamedTuple

from .words import QueryTerm, is_unspaced

MAX_MATCHES = 100  # of a term in a text; of later ones only those count that are near a rarer term
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
        # With few terms all are searched for like whole names, so that `task377` finds `task_3_77`.
        self._joined = {
            term.stem: re.compile(r"[_.\-]?".join(term.stem))
            for term in weights
            if term.stem.isascii() and term.stem.isalnum() and len(weights) <= 4
        }
        self._whole = sum(self._weights.values())

    def matches(self, text: str) -> list[tuple[int, str]]:
        """Return (offset, stem) of each match in order; a short stem must begin a word, or be one."""
        folded = text.casefold()
        starts = {stem: list(self._starts(stem, folded)) for stem in self._weights}
        rare = [start for each in starts.values() if len(each) < MAX_MATCHES for start in each]
        for stem, each in starts.items():
            if len(each) == MAX_MATCHES:
                each += self._later_starts(stem, folded, each[-1], rare)
        found = sorted((start, stem) for stem, each in starts.items() for start in each)
        if len(folded) > len(text):
            ends = list(accumulate(len(char.casefold()) for char in text))
            found = [(bisect_right(ends, start), stem) for start, stem in found]
        return found

    def _starts(self, stem: str, folded: str) -> Iterator[int]:
        """Yield the offsets of a stem in a text; of a name that is not in it verbatim, those of its parts."""
        spans: Iterable[tuple[int, int]] = _spans(stem, folded)
        if stem in self._joined and stem not in folded:
            spans = (match.span() for match in self._joined[stem].finditer(folded))
        is_free = len(stem) >= 4 or _stands_out(stem)
        for start, end in islice(spans, MAX_MATCHES):
            around = (
                "" if is_free else folded[max(0, start - 1) : start] + folded[end : end + (len(stem) < 3)]
            )
            if not any(char.isalnum() and not is_unspaced(char) for char in around):
                yield start

    def _later_starts(self, stem: str, folded: str, last: int, rare: Iterable[int]) -> set[int]:
        """Return the offsets of a frequent stem behind `last` that are near one of the offsets `rare`."""
        found = set[int]()
        for at in rare:
            begin = max(last + 1, at - SPAN_CHARS)
            near = folded[begin : at + SPAN_CHARS]
            found.update(begin + start for start in self._starts(stem, near))
        return found

    def place(self, text: str) -> Placed:
        """Find the best term in the narrowest span of SPAN_CHARS with most of the query."""
        inside = dict.fromkeys(self._weights, 0)
        placed = self.matches(text)
        best = total = 0.0
        narrowest = first = 0
        span = slice(0)
        for number, (at, stem) in enumerate(placed, 1):
            if not inside[stem]:
                total += self._weights[stem]
            inside[stem] += 1
            begins, old = placed[first]
            while begins < at - SPAN_CHARS or inside[old] > 1:  # too far away, or repeated later
                inside[old] -= 1
                total -= 0.0 if inside[old] else self._weights[old]
                first += 1
                begins, old = placed[first]
            gain = total - best
            if gain > 1e-9 or (gain > -1e-9 and at - begins < narrowest):
                best = total
                narrowest = at - begins
                span = slice(first, number)
        start, _ = max(placed[span], key=lambda each: self._weights[each[1]], default=(0, ""))
        share = sum(self._weights[stem] for stem in {stem for _, stem in placed}) / self._whole
        return Placed(share, start=start)


def _spans(stem: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each verbatim occurrence of a stem in a text."""
    start = text.find(stem)
    while start >= 0:
        end = start + len(stem)
        yield start, end
        start = text.find(stem, end)


def _stands_out(text: str) -> bool:
    """Return whether a term counts even if it is short: in a script without spaces, or a symbol."""
    return not text.isascii() and (is_unspaced(text) or not text.isalnum())
