"""Locate the terms of a query in a text, and measure how close together they are. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, groupby, islice
from typing import NamedTuple

from .words import QueryTerm, is_unspaced


class Placed(NamedTuple):
    """The stems in a text, the largest share of the query in one place, and the offset of its best term."""

    stems: frozenset[str]
    closest: float
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
        spelt = {term.stem: _pattern(term, len(weights)) for term in placed or weights}
        # Matched by the first character with a lookahead for the rest, so that parts of a name are found too.
        ordered = groupby(sorted(spelt, key=lambda stem: (stem[0], -len(stem))), lambda stem: stem[0])
        starts = (
            f"{re.escape(start)}(?=({'|'.join(spelt[stem] for stem in same)}))" for start, same in ordered
        )
        self._pattern = re.compile("|".join(starts))
        self._weights = {term.stem: weights[term] for term in placed or weights}
        self._beginnings = {stem: [each for each in spelt if stem.startswith(each)] for stem in spelt}
        self._whole = sum(self._weights.values())

    def matches(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield (offset, stem) of each match in order; a short stem must be a whole word or its beginning."""
        folded = text.casefold()
        ends = list(accumulate(len(char.casefold()) for char in text)) if len(folded) > len(text) else None
        for match in islice(self._pattern.finditer(folded), 1_000):
            found = match[0] + match[match.lastindex or 0]
            stem = found if found in self._weights else re.sub(r"[_.\-]", "", found)
            start = match.start()
            if len(stem) < 4 and not _stands_out(stem):
                after = start + len(found)
                around = folded[max(0, start - 1) : start] + folded[after : after + (len(stem) < 3)]
                if any(char.isalnum() and not is_unspaced(char) for char in around):
                    continue
            offset = bisect_right(ends, start) if ends else start
            yield from ((offset, each) for each in self._beginnings[stem])

    def place(self, text: str) -> Placed:
        """Find the narrowest span of at most 300 characters with the largest share of the query."""
        inside = dict.fromkeys(self._weights, 0)
        placed = list(self.matches(text))
        best = total = 0.0
        narrowest = first = 0
        span = slice(0)
        for number, (at, stem) in enumerate(placed, 1):
            if not inside[stem]:
                total += self._weights[stem]
            inside[stem] += 1
            begins, old = placed[first]
            while begins < at - 300 or inside[old] > 1:  # too far away, or repeated later
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
        return Placed(frozenset(stem for _, stem in placed), closest=best / self._whole, start=start)

    def share(self, stems: Iterable[str]) -> float:
        """Return the share of the query's weight that these stems have, from 0 to 1."""
        return sum(self._weights[stem] for stem in stems) / self._whole


def _pattern(term: QueryTerm, terms: int) -> str:
    """Return the pattern of a stem after its first character; a name matches however its parts are joined.

    With few `terms` this applies to all stems, so that `maxtries` finds `max_tries`; it is slow to compile.
    """
    rest = term.stem[1:]
    if rest.isascii() and (term.is_name or terms <= 4):
        return "".join(rf"[_.\-]?{re.escape(char)}" for char in rest)
    return re.escape(rest)


def _stands_out(text: str) -> bool:
    """Return whether a term counts even if it is short: in a script without spaces, or a symbol."""
    return not text.isascii() and (is_unspaced(text) or not text.isalnum())
