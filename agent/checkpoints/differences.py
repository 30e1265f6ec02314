"""What a session changed in the project: each file as it was before it was first touched, against it now.

Only looks. It does not wait for a running command, whose changes are known when it has ended.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from tools.patch import diff

from .recorder import Checkpoints
from .snapshot import PathState

MOST = 4 << 20  # bytes of a file that is compared line by line


@dataclass(frozen=True, slots=True)
class FileDifference:
    """One changed path. `how` is new, changed or gone; `text` a unified diff, or "" where `why` says why."""

    path: str
    how: str
    added: int = 0
    removed: int = 0
    text: str = ""
    why: str = ""


def differences(keeper: Checkpoints) -> list[FileDifference]:
    """All that the session changed and that is not as it was, by path. Reads files: call it in a thread."""
    first: dict[str, PathState] = {}
    for change in list(keeper.changes):
        first.setdefault(change.path, change.before)
    found = (_difference(keeper, path, before) for path, before in sorted(first.items()))
    return [difference for difference in found if difference is not None]


def _difference(keeper: Checkpoints, path: str, before: PathState) -> FileDifference | None:
    kind, new = _now(keeper, path)
    if before.kind == "dir" or kind == "dir":
        return None  # a folder shows in its files
    how = "new" if before.kind == "none" else "gone" if kind == "none" else "changed"
    old = b"" if before.kind == "none" else keeper.content(before)
    if before.kind == kind == "none" or (old is not None and old == new and before.kind == kind):
        return None
    if old is None or new is None:
        return FileDifference(path, how, why="too large to compare, or not kept")
    if b"\0" in old[:8192] or b"\0" in new[:8192]:
        return FileDifference(path, how, why=f"binary, {len(old):,} -> {len(new):,} bytes")
    made = diff(_text(old), _text(new), path)
    return FileDifference(
        path, how, made.added, made.removed, made.text, "" if made.text else "line ends only"
    )


def _now(keeper: Checkpoints, path: str) -> tuple[str, bytes | None]:
    """(kind, contents) of what stands at a path now; a link's contents are its target."""
    place = keeper.root / path
    try:
        about = place.lstat()
        if stat.S_ISLNK(about.st_mode):
            return "link", os.fsencode(place.readlink())
        if stat.S_ISDIR(about.st_mode):
            return "dir", b""
        if not stat.S_ISREG(about.st_mode):
            return "other", None
        return "file", place.read_bytes() if about.st_size <= MOST else None
    except (FileNotFoundError, NotADirectoryError):
        return "none", b""
    except OSError:
        return "other", None


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace").replace("\r\n", "\n")
