"""The figures of replayed sessions: costs, lost references and cache breaks, as values, JSON or Markdown.

Costs are in input tokens at the full price. A request costs its input; a summary request costs its input and
OUTPUT_PRICE for each token of its output. The recorded replies cost the same under every policy and are left
out. Relative costs are relative to the baseline: the same session appended to without compaction, with the
same cache breakpoints and without a context limit. `to_off` is relative to the policy `off` within the window
instead, with re-reads on both sides, because a baseline without a limit may not fit any window.

Over several sessions, a cost is the sum of the costs divided by the sum of the baselines, and references and
breaks are computed the same way. Summaries and invalid views are sums, and the peak is the maximum.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict, replace

OUTPUT_PRICE = 5.0  # of an output token in input tokens, for all known models
LENGTHS = (100, 200)  # calls of a session, at which another column of the table by length begins


class LayerEffect(NamedTuple):
    """The number of tokens that a compaction freed, and its layer."""

    layer: str
    freed_tokens: int


class ReplayedRequest(Struct, frozen=True):
    """One replayed request.

    `view_tokens` is the size of the whole prompt, system and tools included; `edits` are the effects of the
    compactions immediately before it.
    """

    index: int
    view_tokens: int
    cache_read: int
    cache_written: int
    edits: tuple[LayerEffect, ...] = ()


class Totals(Struct):
    """The sums of a replay; `references` is the number of references that were judged."""

    cost: float = 0.0
    baseline: float = 0.0
    off: float = 0.0  # the other baseline: the cost of the policy `off` within the window, re-reads included
    rereads: float = 0.0
    references: int = 0
    lost: int = 0
    recoverable: int = 0
    calls: int = 0
    breaks: int = 0
    summaries: int = 0
    peak: int = 0
    invalid: int = 0
    edits: int = 0
    edits_out: int = 0
    refused: int = 0

    def add(self, other: Totals) -> None:
        """Add the figures of another session."""
        peak = max(self.peak, other.peak)
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.peak = peak

    @property
    def figures(self) -> ReplayFigures:
        cost, charged = (_share(each, self.baseline, 1.0) for each in (self.cost, self.cost + self.rereads))
        to_off = _share(self.cost + self.rereads, self.off, 1.0)
        return ReplayFigures(
            cost_ratio=cost,
            cost_with_rereads=charged,
            mean_cost_ratio=cost,
            mean_with_rereads=charged,
            worst_with_rereads=charged,
            mean_to_off=to_off,
            lost_references=_share(self.lost, self.references),
            recoverable_references=_share(self.recoverable, self.references),
            cache_breaks_per_100=_share(100 * self.breaks, self.calls),
            summaries=self.summaries,
            peak_tokens=self.peak,
            invalid_views=self.invalid,
            cost_to_off=to_off,
            edits_out_of_view=_share(self.edits_out, self.edits),
            refused_requests=self.refused,
        )


def _share(part: float, whole: float, empty: float = 0.0) -> float:
    return round(part / whole, 6) if whole else empty


class ReplayFigures(Struct, frozen=True):
    """The figures of one or several sessions, as in the JSON output; shares are fractions of 1.

    Over several sessions, `mean_` and `worst_` are of the ratios of the sessions, the others ratios of sums.
    """

    cost_ratio: float
    cost_with_rereads: float
    mean_cost_ratio: float
    mean_with_rereads: float
    worst_with_rereads: float
    mean_to_off: float
    lost_references: float
    recoverable_references: float
    cache_breaks_per_100: float
    summaries: int
    peak_tokens: int
    invalid_views: int
    cost_to_off: float
    edits_out_of_view: float
    refused_requests: int


FIGURE_ROWS: tuple[tuple[str, Callable[[ReplayFigures], str]], ...] = (
    ("cost", lambda f: f"{f.cost_ratio:.3f}"),
    ("cost with re-reads", lambda f: f"{f.cost_with_rereads:.3f}"),
    ("  mean of the sessions", lambda f: f"{f.mean_with_rereads:.3f}"),
    ("  worst session", lambda f: f"{f.worst_with_rereads:.3f}"),
    ("with re-reads, to off in the window", lambda f: f"{f.cost_to_off:.3f}"),
    ("edits out of view", lambda f: f"{f.edits_out_of_view:.2%}"),
    ("references lost", lambda f: f"{f.lost_references:.2%}"),
    ("references recoverable", lambda f: f"{f.recoverable_references:.2%}"),
    ("cache breaks per 100 calls", lambda f: f"{f.cache_breaks_per_100:.1f}"),
    ("summaries", lambda f: f"{f.summaries}"),
    ("peak tokens", lambda f: f"{f.peak_tokens:,}"),
    ("refused requests", lambda f: f"{f.refused_requests}"),
    ("invalid views", lambda f: f"{f.invalid_views}"),
)
"""The names and formats of the figures in the terminal and on the page."""


class Run(Struct, frozen=True):
    """One session under one policy. `problems` are the first errors in its views."""

    policy: str
    file: str
    requests: tuple[ReplayedRequest, ...]
    totals: Totals
    problems: tuple[str, ...] = field(default=())

    @property
    def figures(self) -> ReplayFigures:
        return self.totals.figures


def figures_by_policy(runs: Iterable[Run]) -> dict[str, ReplayFigures]:
    """Return the figures over all sessions, by policy in the order of the runs."""
    by_policy: dict[str, list[Run]] = {}
    for run in runs:
        by_policy.setdefault(run.policy, []).append(run)
    return {policy: _over_sessions(found) for policy, found in by_policy.items()}


def _over_sessions(runs: Sequence[Run]) -> ReplayFigures:
    total = Totals()
    every = [run.figures for run in runs]
    for run in runs:
        total.add(run.totals)
    return replace(
        total.figures,
        mean_cost_ratio=round(fmean(one.cost_ratio for one in every), 6),
        mean_with_rereads=round(fmean(one.cost_with_rereads for one in every), 6),
        worst_with_rereads=max(one.cost_with_rereads for one in every),
        mean_to_off=round(fmean(one.cost_to_off for one in every), 6),
    )


def as_json(runs: Sequence[Run]) -> str:
    """Return JSON with `results`, one for each file and policy, and `totals`, one for each policy."""
    results = []
    for run in runs:
        requests = [
            {**asdict(one), "edits": [effect._asdict() for effect in one.edits]} for one in run.requests
        ]
        named = {"policy": run.policy, "file": run.file, "requests": requests}
        results.append({**named, **asdict(run.figures)})
    totals = [{"policy": policy, **asdict(figures)} for policy, figures in figures_by_policy(runs).items()]
    return json.dumps({"results": results, "totals": totals}, ensure_ascii=False)


MARKDOWN_COLUMNS: tuple[tuple[str, Callable[[ReplayFigures], str]], ...] = (
    ("cost", lambda f: f"{f.mean_cost_ratio:.2f}"),
    ("with re-reads: mean", lambda f: f"{f.mean_with_rereads:.2f}"),
    ("sum", lambda f: f"{f.cost_with_rereads:.2f}"),
    ("worst", lambda f: f"{f.worst_with_rereads:.2f}"),
    ("to `off`: mean", lambda f: f"{f.mean_to_off:.2f}"),
    ("sum", lambda f: f"{f.cost_to_off:.2f}"),
    ("edits out of view", lambda f: f"{f.edits_out_of_view:.1%}"),
    ("references out of view", lambda f: f"{f.recoverable_references + f.lost_references:.1%}"),
    ("breaks / 100 calls", lambda f: f"{f.cache_breaks_per_100:.1f}"),
    ("summaries", lambda f: f"{f.summaries}"),
    ("refused", lambda f: f"{f.refused_requests}"),
)


def as_markdown(by_tier: Mapping[str, Sequence[Run]], groups: Sequence[Collection[str]]) -> str:
    """Return a table with a row for each policy and price tier, and the columns MARKDOWN_COLUMNS.

    `groups` are the names of the files of each half, or of all; a cell contains one figure for each group.
    A second table has the mean and the worst cost with re-reads by the length of the sessions.
    """
    head = ["policy", "prices", *(name for name, _ in MARKDOWN_COLUMNS)]
    rows = [head, ["---"] * len(head)]
    policies = dict.fromkeys(run.policy for runs in by_tier.values() for run in runs)
    for policy in policies:
        for tier, runs in by_tier.items():
            own = [run for run in runs if run.policy == policy]
            parts = [_over_sessions([run for run in own if run.file in names]) for names in groups]
            cells = [" / ".join(map(show, parts)) for _, show in MARKDOWN_COLUMNS]
            rows.append([f"`{policy}`", tier, *cells])
    first = next(iter(by_tier.values()))
    counted = [[run for run in first if run.policy == first[0].policy and run.file in g] for g in groups]
    sizes = " / ".join(f"{len(runs)} sessions, {_calls(runs):,} calls" for runs in counted)
    return f"{sizes}.\n\n{_table(rows)}\n{_table(_rows_by_length(by_tier, groups))}"


def _table(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _rows_by_length(
    by_tier: Mapping[str, Sequence[Run]], groups: Sequence[Collection[str]]
) -> Iterator[list[str]]:
    """Yield the rows of the table by length: the mean and the worst session of each group in a cell."""
    bounds = [0, *LENGTHS, sys.maxsize]
    heads = [f"under {LENGTHS[0]} calls", *(f"from {low} calls" for low in LENGTHS)]
    yield ["policy", "prices", *heads]
    yield ["---"] * (2 + len(heads))
    for policy in dict.fromkeys(run.policy for runs in by_tier.values() for run in runs):
        for tier, runs in by_tier.items():
            cells = []
            for low, high in itertools.pairwise(bounds):
                own = [run for run in runs if run.policy == policy and low <= run.totals.calls < high]
                parts = [[run.figures.cost_with_rereads for run in own if run.file in g] for g in groups]
                cells.append(" / ".join(f"{fmean(p):.2f}, {max(p):.2f}" if p else "-" for p in parts))
            yield [f"`{policy}`", tier, *cells]


def _calls(runs: Iterable[Run]) -> int:
    return sum(run.totals.calls for run in runs)
