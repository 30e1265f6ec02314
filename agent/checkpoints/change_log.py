"""The log of what the agent changed: one JSON line for each change of a path, in a session's own file."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from transcripts.disk import add_line

from .snapshot import PathState, ProjectSnapshot


@dataclass(slots=True)
class FileChange:
    """What happened to a path in one stretch of work: as it was, as it was left (None: interrupted)."""

    seq: int
    path: str
    before: PathState
    after: PathState | None = None


def read(path: Path) -> list[FileChange]:
    """The changes of a log. A later line about the same work says how it ended; a torn line is left out."""
    found: list[FileChange] = []
    begun: dict[tuple[int, str], FileChange] = {}
    try:
        lines = path.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
    for line in lines:
        with suppress(ValueError, TypeError):
            seq, name, before, after = json.loads(line)
            change = FileChange(int(seq), str(name), _state(before), _state(after) if after else None)
            if change.path.startswith("/") or ".." in change.path.split("/"):
                continue  # nothing that we wrote: the log lies in the project, and may have come with it
            earlier = begun.pop((change.seq, change.path), None)
            if earlier is not None:
                earlier.after = change.after
                continue
            found.append(change)
            if change.after is None:
                begun[change.seq, change.path] = change
    return found


def append(path: Path, change: FileChange) -> None:
    """Add a line. Raises OSError."""
    after = astuple(change.after) if change.after else None
    line = json.dumps([change.seq, change.path, astuple(change.before), after])
    fd = _private(path, os.O_APPEND | os.O_RDWR)
    try:
        add_line(fd, line.encode())
    finally:
        os.close(fd)


def copy_log(path: Path, fresh: Path) -> None:
    """Give another session the log as it is now. Raises OSError."""
    with os.fdopen(_private(fresh, os.O_EXCL | os.O_WRONLY), "wb") as file:
        file.write(path.read_bytes())


def save_look(path: Path, seq: int, look: ProjectSnapshot) -> None:
    """Keep a look while a command runs, so that a crash does not lose it. Raises OSError."""
    states = {name: astuple(state) for name, state in look.states.items()}
    fresh = path.with_suffix(".new")
    with os.fdopen(_private(fresh, os.O_TRUNC | os.O_WRONLY), "w", encoding="utf-8") as file:
        json.dump([seq, look.complete, states], file)
    fresh.replace(path)


def load_look(path: Path) -> tuple[int, ProjectSnapshot] | None:
    """The look of a command that never finished, and when it was taken; None where there is none."""
    try:
        seq, complete, states = json.loads(path.read_text("utf-8"))
        return int(seq), ProjectSnapshot({name: _state(raw) for name, raw in states.items()}, bool(complete))
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _state(raw: Any) -> PathState:
    kind, mode, value, stamp = raw
    return PathState(kind, int(mode), str(value), str(stamp))


def _private(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
