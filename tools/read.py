"""The read tool: the lines of a file, numbered and in pages; an image as an image."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from tools.base import Tool, ToolAdvice, ToolCall, ToolContext, ToolError, ToolResult, text_result
from tools.file_errors import os_errors_explained
from tools.files import (
    FILE_TIMEOUT_S,
    LISTED_FOLDER,
    MAX_IMAGE_FILE_BYTES,
    BadImage,
    SeenFile,
    closing,
    in_thread,
    load_image,
    media_type,
    one_line_path,
    opened_file,
    read_at_most,
    safe_open,
)
from tools.line_window import (
    MAX_WINDOW_BYTES,
    MAX_WINDOW_LINES,
    LineWindow,
    cut_text,
    number_lines,
    scan_file,
)
from tools.parameters import FileArguments
from tools.pdf_text import MAX_PDF_BYTES, PDF_MARK, read_pdf
from tools.text import (
    as_drawn,
    count_invisible,
    cut_at_lines,
    decode_text,
    mark_stray_bytes,
    printable,
    without_tags,
)
from transcripts import Display, ImageBlock, TextBlock
from transcripts.wording import pluralize

_MAX_SMALL_BYTES = 4 * 1024 * 1024  # of a file that is read whole
_CELLS = (0, 0)  # instead of the lines shown: the cells of a notebook, not its JSON
_INSPECTING = "file, xxd or strings"
_WITHOUT_TAGS = "| sed 's/<[^>]*>/ /g'"
_AS_PNG = "magick FILE NEW.png, then read that"
# The first bytes, the ends of names ("" for any), the kind, and the commands that show the content.
_BINARY_KINDS = (
    (rb"\x7fELF", "", "an ELF program", _INSPECTING),
    (re.escape(PDF_MARK), "", "a PDF document", "pdftotext FILE -"),
    (rb"PK", ".docx", "a Word document", f"unzip -p FILE word/document.xml {_WITHOUT_TAGS}"),
    (
        rb"PK",
        ".xlsx",
        "an Excel workbook",
        f"unzip -p FILE xl/sharedStrings.xml 'xl/worksheets/*.xml' {_WITHOUT_TAGS}",
    ),
    (rb"PK", ".pptx", "a presentation", f"unzip -p FILE 'ppt/slides/*.xml' {_WITHOUT_TAGS}"),
    (rb"PK", ".odt .ods .odp", "an OpenDocument file", f"unzip -p FILE content.xml {_WITHOUT_TAGS}"),
    (rb"PK", ".epub", "an EPUB book", f"unzip -p FILE '*.*html' {_WITHOUT_TAGS}"),
    (rb"PK\x03\x04", "", "a ZIP archive", "unzip -l FILE"),
    (rb"", ".tgz .tar.gz .tbz2 .tar.bz2 .txz .tar.xz .tar.zst", "a tar archive", "tar -tf FILE"),
    (rb".{257}ustar", "", "a tar archive", "tar -tf FILE"),
    (rb"7z\xbc\xaf\x27\x1c", "", "a 7-Zip archive", "7z l FILE"),
    (rb"\x1f\x8b", "", "gzip-compressed", "zcat FILE"),
    (rb"BZh", "", "bzip2-compressed", "bzcat FILE"),
    (rb"\xfd7zXZ", "", "xz-compressed", "xzcat FILE"),
    (rb"\x28\xb5\x2f\xfd", "", "zstd-compressed", "zstdcat FILE"),
    (rb"SQLite format 3", "", "an SQLite database", "sqlite3 FILE .schema, or Python's sqlite3"),
    (rb"PAR1", "", "a Parquet file", "Python with pyarrow or pandas"),
    (rb"\xd0\xcf\x11\xe0", "", "an old Office document", "libreoffice --headless --convert-to txt FILE"),
    (rb"\xcf\xfa\xed\xfe", "", "a Mach-O program", _INSPECTING),
    (rb"MZ", "", "a Windows program", _INSPECTING),
    (rb"\xca\xfe\xba\xbe", "", "a Java class or Mach-O program", _INSPECTING),
    (rb"BM", ".bmp .dib", "a BMP image", _AS_PNG),
    (rb"II\*\0|MM\0\*", "", "a TIFF image", _AS_PNG),
    (rb"....ftyp(?:hei|hev|mif1|avi)", "", "a HEIC or AVIF image", _AS_PNG),
    (rb"....ftyp|ID3|OggS|fLaC|RIFF....(?:WAVE|AVI )|\x1aE\xdf\xa3", "", "audio or video", "ffprobe FILE"),
    (rb"", "", "of an unknown format", _INSPECTING),
)


class ReadArguments(FileArguments):
    """A file, and the lines to read."""

    offset: Annotated[
        int | None, Meta(description="First line, counted from 1; -50 means the last fifty lines.")
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Maximum number of lines (default and maximum 2000)."),
    ] = None


def _title(arguments: ReadArguments) -> str:
    first = arguments.offset
    return arguments.title() if first is None else f"{arguments.title()} from line {first}"


async def read_file(
    arguments: ReadArguments, call: ToolCall, timeout_s: float = FILE_TIMEOUT_S
) -> ToolResult:
    context = call.context
    path = arguments.real_path(context)
    seen = context.seen.get(path)
    in_view = seen is not None and seen.result is not None and context.in_view(seen.result)
    shown = seen if in_view else None
    wanted = None
    if arguments.offset is not None or arguments.limit is not None:
        wanted = (arguments.offset or 1, min(arguments.limit or MAX_WINDOW_LINES, MAX_WINDOW_LINES))
    with os_errors_explained(path, context.folder):
        most = min(context.page_bytes(), MAX_WINDOW_BYTES)
        result = await in_thread(
            lambda abandoned: read_page(path, wanted, shown, abandoned, most, seen), timeout_s
        )
    if (arguments.offset or arguments.limit) and isinstance(result.content[0], ImageBlock):
        note = TextBlock("[an image has no lines: offset and limit were ignored]")
        result = replace(result, content=(*result.content, note))
    now = SeenFile.shown_by(result.about)
    if now is not None and not (seen and (seen.sha256, seen.lines) == (now.sha256, now.lines)):
        context.seen[path] = now
    return result


def record_read(result: ToolResult, context: ToolContext, seq: int) -> None:
    """Note that the result is in the transcript, so that a repeated read may refer to it."""
    path = result.about.get("path")
    seen = context.seen.get(path) if isinstance(path, str) and "unchanged" not in result.about else None
    if seen is not None and seen.sha256 == result.about.get("sha256"):
        context.seen[str(path)] = replace(seen, result=seq, attached=False)


def read_page(
    path: str,
    wanted: tuple[int, int] | None,
    shown: SeenFile | None,
    abandoned: threading.Event,
    max_bytes: int = MAX_WINDOW_BYTES,
    seen: SeenFile | None = None,
) -> ToolResult:
    """Read the page `wanted` (offset, limit). `shown` is the earlier result, still in view, that shows it.

    With `wanted` None the beginning is read, and of a notebook the cells instead of its JSON. `seen` is the
    file as it was last seen or written, whose encoding is kept.

    Blocking. Raises ToolError, OSError.
    """
    if Path(path).is_dir():
        return _listing(path)
    with opened_file(path) as (descriptor, state):
        head = os.pread(descriptor, 16, 0) if state.st_size else b""
        kind = media_type(head)
        if kind is not None and state.st_size <= MAX_IMAGE_FILE_BYTES:
            return _image_page(path, read_at_most(descriptor, MAX_IMAGE_FILE_BYTES), kind)
        if wanted is None and path.endswith(".ipynb") and state.st_size <= MAX_IMAGE_FILE_BYTES:
            data = read_at_most(descriptor, MAX_IMAGE_FILE_BYTES)
            if (page := _notebook_page(path, data, shown, min(max_bytes, MAX_WINDOW_BYTES))) is not None:
                return page
            os.lseek(descriptor, 0, os.SEEK_SET)
        if head.lstrip(b"\xef\xbb\xbf \t\r\n\0").startswith(PDF_MARK) and state.st_size <= MAX_PDF_BYTES:
            data = read_at_most(descriptor, MAX_PDF_BYTES)
            return read_pdf(path, data, wanted, max_bytes, abandoned)
        wanted = wanted or (1, MAX_WINDOW_LINES)
        if state.st_size > _MAX_SMALL_BYTES:
            window = scan_file(descriptor, state.st_size, wanted, abandoned, max_bytes)
            if window is None:
                raise _binary(path, head, state.st_size)
            return _text_page(path, window, shown)
        data = read_at_most(descriptor, _MAX_SMALL_BYTES)
    sha256 = hashlib.sha256(data).hexdigest()
    decoded = decode_text(data, seen.encoding if seen is not None and seen.sha256 == sha256 else "")
    if decoded is None:
        raise _binary(path, data, len(data))
    if not decoded[0]:
        about = {"path": path, "sha256": sha256}
        return text_result("[file is empty]", human=Display(note="empty"), about=about)
    return _text_page(path, cut_text(*decoded, wanted, sha256, max_bytes), shown)


_UNCHANGED = (
    "File unchanged since {earlier}. That {text} is still current and in this conversation: refer to it "
    "instead of reading the file again."
)


def _unchanged(about: dict[str, Any], shown: SeenFile) -> ToolResult:
    """Return the notice about a page that the fact `shown.result` shows; its seq is recorded with it."""
    earlier = "the user attached it above" if shown.attached else f"r{shown.result} above"
    text = "attachment" if shown.attached else "result"
    return text_result(
        _UNCHANGED.format(earlier=earlier, text=text),
        human=Display(note="unchanged"),
        about={**about, "unchanged": shown.result},
    )


def _text_page(path: str, window: LineWindow, shown: SeenFile | None) -> ToolResult:
    about = {"path": path, "first": window.first, "last": window.last, "total": window.total}
    about |= {"encoding": window.form.hint} if window.form.hint else {}
    if window.sha256 is not None:
        about["sha256"] = window.sha256
        now = SeenFile.shown_by(about)
        if shown and now and (shown.sha256, shown.lines) == (now.sha256, now.lines):
            return _unchanged(about, shown)
    if not window.lines:
        past = f"[line {window.first} was not reached: the file is too large]"
        if window.total is not None:
            size = pluralize(window.total, "line")
            past = f"[offset {window.first} is past the end: the file has {size}]"
        return text_result(past, human=Display(note="past the end"), about=about)
    text = mark_stray_bytes(number_lines(window))
    notes = list(_notes(window, text))
    body = "\n".join([without_tags(text), *notes]) if notes else text
    whole = window.first == 1 and not window.more
    note = pluralize(len(window.lines), "line") if whole else _range(window)
    return text_result(body, human=Display(note=note), about=about)


def _notes(window: LineWindow, text: str) -> Iterator[str]:
    if window.first != 1 or window.more:
        following = f"; continue with offset={window.last + 1}" if window.more and not window.stopped else ""
        following = f"; more follow{following}" if window.total is None and window.first > 0 else following
        yield f"[lines {_range(window)}{following}]"
    if window.stopped:
        yield "[reading the file took too long and was stopped; the rest is not shown]"
    if window.form.note:
        yield window.form.note
    if hidden := count_invisible(text):
        yield (
            f"[these lines contain {hidden:,} invisible characters (tags, bidirectional or zero-width), "
            "which may hide text from the user; tags are not shown here either]"
        )


def _range(window: LineWindow) -> str:
    if window.first < 0:
        return f"{window.first} to {window.last}, counted from the end"
    return f"{window.first}-{window.last}" + (f" of {window.total}" if window.total is not None else "")


def _image_page(path: str, data: bytes, kind: str) -> ToolResult:
    name = one_line_path(path)
    try:
        image, size = load_image(data)
    except BadImage as error:
        text = f"[{name} is not shown: it starts like {kind}, but {error}]"
        return text_result(text, human=Display(note="broken image"), about={"path": path})
    note = f"{kind}, {size}"
    about = {"path": path, "sha256": hashlib.sha256(data).hexdigest()}
    return ToolResult((image, TextBlock(f"[{name}: {note}]")), human=Display(note=note), about=about)


def _notebook_page(path: str, data: bytes, shown: SeenFile | None, max_bytes: int) -> ToolResult | None:
    """Return the cells of a notebook with their outputs, shortened; None if the data is not a notebook."""
    try:
        cells = [_cell(at, cell, max_bytes) for at, cell in enumerate(json.loads(data)["cells"])]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    sha256 = hashlib.sha256(data).hexdigest()
    about = {"path": path, "sha256": sha256, "first": _CELLS[0], "last": _CELLS[1]}
    if shown and (shown.sha256, shown.lines) == (sha256, _CELLS):
        return _unchanged(about, shown)
    sizes = accumulate(len(cell.encode("utf-8", "surrogatepass")) + 2 for cell in cells)
    count = max(1, bisect_right([*sizes], max_bytes))
    text = mark_stray_bytes("\n\n".join(cells[:count]))
    left = ", the rest is omitted" if count < len(cells) else ""
    notes = [
        f"[a notebook: {min(count, len(cells))} of {pluralize(len(cells), 'cell')}{left}. "
        "To edit it, read its JSON with offset and limit]"
    ]
    if hidden := count_invisible(text):
        notes.append(f"[invisible characters removed: {hidden:,}]")
    body = "\n".join(filter(None, (printable(text), *notes)))
    return text_result(body, human=Display(note=pluralize(len(cells), "cell")), about=about)


def _cell(at: int, cell: Mapping[str, Any], max_bytes: int) -> str:
    """Return a cell as shown. Raises TypeError, KeyError or AttributeError if it is not one."""
    run = f", run {cell['execution_count']}" if cell.get("execution_count") else ""
    most = max_bytes // 4  # the source of a cell takes at most a quarter of a page
    shown = f"[cells[{at}]: {cell['cell_type']}{run}]\n{_shortened(''.join(cell['source']), most)}"
    outputs = "\n".join(map(_output, cell.get("outputs", ()))).rstrip("\n")
    return f"{shown}\n[output]\n{_shortened(outputs, min(most, 2_000))}" if outputs else shown


def _output(output: Mapping[str, Any]) -> str:
    """Return an output of a cell; of images and the like only the type. Raises as `_cell` does."""
    match output["output_type"]:
        case "stream":
            return "".join(output["text"]).rstrip("\n")
        case "error":
            lines: Sequence[str] = output["traceback"] or (f"{output['ename']}: {output['evalue']}",)
            return "\n".join(lines)
    text = "".join(output["data"].get("text/plain", ""))
    others = ", ".join(kind for kind in output["data"] if kind != "text/plain")
    return "\n".join(filter(None, (text, f"[{others}: not shown]" if others else "")))


def _shortened(text: str, most: int) -> str:
    """Return a text, without its middle if it has more than `most` characters."""
    text = as_drawn(text)
    if len(text) <= most:
        return text
    first, last = cut_at_lines(text[: most // 2], text[-(most // 2) :])
    return f"{first}\n[... {len(text) - len(first) - len(last):,} characters omitted ...]\n{last}"


def _binary(path: str, head: bytes, size: int) -> ToolError:
    kind, commands = next(
        (kind, commands)
        for mark, ends, kind, commands in _BINARY_KINDS
        if re.match(mark, head, re.DOTALL) and path.lower().endswith(tuple(ends.split() or [""]))
    )
    return ToolError(
        f"{one_line_path(path)} is a binary file: {size:,} bytes, {kind}. It cannot be read as text.",
        remedy=f"Use bash: {commands}.",
        tools="bash",
    )


def folder_names(path: str, most: int) -> tuple[list[str], int]:
    """Return the first names in a directory (directories with a slash) and their number.

    Raises OSError, also if a part of the path is a link by now.
    """
    with closing(safe_open(path, LISTED_FOLDER)) as here, os.scandir(here) as entries:
        names = sorted(
            one_line_path(mark_stray_bytes(entry.name)) + "/" * _leads_to_folder(entry)
            for entry in islice(entries, 10_000)
        )
    return names[:most], len(names)


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):  # a circular link
        return entry.is_dir()
    return False


def _listing(path: str) -> ToolResult:
    names, count = folder_names(path, 50)
    left = count - len(names)
    more = f"\n… and {left:,} more" if left > 0 else ""
    content = pluralize(count, "entry", "entries") + ":" if names else "nothing."
    listed = "\n".join((f"{one_line_path(path)} is a directory. It contains {content}", *names))
    return text_result(
        f"{listed}{more}", human=Display(note=f"directory, {pluralize(count, 'entry', 'entries')}")
    )


TOOL = Tool(
    name="read",
    description="""\
Read a file. Each line is prefixed with its number and a tab, which are not part of the file.

- Returns up to 2,000 lines and 50 KB, each line up to 2,000 characters; the end of the result says where to \
continue. Use offset and limit for parts of large files; a negative offset counts from the end.
- PNG, JPEG, GIF and WebP files are shown as images, a PDF as the text of its pages, which offset and limit \
count. A directory is listed.""",
    advice=(ToolAdvice("edit write", "- Read a file before you change it."),),
    arguments=ReadArguments,
    kind="reads",
    title=_title,
    access=ReadArguments.access,
    run=read_file,
    parallel=True,
    record=record_read,
    brief="""\
Read a file, or list a directory. Each line is prefixed with its number and a tab. offset is the first line; \
-50 means the last fifty.""",
)
