"""The exit_plan tool: the model shows its plan, and the user approves it or not."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tools.parameters import Arguments
from transcripts import Display, Result

from .base import Tool, ToolCall, ToolContext, ToolError, ToolResult, decision_result, no_access, text_result
from .user_questions import NOBODY_THERE, Preview

NOT_PLANNING = "Plan mode is off, so no plan needs approval.\nContinue with the work."


class PlanArguments(Arguments):
    """The plan."""

    plan: Annotated[str, Meta(min_length=1, description="The complete plan, in Markdown.")]


async def show_plan(arguments: PlanArguments, call: ToolCall) -> ToolResult:
    mode = call.context.plan_mode
    if mode is None or not mode.planning:
        raise ToolError(NOT_PLANNING)
    if not arguments.plan.strip():
        raise ToolError("The plan is empty.\nGive the files to change, the steps and the verification.")
    answer = await call.ask() if call.ask is not None else NOBODY_THERE
    if answer.decision == "nobody":
        message = "No one is available to approve the plan; it is the result of this turn."
        return text_result(message, human=Display(answer=arguments.plan, note="the result"), ends_turn=True)
    if answer.decision == "no":
        wanted = f": {answer.reason}" if answer.reason else "."
        message = (
            f"The user did not approve the plan{wanted}\nStay in plan mode, revise it and show it again."
        )
        about = {"approved": False, **Result.about_remarks(("", answer.reason))}
        return decision_result(message, human=Display(note=f"not approved{wanted.rstrip('.')}"), about=about)
    mode.leave_plan()
    plan = str(answer.input.get("plan") or arguments.plan)
    if plan == arguments.plan:
        return decision_result("The user approved the plan. Carry it out.", human=Display(note="approved"))
    message = f"The user changed the plan and approved it. Carry out this version:\n{plan}"
    return decision_result(message, human=Display(note="approved with changes"), about={"plan": plan})


def _preview(arguments: PlanArguments, context: ToolContext) -> Preview:
    return Preview(plan=arguments.plan)


def _title(arguments: PlanArguments) -> str:
    lines = (line.strip("# ") for line in arguments.plan.splitlines())
    return next(filter(None, lines), "empty plan")


TOOL = Tool(
    name="exit_plan",
    description="""\
Show your plan to the user, who approves it or says what to change. Use it only in plan mode, once the plan \
is complete: the files to change, the steps, and the verification.""",
    arguments=PlanArguments,
    kind="asks",
    title=_title,
    access=no_access,
    preview=_preview,
    run=show_plan,
    for_agents=False,
)
