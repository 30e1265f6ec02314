"""The read tool: the lines of a file, numbered and in pages; an image as an image."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field

from transcripts.messages import TextBlock

from .base import Access, SeenFile, ToolCall, ToolContext, ToolError, ToolResult, text_result
from .file_target import FileArguments
from .images import LARGEST, BadImage, media_type, picture
from .line_window import LINES, LineWindow, numbered, scan, window
from .paths import shown
from .safe_open import PATIENCE, explain, open_regular, read_at_most, within
from .text_encoding import decode, pluralize, presentable
from .truncate import unseen, untagged

_SMALL = 4 * 1024 * 1024  # bytes up to which a file is read at once
_LISTED = 50  # entries of a folder that are named
_UNCHANGED = (
    "File unchanged since last read. The content from the earlier read result in this conversation is still "
    "current: refer to that instead of reading it again."
)
_MAGIC = (
    (b"\x7fELF", "an ELF program"),
    (b"%PDF", "a PDF document; bash: pdftotext file -"),
    (b"PK\x03\x04", "a ZIP archive (or office document); bash: unzip -l file"),
    (b"\x1f\x8b", "gzip-compressed; bash: zcat file"),
    (b"BZh", "bzip2-compressed; bash: bzcat file"),
    (b"\xfd7zXZ", "xz-compressed; bash: xzcat file"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed; bash: zstdcat file"),
    (b"SQLite format 3", "an SQLite database; bash: sqlite3 file .schema"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (b"MZ", "a Windows program"),
    (b"\xca\xfe\xba\xbe", "a Java class or Mach-O program"),
    (b"BM", "a BMP image"),
    (b"II*\0", "a TIFF image"),
)
_DESCRIPTION = """\
Reads a file: its lines with their numbers, as `cat -n` shows them.

