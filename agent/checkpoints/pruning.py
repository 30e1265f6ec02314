"""Make room in the store of checkpoints: contents that no recent log names go once the store is half full.

Most contents were put aside by a look at the project before a command, and the command left them alone: no
log names them, and they are put aside again when they are needed.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

FRESH = 3_600.0  # seconds; contents are put aside before the log that names them is written
RECENT = (
    30 * 86_400.0
)  # seconds since a session last changed a file; an older one cannot restore files any more
_NAME = re.compile(rb'"([0-9a-f]{64})"')


def prune(objects: Path, most: int) -> int:
    """The bytes in the store, after making room if there were more than `most`.

    `objects` is the folder of the contents; the logs and looks of the sessions lie beside it.
    """
    now = time.time()
    found = [(path, path.stat()) for path in objects.rglob("*") if path.is_file()]
    size = sum(about.st_size for _, about in found)
    if size <= most:
        return size
    named = _named(objects.parent, now)
    for path, about in found:
        if path.parent.name + path.name not in named and now - about.st_mtime > FRESH:
            with suppress(FileNotFoundError):  # another agent in the project tidies as well
                path.unlink()
            size -= about.st_size
    return size


def _named(home: Path, now: float) -> set[str]:
    """The names in all logs of recent sessions and in the looks of commands that run or were cut short."""
    named: set[str] = set()
    with os.scandir(home) as entries:
        for entry in entries:
            recent = now - entry.stat().st_mtime < RECENT
            if entry.name.endswith(".look") or (entry.name.endswith(".jsonl") and recent):
                named.update(match.decode() for match in _NAME.findall(Path(entry.path).read_bytes()))
    return named
