"""What the file tools have in common: the file a call is aimed at, and what the model knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr

from .atomic_write import WriteRequest, atomic_write, stop_when
from .base import Access, Arguments, SeenFile, ToolCall, ToolContext, ToolError
from .patch import holds_placeholder
from .paths import expand, judge_path, shown
from .safe_open import PATIENCE, FileChanged, FileContent, explain, within
from .text_encoding import has_surrogate

UNREAD = "File has not been read yet. Read it first before writing to it."
STALE = (
    "File has been modified since read, either by the user or by a linter. "
    "Read it again before attempting to write it."
)
_TRIES = 20  # times a change is worked out anew because another program changed the file in between


class FileArguments(Arguments):
    """Parameters with a path. They also carry what was found when the call was judged.

    The path that was judged is the one that is opened; the content a person was asked about is the one
    that is changed. Both are private: they are no part of what the model sent.
    """

    file_path: str = Field(description="Path of the file, absolute or relative to the current folder.")
    _target: str | None = PrivateAttr(default=None)
    _asked_about: str | None = PrivateAttr(default=None)

    def aim(self, context: ToolContext, kind: Literal["read", "write"], new: bool = False) -> Access:
        """Judge the path and hold on to it. Raises ToolError."""
        touch = judge_path(context, self.file_path, kind, new)
        self._target = touch.target
        return touch

    def target(self, context: ToolContext, kind: Literal["read", "write"], new: bool = False) -> str:
        """The real path that was judged; it is judged now where nobody did."""
        return self._target or self.aim(context, kind, new).target

    def bind(self, loaded: FileContent | None) -> None:
        """The person is asked about a change of this content (None: there is no file)."""
        self._asked_about = loaded.sha256 if loaded is not None else ""

    def check_bound(self, loaded: FileContent | None) -> None:
        """Raises ToolError when the file is not any more what the person was asked about."""
        if self._asked_about not in (None, loaded.sha256 if loaded is not None else ""):
            raise ToolError(f"{STALE}\nIt changed while permission was asked for; nothing was written.")

    def title(self) -> str:
        """The path on one line, `~` expanded, with nothing a terminal obeys."""
        try:
            return shown(expand(self.file_path))
        except ToolError:
            return shown(self.file_path)


def check_text(text: str, name: str) -> None:
    """Raises ToolError for text that must not come into a file."""
    if has_surrogate(text):
        raise ToolError(
            f"{name} holds half a character (a lone surrogate), which no file can store.\nSend it without."
        )
    if holds_placeholder(text):
        raise ToolError(
            f"{name} holds a placeholder for what was cleared from this conversation, not the content.\n"
            "Read the file again, or recall the original by the id it names, and send the real text."
        )


def known(context: ToolContext, loaded: FileContent) -> SeenFile:
    """What the model saw of the file. Raises ToolError where it never read it."""
    seen = context.seen.get(loaded.path)
    if seen is None:
        raise ToolError(UNREAD)
    return seen


async def change(call: ToolCall, path: str, plan: Callable[[], WriteRequest | None]) -> str:
    """Work a change out and save it, one after another for each file. Returns a note or "".

    `plan` does blocking work; it is asked again when another program changed the file in between, and may
    say None: nothing is to be written. Raises ToolError.
    """
    lock: asyncio.Lock = call.context.locks.setdefault(path, asyncio.Lock())
    async with lock:
        for _ in range(_TRIES):
            job = await _quick(path, plan, call.context)
            if job is None:
                return ""
            if call.checkpoint is not None:
                await call.checkpoint(Path(path))
            try:
                return await _saved(path, job, call.context)
            except FileChanged:
                continue
    raise ToolError(f"{shown(path)} keeps being changed by another program.\nRead it again, then retry.")


async def _quick(
    path: str, plan: Callable[[], WriteRequest | None], context: ToolContext
) -> WriteRequest | None:
    try:
        return await within(PATIENCE, lambda gone: plan())
    except OSError as error:
        raise explain(error, path, context.folder) from error


async def _saved(path: str, job: WriteRequest, context: ToolContext) -> str:
    def work(gone: object) -> str:
        return atomic_write(WriteRequest(job.path, job.data, job.old, job.spare, stop_when(gone)))  # type: ignore[arg-type]

    try:
        return await within(PATIENCE, work)
    except OSError as error:
        raise explain(error, path, context.folder) from error
