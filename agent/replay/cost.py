"""The figures of a replayed session: what it cost, what it lost, and the same over several sessions.

Costs are in input tokens of full price. A request costs read x `read` + written x `write` + the rest; a
summary call costs the same for its input, and 5 for each token of its output. The replies themselves cost
the same under every policy and are left out. Relative costs are to the baseline: the same session only
appended to, with the same cache marks and no window.

Over several sessions: costs are the sum over the sum of the baselines, references and breaks likewise,
summaries and invalid views are sums, the peak is the highest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from compact.prices import TIERS as PRICES

from .cache_simulation import FIVE_MINUTES, ONE_HOUR, Served

OUTPUT = 5.0  # price of an output token in input tokens, on every model that we know


@dataclass(frozen=True, slots=True)
class Tier:
    """Prices in multiples of an input token, and how long an entry of the cache lives, in seconds."""

    name: str
    read: float
    write: float
    ttl: float

    def cost(self, served: Served) -> float:
        """What the input of one request costs, in input tokens."""
        return served.read * self.read + served.written * self.write + served.plain


def tier_of(name: str) -> Tier:
    """A price tier by its name. Raises KeyError."""
    prices = PRICES[name]
    return Tier(name, prices.read, prices.write, ONE_HOUR if name == "hour" else FIVE_MINUTES)


TIERS = {name: tier_of(name) for name in PRICES}


@dataclass(frozen=True, slots=True)
class Request:
    """One recorded call as replayed.

    `view_tokens` is the whole prompt, system and tools included: cache_read + cache_written of it came from
    the cache or went there. `edits` are (layer, tokens freed) of what was planned right before it.
    """

    index: int
    view_tokens: int
    cache_read: int
    cache_written: int
    edits: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class Tally:
    """What a replay adds up. Costs in input tokens; `references` is how many were judged."""

    cost: float = 0.0
    baseline: float = 0.0
    rereads: float = 0.0
    references: int = 0
    lost: int = 0
    recoverable: int = 0
    calls: int = 0
    breaks: int = 0
    summaries: int = 0
    peak: int = 0
    invalid: int = 0

    def add(self, other: Tally) -> None:
        """Take another session's figures in."""
        for name in self.__slots__:
            if name != "peak":
                setattr(self, name, getattr(self, name) + getattr(other, name))
        self.peak = max(self.peak, other.peak)


@dataclass(frozen=True, slots=True)
class Figures:
    """What the JSON says of a session or of all; shares are fractions of 1."""

    cost_ratio: float
    cost_with_rereads: float
    lost_references: float
    recoverable_references: float
    cache_breaks_per_100: float
    summaries: int
    peak_tokens: int
    invalid_views: int


@dataclass(frozen=True, slots=True)
class Run:
    """One session under one policy. `problems` are the first faults of the views, for people."""

    policy: str
    file: str
    requests: tuple[Request, ...]
    tally: Tally
    problems: tuple[str, ...] = field(default=())

    @property
    def figures(self) -> Figures:
        return figures(self.tally)


def figures(tally: Tally) -> Figures:
    """The figures of what was added up."""
    return Figures(
        cost_ratio=_share(tally.cost, tally.baseline, 1.0),
        cost_with_rereads=_share(tally.cost + tally.rereads, tally.baseline, 1.0),
        lost_references=_share(tally.lost, tally.references),
        recoverable_references=_share(tally.recoverable, tally.references),
        cache_breaks_per_100=_share(100 * tally.breaks, tally.calls),
        summaries=tally.summaries,
        peak_tokens=tally.peak,
        invalid_views=tally.invalid,
    )


def totals(runs: Sequence[Run]) -> dict[str, Figures]:
    """The figures over all sessions, by policy in the order of the runs."""
    sums: dict[str, Tally] = {}
    for run in runs:
        sums.setdefault(run.policy, Tally()).add(run.tally)
    return {policy: figures(tally) for policy, tally in sums.items()}


def mean_of_ratios(runs: Iterable[Run], policy: str) -> tuple[float, float]:
    """The mean over the sessions of cost_ratio and of cost_with_rereads, each session counting the same."""
    every = [run.figures for run in runs if run.policy == policy]
    if not every:
        return (1.0, 1.0)
    plain, with_rereads = zip(*((one.cost_ratio, one.cost_with_rereads) for one in every), strict=True)
    return sum(plain) / len(every), sum(with_rereads) / len(every)


def _share(part: float, whole: float, empty: float = 0.0) -> float:
    return round(part / whole, 6) if whole else empty