- Up to 2,000 lines and 50 KB at once, each line up to 2,000 characters; the end of the result says where to \
continue. Use offset and limit for parts of large files; a negative offset counts from the end.
- PNG, JPEG, GIF and WebP files are shown as images. A folder is listed.
- Reading is needed before edit or write can change a file. The number and the tab before each line are not \
part of the file."""


class ReadArguments(FileArguments):
    """A file, and which of its lines."""

    offset: int | None = Field(None, description="Line to begin with, from 1; -50 is the last fifty lines.")
    limit: int | None = Field(None, ge=1, description="Most lines to show; 2000 unless set, and at most.")


@dataclass(frozen=True, slots=True)
class Page:
    """What was found in a file: its outcome, its hash (None: not read to the end), the lines shown."""

    outcome: ToolResult
    sha256: str | None = None
    lines: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Read:
    name: str = "read"
    description: str = _DESCRIPTION
    arguments: type[ReadArguments] = ReadArguments
    parallel: bool = True
    patience: float = PATIENCE  # seconds

    def title(self, arguments: ReadArguments) -> str:
        first = arguments.offset
        return arguments.title() if first is None else f"{arguments.title()} from line {first}"

    def touches(self, arguments: ReadArguments, context: ToolContext) -> tuple[Access, ...]:
        return (arguments.aim(context, "read"),)

    async def run(self, arguments: ReadArguments, call: ToolCall) -> ToolResult:
        context = call.context
        path = arguments.target(context, "read")
        seen = context.seen.get(path)
        in_view = seen is not None and seen.result is not None and context.in_view(seen.result)
        old = seen if in_view else None
        offset, limit = arguments.offset or 1, min(arguments.limit or LINES, LINES)
        try:
            page = await within(self.patience, lambda gone: look(path, (offset, limit), old, gone))
        except OSError as error:
            raise explain(error, path, context.folder) from error
        if page.sha256 is not None and not (seen and (seen.sha256, seen.lines) == (page.sha256, page.lines)):
            context.seen[path] = SeenFile(page.sha256, page.lines)
        return page.outcome

    def recorded(self, outcome: ToolResult, context: ToolContext, seq: int) -> None:
        """The result that shows a file is in the record: a repeated read may now point to it."""
        path, seen = outcome.about.get("path"), None
        if isinstance(path, str) and "unchanged" not in outcome.about:
            seen = context.seen.get(path)
        if seen is not None and seen.sha256 == outcome.about.get("sha256"):
            context.seen[str(path)] = replace(seen, result=seq)


def remember(context: ToolContext, about: Mapping[str, Any], seq: int) -> None:
    """Learn from a recorded result of read, write or edit (its `about`, its seq) what the model has seen.

    For a session that is opened again: give it the results of its conversation in their order.
    """
    path, sha256 = about.get("path"), about.get("sha256")
    if not isinstance(path, str) or not isinstance(sha256, str) or "unchanged" in about:
        return
    first, last = about.get("first"), about.get("last")
    whole = first is None or (first == 1 and last == about.get("total"))
    lines = None if whole else (int(first or 0), int(last or 0))
    context.seen[path] = SeenFile(sha256, lines, None if first is None else seq)


def look(path: str, wanted: tuple[int, int], seen: SeenFile | None, gone: threading.Event) -> Page:
    """What a read of `wanted` (offset, limit) shows. `seen` is given where its result is still in view.

    Blocking work. Raises ToolError, OSError.
    """
    if Path(path).is_dir():
        return Page(_listing(path))
    descriptor, state = open_regular(path)
    try:
        head = os.pread(descriptor, 16, 0) if state.st_size else b""
        kind = media_type(head)
        if kind is not None and state.st_size <= LARGEST:
            return _image(path, read_at_most(descriptor, LARGEST), kind)
        if state.st_size > _SMALL:
            found = scan(descriptor, state.st_size, *wanted, gone)
            if found is None:
                raise _binary(path, head, state.st_size)
            return _page(path, found, seen)
        data = read_at_most(descriptor, _SMALL)
    finally:
        os.close(descriptor)
    return _small(path, data, wanted, seen)


def _small(path: str, data: bytes, wanted: tuple[int, int], seen: SeenFile | None) -> Page:
    sha256 = hashlib.sha256(data).hexdigest()
    decoded = decode(data)
    if decoded is None:
        raise _binary(path, data, len(data))
    if not decoded[0]:
        empty = text_result(
            "[file is empty]", human={"note": "empty"}, about={"path": path, "sha256": sha256}
        )
        return Page(empty, sha256)
    found = window(*decoded, *wanted)
    found.sha256 = sha256
    return _page(path, found, seen)


def _page(path: str, found: LineWindow, seen: SeenFile | None) -> Page:
    whole = found.first == 1 and not found.more
    lines = None if whole else (found.first, found.last)
    about = {"path": path, "first": found.first, "last": found.last, "total": found.total}
    if found.sha256 is not None:
        about["sha256"] = found.sha256
        if seen is not None and (seen.sha256, seen.lines) == (found.sha256, lines):
            told = text_result(_UNCHANGED, human={"note": "unchanged"}, about={**about, "unchanged": True})
            return Page(told, found.sha256, lines)
    if not found.lines:
        return Page(
            text_result(_past(found), human={"note": "past the end"}, about=about), found.sha256, lines
        )
    text = presentable(numbered(found))
    notes = list(_notes(found, text))
    body = "\n".join([untagged(text), *notes]) if notes else text
    note = pluralize(len(found.lines), "line") if whole else _range(found)
    return Page(ToolResult((TextBlock(body),), human={"note": note}, about=about), found.sha256, lines)


def _notes(found: LineWindow, text: str) -> list[str]:
    notes = []
    if found.first != 1 or found.more:
        notes.append(f"[lines {_range(found)}{_next(found)}]")
    if found.stopped:
        notes.append(
            "[looking through the file took too long and was stopped; use bash (sed, tail) to go on]"
        )
    if found.form.note:
        notes.append(found.form.note)
    hidden = unseen(text)
    if hidden:
        notes.append(
            f"[{hidden:,} invisible characters (tags, bidirectional or zero-width) are in these lines; "
            "they may hide text from people, and tags are not shown here either]"
        )
    return notes


def _range(found: LineWindow) -> str:
    total = "more" if found.total is None else str(found.total)
    if found.first < 0:
        return f"{found.first} to {found.last}, counted from the end"
    return f"{found.first}-{found.last} of {total}"


def _next(found: LineWindow) -> str:
    return f"; continue with offset={found.last + 1}" if found.more and not found.stopped else ""


def _past(found: LineWindow) -> str:
    if found.total is None:
        return f"[line {found.first} was not reached: the file is too large; use bash (sed, tail)]"
    return f"[offset {found.first} is past the end: the file has {pluralize(found.total, 'line')}]"


def _image(path: str, data: bytes, kind: str) -> Page:
    sha256 = hashlib.sha256(data).hexdigest()
    about = {"path": path, "sha256": sha256}
    try:
        shown_as = picture(data, kind)
    except BadImage as error:
        text = f"[{shown(path)} is not shown: it begins like {kind}, but {error}]"
        return Page(text_result(text, human={"note": "broken image"}, about=about))
    note = f"{kind}, {shown_as.note}"
    content = (shown_as.image, TextBlock(f"[{shown(path)}: {note}]"))
    return Page(ToolResult(content, human={"note": note}, about=about), sha256)


def _binary(path: str, head: bytes, size: int) -> ToolError:
    kind = next((text for magic, text in _MAGIC if head.startswith(magic)), "of an unknown kind")
    return ToolError(
        f"{shown(path)} is a binary file: {size:,} bytes, {kind}.\n"
        "It cannot be read as text; use bash (file, xxd, strings) to look into it."
    )


def _listing(path: str) -> ToolResult:
    with os.scandir(path) as entries:
        found = sorted(_entry(entry) for entry in islice(entries, 10_000))
    text = "\n".join(found[:_LISTED])
    more = f"\n… and {len(found) - _LISTED:,} more; list them with bash" if len(found) > _LISTED else ""
    return text_result(
        f"{shown(path)} is a folder, not a file. It holds {len(found):,} entries:\n{text}{more}",
        error=True,
        human={"note": f"folder, {len(found):,} entries"},
    )


def _entry(entry: os.DirEntry[str]) -> str:
    name = shown(presentable(entry.name))
    return f"{name}/" if entry.is_dir() else name


READ = Read()
