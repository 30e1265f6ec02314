"""The edit tool: replace one exact piece of a file and nothing else, or say why that was not found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from time import thread_time

from pydantic import Field

from .base import ToolContext, ToolError
from .file_change import STALE_FILE, PlannedChange, changing_tool, check_text, is_stale, not_encodable
from .patch import NotRepresentable, SourceText, any_overlap, find_all, snippet, source_text, splice
from .resolve_path import FileArguments, one_line_path
from .safe_open import load_file
from .text_encoding import decode_text, mark_stray_bytes, unify_newlines

_MAX_NAMED_MATCHES = 20  # line numbers that an error names
_MAX_QUOTED_CHARS = 1_000  # of old_string in an error
_SEARCH_LIMIT_S = 0.2  # of computing, for a similar block; the best one found by then counts
_MIN_LIKENESS = 0.6  # from which a block is worth showing, as difflib counts
_MAX_BLOCK_LINES = 12  # of the file that are shown
_MAX_LINE_CHARS = 500  # of a line that are compared and shown
_LINE_NUMBER = re.compile(r"^ *\d+(?:\t|→|\|| \| |: ?)", re.MULTILINE)
_TYPOGRAPHY = str.maketrans("‘’‚‛“”„‟′″‐‑‒–—―−\u00a0\u202f", "''''\"\"\"\"'\"-------  ")


class EditArguments(FileArguments):
    """A replacement in a file."""

    USE = "write"
    old_string: str = Field(description="The text to replace.")
    new_string: str = Field(description="The text to put in its place; it must differ from old_string.")
    replace_all: bool = Field(False, description="Replace every occurrence of old_string.")

    @property
    def creates(self) -> bool:
        return not self.old_string


def _plan_edit(arguments: EditArguments, path: str, context: ToolContext) -> PlannedChange:
    """Work out the new bytes. Raises ToolError with the reason why not, OSError."""
    old, new = unify_newlines(arguments.old_string), unify_newlines(arguments.new_string)
    check_text(arguments.old_string, "old_string")
    check_text(arguments.new_string, "new_string")
    if old == new:
        if arguments.old_string == arguments.new_string:
            raise ToolError(
                "No changes to make: old_string and new_string are exactly the same.\nChange one."
            )
        raise ToolError(
            "Only line ends differ between the two strings, and edit keeps these.\n"
            "Convert the file with bash."
        )
    try:
        file = load_file(path)
    except FileNotFoundError:
        if old:
            raise
        return PlannedChange(None, arguments.new_string.encode(), "", new, count=1)
    decoded = decode_text(file.data)
    if decoded is None:
        raise ToolError(f"{one_line_path(path)} is a binary file and cannot be edited as text.\nUse bash.")
    text, form = decoded
    if not old:
        if text:
            raise ToolError(
                "Cannot create new file - file already exists.\nGive the text to replace as old_string."
            )
        return PlannedChange(file, file.data + form.encode(arguments.new_string), "", new, count=1)
    stale = is_stale(context, file)
    source = source_text(file.data, text, form)
    places = _places(source, old, new, arguments, stale)
    data = _spliced(source, places, old, new, path)
    after = source.flat.replace(old, new)
    return PlannedChange(file, data, source.flat, after, form, places[0], len(places), stale)


def _places(source: SourceText, old: str, new: str, arguments: EditArguments, stale: bool) -> list[int]:
    """Where to replace: one place, or with replace_all every one. Raises ToolError."""
    places = find_all(source.flat, old)
    quoted = arguments.old_string
    if len(quoted) > _MAX_QUOTED_CHARS:
        quoted = f"{quoted[:_MAX_QUOTED_CHARS]}… ({len(quoted):,} characters)"
    if not places:
        reason = _diagnose_mismatch(source.flat, old, new)
        since = "\nThe file changed on disk since you read it: read it again." if stale else ""
        raise ToolError(f"String to replace not found in file.\nString: {quoted}\n{reason}{since}")
    lines = ", ".join(str(source.flat.count("\n", 0, at) + 1) for at in places[:_MAX_NAMED_MATCHES])
    if len(places) > _MAX_NAMED_MATCHES:
        lines += f" and {len(places) - _MAX_NAMED_MATCHES} more"
    if len(places) > 1 and not arguments.replace_all:
        raise ToolError(
            f"Found {len(places)} matches of the string to replace, but replace_all is false. To replace all "
            "occurrences, set replace_all to true. To replace only one occurrence, please provide more "
            f"context to uniquely identify the instance.\nThey are on lines {lines}.\nString: {quoted}"
        )
    if any_overlap(places, len(old)):
        raise ToolError(
            f"The {len(places)} matches overlap (lines {lines}), so replacing all is ambiguous.\n"
            "Replace them one by one with more context."
        )
    if stale and len(places) > 1:
        raise ToolError(f"{STALE_FILE}\nold_string is now on lines {lines}.")
    return places


def _diagnose_mismatch(flat: str, old: str, new: str) -> str:
    """One or two lines that say why `old` is not in the file's text, and the lines that come nearest.

    All three texts have unified line ends.
    """
    if "\ufffd" in old and "\ufffd" not in flat:
        return "old_string holds \ufffd, which stands for bytes that are no text. Match the text around them."
    lines = [line for line in old.split("\n") if line.strip()]
    if lines and all(_LINE_NUMBER.match(line) for line in lines):
        place = flat.find(_LINE_NUMBER.sub("", old))
        if place < 0:
            return "old_string holds line numbers, which are not in the file. Leave them and the tab out."
        return (
            f"old_string holds the line numbers of the read output. Leave them and the tab after them out; "
            f"without them it is on line {_line_of(flat, place)}."
        )
    place = flat.find(new) if len(new.strip()) >= 4 else -1
    if place >= 0:
        line = _line_of(flat, place)
        return f"new_string is already in the file, on line {line}: the edit seems to be done."
    for filler in (" ", ""):
        first = _find_block(flat, old, filler)
        if first is not None:
            shown = _excerpt(flat, first, old.strip("\n").count("\n") + 1)
            return f"Only white space differs (tabs, spaces, blank ends). The file has:\n{shown}"
    place = flat.translate(_TYPOGRAPHY).find(old.translate(_TYPOGRAPHY))
    if place >= 0:
        shown = _excerpt(flat, _line_of(flat, place) - 1, old.count("\n") + 1)
        return f"Only quotes, dashes or special spaces differ (curly and straight). The file has:\n{shown}"
    plain = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")
    place = flat.find(plain) if plain != old else -1
    if place >= 0:
        return f"old_string is escaped once too often; unescaped it is on line {_line_of(flat, place)}."
    return _nearest(flat, old)


def _nearest(flat: str, old: str) -> str:
    wanted = old.strip("\n").split("\n")
    likeness, first = max(
        _similar_blocks(flat.split("\n"), wanted), default=(0.0, 0), key=lambda found: found[0]
    )
    if likeness < _MIN_LIKENESS:
        return "Nothing like it was found. Read the file again and copy the text exactly."
    return f"The nearest text is this; copy it exactly:\n{_excerpt(flat, first, len(wanted))}"


def _similar_blocks(lines: list[str], wanted: list[str]) -> Iterator[tuple[float, int]]:
    """(likeness, index of the first line) of the blocks around lines that are like the longest wanted one."""
    anchor = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    target = wanted[anchor].strip()[:_MAX_LINE_CHARS]
    if not target:
        return
    until = thread_time() + _SEARCH_LIMIT_S
    matcher = SequenceMatcher(None, "", target, False)
    for index, line in enumerate(lines):
        if thread_time() > until:
            return
        matcher.set_seq1(line.strip()[:_MAX_LINE_CHARS])
        if matcher.real_quick_ratio() < _MIN_LIKENESS or matcher.quick_ratio() < _MIN_LIKENESS:
            continue
        likeness = matcher.ratio()
        if likeness >= _MIN_LIKENESS:
            first = max(0, index - anchor)
            block = zip(lines[first : first + len(wanted)], wanted, strict=False)
            same = sum(one.strip() == two.strip() for one, two in block)
            yield likeness + same / len(wanted), first


def _find_block(flat: str, old: str, filler: str) -> int | None:
    """The index of the file's line where `old` begins once every run of white space is the filler."""
    wanted = [filler.join(line.split()) for line in old.strip("\n").split("\n")]
    if not any(wanted):
        return None
    lines = "\n".join(["", *(filler.join(line.split()) for line in flat.split("\n")), ""])
    place = lines.find("\n".join(["", *wanted, ""]))
    if place >= 0:
        return lines.count("\n", 0, place)
    place = lines.find(wanted[0]) if len(wanted) == 1 else -1
    return lines.count("\n", 0, place) - 1 if place >= 0 else None


