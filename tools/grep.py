"""The grep tool: the lines of the project's files that match a regular expression, as ripgrep finds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field, model_validator

from tools.files.resolve_path import one_line_path
from tools.files.safe_open import FILE_TIMEOUT_S, in_thread, os_errors_explained
from tools.files.search_engine import SEARCH_LIMIT_S, FoundLine, SearchOutput, SearchRequest, search_files
from tools.files.text_encoding import mark_stray_bytes, pluralize

from .base import Tool, ToolCall, ToolContext, ToolError, ToolResult, text_result
from .glob import (
    MAX_NOTED_FILES,
    FileList,
    SearchArguments,
    list_files,
    newest_first,
    odd_names_note,
    page_of,
    shown_path,
)
from .truncate import without_tags

MAX_CONTEXT_LINES = 50
_MAX_MESSAGE_CHARS = 500  # quoted of why a pattern cannot be used
_CONTEXT_NAMES = ("-C", "-A", "-B")  # as the grep program calls the lines around a match
_UNUSED_NAMES = ("-n", "type", "multiline")  # lines always have their numbers; the others are read first
_FOREIGN_NAMES = {"include": "glob", "ignore_case": "-i", "case_insensitive": "-i"}
# Globs of the types of files that ripgrep knows, where these are not "*." and the type's name.
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
    """What to search for, and what to show of it."""

    pattern: str = Field(min_length=1, description="Regular expression, as ripgrep takes it.")
    glob: str | None = Field(None, description="Only files that fit: *.py, src/**/*.{ts,tsx}, !*.min.js.")
    output_mode: Literal["files_with_matches", "content", "count"] = Field(
        "files_with_matches",
        description="What is shown: names of files, lines, or the number of lines.",
    )
    ignore_case: bool = Field(False, alias="-i", description="Letter case does not count.")
    context: int = Field(0, ge=0, le=MAX_CONTEXT_LINES, description="Lines around each match, for content.")

    @model_validator(mode="before")
    @classmethod
    def _understand(cls, given: Any) -> Any:
        """Names that models know from the grep program and from other programs' tools."""
        if not isinstance(given, Mapping):
            return given
        left_out = (*_CONTEXT_NAMES, *_UNUSED_NAMES, *_FOREIGN_NAMES)
        known = {name: given[name] for name in given if name not in left_out}
        known |= {own: given[other] for other, own in _FOREIGN_NAMES.items() if other in given}
        around = [given[name] for name in _CONTEXT_NAMES if given.get(name) is not None]
        kind = given.get("type")
        if kind and not known.get("glob"):
            known["glob"] = _TYPE_GLOBS.get(str(kind), f"*.{kind}")
        if str(given.get("multiline")).lower() == "true":
            known["pattern"] = f"(?s){known.get('pattern', '')}"
        return {"context": max(around, key=_as_number), **known} if around else known


def _as_number(value: Any) -> int:
    return int(value) if str(value).isdecimal() else 0


def _title(arguments: GrepArguments) -> str:
    where = " in ".join(each for each in (arguments.glob, arguments.path) if each)
    return one_line_path(arguments.pattern + (f" in {where}" if where else ""))


async def search(arguments: GrepArguments, call: ToolCall, limit_s: float = SEARCH_LIMIT_S) -> ToolResult:
    context, root = call.context, arguments.root(call.context)
    may_read = partial(context.may_read, TOOL.name)
    with os_errors_explained(root, context.folder):
        files = await in_thread(
            FILE_TIMEOUT_S, lambda abandoned: list_files(root, may_read, arguments.glob, abandoned)
        )
    mode, around = arguments.output_mode, arguments.context
    request = SearchRequest(
        arguments.pattern,
        files.folder,
        files.names,
        arguments.ignore_case,
        around if mode == "content" else 0,
        first_only=mode == "files_with_matches",
        counting=mode == "count",
    )
    output = await search_files(context, request, limit_s)
    if output.message:
        raise ToolError(
            f"The pattern cannot be used: {output.message[:_MAX_MESSAGE_CHARS]}\n"
            "Put a backslash before brackets, braces, dots and stars that are meant as they are."
        )
    return _result(arguments, context, files, output)


