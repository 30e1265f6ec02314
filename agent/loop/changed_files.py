"""The changes of a call in the project: recorded around it and with its result, and reported for sandboxed
ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace

from agent.checkpoints import THEIRS, Checkpoints, FileChange
from agent.events import Emit, Notice
from tools.base import ToolResult
from tools.text import pluralize
from transcripts import TextBlock, about_changed

_BY_OTHERS = "by another session too"
MAX_TOLD_FILES = 8  # of all kinds; the model can look at more itself


@asynccontextmanager
async def checkpointed(
    checkpoints: Checkpoints, emit: Emit, anything: bool
) -> AsyncIterator[list[FileChange]]:
    """Record what a call changes; where that may be `anything`, the project is looked through.

    What cannot be covered of it is told to the person, once. The list holds the changes once the call
    is over.
    """
    changed: list[FileChange] = []
    await asyncio.to_thread(checkpoints.end_crashed)
    known = len(checkpoints.log.changes)
    if anything:
        await asyncio.to_thread(checkpoints.begin)
        if warning := checkpoints.recording.take_warning():
            emit(Notice(warning, "warning"))
    try:
        yield changed
    finally:
        await asyncio.shield(asyncio.to_thread(checkpoints.finish))
        changed += checkpoints.log.changes[known:]


def with_changed_files(result: ToolResult, changes: Sequence[FileChange], told: bool) -> ToolResult:
    """The result with the files that a command changed: for the record, and where that is to be `told` for
    the person, and for the model if they are few.
    """
    found = _by_kind(changes)
    if not found:
        return result
    own = [(path, kind) for kind, paths in found.items() if kind != _BY_OTHERS for path in paths]
    result = replace(result, about={**result.about, **about_changed(dict(own[:100]))})
    if not told:
        return result
    shown = ", ".join(f"{kind} {_names(names, 3)}" for kind, names in found.items())
    note = str(result.human.get("note", ""))
    human = {**result.human, "note": f"{note}; {shown}" if note else shown}
    if sum(map(len, found.values())) > MAX_TOLD_FILES:
        return replace(result, human=human)
    line = "; ".join(f"{kind} {_names(names, MAX_TOLD_FILES)}" for kind, names in found.items())
    return replace(result, human=human, content=(*result.content, TextBlock(f"[files: {line}]")))


def _by_kind(changes: Sequence[FileChange]) -> Mapping[str, list[str]]:
    """The paths that are "changed", "new", "gone" or somebody else's as well; a folder shows in its files."""
    found: dict[str, list[str]] = {}
    for change in changes:
        after = change.after.kind if change.after is not None else "unseen"
        if "dir" not in (change.before.kind, after):
            if change.after == THEIRS:
                kind = _BY_OTHERS
            elif change.before.kind == "none":
                kind = "new"
            else:
                kind = "gone" if after == "none" else "changed"
            found.setdefault(kind, []).append(change.path)
    return {kind: found[kind] for kind in ("changed", "new", "gone", _BY_OTHERS) if kind in found}


def _names(names: Sequence[str], most: int) -> str:
    names = [name if name.isprintable() else repr(name) for name in names]
    if len(names) <= most:
        return " ".join(names)
    return f"{' '.join(names[: most - 1])} and {pluralize(len(names) - most + 1, 'more file')}"
