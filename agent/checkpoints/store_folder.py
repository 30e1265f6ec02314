"""The directory of stored contents: make it, and remove contents that no recent session needs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from transcripts import StoreError, ensure_private_folder
from transcripts.patterns import lazy_bytes_pattern
from transcripts.storage import read_regular

RECENT_LOG_S = 30 * 86_400.0  # a session whose last change is older can no longer restore files
MAX_LOG_BYTES = 256 << 20  # a line for each change of a file
_HASH = lazy_bytes_pattern(rb'"([0-9a-f]{64})"')
_STAMP = lazy_bytes_pattern(rb'"([0-9]+ [0-9]+ [0-9]+)"')  # of a file that is not stored


def make_store_folder(folder: Path) -> bool:
    """Make a directory of contents and its parents, all private, and remove links in it.

    A checkout may contain a store that leads out of the project. Return False if that fails, or if the
    directory is a link itself.
    """
    with suppress(OSError, StoreError):
        ensure_private_folder(folder.parents[1])
        ensure_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        if not folder.is_symlink():
            for path in folder.iterdir():
                if path.is_symlink():
                    path.unlink()
            return True
    return False


FRESH_CONTENT_S = 3_600.0  # contents are stored before the log line that names them is written


def prune(folder: Path, max_bytes: int) -> int:
    """Remove contents that no recent session needs if `folder` exceeds `max_bytes`; return the bytes left.

    Most contents were stored by a snapshot before a command that then did not change the files. No log names
    them, and they are stored again when needed. The logs and pending snapshots of the sessions are in the
    parent of `folder`. Raises OSError if these cannot be read.
    """
    now = time.time()
    found = list(_files(folder))
    size = sum(stat.st_size for _, stat in found)
    if size <= max_bytes:
        return size
    needed = _needed(_HASH, folder.parent)
    for path, stat in found:
        digest = "".join(path.rsplit("/", 2)[1:])
        if digest not in needed and now - stat.st_mtime > FRESH_CONTENT_S:
            with suppress(FileNotFoundError):  # another process in the project may be pruning too
                Path(path).unlink()
            size -= stat.st_size
    return size


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files below a directory. Other processes may remove some in the meantime."""
    for above, _, names in os.walk(folder):
        for name in names:
            path = f"{above}/{name}"  # a Path takes twice the time of lstat, for up to 100,000 files
            with suppress(FileNotFoundError):
                yield path, os.lstat(path)


def needed_stamps(folder: Path) -> set[str]:
    """Return the stamps of the files that are not stored and that recent sessions may restore.

    Raises OSError if the logs cannot be read.
    """
    return _needed(_STAMP, folder)


def _needed(pattern: re.Pattern[bytes], folder: Path) -> set[str]:
    """Return what recent logs name, and the snapshots before unfinished commands. Raises OSError."""
    now = time.time()
    needed: set[str] = set()
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            is_recent = now - path.stat().st_mtime < RECENT_LOG_S
            if path.suffix == ".look" or (path.suffix == ".jsonl" and is_recent):
                found = pattern.findall(read_regular(path, MAX_LOG_BYTES))
                needed.update(match.decode() for match in found)
    return needed