def _excerpt(flat: str, first: int, count: int) -> str:
    """So many lines from the index `first` on with their numbers, shortened."""
    lines = flat.split("\n")[first : first + min(count, _MAX_BLOCK_LINES)]
    return "\n".join(f"{number:6d}\t{line[:_MAX_LINE_CHARS]}" for number, line in enumerate(lines, first + 1))


def _line_of(flat: str, place: int) -> int:
    return flat.count("\n", 0, place) + 1


def _spliced(source: SourceText, places: list[int], old: str, new: str, path: str) -> bytes:
    if "\ufffd" in new and "\ufffd" not in old and source.form.strays:
        raise ToolError(
            "new_string holds \ufffd, which only stands for bytes of this file that are no text.\n"
            "Leave these bytes out of both strings; they stay as they are."
        )
    try:
        return splice(source, places, old, new)
    except UnicodeEncodeError as error:
        raise not_encodable(path, source.form, error) from error
    except NotRepresentable:
        raise ToolError(
            f"This place of {one_line_path(path)} cannot be changed without touching bytes around it "
            f"({source.form.codec}, mixed line ends).\nTake in the whole lines around, or use bash."
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
        text += "\n[the file changed on disk since you read it; the edit was applied to what it is now]"
    return text


TOOL = changing_tool(
    "edit",
    """\
Replaces old_string by new_string in a file, exactly, and nothing else.

- Read the file first. old_string must be copied exactly, with its indentation, but without the line numbers \
and the tab that read puts before each line.
- old_string must be unique in the file: add lines around it, or set replace_all to replace every occurrence.
- Line ends, encoding and byte order mark stay as they are; use plain newlines in both strings.
- An empty old_string creates a file that does not exist yet, or fills an empty one.""",
    EditArguments,
    _plan_edit,
    _describe,
)
