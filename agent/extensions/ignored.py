"""The parts of extensions that have no effect, which are reported to the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class IgnoredPart(NamedTuple):
    """A part of a file that has no effect, with the reason."""

    path: Path
    name: str
    why: str


def ignored_fields(fields: Iterable[str], path: Path, reasons: Mapping[str, str]) -> Iterator[IgnoredPart]:
    """Yield the fields of a file for which there is a reason; other unknown fields mean nothing anywhere."""
    yield from (IgnoredPart(path, name, reasons[name]) for name in fields if name in reasons)
