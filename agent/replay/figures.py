"""The figures of replayed sessions: costs, lost references, cache breaks; as values, as JSON, as Markdown.

Costs are in input tokens at the full price. A request costs its input; a summary call costs its input and
OUTPUT_PRICE for each token of its output. The recorded replies cost the same under every policy and are left
out. Relative costs are to the baseline: the same session only appended to, with the same cache breakpoints
and no window.

Over several sessions, costs are the sum over the sum of the baselines, references and breaks likewise;
summaries and invalid views are sums, and the peak is the highest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

OUTPUT_PRICE = 5.0  # of an output token in input tokens, on every model that we know


@dataclass(frozen=True, slots=True)
class ReplayedRequest:
    """One recorded call as replayed.

    `view_tokens` is the whole prompt, system and tools included; `edits` are (layer, tokens freed) of the
    compactions right before it.
    """

    index: int
    view_tokens: int
    cache_read: int
    cache_written: int
    edits: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class Totals:
    """What a replay adds up; `references` is the number of those judged."""

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

    def add(self, other: Totals) -> None:
        """Add the figures of another session."""
        peak = max(self.peak, other.peak)
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.peak = peak

    @property
    def figures(self) -> ReplayFigures:
        return ReplayFigures(
            cost_ratio=_share(self.cost, self.baseline, 1.0),
            cost_with_rereads=_share(self.cost + self.rereads, self.baseline, 1.0),
            lost_references=_share(self.lost, self.references),
            recoverable_references=_share(self.recoverable, self.references),
            cache_breaks_per_100=_share(100 * self.breaks, self.calls),
            summaries=self.summaries,
            peak_tokens=self.peak,
            invalid_views=self.invalid,
        )


def _share(part: float, whole: float, empty: float = 0.0) -> float:
    return round(part / whole, 6) if whole else empty


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """The figures of one session or of several, as they stand in the JSON; shares are fractions of 1."""

    cost_ratio: float
    cost_with_rereads: float
    lost_references: float
    recoverable_references: float
    cache_breaks_per_100: float
    summaries: int
    peak_tokens: int
    invalid_views: int


FIGURE_ROWS: tuple[tuple[str, Callable[[ReplayFigures], str]], ...] = (
    ("cost", lambda f: f"{f.cost_ratio:.3f}"),
    ("cost with re-reads", lambda f: f"{f.cost_with_rereads:.3f}"),
    ("references lost", lambda f: f"{f.lost_references:.2%}"),
    ("references recoverable", lambda f: f"{f.recoverable_references:.2%}"),
    ("cache breaks per 100 calls", lambda f: f"{f.cache_breaks_per_100:.1f}"),
    ("summaries", lambda f: f"{f.summaries}"),
    ("peak tokens", lambda f: f"{f.peak_tokens:,}"),
    ("invalid views", lambda f: f"{f.invalid_views}"),
)
"""The figures as they are shown, by their names: in the terminal and on the page."""


@dataclass(frozen=True, slots=True)
class Run:
    """One session under one policy. `problems` are the first faults of its views."""

    policy: str
    file: str
    requests: tuple[ReplayedRequest, ...]
    totals: Totals
    problems: tuple[str, ...] = field(default=())

    @property
    def figures(self) -> ReplayFigures:
        return self.totals.figures


def figures_by_policy(runs: Sequence[Run]) -> dict[str, ReplayFigures]:
    """The figures over all sessions, by policy in the order of the runs."""
    sums: dict[str, Totals] = {}
    for run in runs:
        sums.setdefault(run.policy, Totals()).add(run.totals)
    return {policy: totals.figures for policy, totals in sums.items()}


def mean_of_ratios(runs: Iterable[Run], policy: str) -> tuple[float, float]:
    """The means over the sessions of cost_ratio and of cost_with_rereads, each session counting the same."""
    every = [run.figures for run in runs if run.policy == policy]
    if not every:
        return (1.0, 1.0)
    plain, with_rereads = zip(*((one.cost_ratio, one.cost_with_rereads) for one in every), strict=True)
    return sum(plain) / len(every), sum(with_rereads) / len(every)


def as_json(runs: Sequence[Run]) -> str:
    """`results`, one for each file and policy, and `totals`, one for each policy."""
    results = []
    for run in runs:
        requests = [
            {**asdict(one), "edits": [{"layer": layer, "freed_tokens": freed} for layer, freed in one.edits]}
            for one in run.requests
        ]
        named = {"policy": run.policy, "file": run.file, "requests": requests}
        results.append({**named, **asdict(run.figures)})
    totals = [{"policy": policy, **asdict(figures)} for policy, figures in figures_by_policy(runs).items()]
    return json.dumps({"results": results, "totals": totals}, ensure_ascii=False)


def as_markdown(by_tier: Mapping[str, Sequence[Run]]) -> str:
    """A table of the policies by price tier: cost and cost with re-reads; then what depends on no price.

    Costs are sums over sums of the baselines; in brackets stands the mean of the sessions' own ratios.
    """
    figures = {tier: figures_by_policy(runs) for tier, runs in by_tier.items()}
    tier, runs = next(iter(by_tier.items()))
    head = ["policy", *by_tier, "lost", "recoverable", "breaks / 100 calls", "summaries", "invalid"]
    rows = [head, ["---"] * len(head)]
    for policy, found in figures[tier].items():
        costs = [_cost_cell(by_tier[each], figures[each][policy], policy) for each in by_tier]
        references = [f"{share:.1%}" for share in (found.lost_references, found.recoverable_references)]
        counts = [f"{found.cache_breaks_per_100:.1f}", str(found.summaries), str(found.invalid_views)]
        rows.append([f"`{policy}`", *costs, *references, *counts])
    files = len({run.file for run in runs})
    calls = sum(run.totals.calls for run in runs if run.policy == runs[0].policy)
    note = f"{files} sessions, {calls:,} calls; the columns from `lost` on are at `{tier}`.\n\n"
    return note + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cost_cell(runs: Sequence[Run], figures: ReplayFigures, policy: str) -> str:
    plain, with_rereads = mean_of_ratios(runs, policy)
    return f"{figures.cost_ratio:.2f} → {figures.cost_with_rereads:.2f} ({plain:.2f} → {with_rereads:.2f})"
