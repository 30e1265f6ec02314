"""The task tool: have an agent do a piece of work in a session of its own, and get its report."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tools.parameters import Arguments
from tools.spawning import SpawnRequest, SpawnResult, report_text, spawn_figures
from transcripts import about_said

from .base import Tool, ToolCall, ToolError, ToolResult, no_access, text_result

DEFAULT_AGENT = "general"


class TaskArguments(Arguments):
    """The work to do, and the agent that does it."""

    description: Annotated[str, Meta(description="The task in three to six words, for the person.")]
    prompt: Annotated[
        str,
        Meta(
            description="All that the agent needs to know: what to find out or do, where to look, what to "
            "report."
        ),
    ]
    agent: Annotated[
        str,
        Meta(
            description="explore: looks things up and changes nothing. general: does anything. fork: does "
            "anything and knows this conversation, which costs more where that is long."
        ),
    ] = DEFAULT_AGENT
    run_in_background: Annotated[
        bool, Meta(description="Return at once; the report comes by itself when it is done.")
    ] = False


async def run_task(arguments: TaskArguments, call: ToolCall) -> ToolResult:
    """Start an agent for a task. Raises ToolError if that is not possible."""
    if call.context.spawn is None:
        raise ToolError("An agent starts no agents.\nDo this yourself, or say in your report what is left.")
    request = SpawnRequest(
        arguments.prompt,
        agent=arguments.agent,
        task=arguments.description,
        call=call.ident,
        background=arguments.run_in_background,
    )
    return task_result(await call.context.spawn(request))


def task_result(ended: SpawnResult) -> ToolResult:
    """Return the result for the model and the user about an agent that has ended, or runs in the
    background.
    """
    return text_result(
        report_text(ended),
        error=bool(ended.error) and not ended.text,
        human={"text": ended.whole or ended.text if ended.session else "", "note": spawn_figures(ended)},
        about={"session": ended.session, **about_said(*ended.said)},
        ends_turn=ended.stops,
    )


TOOL = Tool(
    name="task",
    description="""\
Has an agent do a piece of work in a session of its own and returns its report, so that what it reads does \
not fill this conversation.

- Worth it for work that takes many calls and has a short answer: finding how something works across many \
files, running and judging a long test, an independent review. For one file or one search call the tool \
yourself.
- Put into the prompt all that the agent needs: it may know nothing of this conversation. Its last reply \
is its report; nobody else sees it, so tell the person what matters.
- Several in one reply run at once; let no two of them change the same files.
- An agent has no more rights than you have. What was refused to you is refused to it: do not try it through \
an agent.""",
    arguments=TaskArguments,
    kind="other",
    title=lambda arguments: f"{arguments.agent}: {' '.join(arguments.description.split())}",
    access=no_access,
    run=run_task,
    parallel=True,
    acts=True,
    for_agents=False,
)
