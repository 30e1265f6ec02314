"""Lines of JSON, read with patience: what cannot be parsed is counted and left behind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

LOOKED_AT = 40  # lines that are looked at to tell the format; headers and notes come before the talk


@dataclass(frozen=True, slots=True)
class Sample:
    """What a file begins with: its first objects if it has one a line, or the one value that it is."""

    objects: tuple[Mapping[str, Any], ...]
    whole: Any = None


def sample(text: str) -> Sample:
    """The beginning of a file, parsed."""
    objects: list[Mapping[str, Any]] = []
    for line in text.split("\n", LOOKED_AT)[:LOOKED_AT]:
        if (value := parse(line)) is not None:
            objects.append(value)
    if objects and "\n" in text.strip():
        return Sample(tuple(objects))
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    return Sample(tuple(objects), whole)


def parse(line: str) -> dict[str, Any] | None:
    """The object on a line, or None where there is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def objects(text: str) -> tuple[list[dict[str, Any]], int]:
    """Every object of a file with one a line, and how many lines that are not blank hold none."""
    found: list[dict[str, Any]] = []
    damaged = 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        value = parse(line)
        if value is None:
            damaged += 1
        else:
            found.append(value)
    return found, damaged


def seconds(stamp: Any) -> float | None:
    """A time in seconds since the epoch: from ISO 8601, seconds or milliseconds; None if it is no time."""
    if isinstance(stamp, bool):
        return None
    if isinstance(stamp, int | float):
        return stamp / 1000 if stamp > 1e11 else float(stamp)  # 1e11 s is the year 5138
    if not isinstance(stamp, str):
        return None
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None
