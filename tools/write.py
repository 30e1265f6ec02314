"""The write tool: give a file all of its content, whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from .atomic_write import WriteRequest
from .base import Access, SeenFile, ToolCall, ToolContext, ToolError, ToolResult, text_result
from .file_target import STALE, FileArguments, change, check_text, known
from .patch import diff
from .paths import shown
from .safe_open import FileContent, explain, load_file
from .text_encoding import TextForm, decode, pluralize, presentable, unified_ends

_DESCRIPTION = """\
Writes a file: creates it, with the folders above it, or replaces all of its content.

- A file that exists must have been read first, and must not have changed since.
- Prefer edit for changes in a file that exists.
- Encoding, byte order mark and line ends of a replaced file stay as they were; use plain newlines."""


class WriteArguments(FileArguments):
    """A file and its content."""

    content: str = Field(description="The whole content of the file.")


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a write comes to; `form` is that of the file that is replaced."""

    loaded: FileContent | None
    data: bytes
    before: str
    after: str
    form: TextForm


@dataclass(frozen=True, slots=True)
class Write:
    name: str = "write"
    description: str = _DESCRIPTION
    arguments: type[WriteArguments] = WriteArguments
    parallel: bool = False

    def title(self, arguments: WriteArguments) -> str:
        return arguments.title()

    def touches(self, arguments: WriteArguments, context: ToolContext) -> tuple[Access, ...]:
        return (arguments.aim(context, "write", new=True),)

    def preview(self, arguments: WriteArguments, context: ToolContext) -> Mapping[str, Any]:
        """What the write would change, for the person who is asked; the write is then bound to this content.

        Raises ToolError when it cannot be done anyway.
        """
        path = arguments.target(context, "write", new=True)
        try:
            plan = _plan(path, arguments, context)
        except OSError as error:
            raise explain(error, path) from error
        arguments.bind(plan.loaded)
        return _human(plan, path, context)

    async def run(self, arguments: WriteArguments, call: ToolCall) -> ToolResult:
        context = call.context
        path = arguments.target(context, "write", new=True)
        plans: list[_Plan] = []

        def work() -> WriteRequest | None:
            plan = _plan(path, arguments, context)
            arguments.check_bound(plan.loaded)
            plans.append(plan)
            same = plan.loaded is not None and plan.loaded.data == plan.data
            return None if same else WriteRequest(path, plan.data, plan.loaded, context.journals)

        note = await change(call, path, work)
        plan = plans[-1]
        sha256 = hashlib.sha256(plan.data).hexdigest()
        context.seen[path] = SeenFile(sha256)
        told = _told(plan, shown(path, context.folder))
        text = f"{told}\n{note}" if note else told
        return text_result(text, human=_human(plan, path, context), about={"path": path, "sha256": sha256})


def _plan(path: str, arguments: WriteArguments, context: ToolContext) -> _Plan:
    """Work out the bytes. Raises ToolError with the reason why not, OSError."""
    check_text(arguments.content, "content")
    if arguments.file_path.endswith("/"):
        raise ToolError(f"{shown(arguments.file_path)} names a folder.\nGive the path of a file.")
    try:
        loaded = load_file(path)
    except FileNotFoundError:
        return _Plan(None, arguments.content.encode(), "", unified_ends(arguments.content), TextForm())
    if loaded.data and known(context, loaded).sha256 != loaded.sha256:
        raise ToolError(STALE)
    decoded = decode(loaded.data)
    if decoded is None:
        raise ToolError(f"{shown(path)} is a binary file.\nRemove it with bash if it shall become text.")
    before, form = decoded
    if form.strays and "\ufffd" in arguments.content:
        raise ToolError(
            "content holds \ufffd, which only stands for bytes of this file that are no text.\n"
            "Use edit for the parts that change; these bytes then stay as they are."
        )
    data = form.mark + _encoded(arguments.content, form, path)
    return _Plan(loaded, data, unified_ends(before), unified_ends(arguments.content), form)


def _encoded(content: str, form: TextForm, path: str) -> bytes:
    """The content as the old file would say it. Carriage returns that the model wrote itself are meant."""
    if form.mark:
        content = content.removeprefix("\ufeff")
    if form.newline not in ("", "\n") and "\r" not in content:
        content = content.replace("\n", form.newline)
    try:
        return form.encode(content)
    except UnicodeEncodeError as error:
        wrong = error.object[error.start : error.start + 1]
        raise ToolError(
            f"{shown(path)} is written in {form.codec}, which has no {wrong!r}.\n"
            "Use other characters, or convert the file to UTF-8 with bash (iconv) first."
        ) from error


def _human(plan: _Plan, path: str, context: ToolContext) -> Mapping[str, Any]:
    changes = diff(presentable(plan.before), plan.after, shown(path, context.folder))
    return {"diff": changes.text, "note": changes.note}


def _told(plan: _Plan, name: str) -> str:
    lines = plan.after.count("\n") + (not plan.after.endswith("\n") and bool(plan.after))
    size = f"{pluralize(lines, 'line')}, {pluralize(len(plan.data), 'byte')}"
    if plan.loaded is None:
        return f"File created successfully at: {name} ({size})"
    if plan.loaded.data == plan.data:
        return f"The file {name} already has exactly this content ({size}); nothing was written."
    kept = f" {plan.form.note}" if plan.form.codec != "utf-8" else ""
    return f"The file {name} has been updated ({size}).{kept}"


WRITE = Write()
