"""The grep tool: search the project's files for a regular expression, with ripgrep."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import replace

from tools.file_errors import os_errors_explained
from tools.files import in_thread, one_line_path
from tools.parameters import UNADVERTISED
from tools.search import (
    SEARCH_LIMIT_S,
    FoundLine,
    SearchOutput,
    SearchRequest,
    can_search_folders,
    file_states,
    find_program,
    search_files,
    search_folder,
)
from tools.text import has_surrogate, mark_stray_bytes, without_tags
from transcripts import Display
from transcripts.wording import pluralize

from .base import (
    SMALL_WINDOW_TOKENS,
    Tool,
    ToolAdvice,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    text_result,
)
from .glob import (
    MAX_NOTED_FILES,
    SearchArguments,
    hidden_below,
    list_files,
    newest_first,
    odd_names_note,
    page_of,
    readable_below,
    shown_path,
)

MAX_CONTEXT_LINES = 50
_FOREIGN_NAMES = {"include": "glob", "ignore_case": "-i", "case_insensitive": "-i", "-C": "context"}
# Globs of ripgrep's file types that are not just "*." and the name of the type.
_TYPE_GLOBS = {
    "c": "*.{c,h}", "cpp": "*.{cpp,cc,cxx,hpp,hh,hxx,h,inl}", "csharp": "*.cs", "css": "*.{css,scss}",
    "docker": "*{Dockerfile,dockerfile}*", "elixir": "*.{ex,exs}", "haskell": "*.{hs,lhs}",
    "html": "*.{htm,html}", "js": "*.{js,jsx,cjs,mjs,vue}", "kotlin": "*.{kt,kts}",
    "make": "{[Mm]akefile,GNUmakefile,*.mk,*.mak}", "markdown": "*.{md,markdown,mdx}",
    "md": "*.{md,markdown,mdx}", "perl": "*.{pl,pm,t}", "php": "*.{php,phtml}", "protobuf": "*.proto",
    "py": "*.{py,pyi}", "python": "*.{py,pyi}", "ruby": "*.{rb,gemspec,rbw}", "rust": "*.rs",
    "sh": "*.{sh,bash,zsh,ksh}", "tex": "*.{tex,cls,sty,bib}", "ts": "*.{ts,tsx,cts,mts}",
    "typescript": "*.{ts,tsx,cts,mts}", "yaml": "*.{yaml,yml}", "javascript": "*.{js,jsx,cjs,mjs,vue}",
}  # fmt: skip


class GrepArguments(SearchArguments):
    """The pattern to search for, and the form of the results. Some names are options of the grep program."""

    pattern: Annotated[str, Meta(min_length=1, description="Regular expression (ripgrep syntax).")]
    glob: Annotated[
        str | None, Meta(description="Only files that match: *.py, src/**/*.{ts,tsx}, !*.min.js.")
    ] = None
    output_mode: Annotated[
        Literal["files_with_matches", "content", "count"],
        Meta(description="Return file names, matching lines, or counts."),
    ] = "files_with_matches"
    ignore_case: Annotated[bool, Meta(description="Case-insensitive.")] = field(default=False, name="-i")
    context: Annotated[
        int,
        Meta(ge=0, le=MAX_CONTEXT_LINES, description="Lines of context around each match (content only)."),
    ] = 0
    before: Annotated[int, Meta(ge=-1, le=MAX_CONTEXT_LINES), UNADVERTISED] = field(default=-1, name="-B")
    after: Annotated[int, Meta(ge=-1, le=MAX_CONTEXT_LINES), UNADVERTISED] = field(default=-1, name="-A")
    numbered: Annotated[bool, UNADVERTISED] = field(default=True, name="-n")
    multiline: Annotated[bool, UNADVERTISED] = False

    @classmethod
    def understood(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Accept names of the grep program and of other programs' tools, see tools.parameters.Arguments."""
        values = {name: value for name, value in given.items() if value is not None or name == "pattern"}
        kind = values.pop("type", None)
        values = {_FOREIGN_NAMES.get(name, name): value for name, value in values.items()}
        if kind and not values.get("glob"):
            values["glob"] = _TYPE_GLOBS.get(str(kind), f"*.{kind}")
        return values

    @property
    def around(self) -> tuple[int, int]:
        """Return the number of lines shown before and after each match."""
        if self.output_mode != "content":
            return 0, 0
        before = self.context if self.before < 0 else self.before
        after = self.context if self.after < 0 else self.after
        return before, after


def _title(arguments: GrepArguments) -> str:
    where = " in ".join(each for each in (arguments.glob, arguments.path) if each)
    return one_line_path(arguments.pattern + (f" in {where}" if where else ""))


async def search(arguments: GrepArguments, call: ToolCall, limit_s: float = SEARCH_LIMIT_S) -> ToolResult:
    if "\0" in arguments.pattern or has_surrogate(arguments.pattern):
        raise ToolError("The pattern contains a NUL or a lone surrogate, which no text contains.\nRemove it.")
    context = call.context
    root = arguments.root(context)
    before, after = arguments.around
    request = SearchRequest(
        arguments.pattern,
        root,
        wanted=_wanted(context, root),
        ignore_case=arguments.ignore_case,
        before=before,
        after=after,
        first_only=arguments.output_mode == "files_with_matches",
        counting=arguments.output_mode == "count",
        across_lines=arguments.multiline,
    )
    output = SearchOutput(message="not searched yet")
    notes: Sequence[str] = ()
    with os_errors_explained(root, context.folder):
        if arguments.glob is None and await in_thread(
            lambda abandoned: Path(root).is_dir() and can_search_folders(context, root)
        ):
            output = await search_folder(context, request, limit_s)
        if output.message:
            files = await list_files(context, TOOL.name, root, arguments.glob)
            notes = files.note
            request = replace(request, folder=files.folder, names=[*files.states], wanted=lambda name: True)
            output = await search_files(context, request, limit_s)
    if output.message:
        raise ToolError(_unusable(output.message, context))
    return _result(arguments, request, notes, context, output)


