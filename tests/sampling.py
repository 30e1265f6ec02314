"""Run a sample of many like cases in the gate, and all of them with `-m sweep`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """The cases for `parametrize`: the first and each `every`th after it run always, the others in sweeps."""
    return [
        case if place % every == 0 else pytest.param(case, marks=pytest.mark.sweep)
        for place, case in enumerate(cases)
    ]
