"""From our count of tokens to the model's: learned from the replies' own figures.

A model's tokenizer gives 20-50 % more tokens than ours, and each request carries a fixed part that we do
not see. Two parameters, offset and slope, fit both; the last reply's exact figures anchor the estimate, so
that only what was added since is estimated at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from transcripts.facts import Reply, RequestSent
from transcripts.fold import Folded
from transcripts.view import MESSAGE_TOKENS

PRIOR = 1.0  # slope before the first reply; recordings: 1.2-1.5 on current models, corrected at once
SPREAD = 1.3  # the largest count over the smallest, from which on a slope can be told from an offset
LEAST, MOST = 0.3, 4.0  # slopes beyond these are no tokenizer's


@dataclass(frozen=True, slots=True)
class Calibration:
    """actual = offset + slope * raw."""

    offset: float = 0.0
    slope: float = PRIOR

    def tokens(self, raw: int) -> int:
        """The model's tokens of what we count as `raw`."""
        return max(0, round(self.offset + self.slope * raw))


def calibrate(measures: Sequence[tuple[int, int]]) -> Calibration:
    """The line through (our count, the usage's prompt tokens), robust against single outliers (Theil-Sen)."""
    points = [(raw, actual) for raw, actual in measures if raw > 0 and actual > 0]
    if not points:
        return Calibration()
    low, high = min(raw for raw, _ in points), max(raw for raw, _ in points)
    if high < low * SPREAD:
        return Calibration(0.0, _bounded(median(actual / raw for raw, actual in points)))
    slope = _bounded(median(_slopes(points)))
    return Calibration(median(actual - slope * raw for raw, actual in points), slope)


def _slopes(points: list[tuple[int, int]]) -> list[float]:
    """Slopes of the pairs far enough apart to tell anything; there is always one."""
    points.sort()
    apart = (points[-1][0] - points[0][0]) / 4
    return [
        (y2 - y1) / (x2 - x1)
        for at, (x1, y1) in enumerate(points)
        for x2, y2 in points[at + 1 :]
        if x2 - x1 >= apart
    ]


def _bounded(slope: float) -> float:
    return min(MOST, max(LEAST, slope))


def context_tokens(folded: Folded, overhead: int, calibrate: Calibration) -> int:
    """The model's tokens of the next request: system and tools (`overhead`, by our count) and the view."""
    raw = overhead + folded.view.tokens
    anchor = _anchor(folded)
    if anchor is None:
        return calibrate.tokens(raw)
    reply, asked = anchor
    then = asked.raw + sum(reply.tokens) + MESSAGE_TOKENS
    return max(0, reply.usage.total + round(calibrate.slope * (raw - then)))


def _anchor(folded: Folded) -> tuple[Reply, RequestSent] | None:
    """The newest reply that has a usage, and its request, if that had a count."""
    reply = folded.last_reply
    if reply is None or reply.asked is None or not reply.usage.prompt:
        return None
    at = bisect_left(folded.facts, reply.asked, key=lambda fact: fact.seq)
    asked = folded.facts[at] if at < len(folded.facts) else None
    if isinstance(asked, RequestSent) and asked.seq == reply.asked and asked.raw > 0:
        return reply, asked
    return None
