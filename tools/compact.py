"""The compact tool: the model asks for a compaction before the next request."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tools.parameters import Arguments

from .base import Tool, ToolCall, ToolResult, no_access, text_result


class CompactArguments(Arguments):
    """The focus of the compaction."""

    focus: Annotated[str, Meta(description="What must be kept in detail: decisions, files, open tasks.")] = ""


async def ask_for_compaction(arguments: CompactArguments, call: ToolCall) -> ToolResult:
    call.context.compact(arguments.focus.strip())
    return text_result(
        "The conversation is compacted before the next request, unless that frees too little. "
        "Go on with the work.",
        human={"note": "before the next request"},
    )


TOOL = Tool(
    name="compact",
    description="""\
Makes room in the conversation: what is older is shortened or summarised before the next request.

Use it between two pieces of work, when what came before is no longer needed word for word. Nothing is lost: \
recall shows the original of everything that was shortened. The conversation goes on by itself.""",
    arguments=CompactArguments,
    kind="asks",
    title=lambda arguments: arguments.focus.strip() or "make room",
    access=no_access,
    run=ask_for_compaction,
)
