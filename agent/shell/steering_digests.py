"""Compute the digests of files of a project that steer programs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence

from tools.files import is_inside

# ruff: noqa: PTH112, PTH113, PTH118, PTH120
from transcripts.patterns import lazy_bytes_pattern, lazy_pattern

from .git_files import file_bytes
from .option_syntax import NotProved

_MAX_FILES = 200  # of one command
_MAX_BYTES = 1_000_000  # of one file
_SCRIPT = lazy_pattern(r"\.(?:sh|bash|py|js|mjs|cjs|ts|rb|pl|php|lua|mk|gradle|kts|ya?ml|toml|json)\Z")
_MADE = lazy_pattern(r"(?:\A|/)(?:node_modules|dist|build|out|target|\.venv|venv)/")  # change with each build
_PATH = lazy_bytes_pattern(rb"[\w@%+.-]*(?:/[\w@%+.-]+)+|[\w@%+-]+\.[A-Za-z]{1,4}\b")


def steering_digests(
    names: Sequence[str], operands: Sequence[str], *, folder: str, project: str
) -> dict[str, str]:
    """Return the digest of each of these files by its path in the project, and of scripts that they name.

    They are looked for in `folder`, above it, and in directories that the operands name.
    """
    places = [*_upwards(folder, project)]
    below = (os.path.normpath(os.path.join(folder, word)) for word in operands)
    places += [place for place in below if os.path.isdir(place)]
    waiting = [os.path.normpath(os.path.join(place, name)) for place in places for name in names]
    found: dict[str, str] = {}
    for is_named in (False, True):
        later: list[str] = []
        for path in dict.fromkeys(waiting):
            shown = os.path.relpath(path, project)
            is_known = shown in found or len(found) >= _MAX_FILES
            if is_known or not is_inside(path, project) or not os.path.isfile(path):
                continue
            content = _content(path)
            found[shown] = hashlib.sha256(content).hexdigest()
            if not is_named:
                later += _named_in(content, os.path.dirname(path))
        waiting = later
    return found


def _upwards(folder: str, project: str) -> Iterator[str]:
    while is_inside(folder, project):
        yield folder
        if folder == project or folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)


def _content(path: str) -> bytes:
    try:
        return file_bytes(path, _MAX_BYTES)
    except NotProved as unreadable:
        return str(unreadable).encode()


def _named_in(content: bytes, folder: str) -> Iterator[str]:
    """Yield the paths of the scripts that a file names, apart from what a build makes."""
    for word in map(os.fsdecode, dict.fromkeys(_PATH.findall(content))):
        if _SCRIPT.search(word) and not _MADE.search(word):
            yield os.path.normpath(os.path.join(folder, word.lstrip("/")))