def _wanted(context: ToolContext, root: str) -> Callable[[str], bool]:
    """Return a test of the names of files with matches below a directory: whether they may be shown."""
    readable = readable_below(context, TOOL.name, root)
    is_hidden = hidden_below(context, root)

    def wanted(name: str) -> bool:
        with suppress(OSError):
            return readable(name) and not is_hidden(os.lstat(f"{root.rstrip('/')}/{name}"))
        return False

    return wanted


def _unusable(message: str, context: ToolContext) -> str:
    text = (
        f"Invalid pattern: {message[:500]}\nEscape literal brackets, braces, dots and stars with a backslash."
    )
    if find_program(context, "rg") is None:
        text += "\nripgrep is not installed: use the syntax of Python's re module."
    return text


def _result(
    arguments: GrepArguments,
    request: SearchRequest,
    notes: Sequence[str],
    context: ToolContext,
    output: SearchOutput,
) -> ToolResult:
    by_name = output.lines or output.counts
    mode = arguments.output_mode
    prefix = request.folder.rstrip("/")
    paths = {name: shown_path(f"{prefix}/{name}", context) for name in by_name}
    counts = output.counts or {
        name: sum(line.start is not None for line in found) for name, found in output.lines.items()
    }
    if mode == "content":
        found = output.lines.items()
        lines = [line for name, each in found for line in _content(paths[name], each, arguments)]
    elif mode == "count":
        lines = [f"{paths[name]}:{counts[name]}" for name in by_name]
    else:
        lines = [paths[name] for name in newest_first(file_states(request.folder, by_name))]
    shown, more = page_of(lines, arguments, bool(output.stopped))
    footer = [more] if more else []
    if output.stopped:
        footer.append(f"[the search was stopped: {output.stopped}; use a narrower pattern, path or glob]")
    if output.unsifted:
        footer.append("[text after a NUL byte was not searched in all files; give a narrower path or glob]")
    footer += [*odd_names_note([*by_name]), *notes]
    note = pluralize(len(by_name), "file")
    about = {"files": len(by_name)}
    if mode != "files_with_matches":
        about["matches"] = sum(counts.values())
        note = f"{pluralize(about['matches'], 'match', 'matches')} in {note}"
    if not by_name:
        shown = [*_nothing_found(arguments, context, request.folder, output)] if not output.stopped else []
        note = "stopped" if output.stopped else "nothing"
    failed = bool(output.stopped) and not by_name
    return text_result("\n".join([*shown, *footer]), error=failed, human=Display(note=note), about=about)


def _nothing_found(
    arguments: GrepArguments, context: ToolContext, folder: str, output: SearchOutput
) -> Iterator[str]:
    if output.searched == 0 and not output.skipped:
        found = f"No files match {arguments.glob}" if arguments.glob else "No files found"
        where = shown_path(folder, context)
        yield f"{found} in {where} (ignored files and secrets are excluded)."
        return
    if output.searched is None:
        yield "No matches found (ignored files and secrets are excluded)."
    elif output.searched:
        yield f"No matches found in {pluralize(output.searched, 'file')}."
    skipped = "large binary files were not searched"
    for what, names in (("binary files with matches", output.binary), (skipped, output.skipped)):
        named = [shown_path(f"{folder.rstrip('/')}/{each}", context) for each in names]
        more = ", ..." if len(named) > MAX_NOTED_FILES else ""
        if named:
            yield f"[{what}: {', '.join(named[:MAX_NOTED_FILES])}{more}; search them with grep -a in bash]"
    if "\\|" in arguments.pattern:
        yield "[\\| matches a literal |; separate alternatives with a plain |]"


def _content(path: str, lines: Sequence[FoundLine], arguments: GrepArguments) -> Iterator[str]:
    """Yield the lines of a file as grep prints them: `path:12:match`, `path-13-context`, `--` between."""
    last = None
    for line in lines:
        if any(arguments.around) and last is not None and line.number > last + 1:
            yield "--"
        last = line.number
        mark = "-" if line.start is None else ":"
        place = f"{path}{mark}{line.number}{mark}" if arguments.numbered else f"{path}{mark}"
        yield f"{place}{without_tags(mark_stray_bytes(line.text))}"


TOOL = Tool(
    name="grep",
    description="""\
Search file contents for a regular expression.

- Returns file names, newest first; output_mode "content" returns lines as path:line:text, "count" the \
number of matching lines. Page through the result with head_limit and offset.
- Files that git ignores, makeroom's transcripts and secrets are excluded, unless path names an ignored file \
or directory.""",
    advice=(ToolAdvice("bash", "- Prefer it to running grep in {}."),),
    arguments=GrepArguments,
    kind="searches",
    title=_title,
    access=GrepArguments.access,
    run=search,
    parallel=True,
    least_window=SMALL_WINDOW_TOKENS + 1,
)
