"""The compact tool: the model asks for a compaction."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tools.parameters import Arguments

from .base import Tool, ToolAdvice, ToolCall, ToolResult, no_access, text_result


class CompactArguments(Arguments):
    """The focus of the compaction."""

    focus: Annotated[str, Meta(description="Details to keep: decisions, files, open tasks.")] = ""


async def ask_for_compaction(arguments: CompactArguments, call: ToolCall) -> ToolResult:
    if (compact := call.context.compact) is None:
        return text_result("This session is not compacted.")
    return text_result(await compact(arguments.focus.strip()))


TOOL = Tool(
    name="compact",
    description="""\
Free context: older parts of the conversation are shortened before the next request, or summarized soon.

Use it between two pieces of work, when earlier text is no longer needed word for word.""",
    advice=(
        ToolAdvice("recall", "Nothing is lost: {} returns the original of everything that was shortened."),
    ),
    arguments=CompactArguments,
    kind="asks",
    title=lambda arguments: arguments.focus.strip() or "free context",
    access=no_access,
    run=ask_for_compaction,
    least_window=8_000,
    brief="""\
Free context: older parts of the conversation are shortened before the next request. focus names what to \
keep.""",
)
