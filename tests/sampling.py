"""Run a sample of many like cases in the gate, and all of them with `-m sweep`; random texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import strategies as st

# Every character that UTF-8 can encode, by category. On a clean checkout, Hypothesis takes 1.7 s of CPU time
# to find those that a codec can encode, as for `st.text()`.
UNICODE = st.characters(exclude_categories=["Cs"])


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """The cases for `parametrize`: the first and each `every`th after it run always, the others in sweeps."""
    return [
        case if place % every == 0 else pytest.param(case, marks=pytest.mark.sweep)
        for place, case in enumerate(cases)
    ]


def sampled_rows(rows: Iterable[Iterable[Any]], every: int) -> list[Any]:
    """The rows for `parametrize` with several names, chosen as in `sampled`."""
    return [
        pytest.param(*row, marks=() if place % every == 0 else pytest.mark.sweep)
        for place, row in enumerate(rows)
    ]


def scaled(gate: Any, sweep: Any) -> list[Any]:
    """How much of something for `parametrize`: what the gate tries, and the more that sweeps try."""
    return [gate, pytest.param(sweep, marks=pytest.mark.sweep)]
