"""The glob tool: find files by name pattern, newest first; and the code that it shares with grep.

Both skip files that git ignores, our transcripts, secrets, and files that a rule forbids to read.
"""

# Path raises for directories that may not be read.
# ruff: noqa: PTH110, PTH112, PTH113, PTH119, PTH120

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from stat import S_ISLNK
from typing import Annotated

from msgspec import Meta, Struct

from tools.access import file_access
from tools.file_errors import os_errors_explained
from tools.files import (
    FileError,
    canonical_path,
    in_thread,
    is_inside,
    one_line_path,
    opened_file,
    resolve_path,
)
from tools.glob_patterns import name_matcher
from tools.guarded import is_protected, secret_links
from tools.line_window import MAX_WINDOW_BYTES
from tools.parameters import Arguments
from tools.search import file_states, list_folder
from tools.text import has_surrogate, mark_stray_bytes
from transcripts import Display
from transcripts.patterns import lazy_pattern
from transcripts.wording import pluralize

from .base import SMALL_WINDOW_TOKENS, Access, Tool, ToolCall, ToolContext, ToolError, ToolResult, text_result

MAX_FOUND_LINES = 200  # shown at once by default
MAX_NOTED_FILES = 3  # binary files that match, and broken links
_MAX_GLOB_CHARS = 1_000
_MAGIC = frozenset("*?[{\\")
_ONE_GLOB = lazy_pattern(r"(?:\{[^{}]*\}|[^,\s])+")  # of several globs; text in braces is not split


class SearchArguments(Arguments):
    """The place to search, and the page of the results to show."""

    pattern: Annotated[str, Meta(min_length=1)]
    path: Annotated[str | None, Meta(description="Directory or file to search (default: the project).")] = (
        None
    )
    head_limit: Annotated[int, Meta(ge=0, description="Maximum number of lines.")] = MAX_FOUND_LINES
    offset: Annotated[int, Meta(ge=0, description="Number of lines to skip, for the next page.")] = 0

    def __post_init__(self) -> None:
        self._root: str | None = None

    @property
    def wanted_root(self) -> str:
        """The path to search, as given."""
        return self.path or "."

    def access(self, context: ToolContext) -> tuple[Access, ...]:
        """Return the access that a search needs, and keep the path. Raises ToolError for an unusable path."""
        root = self._root = resolve_path(context, self.wanted_root)
        return (file_access(root, "read", context),)

    def root(self, context: ToolContext) -> str:
        """Return the real path that was judged, or judge it now. Raises ToolError as `access` does."""
        return self._root or self.access(context)[0].target


class FileList(Struct, frozen=True):
    """The files to search: names below a directory, with their states.

    complete  whether these are all of them
    dead      the broken links among them
    listed    the number of files that were listed, whether or not they match
    """

    folder: str
    states: Mapping[str, os.stat_result]
    complete: bool = True
    dead: Sequence[str] = ()
    listed: int = 1

    @property
    def note(self) -> tuple[str, ...]:
        if self.complete:
            return ()
        return (f"[only the first {self.listed:,} files were searched; use path to select a directory]",)


async def list_files(
    context: ToolContext,
    tool: str,
    root: str,
    glob: str | None,
    link_folders: Sequence[str] = (),
) -> FileList:
    """List the files at or below a real path that match the glob. Raises ToolError, OSError.

    Below a path that is itself protected, and that the user approved, nothing is left out. With
    `link_folders`, broken links are listed too, and links to files below these that need no approval.
    """
    single = await in_thread(lambda abandoned: _single_file(root))
    if single is not None:
        return single
    fits = glob_matcher(glob) if glob else None
    readable = readable_below(context, tool, root)
    listing = await list_folder(context, root)
    is_hidden = hidden_below(context, root)

    def look(names: Sequence[str]) -> FileList:
        states = file_states(root, names, links=bool(link_folders))
        states = {name: state for name, state in states.items() if not is_hidden(state)}
        dead = list[str]()
        for name in [name for name, state in states.items() if S_ISLNK(state.st_mode)]:
            target = _target(f"{root.rstrip('/')}/{name}")
            if not _leads_to_file(target, link_folders, lambda path: readable(path, whole=True)):
                del states[name]
            elif not os.path.exists(target):
                dead.append(name)
        return FileList(
            root, states=states, complete=listing.complete, dead=sorted(dead), listed=len(listing.names)
        )

    names = listing.names if fits is None else await asyncio.to_thread(list, filter(fits, listing.names))
    return await in_thread(lambda abandoned: look([name for name in names if readable(name)]))


