"""The write tool: write the whole content of a file, or nothing if that fails."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tools.file_change import (
    STALE_FILE,
    PlannedChange,
    changing_tool,
    check_encoding,
    check_omission,
    check_placeholder,
    check_text,
    decoded_as_seen,
    is_stale,
    not_encodable,
)
from tools.files import load_file, one_line_path
from tools.parameters import FileArguments
from tools.patch import with_line_endings_of
from tools.text import TextForm, unify_newlines
from transcripts.wording import pluralize

from .base import ToolAdvice, ToolContext, ToolError


class WriteArguments(FileArguments):
    """A file and its content."""

    USE = "write"
    content: Annotated[str, Meta(description="Complete content of the file.")]

    @property
    def creates(self) -> bool:
        return True


def _plan_write(arguments: WriteArguments, path: str, context: ToolContext) -> PlannedChange:
    """Compute the bytes. Raises ToolError with the reason if that is not possible, OSError."""
    check_text(arguments.content, "content")
    if arguments.file_path.endswith("/"):
        raise ToolError(f"{one_line_path(arguments.file_path)} is a directory.\nGive the path of a file.")
    after = unify_newlines(arguments.content)
    try:
        file = load_file(path)
    except FileNotFoundError:
        check_placeholder(after, "", "content")
        return PlannedChange(None, data=arguments.content.encode(), before="", after=after)
    decoded = decoded_as_seen(file, context)
    if decoded is None:
        raise ToolError(
            f"{one_line_path(path)} is a binary file.",
            remedy="Remove it with bash to replace it with text.",
            tools="bash",
        )
    if file.data and is_stale(context, file):
        raise ToolError(STALE_FILE)
    before, form = decoded
    if form.has_odd_bytes and "\ufffd" in arguments.content:
        raise ToolError(
            "content contains \ufffd, which stands for bytes of this file that are not text.",
            remedy="Use edit for the parts that change; these bytes are then kept.",
            tools="edit",
        )
    check_placeholder(after, unify_newlines(before), "content")
    check_omission(after, unify_newlines(before), "content")
    check_encoding(path, form, after, before)
    data = form.mark + _encoded(arguments.content, before, form, path)
    return PlannedChange(file, data=data, before=unify_newlines(before), after=after, form=form)


def _encoded(content: str, before: str, form: TextForm, path: str) -> bytes:
    """Return the content in the form of the old file. Carriage returns written by the model are kept."""
    if form.mark:
        content = content.removeprefix("\ufeff")
    if "\r" in before and "\r" not in content:
        content = with_line_endings_of(before, content, form.newline or "\n")
    try:
        return form.encode(content)
    except UnicodeEncodeError as error:
        raise not_encodable(path, form, error) from error


def _describe(arguments: WriteArguments, name: str, change: PlannedChange) -> str:
    lines = change.after.count("\n") + (not change.after.endswith("\n") and bool(change.after))
    size = f"{pluralize(lines, 'line')}, {pluralize(len(change.data), 'byte')}"
    if change.old is None:
        return f"File created successfully at: {name} ({size})"
    if not change.writes:
        return f"The file {name} already has exactly this content ({size}); nothing was written."
    encoding = f" {change.form.note}" if change.form.codec != "utf-8" else ""
    return f"The file {name} has been updated ({size}).{encoding}"


TOOL = changing_tool(
    "write",
    """\
Create a file, with its parent directories, or replace its entire content.

- Read an existing file first; it must not have changed since.
- Encoding, byte order mark and line endings of a replaced file are kept; write plain newlines.""",
    WriteArguments,
    _plan_write,
    _describe,
    advice=(ToolAdvice("edit", "- Prefer {} for changes in an existing file."),),
    brief="Create a file, or replace its entire content; read an existing file first.",
)
