"""The common part of edit and write: plan a change to a file, preview it, make it, report it."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from tools.base import Tool, ToolAdvice, ToolCall, ToolContext, ToolError, ToolResult, text_result
from tools.file_errors import os_errors_explained
from tools.files import (
    FileChanged,
    FileContent,
    SeenFile,
    WriteRequest,
    atomic_write,
    in_thread,
    one_line_path,
)
from tools.left_out_text import added_omission, added_placeholder
from tools.parameters import FileArguments
from tools.text import TextForm, decode_text, has_surrogate, mark_stray_bytes
from tools.unified_diff import UnifiedDiff, unified_diff
from tools.user_questions import Preview
from transcripts import Display

STALE_FILE = (
    "File has been modified since read, either by the user or by a linter. "
    "Read it again before attempting to write it."
)
_UTF8 = TextForm()
A = TypeVar("A", bound=FileArguments)


class _AbandonedError(Exception):
    """The write was abandoned: nothing was changed, and no caller waits for it."""


class PlannedChange(Struct, frozen=True):
    """A planned change of a file. The texts have unified line endings."""

    old: FileContent | None  # the file as it is; None for a new file
    data: bytes  # its whole new content
    before: str
    after: str
    form: TextForm = _UTF8  # of the old file
    start: int = 0  # the offset in `after` where an edit begins, in characters
    count: int | None = None  # the number of replacements of an edit
    stale: bool = False  # the file changed since the model saw it, but the edit still applies

    @property
    def writes(self) -> bool:
        """Return whether there is anything to write."""
        return self.old is None or self.old.data != self.data


def changing_tool(
    name: str,
    description: str,
    arguments: type[A],
    plan: Callable[[A, str, ToolContext], PlannedChange],
    describe: Callable[[A, str, PlannedChange], str],
    brief: str,
    advice: tuple[ToolAdvice, ...] = (),
) -> Tool:
    """Return a tool that changes one file.

    plan      computes the change from the arguments, the real path and the context. Blocking. Raises
              ToolError with the reason if it is not possible, OSError.
    describe  returns the text for the model, given the arguments, the path as shown, and the change
    brief     see `Tool.brief`
    advice    see `Tool.advice`
    """

    def preview(given: A, context: ToolContext) -> Preview:
        """Return the preview for the user; the call is then bound to the content that the file has now."""
        path = given.real_path(context)
        with os_errors_explained(path, context.folder):
            change = plan(given, path, context)
        given.approve(change.old.sha256 if change.old else "")
        return Preview(diff=_diff(change, path, context).text, changes=change.writes)

    async def run(given: A, call: ToolCall) -> ToolResult:
        context = call.context
        path = given.real_path(call.context)
        change, note = await _apply(given, path, call, lambda: plan(given, path, context))
        sha256 = hashlib.sha256(change.data).hexdigest()
        encoding = change.form.hint
        context.seen[path] = SeenFile(sha256, encoding=encoding)
        text = describe(given, one_line_path(path, context.folder), change)
        about = {"path": path, "sha256": sha256, **({"count": change.count} if change.count else {})}
        about |= {"encoding": encoding} if encoding else {}
        diff = _diff(change, path, context)
        human = Display(diff=diff.text, note=diff.note)
        return text_result(f"{text}\n{note}" if note else text, human=human, about=about)

    title = arguments.title
    access = arguments.access
    return Tool(
        name,
        description=description,
        arguments=arguments,
        kind="writes",
        title=title,
        access=access,
        run=run,
        preview=preview,
        brief=brief,
        advice=advice,
    )


def check_text(text: str, parameter: str) -> None:
    """Check that a text can be written to a file. Raises ToolError."""
    if has_surrogate(text):
        raise ToolError(
            f"{parameter} contains a lone surrogate (half a character), which a file cannot store.\n"
            "Remove it."
        )
    if "\0" in text:
        raise ToolError(
            f"{parameter} contains a NUL character, which would make the file binary.\n"
            "Use an escape sequence such as \\0."
        )


def check_placeholder(new: str, old: str, parameter: str) -> None:
    """Raise ToolError if `new` contains a placeholder of the conversation that `old` does not."""
    if found := added_placeholder(new, old):
        raise ToolError(
            f"{parameter} contains the placeholder {found!r}, which exists only in this conversation.\n"
            "Send the text that it stands for: read those lines of the file again, or replace only the part "
            "that changes."
        )


def check_omission(new: str, old: str, parameter: str) -> None:
    """Raise ToolError if `new` contains a comment for omitted code, which would replace that code."""
    if omission := added_omission(new, old):
        raise ToolError(
            f"{parameter} contains {omission!r}, which would replace the code that it stands for.\n"
            "Write that code out, or make a smaller edit. If the line is meant literally, reword it."
        )


def decoded_as_seen(file: FileContent, context: ToolContext) -> tuple[str, TextForm] | None:
    """Return the file's text and form, in the encoding in which the model saw it; None if it is binary."""
    seen = context.seen.get(file.path)
    return decode_text(file.data, seen.encoding if seen is not None else "")


