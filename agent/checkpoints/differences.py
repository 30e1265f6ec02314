"""What a session changed in the project: each file as it was before its first change, compared with it now.

Reads only. It does not wait for a running command, whose changes are known when it has ended.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from tools.files.patch import unified_diff

from .recorder import Checkpoints
from .snapshot import PathState

MAX_COMPARED_FILE_BYTES = 4 << 20
_BINARY_PROBE_BYTES = 8_192  # a NUL among these tells that a file is not text


@dataclass(frozen=True, slots=True)
class FileDifference:
    """One changed path. `how` is new, changed or gone; `text` a unified diff, or "" where `why` says why."""

    path: str
    how: str
    added: int = 0
    removed: int = 0
    text: str = ""
    why: str = ""


def differences(checkpoints: Checkpoints) -> list[FileDifference]:
    """What the session changed and that still differs, by path. Reads files: call it in a thread."""
    first: dict[str, PathState] = {}
    for change in list(checkpoints.log.changes):
        first.setdefault(change.path, change.before)
    found = (_difference(checkpoints, path, before) for path, before in sorted(first.items()))
    return [difference for difference in found if difference is not None]


def _difference(checkpoints: Checkpoints, path: str, before: PathState) -> FileDifference | None:
    kind, new = _read_now(checkpoints, path)
    if before.kind == "dir" or kind == "dir":
        return None  # a folder shows in its files
    old = _read_before(checkpoints, before)
    if before.kind == kind and old is not None and old == new:
        return None
    how = "new" if before.kind == "none" else "gone" if kind == "none" else "changed"
    if old is None or new is None:
        return FileDifference(path, how, why="too large to compare, or not kept")
    if b"\0" in old[:_BINARY_PROBE_BYTES] or b"\0" in new[:_BINARY_PROBE_BYTES]:
        return FileDifference(path, how, why=f"binary, {len(old):,} -> {len(new):,} bytes")
    before_text, text = (content.decode("utf-8", "replace").replace("\r\n", "\n") for content in (old, new))
    made = unified_diff(before_text, text, path)
    why = "" if made.text else "line ends only"
    return FileDifference(path, how, made.added, made.removed, made.text, why)


def _read_before(checkpoints: Checkpoints, state: PathState) -> bytes | None:
    """The contents recorded for a state, the target of a link; None where none were kept."""
    if state.kind in ("none", "link"):
        return os.fsencode(state.value)
    return checkpoints.scanner.store.get(state.value) if state.value else None


def _read_now(checkpoints: Checkpoints, path: str) -> tuple[str, bytes | None]:
    """(kind, contents) of what stands at a path now, the target of a link; None for too large contents."""
    state = checkpoints.scanner.state(path, max_bytes=-1)  # stores nothing
    if state.kind != "file":
        return state.kind, None if state.kind == "other" else os.fsencode(state.value)
    try:
        with (checkpoints.root / path).open("rb") as file:
            content = file.read(MAX_COMPARED_FILE_BYTES + 1)
    except OSError:
        return "other", None
    return "file", content if len(content) <= MAX_COMPARED_FILE_BYTES else None
