"""The parts of extensions that have no effect, which are reported to the user."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tools.sandbox import short_path


class IgnoredPart(NamedTuple):
    """A part of a file that has no effect, with the reason."""

    path: Path
    name: str
    why: str


class IgnoredPlace(NamedTuple):
    """A file, or several in a directory, with the parts that have no effect in it."""

    place: str
    parts: list[IgnoredPart]


def ignored_by_place(parts: Iterable[IgnoredPart]) -> list[IgnoredPlace]:
    """Group parts by their file, and files that have nothing but the same part by their directory."""
    of_files: dict[Path, list[IgnoredPart]] = {}
    for part in parts:
        of_files.setdefault(part.path, []).append(part)
    alike: dict[tuple[IgnoredPart, ...], list[Path]] = {}
    for path, found in of_files.items():
        alike.setdefault(tuple(part._replace(path=Path()) for part in found), []).append(path)
    places: list[IgnoredPlace] = []
    for paths in alike.values():
        if len(paths) >= 4:  # fewer are listed one by one
            folder = os.path.commonpath([path.parent for path in paths])
            place = f"{len(paths)} files in {short_path(folder)}"
            places.append(IgnoredPlace(place, of_files[paths[0]]))
        else:
            places += (IgnoredPlace(short_path(str(path)), of_files[path]) for path in paths)
    return places


def ignored_fields(fields: Iterable[str], path: Path, reasons: Mapping[str, str]) -> Iterator[IgnoredPart]:
    """Yield the fields of a file for which there is a reason; other unknown fields mean nothing anywhere."""
    yield from (IgnoredPart(path, name, reasons[name]) for name in fields if name in reasons)
