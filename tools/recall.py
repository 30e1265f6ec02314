"""The recall tool: the original of text that left the context, byte for byte, page by page."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from tools.parameters import DETAIL, Arguments
from transcripts import Display, Result, TextBlock
from transcripts.search import Originals

from .base import Tool, ToolCall, ToolError, ToolResult, no_access, text_result

MAX_PAGE_CHARS = 30_000  # as much as a result of the bash tool
_MAX_FOUND = 100  # of a search, whatever the offset


class RecallArguments(Arguments):
    """An id, or words to search for."""

    id: Annotated[str | None, Meta(description="Id of the original, such as r57 or r57.2.")] = None
    query: Annotated[str | None, Meta(description="Words or a question to search for.")] = None
    scope: Annotated[
        Literal["session", "project"],
        Meta(description="project: also search earlier sessions of this project."),
        DETAIL,
    ] = "session"
    offset: Annotated[int, Meta(ge=0, description="First character, counted from 0.")] = 0
    limit: Annotated[
        int, Meta(ge=1, description="Maximum number of characters (default and maximum 30000)."), DETAIL
    ] = MAX_PAGE_CHARS


async def recall_original(arguments: RecallArguments, call: ToolCall) -> ToolResult:
    if call.context.lookup is None:
        raise ToolError("There is no transcript to recall from.\nRead the files, or run the command again.")
    originals = call.context.lookup()
    if arguments.id is not None and arguments.id.strip():
        most = min(arguments.limit, MAX_PAGE_CHARS, call.context.page_bytes())
        found = _original(originals, arguments.id.strip().strip("[]"), arguments.offset, most)
        return replace(found, about={Result.RECALLED: True})
    if arguments.query is not None and arguments.query.strip():
        found = await _search(originals, arguments, f"r{call.place.reply}")
        return replace(found, about={Result.RECALLED: True})
    raise ToolError(
        "Neither `id` nor `query` was given.\nGive the id from a placeholder, or words to search for."
    )


def _original(originals: Originals, id: str, first: int, most: int) -> ToolResult:
    try:
        text = originals.original(id)
    except KeyError as error:
        why = str(error.args[0])
        raise ToolError(f"{why[:1].upper()}{why[1:]}.\nYou can also search with `query`.") from error
    if not text:
        return text_result(f"[{id} is empty]")
    if first >= len(text):
        return text_result(f"[offset {first} is past the end: {id} has {len(text)} characters]")
    last = min(len(text), first + most)
    page = TextBlock(text[first:last])
    if first == 0 and last == len(text):
        return ToolResult((page,), human=Display(note=f"{len(text):,} characters"))
    more = f"; continue with offset={last}" if last < len(text) else ""
    where = f"characters {first}-{last} of {len(text)} of {id}{more}"
    return ToolResult((page, TextBlock(f"[{where}]")), human=Display(note=where))


async def _search(originals: Originals, arguments: RecallArguments, own: str) -> ToolResult:
    """Search, except what is in view: the prompt being answered, and the reply `own` with this call."""
    words = (arguments.query or "").strip()
    offset = arguments.offset
    wanted = min(offset + 8, _MAX_FOUND)  # eight at once
    found = await asyncio.to_thread(originals.find, words, arguments.scope, wanted + 3)
    in_view = (own, originals.prompt_in_view())
    hits = tuple(hit for hit in found.hits if hit.id.partition(".")[0] not in in_view)
    if not hits:
        is_over = arguments.scope == "project" or found.note
        elsewhere = "" if is_over else '; scope "project" searches earlier sessions too'
        text = f"No matches in this {arguments.scope}: {words}{elsewhere}"
        text += f"\n[{found.note}]" if found.note else ""
        return text_result(text, human=Display(note="nothing found"))
    shown = hits[offset:wanted]
    if not shown:
        text = f"[offset {offset} is past the end: {len(hits)} found]"
        return text_result(text, human=Display(note="past the end"))
    note = ""
    lines = replace(found, hits=shown).lines(time.time())
    if len(hits) > wanted:
        note = ", more available"
        following = f"continue with offset={wanted}" if wanted < _MAX_FOUND else "search for other words"
        lines.append(f"[{wanted} shown{note}; {following}]")
    if found.note:
        lines.append(f"[{found.note}]")
    return text_result("\n".join(lines), human=Display(note=f"{len(shown)} found{note}"))


TOOL = Tool(
    name="recall",
    description="""\
Return the original of text that was shortened, cleared or summarized in this conversation.

- `id` (r57, or r57.2 for one part), as given in a placeholder or summary: the exact text, page by page.
- `query`, words or a question: the best matches, with their ids.

A file may have changed since then: read it again before you rely on it.""",
    arguments=RecallArguments,
    kind="recalls",
    title=lambda arguments: (arguments.id or arguments.query or "").strip(),
    access=no_access,
    run=recall_original,
    parallel=True,
    brief="Return the original of text that was cleared or summarized: by its id (r57), or by a query.",
)