def _single_file(root: str) -> FileList | None:
    """Return the list of one file, for a path that is not a directory. Raises ToolError, OSError."""
    if os.path.isdir(root):
        return None
    with opened_file(root) as (_, state):
        return FileList(os.path.dirname(root), {os.path.basename(root): state})


def readable_below(context: ToolContext, tool: str, root: str) -> Callable[..., bool]:
    """Return a test of names below a directory: whether a search may read the file without approval.

    With `whole`, names are whole paths.
    """
    asked = is_protected(root, "read")
    prefix = root.rstrip("/")

    def readable(name: str, whole: bool = False) -> bool:
        path = name if whole else f"{prefix}/{name}"
        return (asked or not is_protected(path, "read")) and context.may_read(tool, path)

    return readable


def hidden_below(context: ToolContext, root: str) -> Callable[[os.stat_result], bool]:
    """Return a test whether searches below a directory leave out a file, whatever its name."""
    return (
        (lambda state: False) if is_protected(root, "read") else secret_links(context.folder, *context.added)
    )


def _target(link: str) -> str:
    """Return the real path that a link leads to, or a circular link itself."""
    try:
        return canonical_path(link)
    except FileError:
        return link


def _leads_to_file(target: str, folders: Sequence[str], readable: Callable[[str], bool]) -> bool:
    """Return whether the target of a link may be read and is a file below the directories, or missing."""
    inside = any(is_inside(target, folder) for folder in folders)
    return inside and readable(target) and (os.path.isfile(target) or not os.path.exists(target))


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a matcher like `name_matcher`; a leading `!` excludes the names that match. Raises ToolError.

    Several globs may be given, separated by commas or spaces.
    """
    several = several_globs(pattern)
    if several:
        wanted = [glob_matcher(each) for each in several if not each.startswith("!")]
        unwanted = [glob_matcher(each) for each in several if each.startswith("!")]
        return lambda name: (
            (not wanted or any(fits(name) for fits in wanted)) and all(fits(name) for fits in unwanted)
        )
    if len(pattern) > _MAX_GLOB_CHARS:
        raise ToolError(f"The glob has more than {_MAX_GLOB_CHARS:,} characters.\nUse a shorter one.")
    try:
        fits = name_matcher(pattern.removeprefix("!"))
    except ValueError as error:
        raise ToolError(f"Invalid glob: {error}.\nUse a simpler one.") from None
    return (lambda name: not fits(name)) if pattern.startswith("!") else fits


def several_globs(pattern: str) -> list[str]:
    """Return the globs in a text such as `*.py, *.ts`; [] for one glob, or a name with a comma."""
    words = _ONE_GLOB.findall(pattern)
    return words if len(words) > 1 and all(_MAGIC.intersection(word) for word in words) else []


def split_glob(pattern: str) -> tuple[str, str]:
    """Split off the directories with plain names at the beginning of a glob such as `src/a/**/*.py`."""
    if several_globs(pattern):
        return "", pattern
    parts = pattern.split("/")
    plain = next((at for at, part in enumerate(parts) if _MAGIC.intersection(part)), len(parts) - 1)
    if plain == 0:
        return "", pattern
    rest = "/".join(parts[plain:])
    return "/".join(parts[:plain]) or "/", rest if "/" in rest else f"/{rest}"


def newest_first(states: Mapping[str, os.stat_result]) -> list[str]:
    """Return the names, the most recently changed file first."""
    return sorted(states, key=lambda name: (-states[name].st_mtime, name))


def shown_path(file: str, context: ToolContext) -> str:
    """Return a path as the file tools take it: relative to the project if it is inside.

    Bytes that are not valid text, which no call can contain, are U+FFFD.
    """
    return one_line_path(mark_stray_bytes(file), context.folder)


def odd_names_note(files: Sequence[str]) -> list[str]:
    """Return a note about names that no other tool accepts as they are shown."""
    odd = sum(map(has_surrogate, files))
    if not odd:
        return []
    names = pluralize(odd, "name has", "names have")
    return [f"[{names} bytes that are not UTF-8 (shown as \ufffd); in a command, match them with a pattern]"]


def page_of(
    lines: Sequence[str],
    arguments: SearchArguments,
    more: bool = False,
    shown_as: Callable[[str], str] = str,
) -> tuple[list[str], str]:
    """Return the lines to show, at most 50 KB, and a note if there are others, even beyond them (`more`)."""
    start = arguments.offset
    size = 0
    shown = list[str]()
    for line in map(shown_as, lines[start : start + (arguments.head_limit or len(lines))]):
        size += len(line.encode("utf-8", "replace")) + 1
        if shown and size > MAX_WINDOW_BYTES:
            break
        shown.append(line)
    end = start + len(shown)
    total = len(lines)
    of = f"more than {total:,}" if more else f"{total:,}"
    if not shown and total:
        number = f"more than {total:,} lines" if more else pluralize(total, "line")
        return shown, f"[offset {start} is past the end: the result has {number}]"
    if start == 0 and end == total:
        return shown, ""
    following = f"; continue with offset={end}" if end < total else ""
    return shown, f"[lines {start + 1}-{end} of {of}{following}]"


class GlobArguments(SearchArguments):
    """A pattern of names."""

    pattern: Annotated[str, Meta(min_length=1, description="Such as **/*.py or src/**/*.{ts,tsx}.")]

    @property
    def wanted_root(self) -> str:
        """The directory to search, including those that the pattern begins with."""
        folders = split_glob(self.pattern)[0]
        if not self.path or folders.startswith(("/", "~")):
            return folders or self.path or "."
        return f"{self.path.rstrip('/')}/{folders}" if folders else self.path


def _title(arguments: GlobArguments) -> str:
    return one_line_path(arguments.pattern + (f" in {arguments.path}" if arguments.path else ""))


async def find_files(arguments: GlobArguments, call: ToolCall) -> ToolResult:
    context = call.context
    root = arguments.root(context)
    glob = split_glob(arguments.pattern)[1]
    link_folders = [root, *map(str, (context.folder, *context.added))]
    with os_errors_explained(root, context.folder):
        files = await list_files(context, TOOL.name, root, glob, link_folders)
    folder = files.folder.rstrip("/")
    found = newest_first(files.states)
    show = partial(_shown_below, folder, context)
    shown, more = page_of(found, arguments, not files.complete, show)
    notes = [*_dead_note(files, context), *odd_names_note(found), *files.note]
    about = {"files": len(found)}
    if not found:
        missing = f"No files found in {shown_path(root, context)} (ignored files and secrets are excluded)."
        if _names_folder(arguments.pattern, root):
            missing = (
                f"{arguments.pattern} is a directory; {arguments.pattern.rstrip('/')}/** matches its files."
            )
        return text_result("\n".join([missing, *notes]), human=Display(note="nothing"), about=about)
    body = "\n".join([*shown, *([more] if more else []), *notes])
    return text_result(body, human=Display(note=pluralize(len(found), "file")), about=about)


def _shown_below(folder: str, context: ToolContext, name: str) -> str:
    return shown_path(f"{folder}/{name}", context)


def _dead_note(files: FileList, context: ToolContext) -> list[str]:
    named = [shown_path(f"{files.folder.rstrip('/')}/{each}", context) for each in files.dead]
    more = f", ... ({len(named)})" if len(named) > MAX_NOTED_FILES else ""
    return [f"[broken links: {', '.join(named[:MAX_NOTED_FILES])}{more}]"] if named else []


def _names_folder(pattern: str, root: str) -> bool:
    """Return whether the pattern names a directory, below the root or, if it ends with a slash, the root."""
    rest = split_glob(pattern)[1].strip("/")
    return not _MAGIC.intersection(rest) and Path(root, rest).is_dir()


TOOL = Tool(
    name="glob",
    description="""\
Find files by name pattern, newest first.

- A pattern without a slash matches in all directories below; `**` matches any directories.
- Files that git ignores, makeroom's transcripts and secrets are excluded, unless path names an ignored \
directory.""",
    arguments=GlobArguments,
    kind="searches",
    title=_title,
    access=GlobArguments.access,
    run=find_files,
    parallel=True,
    least_window=SMALL_WINDOW_TOKENS + 1,
)