def check_encoding(path: str, form: TextForm, new: str, before: str) -> None:
    """Raise ToolError if the encoding is a guess and `new` adds non-ASCII characters."""
    unknown = sorted(set(new) - set(before)) if form.guessed and not new.isascii() else []
    if wrong := next((char for char in unknown if char > "\x7f"), ""):
        raise ToolError(
            f"The encoding of {one_line_path(path)} is unknown: use only ASCII, not {wrong!r}.",
            remedy="Or find out the encoding, convert the file with bash (iconv -f ENCODING -t UTF-8) and "
            "read it again.",
            tools="bash",
        )


def not_encodable(path: str, form: TextForm, error: UnicodeEncodeError) -> ToolError:
    """Return the error about a character that a file's encoding lacks."""
    wrong = error.object[error.start : error.start + 1]
    return ToolError(
        f"{one_line_path(path)} is encoded in {form.codec}, which lacks {wrong!r}; use other characters.",
        remedy="Or convert the file to UTF-8 with bash (iconv) first.",
        tools="bash",
    )


def is_stale(context: ToolContext, content: FileContent) -> bool:
    """Return whether the file changed since the model saw it.

    Raises ToolError if the model never read it.
    """
    seen = context.seen.get(content.path)
    if seen is None:
        raise ToolError("File has not been read yet. Read it first before writing to it.")
    return seen.sha256 != content.sha256


async def _apply(
    arguments: FileArguments, path: str, call: ToolCall, plan: Callable[[], PlannedChange]
) -> tuple[PlannedChange, str]:
    """Plan a change and write it; changes of one file are made one after another. Raises ToolError.

    It is planned again if another program changes the file meanwhile. Returns the change that was made, and a
    note about the write ("" for the usual way).
    """
    lock = call.context.locks.setdefault(path, asyncio.Lock())
    async with lock:
        for _ in range(20):  # another program may change the file each time
            with os_errors_explained(path, call.context.folder):
                change = await in_thread(lambda abandoned: plan())
            if not arguments.is_approved(change.old.sha256 if change.old else ""):
                raise ToolError(f"{STALE_FILE}\nIt changed after this call was checked; nothing was written.")
            try:
                return change, await _written(change, call, path) if change.writes else ""
            except FileChanged:
                continue
    raise ToolError(f"Another program keeps changing {one_line_path(path)}.\nRead it again, then retry.")


async def _written(change: PlannedChange, call: ToolCall, path: str) -> str:
    """Write the file, and return a note about it. Raises FileChanged, ToolError."""
    if call.checkpoint is not None:
        await asyncio.to_thread(call.checkpoint, Path(path))  # stores the file, and looks for its links

    def write(abandoned: threading.Event) -> str:
        def check(stage: str) -> None:
            if stage != "placed" and abandoned.is_set():
                raise _AbandonedError

        return atomic_write(
            WriteRequest(path, data=change.data, old=change.old, journals=call.context.journals, check=check)
        )

    with os_errors_explained(path, call.context.folder):
        return await in_thread(write)


def _diff(change: PlannedChange, path: str, context: ToolContext) -> UnifiedDiff:
    name = one_line_path(path, context.folder)
    return unified_diff(mark_stray_bytes(change.before), mark_stray_bytes(change.after), name)
