"""Read the files that a prompt mentions as `@path`, and give their text to the model with the prompt.

`@src/a.py`, `@"with spaces.md"`, `@src/a.py#L10-20` (or `#L10`), `@src/` (lists the directory), `@~/notes`.
A mention that names no file is sent unchanged, since `@name` has other uses too, and a notice says so.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from tools.access import file_access
from tools.base import Access, ToolContext, ToolError
from tools.file_errors import os_errors_explained
from tools.files import FileError, in_thread, one_line_path, resolve_path
from tools.line_window import MAX_WINDOW_LINES
from tools.path_suggestions import suggestions
from tools.read import folder_names, read_page
from tools.search import regular_files
from tools.text import is_plain
from transcripts import Block, ImageBlock, TextBlock, attached, content_text
from transcripts.patterns import lazy_pattern
from transcripts.wording import pluralize

MAX_ATTACHED_TOKENS = 25_000  # of one file; the model can read the rest
MAX_NAMED_ABSENT = 3  # mentions without a file that the notice names
_WRITTEN = lazy_pattern(
    r"""(?:(?<=[\s(\[{<,;"'`])|\A)@(?:"([^"\n]{1,1000})"(\#L\d+(?:-L?\d+)?)?|"""
    r"""([^\s"@](?:\\[ ]|[^\s"]){0,1000}))"""
)
_LINES = lazy_pattern(r"#L(\d{1,9})(?:-L?(\d{1,9}))?\Z")
_COMPILER_LINE = lazy_pattern(r":(\d{1,9})(?::\d+|-\d+)?\Z")  # as compilers write it
_TRAILING = ".,;:!?)]}>'`*"  # what may follow a mention in a sentence


class Mention(Struct, frozen=True):
    """A file that a text mentions, and the range of its lines; None: all lines."""

    path: str
    lines: tuple[int, int] | None = None


class Attachment(Struct, frozen=True):
    """The outcome of a mention.

    message  one line for the user
    trouble  nothing is attached, and `message` gives the reason
    blocks   sent to the model before the prompt
    about    the facts about the file for the transcript, like those of a read
    """

    message: str
    blocks: tuple[Block, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    trouble: bool = False


class AttachLimits(Struct, frozen=True):
    """The limits of attached files.

    refusal  returns the reason why a file may not be attached, "" if it may
    count    returns the tokens of a text
    tokens   the limit for all files of a prompt together
    """

    refusal: Callable[[Access], str]
    count: Callable[[str], int]
    tokens: int


def find_mentions(text: str) -> list[Mention]:
    """Return the mentions in a text, each once, in order, without those in piped input (`<stdin>`)."""
    found: dict[Mention, None] = {}
    for match in _WRITTEN.finditer(text.partition("\n\n<stdin>\n")[0]):
        written = match[1] + (match[2] or "") if match[1] else match[3].replace("\\ ", " ")
        found[_mention(written)] = None
        if len(found) == 40:  # of one prompt
            break
    return list(found)


def _mention(written: str) -> Mention:
    lines = _LINES.search(written) or _LINES.search(written.rstrip(_TRAILING))
    if lines is None:
        return Mention(written)
    first = int(lines[1])
    return Mention(written[: lines.start()], (first, max(first, int(lines[2] or first))))


async def attach_mentioned(text: str, context: ToolContext, limits: AttachLimits) -> list[Attachment]:
    """Attach the files that a text mentions, each once, in order.

    A line follows about those that do not exist.
    """
    if "@" not in text:
        return []
    made: list[Attachment] = []
    absent: list[str] = []
    located: set[tuple[str, tuple[int, int] | None]] = set()  # without punctuation after a mention
    left = limits.tokens
    for mention in find_mentions(text):
        try:
            path = _located(mention.path, context)
            if path is None:
                absent.append(mention.path.rstrip(_TRAILING) or mention.path)
                continue
            place = (path, mention.lines)
            if place in located:
                continue
            located.add(place)
            one = await _attached(mention, path, context, replace(limits, tokens=left))
        except (FileError, ToolError) as error:
            one = Attachment(_not_attached(mention.path, str(error).partition("\n")[0]), trouble=True)
        left -= sum(limits.count(block.text) for block in one.blocks if isinstance(block, TextBlock))
        made.append(one)
    notice = await _about_absent([*dict.fromkeys(absent)], context) if absent else ""
    return [*made, Attachment(notice)] if notice else made


async def _about_absent(names: Sequence[str], context: ToolContext) -> str:
    """Return a line about mentions that name no file, with suggestions; "" if all of them are something else.

    A mention with a colon that is not followed by a line number names an MCP server.
    """
    names = [name for name in names if ":" not in name or _COMPILER_LINE.search(name)]
    if not names:
        return ""
    shown = list(map(one_line_path, names[:MAX_NAMED_ABSENT]))
    last = f"{len(names) - len(shown)} more" if len(names) > len(shown) else f"@{shown.pop()}"
    listed = f"{', '.join(f'@{name}' for name in shown)} and {last}" if shown else last

    try:
        near = await in_thread(lambda gone: _nearest(names[:MAX_NAMED_ABSENT], context, gone))
    except FileError:  # the disk does not respond; the line is shown without suggestions
        near = []
    suggestion = f"; did you mean {' or '.join(f'@{one_line_path(name)}' for name in near)}?" if near else ""
    return f"{listed}: no such file{suggestion}"


def _nearest(names: Sequence[str], context: ToolContext, gone: threading.Event) -> list[str]:
    """Suggest a file for each name: a similar one in its directory, or one of that name in the project."""
    found: list[str] = []
    files: dict[str, str] | None = None
    for name in names:
        line = _COMPILER_LINE.search(name)
        name, mark = (name[: line.start()], f"#L{line[1]}") if line is not None else (name, "")
        path = resolve_path(context, name)
        near = [path] if os.path.lexists(path) else suggestions(path, context.folder)
        if near:
            found.append(f"{one_line_path(near[0], context.folder)}{mark}")
            continue
        if files is None:
            listed = regular_files(context.folder, gone.is_set)[0][:5_000]
            files = {each.rpartition("/")[2]: each for each in reversed(listed) if is_plain(each)}
        last = Path(path).name
        found += [files[each] + mark for each in get_close_matches(last, files, n=1, cutoff=0.7)]
    return list(dict.fromkeys(found))


def _located(written: str, context: ToolContext) -> str | None:
    """Return the real path of a mentioned file, without punctuation after it; None if it does not exist."""
    shorter = written.rstrip(_TRAILING)
    for path in filter(None, dict.fromkeys((written, shorter))):
        within = path if path.startswith(("/", "~")) else str(context.folder / path)  # as in completions
        for candidate in dict.fromkeys((within, path)):
            found = resolve_path(context, candidate)
            if os.path.lexists(found):
                return found
    return None


async def _attached(mention: Mention, path: str, context: ToolContext, limits: AttachLimits) -> Attachment:
    """Attach the file of a mention. Raises ToolError if it cannot be read."""
    access = file_access(path, "read", context)
    name = one_line_path(path, context.folder)
    if why := limits.refusal(access):
        return Attachment(_not_attached(name, why), trouble=True)
    with os_errors_explained(path, context.folder):
        if Path(path).is_dir():
            names, count = await in_thread(lambda gone: folder_names(path, 500))
            return _folder(name, names, count)
        return await _file(mention, path, name, limits)


def _folder(name: str, names: list[str], count: int) -> Attachment:
    more = f"\n[{count - len(names):,} more]" if count > len(names) else ""
    name = f"{name.rstrip('/')}/"
    size = pluralize(count, "entry", "entries")
    listed = "\n".join(names)
    block = attached("Folder", f"{name} ({size})", f"{listed}{more}")
    return Attachment(f"listed {name} ({size})", (block,))


async def _file(mention: Mention, path: str, name: str, limits: AttachLimits) -> Attachment:
    most = min(MAX_ATTACHED_TOKENS, limits.tokens)
    first, last = mention.lines or (1, MAX_WINDOW_LINES)
    count = min(last - first + 1, MAX_WINDOW_LINES)
    while True:
        wanted = (first, count) if mention.lines or count < MAX_WINDOW_LINES else None
        page = await in_thread(_reader(path, wanted))
        text = content_text(page.content)
        note = page.human.note
        if isinstance(page.content[0], ImageBlock):
            return Attachment(f"read {name} ({note})", _image_blocks(name, page.content), page.about)
        tokens = limits.count(text)
        lines = page.about.get("last", page.about.get("last_page", 0)) - first + 1
        if tokens <= most or lines <= 1:
            break
        count = max(1, min(lines - 1, int(lines * most / tokens * 0.97)))
    if tokens > most:
        return Attachment(_not_attached(name, "it is too large for one prompt"), trouble=True)
    block = attached("File", f"{name} ({note})", text)
    return Attachment(f"read {name} ({note})", (block,), page.about)


MAX_ATTACHED_BYTES = 100_000  # read of one file: MAX_ATTACHED_TOKENS of code are at most as long


def _reader(path: str, wanted: tuple[int, int] | None) -> Callable[..., Any]:
    return lambda abandoned: read_page(path, wanted, None, abandoned, MAX_ATTACHED_BYTES)


def _image_blocks(name: str, content: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return the image, followed by its name and size."""
    images = [block for block in content if isinstance(block, ImageBlock)]
    caption = content_text(tuple(block for block in content if isinstance(block, TextBlock)))
    return (*images, attached("Image", name, caption))


def _not_attached(name: str, why: str) -> str:
    return f"cannot attach @{one_line_path(name)}: {why}"
