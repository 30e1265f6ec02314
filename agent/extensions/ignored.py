"""The parts of extensions that have no effect, which are reported to the user."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tools.sandbox import short_path

MIN_GROUPED_FILES = 4  # fewer are listed one by one


class IgnoredPart(NamedTuple):
    """A part of a file that has no effect, with the reason."""

    path: Path
    name: str
    why: str


def ignored_by_place(parts: Iterable[IgnoredPart]) -> dict[str, list[IgnoredPart]]:
    """Group parts by their file, and files that have nothing but the same part by their directory."""
    of_files: dict[Path, list[IgnoredPart]] = {}
    for part in parts:
        of_files.setdefault(part.path, []).append(part)
    alike: dict[tuple[IgnoredPart, ...], list[Path]] = {}
    for path, found in of_files.items():
        alike.setdefault(tuple(part._replace(path=Path()) for part in found), []).append(path)
    places: dict[str, list[IgnoredPart]] = {}
    for paths in alike.values():
        if len(paths) >= MIN_GROUPED_FILES:
            folder = os.path.commonpath([path.parent for path in paths])
            places[f"{len(paths)} files in {short_path(folder)}"] = of_files[paths[0]]
        else:
            places.update((short_path(str(path)), of_files[path]) for path in paths)
    return places


def ignored_fields(fields: Iterable[str], path: Path, reasons: Mapping[str, str]) -> Iterator[IgnoredPart]:
    """Yield the fields of a file for which there is a reason; other unknown fields mean nothing anywhere."""
    yield from (IgnoredPart(path, name, reasons[name]) for name in fields if name in reasons)
