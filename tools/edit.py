"""The edit tool: replace one exact piece of a file and nothing else, or explain why it was not found."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tools.edit_diagnostics import diagnose_mismatch
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
from tools.patch import NotRepresentable, SourceText, any_overlap, find_all, snippet, source_text, splice
from tools.text import mark_stray_bytes, unify_newlines

from .base import ToolContext, ToolError

_MAX_NAMED_MATCHES = 20  # line numbers that an error names
_MAX_QUOTED_CHARS = 1_000  # of old_string in an error


class EditArguments(FileArguments):
    """A replacement in a file."""

    USE = "write"
    old_string: Annotated[str, Meta(description="Text to replace.")]
    new_string: Annotated[str, Meta(description="Replacement; must differ from old_string.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence of old_string.")] = False

    @property
    def creates(self) -> bool:
        return not self.old_string


def _plan_edit(arguments: EditArguments, path: str, context: ToolContext) -> PlannedChange:
    """Compute the new content. Raises ToolError with the reason if there is none, OSError."""
    old = unify_newlines(arguments.old_string)
    new = unify_newlines(arguments.new_string)
    check_text(arguments.old_string, "old_string")
    check_text(arguments.new_string, "new_string")
    if old == new:
        if arguments.old_string == arguments.new_string:
            raise ToolError("No changes to make: old_string and new_string are exactly the same.")
        raise ToolError(
            "The strings differ only in line endings, which edit preserves.",
            remedy="Convert the file with bash.",
            tools="bash",
        )
    if old:
        check_omission(new, old, "new_string")
    try:
        file = load_file(path)
    except FileNotFoundError:
        if old:
            raise
        check_placeholder(new, "", "new_string")
        return PlannedChange(None, data=arguments.new_string.encode(), before="", after=new, count=1)
    decoded = decoded_as_seen(file, context)
    if decoded is None:
        raise ToolError(
            f"{one_line_path(path)} is a binary file and cannot be edited as text.",
            remedy="Use bash.",
            tools="bash",
        )
    text, form = decoded
    source = source_text(file.data, text, form)
    check_placeholder(old, source.flat, "old_string")
    check_placeholder(new, source.flat, "new_string")
    if not old:
        if text:
            raise ToolError(
                "Cannot create new file - file already exists.\nGive the text to replace as old_string."
            )
        return PlannedChange(
            file, data=file.data + form.encode(arguments.new_string), before="", after=new, count=1
        )
    stale = is_stale(context, file)
    places = _places(source, old, new, arguments, stale)
    data = _spliced(source, places, old, new, path)
    after = source.flat.replace(old, new)
    return PlannedChange(
        file,
        data=data,
        before=source.flat,
        after=after,
        form=form,
        start=places[0],
        count=len(places),
        stale=stale,
    )


def _places(source: SourceText, old: str, new: str, arguments: EditArguments, stale: bool) -> list[int]:
    """Find the places to replace: one, or all with replace_all. Raises ToolError."""
    places = find_all(source.flat, old)
    quoted = arguments.old_string
    if len(quoted) > _MAX_QUOTED_CHARS:
        quoted = f"{quoted[:_MAX_QUOTED_CHARS]}… ({len(quoted):,} characters)"
    if not places:
        reason = diagnose_mismatch(source.flat, old, new)
        since = "\nThe file changed on disk since you read it: read it again." if stale else ""
        raise ToolError(f"String to replace not found in file.\n{reason}{since}\nString: {quoted}")
    numbers = dict.fromkeys(str(source.flat.count("\n", 0, at) + 1) for at in places[:_MAX_NAMED_MATCHES])
    lines = f"{'lines' if len(numbers) > 1 else 'line'} {', '.join(numbers)}"
    if len(places) > _MAX_NAMED_MATCHES:
        lines += f" and {len(places) - _MAX_NAMED_MATCHES} more"
    if len(places) > 1 and not arguments.replace_all:
        raise ToolError(
            f"Found {len(places)} matches of the string to replace, but replace_all is false. To replace all "
            "occurrences, set replace_all to true. To replace only one occurrence, please provide more "
            f"context to uniquely identify the instance.\nThey are on {lines}.\nString: {quoted}"
        )
    if any_overlap(places, len(old)):
        raise ToolError(
            f"The {len(places)} matches overlap ({lines}), so replacing all is ambiguous.\n"
            "Replace them one by one with more context."
        )
    if stale and len(places) > 1:
        raise ToolError(f"{STALE_FILE}\nold_string is now on {lines}.")
    return places


def _spliced(source: SourceText, places: list[int], old: str, new: str, path: str) -> bytes:
    if "\ufffd" in new and "\ufffd" not in old and source.form.has_odd_bytes:
        raise ToolError(
            "new_string contains \ufffd, which stands for bytes in this file that are not valid text.\n"
            "Leave them out of both strings; they are preserved."
        )
    check_encoding(path, source.form, new, source.flat)
    try:
        return splice(source, places, old, new)
    except UnicodeEncodeError as error:
        raise not_encodable(path, source.form, error) from error
    except NotRepresentable:
        why = f"{source.form.codec}, mixed line endings" if "\r" in source.text else source.form.codec
        raise ToolError(
            f"This part of {one_line_path(path)} cannot be changed without changing bytes around it "
            f"({why}).\nInclude the complete lines around it."
        ) from None


def _describe(arguments: EditArguments, name: str, change: PlannedChange) -> str:
    if change.old is None:
        text = f"File created successfully at: {name}"
    else:
        count = change.count or 1
        every = f" All {count} occurrences were replaced." if count > 1 else ""
        end = change.start + len(unify_newlines(arguments.new_string))
        shown = snippet(mark_stray_bytes(change.after), change.start, end)
        text = f"The file {name} has been updated.{every} The lines around the change:\n{shown}"
    if change.stale:
        text += "\n[the file changed on disk since you read it; the edit was applied to its new content]"
    return text


TOOL = changing_tool(
    "edit",
    """\
Replace old_string with new_string in a file.

- Read the file first. Copy old_string exactly, with its indentation, but without the line number and tab \
before each line.
- old_string must be unique: include surrounding lines, or set replace_all to replace every occurrence.
- Line endings, encoding and byte order mark are kept; write plain newlines in both strings.
- An empty old_string creates a new file, or fills an empty one.""",
    EditArguments,
    _plan_edit,
    _describe,
    brief="""\
Replace old_string with new_string in a file that you have read. Copy old_string exactly, without line \
numbers; it must be unique unless replace_all is set.""",
)