def _result(
    arguments: GrepArguments, context: ToolContext, files: FileList, output: SearchOutput
) -> ToolResult:
    by_name, mode = output.lines or output.counts, arguments.output_mode
    paths = {name: shown_path(f"{files.folder.rstrip('/')}/{name}", context) for name in by_name}
    counts = output.counts or {
        name: sum(line.start is not None for line in found) for name, found in output.lines.items()
    }
    if mode == "content":
        found = output.lines.items()
        lines = [line for name, each in found for line in _content(paths[name], each, arguments.context)]
    elif mode == "count":
        lines = [f"{paths[name]}:{counts[name]}" for name in by_name]
    else:
        lines = [paths[name] for name in newest_first(files.folder, [*by_name])]
    shown, more = page_of(lines, arguments, bool(output.stopped))
    notes = [more] if more else []
    if output.stopped:
        notes.append(f"[the search was stopped: {output.stopped}; give a narrower pattern, path or glob]")
    notes += [*odd_names_note([*by_name]), *files.note]
    note, about = pluralize(len(by_name), "file"), {"files": len(by_name)}
    if mode != "files_with_matches":
        about["matches"] = sum(counts.values())
        note = f"{pluralize(about['matches'], 'match', 'matches')} in {note}"
    if not by_name:
        shown = [*_nothing_found(arguments, context, files, output)] if not output.stopped else []
        note = "stopped" if output.stopped else "nothing"
    failed = bool(output.stopped) and not by_name
    return text_result("\n".join([*shown, *notes]), error=failed, human={"note": note}, about=about)


def _nothing_found(
    arguments: GrepArguments, context: ToolContext, files: FileList, output: SearchOutput
) -> Iterator[str]:
    if not files.names:
        fitting = f" fits {arguments.glob}" if arguments.glob else " is there"
        where = shown_path(files.folder, context)
        yield f"No file{fitting} in {where} to be searched (ignored files and secrets are left out)."
        return
    if searched := len(files.names) - len(output.skipped):
        yield f"No matches found in {pluralize(searched, 'file')}."
    skipped = "large binary files were not searched"
    for what, names in (("binary files match", output.binary), (skipped, output.skipped)):
        named = [shown_path(f"{files.folder.rstrip('/')}/{each}", context) for each in names]
        more = ", ..." if len(named) > MAX_NOTED_FILES else ""
        if named:
            yield f"[{what}: {', '.join(named[:MAX_NOTED_FILES])}{more}; bash: grep -a]"
    if "\\|" in arguments.pattern:
        yield "[\\| stands for the character itself; alternatives are parted by | alone]"


def _content(path: str, lines: Sequence[FoundLine], context: int) -> Iterator[str]:
    """The lines of a file as grep prints them: `path:12:match`, `path-13-context`, `--` between groups."""
    last = None
    for line in lines:
        if context and last is not None and line.number > last + 1:
            yield "--"
        last = line.number
        mark = "-" if line.start is None else ":"
        yield f"{path}{mark}{line.number}{mark}{without_tags(mark_stray_bytes(line.text))}"


TOOL = Tool(
    name="grep",
    description="""\
Searches the contents of files for a regular expression, quickly, with ripgrep.

- The result names the files, the newest first; output_mode "content" shows the lines as path:line:text, \
"count" how many match. head_limit and offset page through it.
- What git ignores, our records and secrets are left out, unless path names an ignored folder or file.
- Prefer it to grep in bash.""",
    arguments=GrepArguments,
    kind="searches",
    title=_title,
    access=GrepArguments.access,
    run=search,
    parallel=True,
)
