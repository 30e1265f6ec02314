"""Record the changes that a call makes in the project, and report those of sandboxed commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from agent.checkpoints import THEIRS, UNSEEN, Checkpoints, FileChange, shown_paths
from agent.events import Emit, Notice
from tools.base import ToolContext, ToolResult
from tools.processes import command_runner
from tools.search import run_git_script
from transcripts import Result, TextBlock
from transcripts.wording import pluralize

_T = TypeVar("_T")
SLOW_S = 1.0  # after which the user sees what a command waits for
HANGING = (
    "git did not answer in time in {}: /rewind cannot undo what commands do to its branches, stash and index."
    " Later commands wait for it only briefly"
)
_BY_OTHERS = "by another session too"
MAX_TOLD_FILES = 8  # of all kinds; the model can list more itself


@asynccontextmanager
async def checkpointed(
    checkpoints: Checkpoints, emit: Emit, tools: ToolContext | None
) -> AsyncIterator[list[FileChange]]:
    """Record the changes of a call; if it may change anything with `tools`, compare the whole project.

    Emits one warning about files that cannot be covered. The list is filled when the call has ended.
    """
    changed: list[FileChange] = []
    if tools is not None:
        checkpoints.use_git(tools)
    if checkpoints.recording.crashed:
        await report_if_slow(checkpoints, emit, asyncio.to_thread(checkpoints.catch_up))
    known = len(checkpoints.log.changes)
    if tools is not None:
        await report_if_slow(checkpoints, emit, asyncio.to_thread(checkpoints.begin))
        await keep_refs(checkpoints, emit, tools)
        if warning := checkpoints.recording.take_warning():
            emit(Notice(warning, "warning"))
    try:
        yield changed
    finally:
        await asyncio.shield(_finish(checkpoints, emit, tools))
        changed += (change for change in checkpoints.log.changes[known:] if change.after != UNSEEN)


async def keep_refs(checkpoints: Checkpoints, emit: Emit, tools: ToolContext, is_own: bool = False) -> None:
    """Keep what the project's git repositories refer to, before or after (`is_own`) a command."""
    checkpoints.scanner.activity = "keeping the branches, stash and index of git"
    hanging = checkpoints.recording.keeper.hanging
    known = {*hanging}
    await report_if_slow(checkpoints, emit, checkpoints.keep_refs(partial(run_git_script, tools), is_own))
    if new := [name or "the repository" for name in sorted(hanging - known)]:
        emit(Notice(HANGING.format(shown_paths(new, 3)), "warning"))


async def report_if_slow(checkpoints: Checkpoints, emit: Emit, work: Coroutine[Any, Any, _T]) -> _T:
    """Await work on the checkpoints. After `SLOW_S`, show the user what it does, and later what follows."""
    task = asyncio.ensure_future(work)
    shown = ""
    try:
        while not (await asyncio.wait({task}, timeout=SLOW_S))[0]:
            if checkpoints.scanner.activity != shown:
                shown = checkpoints.scanner.activity
                emit(Notice(f"{shown}..."))
        return await task
    except asyncio.CancelledError:
        task.cancel()
        raise


async def _finish(checkpoints: Checkpoints, emit: Emit, tools: ToolContext | None) -> None:
    if tools is not None:
        await keep_refs(checkpoints, emit, tools, is_own=True)
        checkpoints.note_background(command_runner(tools).running)
    if checkpoints.is_recording:
        await report_if_slow(checkpoints, emit, asyncio.to_thread(checkpoints.finish))
        if kept := checkpoints.recording.take_kept():
            emit(Notice(kept))


def with_changed_files(result: ToolResult, changes: Sequence[FileChange], told: bool) -> ToolResult:
    """Return the result with the files that a command changed, for the transcript.

    With `told` they are also shown to the user and, if they are few, to the model.
    """
    found = _by_kind(changes)
    if not found:
        return result
    own = [(path, kind) for kind, paths in found.items() if kind != _BY_OTHERS for path in paths]
    result = replace(result, about={**result.about, **Result.about_changed(dict(own[:100]))})
    if not told:
        return result
    shown = ", ".join(f"{_shown(kind)} {_names(names, 3)}" for kind, names in found.items())
    note = "; ".join(filter(None, (result.human.note, shown)))
    human = replace(result.human, note=note)
    if sum(map(len, found.values())) > MAX_TOLD_FILES:
        return replace(result, human=human)
    line = "; ".join(f"{_shown(kind)} {_names(names, MAX_TOLD_FILES)}" for kind, names in found.items())
    return replace(result, human=human, content=(*result.content, TextBlock(f"[files: {line}]")))


def _by_kind(changes: Sequence[FileChange]) -> Mapping[str, list[str]]:
    """Return the changed paths by kind: "changed", "new", "gone" or changed by another session as well.

    Directories are left out, as their files show them.
    """
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


def _shown(kind: str) -> str:
    """Return the word for a kind; transcripts contain the kind itself."""
    return "deleted" if kind == "gone" else kind


def _names(names: Sequence[str], most: int) -> str:
    names = [name if name.isprintable() else repr(name) for name in names]
    if len(names) <= most:
        return " ".join(names)
    return f"{' '.join(names[: most - 1])} and {pluralize(len(names) - most + 1, 'more file')}"
