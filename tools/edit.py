"""The edit tool: replace one exact piece of a file and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from .atomic_write import WriteRequest
from .base import Access, SeenFile, ToolCall, ToolContext, ToolError, ToolResult, text_result
from .edit_diagnostics import diagnose_mismatch
from .file_target import STALE, FileArguments, change, check_text, known
from .patch import NotRepresentable, Source, diff, line_numbers, matches, overlap, snippet, source, splice
from .paths import shown
from .safe_open import FileContent, explain, load_file
from .text_encoding import TextForm, decode, presentable, unified_ends

_LISTED = 20  # line numbers named when there are several matches
_DESCRIPTION = """\
Replaces old_string by new_string in a file, exactly, and nothing else.

- Read the file first. old_string must be copied exactly, with its indentation, but without the line numbers \
and the tab that read puts before each line.
- old_string must be unique in the file: add lines around it, or set replace_all to replace every occurrence.
- Line ends, encoding and byte order mark stay as they are; use plain newlines in both strings.
- An empty old_string creates a file that does not exist yet, or fills an empty one."""


class EditArguments(FileArguments):
    """A replacement in a file."""

    old_string: str = Field(description="The text to replace.")
    new_string: str = Field(description="The text to put in its place; it must differ from old_string.")
    replace_all: bool = Field(False, description="Replace every occurrence of old_string.")


@dataclass(slots=True)
class _Plan:
    """What an edit comes to: the texts before and after, where it is, and what there is to say."""

    loaded: FileContent | None
    data: bytes
    before: str
    after: str
    start: int
    count: int
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    name: str = "edit"
    description: str = _DESCRIPTION
    arguments: type[EditArguments] = EditArguments
    parallel: bool = False

    def title(self, arguments: EditArguments) -> str:
        return arguments.title()

    def touches(self, arguments: EditArguments, context: ToolContext) -> tuple[Access, ...]:
        return (arguments.aim(context, "write", new=not arguments.old_string),)

    def preview(self, arguments: EditArguments, context: ToolContext) -> Mapping[str, Any]:
        """What the edit would change, for the person who is asked; the edit is then bound to this content.

        Raises ToolError when it cannot be done anyway.
        """
        path = arguments.target(context, "write", new=not arguments.old_string)
        try:
            plan = _plan(path, arguments, context)
        except OSError as error:
            raise explain(error, path, context.folder) from error
        arguments.bind(plan.loaded)
        return _human(plan, path, context)

    async def run(self, arguments: EditArguments, call: ToolCall) -> ToolResult:
        context = call.context
        path = arguments.target(context, "write", new=not arguments.old_string)
        plans: list[_Plan] = []

        def work() -> WriteRequest:
            plan = _plan(path, arguments, context)
            arguments.check_bound(plan.loaded)
            plans.append(plan)
            return WriteRequest(path, plan.data, plan.loaded, context.journals)

        note = await change(call, path, work)
        plan = plans[-1]
        sha256 = hashlib.sha256(plan.data).hexdigest()
        context.seen[path] = SeenFile(sha256)
        text = _told(plan, path, context, arguments, note)
        about = {"path": path, "sha256": sha256, "count": plan.count}
        return text_result(text, human=_human(plan, path, context), about=about)


def _plan(path: str, arguments: EditArguments, context: ToolContext) -> _Plan:
    """Work out the new bytes. Raises ToolError with the reason why not, OSError."""
    old, new = unified_ends(arguments.old_string), unified_ends(arguments.new_string)
    check_text(arguments.old_string, "old_string")
    check_text(arguments.new_string, "new_string")
    if old == new:
        raise ToolError(_same(arguments))
    try:
        loaded = load_file(path)
    except FileNotFoundError:
        if old:
            raise
        return _Plan(None, arguments.new_string.encode(), "", new, 0, 1)
    text, form = _decoded(loaded)
    if not old:
        if text:
            raise ToolError(
                "Cannot create new file - file already exists.\nGive the text to replace as old_string."
            )
        return _Plan(loaded, loaded.data + form.encode(arguments.new_string), "", new, 0, 1)
    changed = known(context, loaded).sha256 != loaded.sha256
    origin = source(loaded.data, text, form)
    places = _places(origin, old, new, arguments, changed)
    data = _spliced(origin, places, old, new, path)
    after = _replaced(origin.flat, places, old, new)
    return _Plan(loaded, data, origin.flat, after, places[0], len(places), changed)


def _same(arguments: EditArguments) -> str:
    if arguments.old_string == arguments.new_string:
        return "No changes to make: old_string and new_string are exactly the same.\nChange one."
    return "Only line ends differ between the two strings, and edit keeps these.\nConvert the file with bash."


def _decoded(loaded: FileContent) -> tuple[str, TextForm]:
    decoded = decode(loaded.data)
    if decoded is None:
        raise ToolError(f"{shown(loaded.path)} is a binary file and cannot be edited as text.\nUse bash.")
    return decoded


def _places(origin: Source, old: str, new: str, arguments: EditArguments, changed: bool) -> list[int]:
    """Where to replace: one place, or with replace_all every one. Raises ToolError."""
    places = matches(origin.flat, old)
    if not places:
        reason = diagnose_mismatch(origin.flat, old, new)
        since = "\nThe file changed on disk since you read it: read it again." if changed else ""
        raise ToolError(
            f"String to replace not found in file.\nString: {_cut(arguments.old_string)}\n{reason}{since}"
        )
    lines = line_numbers(origin.flat, places)
    if len(places) > 1 and not arguments.replace_all:
        raise ToolError(
            f"Found {len(places)} matches of the string to replace, but replace_all is false. To replace all "
            "occurrences, set replace_all to true. To replace only one occurrence, please provide more "
            f"context to uniquely identify the instance.\nThey are on lines {_listed(lines)}.\n"
            f"String: {_cut(arguments.old_string)}"
        )
    if overlap(places, len(old)):
        raise ToolError(
            f"The {len(places)} matches overlap (lines {_listed(lines)}), so replacing all is ambiguous.\n"
            "Replace them one by one with more context."
        )
    if changed and len(places) > 1:
        raise ToolError(f"{STALE}\nold_string is now on lines {_listed(lines)}.")
    return places


def _spliced(origin: Source, places: list[int], old: str, new: str, path: str) -> bytes:
    if "\ufffd" in new and "\ufffd" not in old and origin.form.strays:
        raise ToolError(
            "new_string holds \ufffd, which only stands for bytes of this file that are no text.\n"
            "Leave these bytes out of both strings; they stay as they are."
        )
    try:
        return splice(origin, places, old, new)
    except UnicodeEncodeError as error:
        wrong = error.object[error.start : error.start + 1]
        raise ToolError(
            f"{shown(path)} is written in {origin.form.codec}, which has no {wrong!r}.\n"
            "Use other characters, or convert the file to UTF-8 with bash (iconv) first."
        ) from error
    except NotRepresentable:
        raise ToolError(
            f"This place of {shown(path)} cannot be changed without touching bytes around it "
            f"({origin.form.codec}, mixed line ends).\nTake in the whole lines around, or use bash."
        ) from None


def _replaced(flat: str, places: list[int], old: str, new: str) -> str:
    if len(places) == 1:
        return flat[: places[0]] + new + flat[places[0] + len(old) :]
    return flat.replace(old, new)


def _human(plan: _Plan, path: str, context: ToolContext) -> Mapping[str, Any]:
    changes = diff(presentable(plan.before), presentable(plan.after), shown(path, context.folder))
    return {"diff": changes.text, "note": changes.note}


def _told(plan: _Plan, path: str, context: ToolContext, arguments: EditArguments, note: str) -> str:
    name = shown(path, context.folder)
    new = unified_ends(arguments.new_string)
    if plan.loaded is None:
        lines = [f"File created successfully at: {name}"]
    else:
        every = f" All {plan.count} occurrences were replaced." if plan.count > 1 else ""
        lines = [f"The file {name} has been updated.{every} The lines around the change:"]
        lines.append(snippet(presentable(plan.after), plan.start, plan.start + len(new)))
    if plan.changed:
        lines.append("[the file changed on disk since you read it; the edit was applied to what it is now]")
    if note:
        lines.append(note)
    return "\n".join(lines)


def _listed(lines: list[int]) -> str:
    more = f" and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    return ", ".join(map(str, lines[:_LISTED])) + more


def _cut(text: str, most: int = 1_000) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


EDIT = Edit()
