"""The compact tool: the model asks for room before the next request."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from .base import Access, Arguments, ToolCall, ToolContext, ToolResult, text_result

_DESCRIPTION = """\
Makes room in the conversation: what is older is shortened or summarised before the next request.

Use it between two pieces of work, when what came before is no longer needed word for word. Nothing is lost: \
recall shows the original of everything that was shortened. The conversation goes on by itself."""


class CompactArguments(Arguments):
    """A wish for room."""

    focus: str = Field("", description="What must be kept in detail: decisions, files, open tasks.")


@dataclass(frozen=True, slots=True)
class Compact:
    name: str = "compact"
    description: str = _DESCRIPTION
    arguments: type[CompactArguments] = CompactArguments
    parallel: bool = False

    def title(self, arguments: CompactArguments) -> str:
        return arguments.focus.strip() or "make room"

    def touches(self, arguments: CompactArguments, context: ToolContext) -> tuple[Access, ...]:
        return (Access("none"),)

    async def run(self, arguments: CompactArguments, call: ToolCall) -> ToolResult:
        call.context.compact(arguments.focus.strip())
        return text_result(
            "The conversation will be compacted before the next request. Go on with the work.",
            human={"note": "before the next request"},
        )


COMPACT = Compact()
