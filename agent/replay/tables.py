"""The figures of a replay for other programs, and as a table for a README."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .cost import Figures, Request, Run, mean_of_ratios, totals


def as_json(runs: Sequence[Run]) -> str:
    """`results`, one for each file and policy, and `totals`, one for each policy."""
    results = [
        {
            "policy": run.policy,
            "file": run.file,
            "requests": [_request(request) for request in run.requests],
            **asdict(run.figures),
        }
        for run in runs
    ]
    sums = [{"policy": policy, **asdict(figures)} for policy, figures in totals(runs).items()]
    return json.dumps({"results": results, "totals": sums}, ensure_ascii=False)


def _request(request: Request) -> dict[str, Any]:
    return {
        "index": request.index,
        "view_tokens": request.view_tokens,
        "cache_read": request.cache_read,
        "cache_written": request.cache_written,
        "edits": [{"layer": layer, "freed_tokens": freed} for layer, freed in request.edits],
    }


def as_markdown(by_tier: Mapping[str, Sequence[Run]]) -> str:
    """Policies down, tiers across: cost, and cost with re-reads; then what does not depend on a price.

    Costs are sums over sums of the baselines; in brackets the mean of the sessions' own ratios.
    """
    tiers = list(by_tier)
    sums = {tier: totals(runs) for tier, runs in by_tier.items()}
    first = next(iter(sums.values()))
    head = ["policy", *tiers, "lost", "recoverable", "breaks / 100 calls", "summaries", "invalid"]
    rows = [head, ["---"] * len(head)]
    for policy, figures in first.items():
        costs = [_costs(by_tier[tier], sums[tier][policy], policy) for tier in tiers]
        rows.append([f"`{policy}`", *costs, *_rest(figures)])
    files = len({run.file for run in next(iter(by_tier.values()))})
    calls = sum(run.tally.calls for run in next(iter(by_tier.values())) if run.policy == next(iter(first)))
    note = f"{files} sessions, {calls:,} calls; the columns from `lost` on are at `{tiers[0]}`.\n\n"
    return note + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _costs(runs: Sequence[Run], figures: Figures, policy: str) -> str:
    plain, with_rereads = mean_of_ratios(runs, policy)
    return f"{figures.cost_ratio:.2f} → {figures.cost_with_rereads:.2f} ({plain:.2f} → {with_rereads:.2f})"


def _rest(figures: Figures) -> list[str]:
    return [
        f"{figures.lost_references:.1%}",
        f"{figures.recoverable_references:.1%}",
        f"{figures.cache_breaks_per_100:.1f}",
        str(figures.summaries),
        str(figures.invalid_views),
    ]
