"""The task tool: delegate a piece of work to an agent in its own session, and return its report."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tools.parameters import Arguments
from tools.spawning import SpawnRequest, SpawnResult
from tools.text import printable
from transcripts import Display, Result

from .base import SMALL_WINDOW_TOKENS, Tool, ToolCall, ToolError, ToolResult, no_access, text_result

DEFAULT_AGENT = "general"


class TaskArguments(Arguments):
    """The work to do, and the agent that does it."""

    description: Annotated[str, Meta(description="The task in three to six words, shown to the user.")]
    prompt: Annotated[
        str,
        Meta(
            description="Everything the agent needs: what to find out or do, where to look, what to report."
        ),
    ]
    agent: Annotated[
        str,
        Meta(
            description="explore: reads only. general: any work. fork: any work, knowing this conversation, "
            "which costs more when it is long."
        ),
    ] = DEFAULT_AGENT
    run_in_background: Annotated[
        bool, Meta(description="Return at once; the report arrives when it is done.")
    ] = False


async def run_task(arguments: TaskArguments, call: ToolCall) -> ToolResult:
    """Start an agent for a task. Raises ToolError if that is not possible."""
    if call.context.spawn is None:
        raise ToolError("Agents cannot start agents.\nDo this yourself, or report what is left.")
    if not printable(arguments.prompt).strip():
        raise ToolError("The prompt is empty.\nGive the agent its task as `prompt`.")
    request = SpawnRequest(
        arguments.prompt,
        agent=arguments.agent,
        task=arguments.description,
        call=call.ident,
        place=call.place,
        background=arguments.run_in_background,
    )
    return task_result(await call.context.spawn(request))


def task_result(ended: SpawnResult) -> ToolResult:
    """Return the result about an agent that has ended or runs in the background."""
    return text_result(
        ended.report(),
        error=bool(ended.error) and not ended.text,
        human=Display(text=ended.whole or ended.text if ended.session else "", note=ended.figures()),
        about={"session": ended.session, **Result.about_remarks(*ended.remarks)},
        ends_turn=ended.stops,
    )


TOOL = Tool(
    name="task",
    description="""\
Delegate a piece of work to an agent in its own session and return its report, so that what it reads does \
not fill this conversation.

- Use it for work with many calls and a short answer: finding how something works across many files, running \
and judging a long test, an independent review. For one file or one search call the tool yourself.
- Put everything the agent needs into the prompt: it may not know this conversation. The user does not see \
its report, so pass on what matters.
- Several agents in one reply run at once; no two of them may change the same files.
- An agent has your permissions. A call that was denied to you is denied to it.""",
    arguments=TaskArguments,
    kind="other",
    title=lambda arguments: f"{arguments.agent}: {' '.join(arguments.description.split())}",
    access=no_access,
    run=run_task,
    parallel=True,
    acts=True,
    for_agents=False,
    least_window=SMALL_WINDOW_TOKENS + 1,
)
